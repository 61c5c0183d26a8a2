/* With any budgets, hil_param_store_place fails, or steps stay within them and give the same bits.
   If the n-th allocation fails, nothing is leaked. */
#include "param_store_rig.h"

#include "base/alloc.h"

typedef struct sizes {
    uint64_t device, host, disk;
} sizes;

static void check_peaks(const rig *r, const sizes *s)
{
    hil_step_account account;
    hil_param_store_account(r->store, &account);
    CHECK(account.device_peak <= s->device);
    CHECK(account.host_peak <= s->host);
    CHECK(account.disk_peak <= s->disk);
}

/* What is asked of a store. */
typedef struct asked {
    const char *dtype, *optimizer;
    rig_order order;
} asked;

/* Whether the store fits; *out is a checksum of the weights after two steps. */
static bool try_budget(const asked *a, const sizes *s, double *out)
{
    static float value[300 * 64];
    rig r;
    rig_options(&r, a->dtype, s->device, s->host);
    r.options.optimizer = a->optimizer;
    r.disk[0].bytes = s->disk;
    r.options.memory.disk_count = s->disk ? 1 : 0;
    CHECK_OK(hil_param_store_create(&r.store, &r.options));
    rig_add(&r);
    hil_status status = hil_param_store_place(r.store);
    if (status == HIL_OK) {
        rig_fill(&r);
        *out = 0;
        for (int i = 0; i < 2; ++i) *out += rig_step(&r, a->order);
        check_peaks(&r, s);
        for (int p = 0; p < RIG_PARAMS; ++p) {
            CHECK_OK(hil_param_store_read(r.store, r.param[p], HIL_PARAM_STORE_WEIGHT, 0,
                                          rig_elements(p), value));
            for (int64_t i = 0; i < rig_elements(p); ++i)
                *out += (double)(i + p) * (double)value[i];
        }
    } else {
        CHECK_INT(status, HIL_ERR_BUDGET);
    }
    hil_param_store_destroy(r.store);
    return status == HIL_OK;
}

static void check_sweep(const char *dtype, const char *optimizer)
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
                asked a = {dtype, optimizer, (d + h + k) % 2 ? RIG_GROUP_MAJOR : RIG_MICRO_MAJOR};
                if (!try_budget(&a, &s, &now)) {
                    ++refused;
                    continue;
                }
                if (!placed++) first = now;
                CHECK(now == first);
            }
    CHECK(placed > 60 && refused > 30);
}

/* A window that is too small for a whole matrix is refused before the first step. */
static void check_window(void)
{
    rig r;
    rig_options(&r, "bf16", 1 << 20, 4 << 20);
    r.options.optimizer = "muon";
    r.options.window = 128 << 10;
    CHECK_OK(hil_param_store_create(&r.store, &r.options));
    rig_add(&r);
    CHECK_FAILS(hil_param_store_place(r.store), HIL_ERR_BUDGET, "whole matrix");
    hil_param_store_destroy(r.store);
}

static hil_status open_and_step(rig *r)
{
    double norm;
    HIL_TRY(hil_param_store_create(&r->store, &r->options));
    for (int p = 0; p < RIG_PARAMS; ++p) {
        char name[16];
        snprintf(name, sizeof name, "p%d", p);
        HIL_TRY(hil_param_store_add(r->store, name, &rig_form[p], &r->param[p]));
    }
    HIL_TRY(hil_param_store_place(r->store));
    HIL_TRY(hil_param_store_begin(r->store, HIL_PARAM_STORE_TRAIN));
    for (int64_t t = 0; t < hil_param_store_tiles(r->param[0]); ++t) {
        float *sum;
        HIL_TRY(hil_param_store_gradient_acquire(r->store, r->param[0], t, &sum));
        sum[0] = 1;
        hil_param_store_gradient_release(r->store, r->param[0], t);
    }
    HIL_TRY(hil_param_store_step(r->store, 0.1, &norm));
    return hil_param_store_end(r->store);
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
        hil_param_store_destroy(r.store);
        CHECK(n < 2000);
    }
}

int main(void)
{
    check_sweep("fp32", "adamw");
    check_sweep("bf16", "adamw");
    check_sweep("bf16", "muon");
    check_window();
    check_memory();
    return 0;
}
