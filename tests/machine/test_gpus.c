/* The table of GPUs: names in many spellings, numbers that a data sheet can have. */
#include "check.h"
#include "machine/gpus.h"

static const hil_gpu *find(const char *name)
{
    const hil_gpu *gpu;
    CHECK_OK(hil_gpu_find(name, &gpu));
    return gpu;
}

static void check_same(const char *spelling, const char *name)
{
    CHECK_TEXT(find(spelling)->name, name);
}

static void check_unknown(const char *name)
{
    const hil_gpu *gpu;
    CHECK_FAILS(hil_gpu_find(name, &gpu), HIL_ERR_USAGE, "RTX 4090, ");
}

/* Entering a sparse rate for a dense one, or another card's, would break these ratios. */
static void check_ratios(void)
{
    static const struct {
        const char *name;
        double bf16; /* times fp32 */
    } known[] = {
        {"RTX 3080", 2}, {"RTX 3090", 2},  {"RTX 4080", 2},     {"RTX 4090", 2},   {"RTX 5080", 2},
        {"RTX 5090", 2}, {"RTX A6000", 4}, {"RTX 6000 Ada", 4}, {"A10", 4},        {"A10G", 2},
        {"L4", 4},       {"L40S", 4},      {"A100 40GB", 16},   {"A100 80GB", 16},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        const hil_gpu *gpu = find(known[i].name);
        double ratio = gpu->bf16 / gpu->fp32 / known[i].bf16;
        CHECK(ratio > 0.98 && ratio < 1.02);
    }
    CHECK(find("H100")->bf16 / find("H100 PCIe")->bf16 > 1.25); /* 132 and 114 multiprocessors */
    CHECK(find("H200")->bf16 == find("H100")->bf16);            /* one chip, other memory */
    for (const char *const *name = (const char *const[]){"RTX 4090", "RTX 5090", "L4", "L40S",
                                                         "H100 PCIe", "H200", "B200", NULL};
         *name; ++name)
        CHECK(find(*name)->fp8 / find(*name)->bf16 > 1.98 &&
              find(*name)->fp8 / find(*name)->bf16 < 2.04);
    CHECK(find("A100 80GB")->fp8 == 0 && find("RTX 3090")->fp8 == 0);
    CHECK(find("B200")->memory / find("H200")->memory > 1.5); /* 7.7 and 4.8 TB/s */
}

int main(void)
{
    check_ratios();
    check_same("RTX 4090", "RTX 4090");
    check_same("rtx4090", "RTX 4090");
    check_same("4090", "RTX 4090");
    check_same("NVIDIA GeForce RTX 4090", "RTX 4090");
    check_same("a100-80g", "A100 80GB");
    check_same("NVIDIA A100-SXM4-80GB", "A100 80GB");
    check_same("NVIDIA A100-SXM4-40GB", "A100 40GB");
    check_same("NVIDIA H100 80GB HBM3", "H100");
    check_same("h100 sxm", "H100");
    check_same("h100-pcie", "H100 PCIe");
    check_same("NVIDIA A10G", "A10G");
    check_same("a10", "A10");
    check_same("l40s", "L40S");
    check_same("RTX 6000 Ada Generation", "RTX 6000 Ada");
    check_unknown("A100"); /* there are two */
    check_unknown("");
    check_unknown("RTX");
    check_unknown("a name that is much longer than any of a GPU, and that goes on for a while");

    /* Assumed speeds are below the data sheet, and ordered as it is. */
    hil_speeds s = {.update = 1, .disk_read = 2, .network = 3};
    hil_gpu_speeds(find("4090"), &s);
    CHECK(s.gemm[1] > 80e12 && s.gemm[1] < 165e12);
    CHECK(s.gemm[0] > 40e12 && s.gemm[0] < 83e12);
    CHECK(s.gemm_fp8 > 1.9 * s.gemm[1] && s.gemm_fp8 < 330.4e12);
    CHECK(s.attention[1] < s.gemm[1] && s.memory < 1008e9 && s.to_device < 31.6e9);
    CHECK(s.update_device > 1e9 && s.op_call > 0);
    CHECK(s.update == 1 && s.disk_read == 2 && s.network == 3); /* the host's */
    hil_device device = {0};
    hil_gpu_describe(find("4090"), &device);
    CHECK_TEXT(device.name, "NVIDIA RTX 4090");
    CHECK(device.fp8);
    hil_gpu_speeds(find("3090"), &s);
    CHECK(s.gemm_fp8 == 0);
    CHECK(device.available + device.outside == device.memory);
    CHECK(device.memory > (size_t)23 << 30 && device.memory <= (size_t)24 << 30);
    return 0;
}
