/* With any budgets, hil_bank_place fails, or steps stay within them and give the same bits. If the
   n-th allocation fails, nothing is leaked. */
#include "bank_rig.h"

#include "base/alloc.h"

typedef struct sizes {
    uint64_t device, host, disk;
} sizes;

static void check_peaks(const rig *r, const sizes *s)
{
    hil_step_account account;
    hil_bank_account(r->bank, &account);
    CHECK(account.device_peak <= s->device);
    CHECK(account.host_peak <= s->host);
    CHECK(account.disk_peak <= s->disk);
}

/* Whether the bank fits; *out is a checksum of the weights after two steps. */
static bool try_budget(const char *dtype, const sizes *s, rig_order order, double *out)
{
    static float value[300 * 64];
    rig r;
    rig_options(&r, dtype, s->device, s->host);
    r.disk[0].bytes = s->disk;
    r.options.memory.disk_count = s->disk ? 1 : 0;
    CHECK_OK(hil_bank_create(&r.bank, &r.options));
    rig_add(&r);
    hil_status status = hil_bank_place(r.bank);
    if (status == HIL_OK) {
        rig_fill(&r);
        *out = 0;
        for (int i = 0; i < 2; ++i) *out += rig_step(&r, order);
        check_peaks(&r, s);
        for (int p = 0; p < RIG_PARAMS; ++p) {
            CHECK_OK(hil_bank_read(r.bank, r.param[p], HIL_BANK_WEIGHT, 0, rig_elements(p), value));
            for (int64_t i = 0; i < rig_elements(p); ++i)
                *out += (double)(i + p) * (double)value[i];
        }
    } else {
        CHECK_INT(status, HIL_ERR_BUDGET);
    }
    hil_bank_destroy(r.bank);
    return status == HIL_OK;
}

static void check_sweep(const char *dtype)
{
    static const uint64_t device[] = {40, 64, 80, 120, 170, 240, 340, 500, 700, 1000, 1500};
    static const uint64_t host[] = {0, 100, 170, 250, 400, 700, 1200};
    static const uint64_t disk[] = {0, 700, 4096};
    double first = 0, now;
    int placed = 0, refused = 0;
    for (size_t d = 0; d < sizeof device / sizeof *device; ++d)
        for (size_t h = 0; h < sizeof host / sizeof *host; ++h)
            for (size_t k = 0; k < sizeof disk / sizeof *disk; ++k) {
                sizes s = {device[d] << 10, host[h] << 10, disk[k] << 10};
                rig_order order = (d + h + k) % 2 ? RIG_GROUP_MAJOR : RIG_MICRO_MAJOR;
                if (!try_budget(dtype, &s, order, &now)) {
                    ++refused;
                    continue;
                }
                if (!placed++) first = now;
                CHECK(now == first);
            }
    CHECK(placed > 60 && refused > 30);
}

static hil_status open_and_step(rig *r)
{
    double norm;
    HIL_TRY(hil_bank_create(&r->bank, &r->options));
    for (int p = 0; p < RIG_PARAMS; ++p) {
        char name[16];
        snprintf(name, sizeof name, "p%d", p);
        HIL_TRY(hil_bank_add(r->bank, name, &rig_form[p], &r->param[p]));
    }
    HIL_TRY(hil_bank_place(r->bank));
    HIL_TRY(hil_bank_begin(r->bank, HIL_BANK_TRAIN));
    for (int64_t t = 0; t < hil_bank_tiles(r->param[0]); ++t) {
        float *sum;
        HIL_TRY(hil_bank_gradient_acquire(r->bank, r->param[0], t, &sum));
        sum[0] = 1;
        hil_bank_gradient_release(r->bank, r->param[0], t);
    }
    HIL_TRY(hil_bank_step(r->bank, 0.1, &norm));
    return hil_bank_end(r->bank);
}

static void check_memory(void)
{
    hil_status status = HIL_ERR_MEMORY;
    for (long n = 1; status != HIL_OK; ++n) {
        rig r;
        rig_options(&r, "bf16", 120 << 10, 170 << 10);
        r.options.memory.disk_count = 1;
        hil_alloc_fail_at(n);
        status = open_and_step(&r);
        hil_alloc_fail_at(0);
        CHECK(status == HIL_OK || status == HIL_ERR_MEMORY);
        hil_bank_destroy(r.bank);
        CHECK(n < 2000);
    }
}

int main(void)
{
    check_sweep("fp32");
    check_sweep("bf16");
    check_memory();
    return 0;
}
