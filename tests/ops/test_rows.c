/* test_rows.c - arithmetic on rows: correct, with the same bits on every instruction set. */
#include "check.h"
#include "base/cpu.h"
#include "base/philox.h"
#include "ops/mask.h"
#include "ops/rows/rows.h"

enum { N = 1061, OUTS = 2 };

typedef struct rows {
    float x[N], y[N], z[N];
    float out[OUTS * N];
} rows;

static void fill(rows *r)
{
    for (int i = 0; i < N; ++i) {
        r->x[i] = 9 * sinf((float)i * 1.7f);
        r->y[i] = cosf((float)i * 0.9f);
        r->z[i] = sinf((float)i * 0.3f + 1);
        r->out[i] = r->out[N + i] = 0.25f;
    }
}

enum { STATE_COLS = 83 }; /* of a state: whole vectors and a few more */

static void run_recurrent(const hil_row_kernel *k, int which, rows *r, int64_t n)
{
    float *a = r->out;
    switch (which) {
    case 27:
        k->conv.multiply_add(a, r->x, r->y, n);
        break;
    case 33:
        k->activation.sigmoid(a, r->x, n);
        break;
    case 28:
        k->conv.silu(a, r->x, n);
        break;
    case 29:
        k->conv.silu_back(a, r->x, r->y, n);
        break;
    case 30:
        k->state.read(a, r->x, r->y, n / STATE_COLS, STATE_COLS);
        break;
    case 31:
        k->state.dots(a, r->x, r->y, n / STATE_COLS, STATE_COLS);
        break;
    case 32:
        memcpy(a, r->x, (size_t)n * sizeof *a);
        k->state.update(a, 0.7f, r->y, r->z, n / STATE_COLS, STATE_COLS);
        break;
    }
}

static void run_words(const hil_row_kernel *k, int which, rows *r, int64_t n)
{
    float *a = r->out;
    switch (which) {
    case 21:
        k->convert.to_bf16((uint16_t *)(void *)a, r->x, n);
        break;
    case 22:
        k->convert.from_bf16(a, (const uint16_t *)(const void *)r->x, n);
        break;
    case 23:
        k->random.philox((uint32_t *)(void *)a, 0x123456789abcdef0u, ~0ull - 2, 17, n / 4);
        break;
    case 24:
        k->random.keep(a, (const uint32_t *)(const void *)r->x, 0x3f0000, 1.5f, n);
        break;
    default:
        run_recurrent(k, which, r, n);
    }
}

static void run_kernel(const hil_row_kernel *k, int which, rows *r, int64_t n)
{
    float *a = r->out, *b = r->out + N;
    hil_row_norm norm = {.weight = r->z,
                         .bias = which & 1 ? r->y : NULL,
                         .mean = 0.3f,
                         .scale = 0.7f,
                         .centered = which & 1,
                         .dweight = a,
                         .dbias = b};
    switch (which) {
    case 0:
        k->math.add(a, r->x, r->y, n);
        break;
    case 1:
        k->math.multiply(a, r->x, r->y, n);
        break;
    case 2:
        a[0] = k->math.sum(r->x, n);
        break;
    case 3:
        a[0] = k->math.sum_squares(r->x, 0.4f, n);
        break;
    case 4:
        a[0] = k->math.max(r->x, n);
        break;
    case 5:
        memcpy(a, r->x, (size_t)n * sizeof *a);
        b[0] = k->math.exp_sum(a, 8.9f, n);
        break;
    case 6:
        k->math.scale(a, r->x, 1.1f, n);
        break;
    case 7:
        k->activation.gelu_tanh(a, r->x, n);
        break;
    case 8:
        k->activation.gelu_tanh_back(a, r->x, r->y, n);
        break;
    case 9:
        k->activation.gelu_erf(a, r->x, n);
        break;
    case 10:
        k->activation.gelu_erf_back(a, r->x, r->y, n);
        break;
    case 11:
        k->activation.swiglu(a, r->x, r->y, n);
        break;
    case 12:
        k->activation.swiglu_back((float *const[]){a, b}, (const float *const[]){r->x, r->y, r->z},
                                  n);
        break;
    case 13:
    case 14:
        k->norm.normalize(a, r->x, &norm, n);
        break;
    case 15:
    case 16:
        k->norm.normalize_back(&norm, r->x, r->y, n);
        break;
    case 17:
    case 18:
        k->norm.normalize_dx(a, &norm, r->x, r->y, n);
        break;
    case 19:
        k->position.rotate(a, b, r->x, r->y, n);
        break;
    case 20:
        k->position.angles(a, b, r->y, 131071, n);
        break;
    case 25:
        k->cap.bound(a, r->x, 3.7f, n);
        break;
    case 26:
        k->cap.slope(a, r->x, r->y, 3.7f, n);
        break;
    default:
        run_words(k, which, r, n);
    }
}

static void check_levels(void)
{
    static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 255, 256, 257, 1000, N};
    hil_cpu_level best = hil_cpu_best();
    static rows want, got;
    for (int which = 0; which < 34; ++which)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
            fill(&want);
            run_kernel(&hil_rows_portable, which, &want, lengths[i]);
            for (int level = HIL_CPU_PORTABLE; level <= (int)best; ++level) {
                hil_cpu_limit((hil_cpu_level)level);
                fill(&got);
                run_kernel(hil_rows(), which, &got, lengths[i]);
                for (int64_t j = 0; j < OUTS * N; ++j) {
                    if (hil_bits(want.out[j]) == hil_bits(got.out[j])) continue;
                    fprintf(stderr, "%s: kernel %d, length %lld, element %lld: %a, not %a\n",
                            hil_rows()->name, which, (long long)lengths[i], (long long)j,
                            (double)got.out[j], (double)want.out[j]);
                    exit(1);
                }
            }
            hil_cpu_limit(HIL_CPU_AMX);
        }
}

static void check_bf16(void)
{
    static const uint32_t bits[] = {0,           0x80000000u, 0x3f800000u, 0x3f808000u,
                                    0x3f818000u, 0x3f808001u, 0x7f7fffffu, 0x7f800000u,
                                    0xff800000u, 0x7f800001u, 0xffc00000u, 0x7fffffffu,
                                    1,           0x00008000u, 0x00008001u};
    enum { COUNT = sizeof bits / sizeof *bits };
    float in[COUNT];
    uint16_t out[COUNT];
    for (int i = 0; i < COUNT; ++i) in[i] = hil_float(bits[i]);
    hil_rows()->convert.to_bf16(out, in, COUNT);
    for (int i = 0; i < COUNT; ++i) CHECK_INT(out[i], hil_bf16_round(in[i]));
}

/* Accurate to slightly more than half a unit in the last place. */
static void check_angles(void)
{
    enum { COUNT = 64 };
    float frequency[COUNT], cosine[COUNT], sine[COUNT];
    for (int i = 0; i < COUNT; ++i) frequency[i] = powf(500000, -(float)i / COUNT);
    for (int32_t position = 0; position < 2000000; position = position * 3 / 2 + 1) {
        hil_rows()->position.angles(cosine, sine, frequency, (float)position, COUNT);
        for (int i = 0; i < COUNT; ++i) {
            double angle = (double)((float)position * frequency[i]);
            CHECK_NEAR((double)cosine[i], cos(angle), 3.1e-8);
            CHECK_NEAR((double)sine[i], sin(angle), 3.1e-8);
        }
    }
}

static void check_philox(void)
{
    enum { BLOCKS = 131 };
    static uint32_t out[4 * BLOCKS];
    uint64_t key = 0xfeedbeefcafe0123u, low = 0xffffffffu - 60, high = 0x8000000000000005u;
    hil_rows()->random.philox(out, key, low, high, BLOCKS);
    for (uint64_t b = 0; b < BLOCKS; ++b) {
        uint32_t want[4];
        hil_philox(key, low + b, high, want);
        CHECK(memcmp(want, out + 4 * b, sizeof want) == 0);
    }
}

/* A part of a mask equals that part of the whole mask. */
static void check_mask(void)
{
    enum { LENGTH = 900 };
    float whole[LENGTH], part[LENGTH];
    hil_mask mask = hil_mask_create(&(hil_op_random){.seed = 3, .site = 9}, 0.5);
    hil_mask_fill(&mask, 2, 0, LENGTH, whole);
    for (int64_t from = 0; from < LENGTH; from += 37)
        for (int64_t n = 0; from + n <= LENGTH; n = n * 2 + 1) {
            hil_mask_fill(&mask, 2, from, n, part);
            CHECK(memcmp(part, whole + from, (size_t)n * sizeof *part) == 0);
        }
}

/* Any number of rows is split into blocks, each row in exactly one. */
static void check_grid(void)
{
    for (int64_t count = 0; count < 9000; count += count < 40 ? 1 : 97) {
        hil_grid grid = hil_row_grid(count);
        int64_t seen = 0;
        for (int64_t b = 0; b < grid.blocks; ++b) {
            CHECK(b * grid.block < hil_grid_end(&grid, b));
            seen += hil_grid_end(&grid, b) - b * grid.block;
        }
        CHECK_INT(seen, count);
        CHECK(grid.blocks <= 128);
    }
}

int main(void)
{
    check_levels();
    check_bf16();
    check_angles();
    check_philox();
    check_mask();
    check_grid();
    return 0;
}
