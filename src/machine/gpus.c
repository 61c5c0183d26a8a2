/* gpus.c - a table of GPUs; see [Note: rates of GPUs]. */
#include "machine/gpus.h"

#include "tensor/tensor.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Fractions of the data sheet's numbers that large operations reach. */
#define MATRIX_PART 0.7
#define MEMORY_PART 0.8
#define BUS_PART 0.8
#define ATTENTION_PART 0.5 /* of the speed of matrix products */
#define CALL_SECONDS 5e-6
#define CONTEXT ((size_t)700 << 20) /* memory of CUDA and its libraries */

#define PCIE4 31.5
#define PCIE5 63.0

/* [Note: rates of GPUs] RTX cards: the tables of NVIDIA's white papers on GA102 (RTX 30, A6000),
   Ada (RTX 40, 6000 Ada) and RTX Blackwell (RTX 50), rows "BF16 Tensor TFLOPS with FP32
   Accumulate", "FP32 TFLOPS (non-Tensor)" and "FP8 Tensor TFLOPS with FP32 Accumulate". All others:
   their data sheets, the SXM module where there are two, with rates that are printed "with
   sparsity" halved; B200 as one of eight in an HGX B200. Memory is what the driver shows, with ECC
   as the card is shipped. */
static const hil_gpu gpus[] = {
    {"RTX 3080", 10240, 59.5, 29.8, 760, PCIE4, 0},
    {"RTX 3090", 24576, 71, 35.6, 936, PCIE4, 0},
    {"RTX 4080", 16376, 97.5, 48.7, 717, PCIE4, 195},
    {"RTX 4090", 24564, 165.2, 82.6, 1008, PCIE4, 330.3},
    {"RTX 5080", 16303, 112.6, 56.3, 960, PCIE5, 225.1},
    {"RTX 5090", 32607, 209.5, 104.8, 1792, PCIE5, 419},
    {"RTX A6000", 49140, 154.8, 38.7, 768, PCIE4, 0},
    {"RTX 6000 Ada", 49140, 364.2, 91.1, 960, PCIE4, 728.5},
    {"A10", 23028, 125, 31.2, 600, PCIE4, 0},
    {"A10G", 23028, 70, 35, 600, PCIE4, 0},
    {"L4", 23034, 121, 30.3, 300, PCIE4, 242},
    {"L40S", 46068, 362, 91.6, 864, PCIE4, 733},
    {"A100 40GB", 40960, 312, 19.5, 1555, PCIE4, 0},
    {"A100 80GB", 81920, 312, 19.5, 2039, PCIE4, 0},
    {"H100", 81559, 989.4, 66.9, 3350, PCIE5, 1978.9},
    {"H100 PCIe", 81559, 756, 51.2, 2000, PCIE5, 1513},
    {"H200", 143771, 989.4, 66.9, 4800, PCIE5, 1978.9},
    {"B200", 183359, 2250, 75, 7700, PCIE5, 4500},
};
enum { GPUS = sizeof gpus / sizeof *gpus };

/* Keeps lower-case letters and digits, and drops "NVIDIA", "RTX" before a number and the "B" of
   "GB", so that all spellings of a GPU become equal. */
static void simplify(const char *name, char out[64])
{
    static const char *const noise[] = {"nvidia", "geforce", "tesla",    "generation", "rtx",
                                        "sxm5",   "sxm4",    "80gbhbm3", "sxm"};
    size_t size = 0;
    for (; *name && size < 63; ++name)
        if (isalnum((unsigned char)*name)) out[size++] = (char)tolower((unsigned char)*name);
    out[size] = 0;
    for (size_t i = 0; i < sizeof noise / sizeof *noise; ++i) {
        char *at = strstr(out, noise[i]);
        if (at) memmove(at, at + strlen(noise[i]), strlen(at + strlen(noise[i])) + 1);
    }
    char *unit = strstr(out, "0gb");
    if (unit) memmove(unit + 2, unit + 3, strlen(unit + 3) + 1);
}

hil_status hil_gpu_find(const char *name, const hil_gpu **out)
{
    char asked[64], known[64], list[512] = "";
    simplify(name, asked);
    *out = NULL;
    for (int i = 0; i < GPUS; ++i) {
        size_t used = strlen(list);
        simplify(gpus[i].name, known);
        if (strcmp(asked, known) == 0) *out = &gpus[i];
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", gpus[i].name);
    }
    if (*out) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "--gpu %s is not in the table: %s", name, list);
}

void hil_gpu_speeds(const hil_gpu *gpu, hil_speeds *speeds)
{
    speeds->gemm[HIL_F32] = gpu->fp32 * 1e12 * MATRIX_PART;
    speeds->gemm[HIL_BF16] = speeds->gemm[HIL_F16] = gpu->bf16 * 1e12 * MATRIX_PART;
    for (int d = HIL_F32; d <= HIL_F16; ++d)
        speeds->attention[d] = speeds->gemm[d] * ATTENTION_PART;
    speeds->memory = gpu->memory * 1e9 * MEMORY_PART;
    speeds->to_device = speeds->to_host = gpu->bus * 1e9 * BUS_PART;
    speeds->update_device = speeds->memory / HIL_UPDATE_BYTES;
    speeds->op_call = CALL_SECONDS;
    /* Those of the CPU, by which the planner would divide the GPU's work into tasks of threads. */
    speeds->threads = speeds->cpus = speeds->cached = speeds->pool_run = 0;
    speeds->gemm_fp8 = gpu->fp8 * 1e12 * MATRIX_PART;
}

void hil_gpu_measured(const hil_speeds *speeds, uint64_t bytes, hil_gpu *gpu)
{
    gpu->mib = bytes >> 20;
    gpu->fp32 = speeds->gemm[HIL_F32] * 1e-12 / MATRIX_PART;
    gpu->bf16 = speeds->gemm[HIL_BF16] * 1e-12 / MATRIX_PART;
    gpu->memory = speeds->memory * 1e-9 / MEMORY_PART;
    gpu->bus = speeds->to_device * 1e-9 / BUS_PART;
    gpu->fp8 = speeds->gemm_fp8 * 1e-12 / MATRIX_PART;
}

void hil_gpu_describe(const hil_gpu *gpu, hil_device *device)
{
    snprintf(device->name, sizeof device->name, "NVIDIA %s", gpu->name);
    device->memory = (size_t)gpu->mib << 20;
    device->available = device->memory - CONTEXT;
    device->outside = CONTEXT;
    device->fp8 = gpu->fp8 > 0;
}
