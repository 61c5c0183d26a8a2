/* test_gpu_quant.c - quantized weights expand on a GPU to the bits of the CPU, in every format and
   dtype; numbers that a GPU draws into nf4 have the codes and scales of the CPU. */
#include "gpu/gpu_check.h"

#include "base/normal.h"
#include "optim/cuda.h"

/* Random bytes are valid codes; scales and tables are random numbers. */
static void check_expand(const hil_quant_tile *tile, hil_dtype dtype)
{
    gpu_side side = {.device = gpu};
    int64_t count = tile->rows * tile->cols;
    size_t size = (size_t)count * hil_dtype_size(dtype);
    unsigned char *bytes = malloc(tile->bytes);
    for (size_t i = 0; i < tile->bytes; ++i) bytes[i] = (unsigned char)(gpu_random() * 127 + 127);
    size_t coded = tile->quant == HIL_QUANT_NF4 ? tile->scales : tile->codes;
    for (size_t i = 0; i + 4 <= coded; i += 4) {
        float number = (float)gpu_random();
        memcpy(bytes + i, &number, 4);
    }
    for (int64_t i = 0; i < count && tile->quant == HIL_QUANT_FP8; ++i)
        if ((bytes[tile->codes + (size_t)i] & 0x7f) == 0x7f) bytes[tile->codes + (size_t)i] = 3;
    for (int64_t i = 0; i < count && tile->quant == HIL_QUANT_BF16; ++i)
        ((uint16_t *)(void *)(bytes + tile->codes))[i] = hil_bf16_round((float)gpu_random());
    void *want = malloc(size), *there = gpu_memory(&side, bytes, tile->bytes);
    void *out = gpu_memory(&side, NULL, size);
    hil_tensor cpu = {dtype, {1, {count}}, want}, tensor = {dtype, {1, {count}}, out};
    hil_quant_expand(tile, bytes, 0, count, &cpu);
    CHECK_OK(hil_device_math_of(gpu)->expand(gpu, HIL_STREAM_COMPUTE, tile, there, &tensor));
    void *got = gpu_read(&side, out, size);
    if (memcmp(got, want, size) != 0) check_die(hil_quant_name(tile->quant), __LINE__, "differs");
    free(got);
    free(want);
    free(bytes);
    gpu_release(&side, out);
    gpu_release(&side, there);
}

static void check_draw(int64_t first, int64_t count)
{
    int64_t blocks = (count + HIL_QUANT_BLOCK - 1) / HIL_QUANT_BLOCK;
    size_t codes = (size_t)(count + 1) / 2, scales = (size_t)blocks * sizeof(float);
    float *numbers = malloc((size_t)count * sizeof(float)), *want = malloc(scales);
    unsigned char *coded = malloc(codes + 1);
    char *shared;
    CHECK_OK(gpu->heap->share(gpu, scales + codes + 16, (void **)&shared));
    hil_quant_draw draw = {.key = 77,
                           .high = 5,
                           .scale = 0.02f,
                           .first = first,
                           .count = count,
                           .codes = (unsigned char *)shared + (scales + 7) / 8 * 8,
                           .scales = (float *)(void *)shared};
    hil_normal_fill(draw.key, draw.high, first, count, draw.scale, numbers);
    hil_quant_part part = {HIL_QUANT_NF4, count, count, numbers, coded, want};
    hil_quant_encode(&part);
    CHECK_OK(hil_device_math_of(gpu)->draw(gpu, HIL_STREAM_COMPUTE, &draw));
    CHECK_OK(gpu->queue->finish(gpu));
    CHECK(memcmp(draw.scales, want, scales) == 0);
    CHECK(memcmp(draw.codes, coded, codes) == 0);
    gpu->heap->unshare(gpu, shared);
    free(numbers);
    free(coded);
    free(want);
}

int main(void)
{
    static const int64_t shapes[][3] = {/* row, rows, cols */
                                        {0, 64, 96},     {192, 64, 250}, {0, 67, 37},
                                        {128, 256, 384}, {0, 3, 5},      {1024, 512, 1040}};
    gpu_begin();
    hil_device_math_set(gpu, &hil_cuda_math);
    for (int q = HIL_QUANT_NF4; q <= HIL_QUANT_BF16; ++q)
        for (int d = HIL_F32; d <= HIL_F16; ++d)
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
                hil_quant_tile tile;
                hil_quant_place(&tile, (hil_quant)q, shapes[i][0], shapes[i][1], shapes[i][2]);
                check_expand(&tile, (hil_dtype)d);
            }
    check_draw(0, 1 << 20);
    check_draw(640, 64 * 129);
    check_draw(64, 1003);
    check_draw(0, 7);
    gpu_end();
    return 0;
}
