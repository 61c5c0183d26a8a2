/* Linear layers with products in 8 bits: against PyTorch's float8 types, and bit by bit those of
   factors that were rounded before. */
#include "base/alloc.h"
#include "format/safetensors.h"
#include "golden.h"
#include "ops/linear/operand.h"
#include "ops/ops.h"

enum { ROWS = 24, COLS = 40, WIDTH = 96, EXPERTS = 3 };

typedef struct layer {
    uint16_t x[ROWS * COLS], weight[EXPERTS * WIDTH * COLS], dy[ROWS * WIDTH];
    uint16_t y[ROWS * WIDTH], dx[ROWS * COLS];
    float dweight[EXPERTS * WIDTH * COLS];
    int64_t tile_rows;
    bool fp8;
    int threads;
} layer;

static int64_t first_row(const layer *l, int64_t tile)
{
    int64_t each = (WIDTH + l->tile_rows - 1) / l->tile_rows;
    return tile / each * WIDTH + tile % each * l->tile_rows;
}

static hil_status weight_begin(void *owner, int param, int64_t tile, const void **data)
{
    const layer *l = owner;
    CHECK_INT(param, 0);
    *data = l->weight + first_row(l, tile) * COLS;
    return HIL_OK;
}

static hil_status gradient_begin(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    layer *l = owner;
    CHECK_INT(param, 0);
    *sum = l->dweight + first_row(l, tile) * COLS;
    *add = false;
    return HIL_OK;
}

static void end(void *owner, int param, int64_t tile)
{
    (void)owner, (void)param, (void)tile;
}

static const hil_op_source source = {weight_begin, end, gradient_begin, end};

/* Of all experts, if there are some. */
static hil_op_call call_of(layer *l, const hil_grouped_attr *attr, int32_t *begins)
{
    hil_op_call call = {.op = attr ? &hil_op_grouped_linear : &hil_op_linear,
                        .attr = attr,
                        .compute = HIL_BF16,
                        .ins = attr ? 2 : 1,
                        .outs = 1,
                        .params = 1,
                        .source = &source,
                        .owner = l};
    call.in[0] = (hil_tensor){HIL_BF16, {2, {ROWS, COLS}}, l->x};
    call.in[1] = (hil_tensor){HIL_I32, {1, {EXPERTS + 1}}, begins};
    call.param[0] = (hil_op_param){HIL_BF16, WIDTH, COLS, l->tile_rows, true, l->fp8};
    return call;
}

static void *scratch_of(size_t bytes)
{
    void *memory = NULL;
    CHECK(posix_memalign(&memory, 64, bytes + 1) == 0);
    memset(memory, 0xff, bytes);
    return memory;
}

static void run(layer *l, const hil_grouped_attr *attr, int32_t *begins)
{
    hil_op_call call = call_of(l, attr, begins);
    CHECK_OK(hil_pool_create(&call.pool, l->threads));
    CHECK_OK(call.op->infer(&call));
    call.out[0].data = l->y;
    call.scratch = scratch_of(call.forward_scratch);
    CHECK_OK(call.op->forward(&call));
    free(call.scratch);
    call.dout[0] = (hil_tensor){HIL_BF16, {2, {ROWS, WIDTH}}, l->dy};
    call.din[0] = (hil_tensor){HIL_BF16, {2, {ROWS, COLS}}, l->dx};
    call.scratch = scratch_of(call.backward_scratch);
    CHECK_OK(call.op->backward(&call));
    free(call.scratch);
    hil_pool_destroy(call.pool);
}

static void read_golden(const hil_safetensors *file, const char *name, uint16_t *out)
{
    int64_t count;
    float *in = golden_floats(file, name, &count);
    hil_dtype_from_f32(out, in, HIL_BF16, count);
    hil_free(in);
}

/* Within one rounding of PyTorch's number, which was not rounded. */
static void check_result(const hil_safetensors *file, const char *prefix, const char *name,
                         const hil_tensor *got)
{
    char key[64];
    int64_t count;
    snprintf(key, sizeof key, "%s%s", prefix, name);
    float *want = golden_floats(file, key, &count), most = 0;
    double half = got->dtype == HIL_BF16 ? 0x1p-8 : 0;
    CHECK_INT(count, hil_shape_count(&got->shape));
    float *have;
    CHECK_OK(HIL_ALLOC((size_t)count, &have));
    hil_dtype_to_f32(have, got->data, got->dtype, count);
    for (int64_t i = 0; i < count; ++i) most = fmaxf(most, fabsf(want[i]));
    for (int64_t i = 0; i < count; ++i)
        CHECK_NEAR((double)have[i], (double)want[i],
                   half * fabs((double)want[i]) + 1e-6 * (double)most);
    hil_free(want);
    hil_free(have);
}

static void check_torch(const hil_safetensors *file, layer *l)
{
    const char *prefix = l->tile_rows < WIDTH ? "tile." : "";
    run(l, NULL, NULL);
    check_result(file, prefix, "y", &(hil_tensor){HIL_BF16, {2, {ROWS, WIDTH}}, l->y});
    check_result(file, prefix, "dx", &(hil_tensor){HIL_BF16, {2, {ROWS, COLS}}, l->dx});
    check_result(file, prefix, "dweight", &(hil_tensor){HIL_F32, {2, {WIDTH, COLS}}, l->dweight});
}

/* Experts: the products are those of factors that were rounded before. */
static void check_experts(layer *l)
{
    int32_t begins[EXPERTS + 1] = {0, 9, 9, ROWS};
    hil_grouped_attr attr = {EXPERTS};
    layer before = *l, after = *l;
    before.fp8 = false;
    before.threads = 1;
    hil_pool *pool;
    CHECK_OK(hil_pool_create(&pool, 1));
    hil_operand_round(pool, HIL_FP8_E4M3, l->x, ROWS * COLS, before.x);
    hil_operand_round(pool, HIL_FP8_E5M2, l->dy, ROWS * WIDTH, before.dy);
    for (int64_t row = 0, count; row < EXPERTS * WIDTH; row += count) {
        count = WIDTH - row % WIDTH < l->tile_rows ? WIDTH - row % WIDTH : l->tile_rows;
        hil_operand_round(pool, HIL_FP8_E4M3, l->weight + row * COLS, count * COLS,
                          before.weight + row * COLS);
    }
    CHECK(memcmp(before.x, l->x, sizeof l->x) != 0);
    run(&before, &attr, begins);
    run(&after, &attr, begins);
    CHECK(memcmp(before.y, after.y, sizeof after.y) == 0);
    CHECK(memcmp(before.dx, after.dx, sizeof after.dx) == 0);
    CHECK(memcmp(before.dweight, after.dweight, sizeof after.dweight) == 0);
    hil_pool_destroy(pool);
}

/* A number that is not finite stays so: the step fails, as with bf16. */
static void check_not_finite(layer *l)
{
    l->x[3] = 0x7f80;
    run(l, NULL, NULL);
    for (int64_t i = 0; i < WIDTH; ++i) CHECK(isnan(hil_bf16_load(l->y[i])));
    CHECK(isfinite(hil_bf16_load(l->y[WIDTH])));
}

/* Tensors of all bf16 numbers up to a largest magnitude have the numbers of their codes. */
static void check_numbers(hil_fp8 kind)
{
    static uint16_t from[0x10000], to[0x10000];
    hil_pool *pool;
    CHECK_OK(hil_pool_create(&pool, 2));
    for (unsigned most = 0x7fff; most > 0; most -= most > 0x7f80 ? 0x80 : most / 5 + 1) {
        for (unsigned i = 0; i <= most; ++i)
            from[2 * i] = (uint16_t)i, from[2 * i + 1] = (uint16_t)(0x8000u | i);
        hil_operand_round(pool, kind, from, 2 * (int64_t)most + 2, to);
        int shift = hil_fp8_shift(most, kind);
        for (unsigned i = 0; i <= most; ++i)
            for (int sign = 0; sign < 2; ++sign) {
                unsigned at = 2 * i + (unsigned)sign;
                unsigned code = hil_fp8_round(hil_bf16_load(from[at]), shift, kind);
                CHECK_INT(to[at], hil_fp8_expand(code, shift, kind));
            }
    }
    hil_pool_destroy(pool);
}

static void check_refused(layer *l)
{
    hil_op_call call = call_of(l, NULL, NULL);
    call.in[0].dtype = HIL_F32;
    CHECK_FAILS(hil_op_linear.infer(&call), HIL_ERR_USAGE,
                "linear: input is fp32, weight is bf16; products in fp8 want bf16");
}

int main(void)
{
    static layer l = {.fp8 = true};
    hil_safetensors *file;
    check_numbers(HIL_FP8_E4M3);
    check_numbers(HIL_FP8_E5M2);
    CHECK_OK(hil_safetensors_open(&file, HIL_TESTS "/golden/fp8.safetensors"));
    read_golden(file, "x", l.x);
    read_golden(file, "weight", l.weight);
    read_golden(file, "dy", l.dy);
    for (int64_t i = WIDTH * COLS; i < EXPERTS * WIDTH * COLS; ++i)
        l.weight[i] = hil_bf16_round(hil_bf16_load(l.weight[i - WIDTH * COLS]) * 0.7f);
    for (l.threads = 1; l.threads <= 3; ++l.threads)
        for (int tiles = 1; tiles <= 2; ++tiles) {
            l.tile_rows = tiles == 1 ? WIDTH : 64;
            check_torch(file, &l);
            check_experts(&l);
        }
    l.threads = 1;
    check_refused(&l);
    check_not_finite(&l);
    hil_safetensors_close(file);
    return 0;
}
