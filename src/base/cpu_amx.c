/* cpu_amx.c - whether AMX tiles work: a product in a child process, compared with the known result.
 */
#include "base/cpu.h"

#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

static bool has_amx_flag(void)
{
    unsigned a, b, c, d;
    const unsigned bf16 = 1u << 22, tile = 1u << 24;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bf16) && (d & tile);
}

static bool permitted(void)
{
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* A (16 x 32) of ones by B (32 x 16) whose column n is n: every element of column n is 32 n. */
static bool product_is_right(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64)));
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int t = 0; t < 3; ++t) config.row_bytes[t] = 64, config.rows[t] = 16;
    uint16_t a[16][32], b[16][32];
    float sum[16][16];
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 32; ++j) {
            int pair = j / 2;
            float column = (float)pair;
            uint32_t bits;
            memcpy(&bits, &column, sizeof bits);
            a[i][j] = 0x3f80;
            b[i][j] = (uint16_t)(bits >> 16);
        }
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_loadd(1, a, 64);
    _tile_loadd(2, b, 64);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, sum, 64);
    _tile_release();
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j)
            if (sum[i][j] != (float)(32 * j)) return false;
    return true;
}

bool hil_cpu_probe_amx(void)
{
    if (!has_amx_flag()) return false;
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) _exit(permitted() && product_is_right() ? 0 : 1);
    int status;
    if (waitpid(child, &status, 0) != child) return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && permitted();
}
