/* The cost of a rehearsal, in runs of segments: four periods are enough for any number of groups
   in a step, and a rehearsal ends early if tensors fit neither on the device nor on the host. */
#include "base/alloc.h"
#include "check.h"
#include "hilbert/nn.h"
#include "plan/rehearse.h"
#include "store/internal.h"
#include "store/store.h"
#include "store/unit.h"

#include <string.h>

enum { V = 64, C = 64, SEQ = 16, LAYERS = 6, SEGMENTS = LAYERS + 2, GROUP = 32 };

typedef struct net {
    hil_param *table, *inner[LAYERS];
} net;

static int64_t runs; /* of segments, so far */

static hil_status embed(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    hil_value *x;
    (void)in;
    ++runs;
    HIL_TRY(hil_embedding(t, hil_batch_tokens(t), n->table, &x));
    return hil_values_set(out, "x", x);
}

/* The second product's gradient needs the first, which is kept or computed again. */
static hil_status inside(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    hil_param *w = *(hil_param **)layer;
    hil_value *x, *y;
    ++runs;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_linear(t, x, w, NULL, &y));
    HIL_TRY(hil_linear_add(t, y, w, NULL, x, &x));
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    hil_value *x;
    (void)out;
    ++runs;
    HIL_TRY(hil_values_get(in, "x", &x));
    return hil_head_loss(t, x, n->table);
}

static void create(net *n, hil_model **out)
{
    static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f"};
    hil_store_options options = {
        .compute = HIL_F32, .training = true, .tile_size = 1 << 20, .moments = 2};
    hil_model *m;
    CHECK_OK(hil_model_create(out));
    m = *out;
    CHECK_OK(hil_model_param(m, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.5}, &n->table));
    CHECK_OK(hil_model_segment(m, "embedding", embed, n));
    for (int i = 0; i < LAYERS; ++i) {
        CHECK_OK(
            hil_model_param(m, names[i], &(hil_param_form){HIL_MATRIX, C, C, 0.1}, &n->inner[i]));
        CHECK_OK(hil_model_segment(m, names[i], inside, &n->inner[i]));
    }
    CHECK_OK(hil_model_segment(m, "head", head, n));
    CHECK_OK(hil_store_arrange(m->store, &options));
}

/* Weights are fetched into a window for two with their sums; `keep` of a group keep whole tapes. */
static hil_plan plan_of(const hil_model *m, int64_t keep)
{
    hil_plan p = {.prefetch = true,
                  .group = GROUP,
                  .window = 6 * V * C * 4,
                  .chunk = 4096,
                  .slots = 3,
                  .spill = HIL_HOST,
                  .zero = 3,
                  .units = hil_store_units(m->store),
                  .segments = SEGMENTS};
    CHECK_OK(HIL_ALLOC(p.units, &p.unit));
    CHECK_OK(HIL_ALLOC(p.segments, &p.segment));
    for (size_t u = 0; u < p.units; ++u) memset(p.unit[u].tier, HIL_HOST, sizeof p.unit[u].tier);
    for (int i = 0; i < SEGMENTS; ++i) p.segment[i] = (hil_segment_place){.keep = keep};
    return p;
}

static void free_plan(hil_plan *p)
{
    hil_free(p->unit);
    hil_free(p->segment);
}

static int64_t runs_of(hil_rehearsal *r, int64_t groups)
{
    hil_plan p = plan_of(r->model, 0);
    int64_t before = runs;
    r->sequences = groups * GROUP;
    CHECK_OK(hil_rehearse_trial(r, &p));
    CHECK(p.step_seconds > 0 && p.to_device > 0);
    free_plan(&p);
    return runs - before;
}

static void check_groups(hil_rehearsal *r)
{
    const int64_t group = (2 * SEGMENTS - 1) * GROUP; /* forward, and again in backward */
    int64_t some = runs_of(r, 10);
    /* One period of the step before, three of the step; the order of use from three
       micro-batches. */
    CHECK(some <= 4 * group + 3 * 2 * SEGMENTS);
    CHECK_INT(runs_of(r, 1000), some);
}

/* Windows in which sums are never spilled, are spilled and come back before the renewal, from some
   period on, or are spilled all. One more group adds the same bytes and seconds, whether it is
   rehearsed, as in steps of few periods, or left out. */
static void check_windows(hil_rehearsal *r)
{
    enum { FEW = 8, MANY = 1000 };
    const int64_t group = (2 * SEGMENTS - 1) * GROUP;
    for (size_t window = 3; window <= 18; ++window) {
        hil_plan p[3];
        static const int64_t groups[] = {FEW, FEW + 1, MANY};
        int64_t before = runs;
        for (int i = 0; i < 3; ++i) {
            p[i] = plan_of(r->model, 0);
            p[i].discrete = true;
            p[i].window = window * V * C * 4;
            r->sequences = groups[i] * GROUP;
            before = runs;
            CHECK_OK(hil_rehearse_trial(r, &p[i]));
        }
        CHECK(runs - before <= 6 * group);
        uint64_t in = p[1].to_device - p[0].to_device, out = p[1].to_host - p[0].to_host;
        double seconds = p[1].step_seconds - p[0].step_seconds;
        CHECK(p[2].to_device == p[0].to_device + (MANY - FEW) * in);
        CHECK(p[2].to_host == p[0].to_host + (MANY - FEW) * out);
        CHECK_NEAR(p[2].step_seconds, p[0].step_seconds + (MANY - FEW) * seconds, 1e-6);
        CHECK(memcmp(p[0].peak, p[2].peak, sizeof p[0].peak) == 0);
        for (int i = 0; i < 3; ++i) free_plan(&p[i]);
    }
}

/* The order of use is composed of a few visits: a step follows it without a detour. */
static void check_order(hil_rehearsal *r)
{
    for (int i = 0; i < 16; ++i) {
        hil_plan p = plan_of(r->model, 0);
        p.group = (int64_t[]){0, 1, 5, GROUP}[i % 4];
        r->sequences = i % 3 ? 99 : 64;
        r->micro_batch = 1 + i / 8;
        for (int s = 0; s < SEGMENTS && p.group; ++s)
            p.segment[s] = (hil_segment_place){.keep = (s + i) % 3 * p.group / 4,
                                               .lean = s % 2 * p.group / 4,
                                               .tapes = s % 4 == 1 ? HIL_HOST : HIL_DEVICE};
        CHECK_OK(hil_rehearse_trial(r, &p));
        CHECK_INT(hil_store_repairs(r->model->store), 0);
        CHECK(!r->model->store->order[HIL_PASS_TRAIN].detour);
        free_plan(&p);
    }
    r->micro_batch = 1;
}

/* Tensors within `device` and `host` bytes, 0: without limits; returns the runs. */
static int64_t tensor_runs(hil_rehearsal *r, hil_plan *p, size_t device, size_t host)
{
    int64_t before = runs;
    r->sequences = GROUP;
    p->device_budget = device;
    p->host_budget = host;
    CHECK_OK(hil_rehearse_tensors(r, p, device > 0));
    return runs - before;
}

static void check_tensors(hil_rehearsal *r)
{
    hil_plan p = plan_of(r->model, GROUP);
    int64_t all = tensor_runs(r, &p, 0, 0);
    size_t work = p.work;
    CHECK(4 * tensor_runs(r, &p, work / 8, 0) < all);
    CHECK(p.work > p.device_budget);
    CHECK_INT(tensor_runs(r, &p, work, 0), all); /* enough: exact again */
    CHECK(p.work == work);
    free_plan(&p);
}

/* Values between segments are kept on the host, which is too small for them. */
static void check_host(hil_rehearsal *r)
{
    hil_plan p = plan_of(r->model, 0);
    for (int i = 0; i < SEGMENTS; ++i) p.segment[i].tier = HIL_HOST;
    int64_t all = tensor_runs(r, &p, 0, 0);
    size_t work = p.work, offloaded = p.offloaded;
    CHECK(offloaded > 0);
    CHECK(4 * tensor_runs(r, &p, work, offloaded / 8) < all);
    CHECK(p.work > p.device_budget);
    CHECK_INT(tensor_runs(r, &p, work, offloaded), all);
    CHECK(p.work == work && p.offloaded == offloaded);
    free_plan(&p);
}

int main(void)
{
    static const hil_speeds speeds = {
        .to_device = 1e10, .to_host = 1e10, .memory = 2e10, .gemm = {1e12}, .update = 1e9};
    net n;
    hil_model *model;
    create(&n, &model);
    hil_rehearsal r = {.model = model,
                       .compute = HIL_F32,
                       .training = true,
                       .length = SEQ,
                       .micro_batch = 1,
                       .speeds = &speeds};
    runs_of(&r, 1); /* the first also traces the model */
    check_groups(&r);
    check_windows(&r);
    check_order(&r);
    check_tensors(&r);
    check_host(&r);
    hil_model_destroy(model);
    return 0;
}
