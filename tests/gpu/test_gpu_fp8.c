/* Products in 8 bits on a GPU: codes and scales have the CPU's bits, products are within what
   Hopper's sums of 8-bit products lose. */
#include "gpu/gpu_check.h"

#include "ops/linear/operand_cuda.h"

/* Of the largest result, beyond the rounding to bf16: the tensor cores keep about 14 bits of a sum
   between two additions in fp32. */
#define SLACK 0x1p-10

typedef struct rounded {
    unsigned char *codes, *transposed;
    uint16_t *numbers;
    hil_operand_scale scale;
} rounded;

static void round_here(const uint16_t *from, int64_t rows, int64_t cols, hil_fp8 kind, rounded *out)
{
    unsigned most = 0;
    for (int64_t i = 0; i < rows * cols; ++i)
        most = (from[i] & 0x7fffu) > most ? from[i] & 0x7fffu : most;
    int shift = hil_fp8_shift(most, kind);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
            unsigned code = hil_fp8_round(hil_bf16_load(from[r * cols + c]), shift, kind);
            out->codes[r * cols + c] = out->transposed[c * rows + r] = (unsigned char)code;
            out->numbers[r * cols + c] = hil_fp8_expand(code, shift, kind);
        }
    out->scale = (hil_operand_scale){hil_fp8_power(-shift), most};
}

static void check_codes(const uint16_t *from, int64_t rows, int64_t cols, hil_fp8 kind)
{
    size_t count = (size_t)(rows * cols);
    gpu_side s = {.device = gpu};
    rounded here = {malloc(count), malloc(count), malloc(2 * count), {0, 0}};
    hil_cuda_operand o = {.kind = kind, .rows = rows, .cols = cols};
    void *copy = gpu_memory(&s, from, 2 * count);
    o.from = copy;
    o.codes = gpu_memory(&s, NULL, count);
    o.transposed = gpu_memory(&s, NULL, count);
    o.numbers = gpu_memory(&s, NULL, 2 * count);
    o.scale = gpu_memory(&s, NULL, sizeof *o.scale);
    CHECK_OK(hil_cuda_operand_round(gpu, &o));
    round_here(from, rows, cols, kind, &here);
    struct {
        const void *there, *here;
        size_t bytes;
    } all[] = {{o.codes, here.codes, count},
               {o.transposed, here.transposed, count},
               {o.numbers, here.numbers, 2 * count},
               {o.scale, &here.scale, sizeof here.scale}};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        void *got = gpu_read(&s, all[i].there, all[i].bytes);
        CHECK(memcmp(got, all[i].here, all[i].bytes) == 0);
        free(got);
    }
    gpu_release(&s, copy);
    gpu_release(&s, o.codes);
    gpu_release(&s, o.transposed);
    gpu_release(&s, o.numbers);
    gpu_release(&s, o.scale);
    free(here.codes);
    free(here.transposed);
    free(here.numbers);
}

/* Every bf16 number; then only those up to a magnitude, so that there are many scales; then sides
   that are no multiples of anything. */
static void check_all_codes(hil_fp8 kind)
{
    static uint16_t all[256 * 256];
    for (unsigned most = 0x8000; most > 0; most = most == 0x8000 ? 0x7f7f : most / 2) {
        for (unsigned i = 0; i < 256 * 256; ++i)
            all[i] = (uint16_t)((i & 0x8000u) | (i & 0x7fffu) % most);
        check_codes(all, 256, 256, kind);
        check_codes(all, 77, 130, kind);
        check_codes(all, 1, 3, kind);
    }
}

static void check_linear(int64_t rows, int64_t n, int64_t k, int64_t tile_rows)
{
    gpu_case c = {.name = "fp8 linear",
                  .op = &hil_op_linear,
                  .compute = HIL_BF16,
                  .fp8 = true,
                  .slack = SLACK,
                  .ins = 1,
                  .outs = 1,
                  .params = 1,
                  .in = {{2, {rows, k}}},
                  .rows = {n, 1},
                  .cols = {k, n},
                  .tile_rows = {tile_rows}};
    for (int add = 0; add < 2; ++add) {
        gpu_case more = c;
        more.add = add;
        gpu_check(more);
        more.name = "fp8 linear with residual", more.ins = 2,
        more.in[1] = (hil_shape){2, {rows, n}};
        gpu_check(more);
        more.name = "fp8 linear with bias and residual", more.params = 2;
        gpu_check(more);
        more.name = "fp8 linear frozen", more.frozen[0] = more.frozen[1] = true;
        gpu_check(more);
        more.name = "fp8 linear no din", more.frozen[0] = more.frozen[1] = false, more.no_din = 1;
        gpu_check(more);
    }
}

int main(void)
{
    gpu_begin();
    check_all_codes(HIL_FP8_E4M3);
    check_all_codes(HIL_FP8_E5M2);
    check_linear(96, 128, 64, 0);
    check_linear(304, 256, 192, 64);
    check_linear(304, 256, 192, 96);
    check_linear(1024, 2048, 4096, 0);
    /* Sides that cuBLASLt has no products in 8 bits for. */
    check_linear(7, 13, 5, 4);
    check_linear(50, 128, 64, 0);
    check_linear(64, 100, 64, 40);
    gpu_end();
    return 0;
}
