/* test_gpu_adapter.c - the thin products of adapters on a GPU. */
#include "gpu/gpu_check.h"

/* A product with B: both gradients at once. */
static void check_narrow(int64_t rows, int64_t n, int64_t rank)
{
    gpu_case c = {.name = "linear, narrow",
                  .op = &hil_op_linear,
                  .ins = 2,
                  .outs = 1,
                  .params = 1,
                  .in = {{2, {rows, rank}}, {2, {rows, n}}},
                  .rows = {n},
                  .cols = {rank}};
    gpu_check_dtypes(c);
    c.name = "linear, narrow, no residual", c.ins = 1;
    gpu_check_dtypes(c);
}

static void check_low_rank(int64_t rows, int64_t k, int params, const int64_t *ranks)
{
    hil_low_rank_attr attr = {{2, -0.5, 1, 0.25}};
    gpu_case c = {.name = "low rank",
                  .op = &hil_op_low_rank,
                  .attr = &attr,
                  .ins = 1,
                  .outs = params,
                  .params = params,
                  .in = {{2, {rows, k}}},
                  .cols = {k, k, k, k},
                  .tile_rows = {0, 3, 0}};
    for (int i = 0; i < params; ++i) c.rows[i] = ranks[i];
    gpu_check_dtypes(c);
    c.name = "low rank, one frozen", c.frozen[0] = true;
    gpu_check_dtypes(c);
    c.name = "low rank, no din", c.frozen[0] = false, c.no_din = 1;
    gpu_check_dtypes(c);
    c.name = "low rank, one gradient missing", c.no_din = 0, c.no_dout = 1;
    gpu_check_dtypes(c);
}

static void check_gated(int64_t rows, int64_t n, const int64_t rank[3])
{
    hil_gated_attr attr = {-0.5};
    gpu_case c = {
        .name = "gated",
        .op = &hil_op_gated,
        .attr = &attr,
        .compute = HIL_BF16,
        .ins = 4,
        .outs = 2,
        .params = 3,
        .in = {{2, {rows, n}}, {2, {rows, n}}, {2, {rows, rank[0]}}, {2, {rows, rank[1]}}},
        .rows = {n, n, rank[2]},
        .cols = {rank[0], rank[1], n},
        .tile_rows = {0, n / 2 + 3, 0},
        .slack = 0x1p-8};
    gpu_check(c);
    c.name = "gated over its gradient", c.over = true;
    gpu_check(c);
    c.name = "gated, some frozen", c.over = false, c.frozen[0] = c.frozen[2] = true;
    gpu_check(c);
    c.name = "gated, no gradient of the factors", c.frozen[0] = c.frozen[2] = false, c.no_din = 12;
    gpu_check(c);
    c.name = "gated, first gradient missing", c.no_din = 0, c.no_dout = 1;
    gpu_check(c);
    c.name = "gated, second gradient missing", c.no_dout = 2;
    gpu_check(c);
}

int main(void)
{
    gpu_begin();
    check_gated(4096, 1024, (int64_t[]){16, 16, 16});
    check_gated(2080, 2112, (int64_t[]){8, 2, 14}); /* blocks with fewer rows and columns */
    check_narrow(4096, 1024, 16);
    check_narrow(2080, 2112, 8);
    for (int params = 1; params <= HIL_OP_PARAMS; ++params) {
        check_low_rank(128, 64, params, (int64_t[HIL_OP_PARAMS]){16, 16, 16, 8});
        check_low_rank(37, 200, params, (int64_t[HIL_OP_PARAMS]){5, 9, 33, 2});
    }
    gpu_end();
    return 0;
}
