/* test_gpu_linear.c - matrix products, embedding and the loss head on a GPU. */
#include "gpu/gpu_check.h"

static void check_linear(int64_t rows, int64_t n, int64_t k, int64_t tile_rows)
{
    gpu_case c = {.name = "linear",
                  .op = &hil_op_linear,
                  .ins = 1,
                  .outs = 1,
                  .params = 1,
                  .in = {{2, {rows, k}}},
                  .rows = {n, 1},
                  .cols = {k, n},
                  .tile_rows = {tile_rows}};
    gpu_check_dtypes(c);
    c.name = "linear with residual", c.ins = 2, c.in[1] = (hil_shape){2, {rows, n}};
    gpu_check_dtypes(c);
    c.name = "linear with bias and residual", c.params = 2;
    gpu_check_dtypes(c);
    c.name = "linear with bias", c.ins = 1;
    gpu_check_dtypes(c);
    c.name = "linear frozen", c.frozen[0] = c.frozen[1] = true;
    gpu_check_dtypes(c);
    c.name = "linear no din", c.frozen[0] = c.frozen[1] = false, c.no_din = 1;
    gpu_check_dtypes(c);
}

static void check_weight_norm(int64_t n, int64_t k, int64_t rank, int64_t tile_rows)
{
    hil_weight_norm_attr attr = {0.7};
    gpu_check_dtypes((gpu_case){.name = "weight norm",
                                .op = &hil_op_weight_norm,
                                .attr = &attr,
                                .outs = 1,
                                .params = 3,
                                .rows = {n, rank, n},
                                .cols = {k, k, rank},
                                .tile_rows = {tile_rows, 0, tile_rows},
                                .frozen = {true, true, true},
                                .no_dout = 1});
}

static void check_embedding(int64_t batch, int64_t length, int64_t rows, int64_t cols,
                            int64_t tile_rows)
{
    int32_t *ids = malloc((size_t)(batch * length) * sizeof *ids);
    for (int64_t i = 0; i < batch * length; ++i)
        ids[i] = i % 3 == 0 ? 1 : (int32_t)(i * 7919 % rows);
    hil_embedding_attr pad = {.pad = 1}, shift = {.pad = -1, .shift = 2};
    gpu_case c = {.name = "embedding",
                  .op = &hil_op_embedding,
                  .ins = 1,
                  .outs = 1,
                  .params = 1,
                  .in = {{2, {batch, length}}},
                  .ids = {ids},
                  .rows = {rows},
                  .cols = {cols},
                  .tile_rows = {tile_rows}};
    gpu_check_dtypes(c);
    c.name = "embedding with a pad id", c.attr = &pad;
    gpu_check_dtypes(c);
    c.name = "embedding with a shift", c.attr = &shift;
    c.rows[0] += 2;
    gpu_check_dtypes(c);
    free(ids);
}

static void check_head(int64_t batch, int64_t length, int64_t rows, int64_t cols, int64_t tile_rows)
{
    int32_t *target = malloc((size_t)(batch * length) * sizeof *target);
    for (int64_t i = 0; i < batch * length; ++i)
        target[i] = i % 5 == 2 ? -1 : (int32_t)(i * 31 % rows);
    gpu_case c = {.name = "head",
                  .op = &hil_op_head,
                  .ins = 2,
                  .outs = 1,
                  .params = 1,
                  .in = {{3, {batch, length, cols}}, {2, {batch, length}}},
                  .ids = {NULL, target},
                  .rows = {rows},
                  .cols = {cols},
                  .tile_rows = {tile_rows},
                  .fused = true,
                  .other_grid = batch * length > 64};
    gpu_check_dtypes(c);
    gpu_case more = c;
    /* The GPU rounds a gradient before the slope of the cap and after it, the CPU only after. */
    more.name = "head capped", more.attr = &(hil_head_attr){.cap = 0.8}, more.slack = 0x1p-7;
    gpu_check_dtypes(more);
    more.name = "head capped with bias", more.params = 2, more.rows[1] = 1, more.cols[1] = rows;
    gpu_check_dtypes(more);
    c.name = "head frozen", c.frozen[0] = true;
    gpu_check_dtypes(c);
    c.name = "head weighted", c.attr = &(hil_head_attr){.weighted = true}, c.fused = false;
    gpu_check_dtypes(c);
    for (int64_t i = 0; i < batch * length; i += 3) target[i] = -2 - target[i];
    c.name = "head of prompts with weights", c.attr = &(hil_head_attr){.prompts = true};
    c.frozen[0] = false, c.fused = true, c.ins = 3, c.in[2] = (hil_shape){2, {batch, length}};
    c.whole = c.no_din = 1 << 2;
    gpu_check_dtypes(c);
    free(target);
}

/* Documents of several lengths, some without targets; the last of a sequence may be padding. */
static void check_preference(int64_t batch, int64_t length, int64_t document,
                             hil_preference_kind kind)
{
    const hil_preference_attr attr = {{.kind = kind,
                                       .beta = 0.2,
                                       .label_smoothing = 0.1,
                                       .margin = 0.3,
                                       .nll_weight = kind % 2,
                                       .desirable_weight = 0.7,
                                       .undesirable_weight = 1.2},
                                      0.6,
                                      0.4};
    int32_t *first = malloc((size_t)(batch * length) * sizeof *first);
    int32_t *target = malloc((size_t)(batch * length) * sizeof *target);
    for (int64_t i = 0; i < batch * length; ++i) {
        int64_t at = i % length, begin = at ? first[i - 1] : 0;
        first[i] = (int32_t)(at - begin >= document + begin % 3 ? at : begin);
        target[i] = first[i] / document % 7 == 5 || i % 4 == 1 ? i % 8 == 1 ? -1 : -5 : 3;
    }
    gpu_case c = {.name = "preference",
                  .op = &hil_op_preference,
                  .attr = &attr,
                  .compute = HIL_F32,
                  .ins = 4,
                  .outs = 2,
                  .in = {{2, {batch, length}},
                         {2, {batch, length}},
                         {2, {batch, length}},
                         {2, {batch, length}}},
                  .ids = {NULL, NULL, first, target},
                  .no_din = 1 << 1,
                  .fused = true};
    gpu_check(c);
    c.add = true;
    gpu_check(c);
    free(first);
    free(target);
}

/* bf16 rounds both sides' products apart from each other, five times. */
static void check_orthogonal(int64_t rows, int64_t cols)
{
    gpu_case c = {.name = "orthogonal",
                  .op = &hil_op_orthogonal,
                  .ins = 1,
                  .outs = 1,
                  .in = {{2, {rows, cols}}},
                  .no_din = 1,
                  .slack = 0.05};
    gpu_check(c);
    c.compute = HIL_BF16;
    gpu_check(c);
}

/* An id outside the table is reported by the next wait, once. */
static void check_fault(void)
{
    int32_t ids[] = {3, 7, -5, 2};
    gpu_side s = {.device = gpu};
    gpu_case c = {.name = "fault",
                  .op = &hil_op_embedding,
                  .ins = 1,
                  .outs = 1,
                  .params = 1,
                  .in = {{2, {1, 4}}},
                  .ids = {ids},
                  .rows = {8},
                  .cols = {16}};
    gpu_make(&c, &s);
    CHECK_OK(hil_op_cuda_infer(&s.call));
    s.call.out[0].data = gpu_memory(&s, NULL, hil_tensor_bytes(&s.call.out[0]));
    const void *weight = s.weight[0];
    CHECK(weight);
    s.quiet = true;
    CHECK_OK(hil_op_cuda_forward(&s.call));
    CHECK_FAILS(gpu->queue->finish(gpu), HIL_ERR_INPUT, "id -5 is outside the table of 8 rows");
    CHECK_OK(gpu->queue->finish(gpu));
    gpu_release(&s, s.lent[0]);
    gpu_free(&s);
}

int main(void)
{
    gpu_begin();
    check_weight_norm(128, 64, 8, 0);
    check_weight_norm(300, 192, 17, 100);
    check_linear(96, 128, 64, 0);
    check_linear(300, 256, 192, 100);
    check_linear(7, 13, 5, 4);
    check_linear(1, 64, 32, 0);
    check_embedding(2, 50, 97, 64, 0);
    check_embedding(3, 400, 1000, 40, 300);
    check_embedding(1, 7, 11, 5, 4);
    for (int kind = HIL_PREFER_DPO; kind < HIL_PREFER_KINDS; ++kind)
        check_preference(3, 40, 7, (hil_preference_kind)kind);
    check_preference(2, 1000, 120, HIL_PREFER_DPO);
    check_preference(1, 1, 1, HIL_PREFER_ORPO);
    check_head(2, 24, 500, 64, 0);
    check_head(1, 60, 777, 32, 256);
    check_head(2, 150, 3001, 48, 1000);
    check_head(4, 150, 20003, 32, 0); /* more rows than are in flight at once, twice */
    check_head(2, 75, 70001, 16, 0);
    check_head(1, 5, 270001, 16, 0); /* too wide to keep the logits */
    check_orthogonal(64, 64);
    check_orthogonal(96, 40);
    check_orthogonal(40, 300);
    check_orthogonal(768, 2304);
    check_fault();
    gpu_end();
    return 0;
}
