/* A sweep saves the states as they are when it ends, bit for bit, in any placement: every element
   once, frozen and unused parameters too, while the next step runs. Saving changes no number. */
#include "../store/runs.h"
#include "optim/update.h"
#include "store/store.h"
#include "store/update.h"

#include <pthread.h>

enum { STEPS = 4, SLOW_US = 50 };

/* A checkpoint in memory. */
typedef struct copy {
    pthread_mutex_t lock;
    float *state[PARAMS][HIL_STATES];
    unsigned char *times[PARAMS][HIL_STATES];
    const rig *rig;
    int calls, fail_at; /* the call that fails; 0: none */
    bool finished;
} copy;

static int number_of(const rig *r, const hil_param *param)
{
    int p = 0;
    while (r->param[p] != param) ++p;
    return p;
}

static hil_status put(void *context, hil_param *param, hil_state state, int64_t first,
                      int64_t count, const float *data)
{
    copy *c = context;
    usleep(SLOW_US); /* lets the next step overtake the save */
    pthread_mutex_lock(&c->lock);
    CHECK(!c->finished);
    int p = number_of(c->rig, param);
    CHECK(count > 0 && first >= 0 && first + count <= hil_param_elements(param));
    memcpy(c->state[p][state] + first, data, (size_t)count * sizeof *data);
    for (int64_t i = first; i < first + count; ++i) ++c->times[p][state][i];
    bool fails = ++c->calls == c->fail_at;
    pthread_mutex_unlock(&c->lock);
    return fails ? hil_fail(HIL_ERR_IO, "cannot write p%d: the disk is full", p) : HIL_OK;
}

static hil_status finish(void *context)
{
    copy *c = context;
    pthread_mutex_lock(&c->lock);
    c->finished = true;
    pthread_mutex_unlock(&c->lock);
    return HIL_OK;
}

static void copy_create(copy *c, const rig *r)
{
    *c = (copy){.rig = r};
    pthread_mutex_init(&c->lock, NULL);
    for (int p = 0; p < PARAMS; ++p)
        for (int s = 0; s < HIL_STATES; ++s) {
            size_t n = (size_t)hil_param_elements(r->param[p]);
            c->state[p][s] = calloc(n, sizeof(float));
            c->times[p][s] = calloc(n, 1);
            CHECK(c->state[p][s] && c->times[p][s]);
        }
}

static void copy_destroy(copy *c)
{
    for (int p = 0; p < PARAMS; ++p)
        for (int s = 0; s < HIL_STATES; ++s) {
            free(c->state[p][s]);
            free(c->times[p][s]);
        }
    pthread_mutex_destroy(&c->lock);
}

/* Every element was saved once and equals the store's. */
static void check_copy(const copy *c, rig *r)
{
    for (int p = 0; p < PARAMS; ++p)
        for (int s = 0; s < HIL_STATES; ++s) {
            int64_t n = hil_param_elements(r->param[p]);
            bool has = hil_param_has(r->param[p], (hil_state)s);
            float *now = malloc((size_t)n * sizeof *now);
            CHECK(now);
            if (has) CHECK_OK(hil_store_read(r->store, r->param[p], (hil_state)s, 0, n, now));
            for (int64_t i = 0; i < n; ++i) CHECK_INT(c->times[p][s][i], has);
            if (has) runs_same(c->state[p][s], now, n);
            free(now);
        }
}

typedef struct variant {
    hil_rule_kind rule;
    hil_dtype dtype;
    int frozen, skip; /* parameters; -1: none */
    int placement;
    bool update; /* saved by the sweep that updates, else by one that only saves */
} variant;

static const hil_rule *rule;
static int64_t step_number;

static hil_status sweep(rig *r, double norm)
{
    hil_optimizer optimizer = {rule, 0.9, rule->beta2, 1e-8, 0.1, 1};
    hil_update update = {.lr = 0.01, .norm = norm, .loss_scale = 1, .updates = step_number};
    if (r->saving) hil_store_save_next(r->store, r->saving);
    return hil_optimizer_update(r->store, &optimizer, &update);
}

static hil_status take_step(rig *r, int64_t number, int skip)
{
    double norm;
    step_number = number;
    return rig_step(r, skip, &norm);
}

static void create(rig *r, const variant *w)
{
    rule = &hil_rules[w->rule];
    hil_store_options options = {.compute = w->dtype,
                                 .training = true,
                                 .tile_size = 128 * 72 * 2,
                                 .moments = rule->moments,
                                 .codec = rule->codec};
    runs_create_as(r, &options, w->placement, w->frozen);
    r->sweep = sweep;
    CHECK_OK(rig_open(r, 2, HIL_IO_AUTO));
}

/* Saves the second of some steps; compares the copy with a run that ends there, and the final
   states with a run that saves nothing. */
static void check_variant(const variant *w)
{
    rig run, plain;
    copy c;
    create(&run, w);
    create(&plain, w);
    copy_create(&c, &run);
    hil_saving saving = {put, &c};
    for (int s = 1; s <= STEPS; ++s) {
        run.saving = s == 2 && w->update ? &saving : NULL;
        CHECK_OK(take_step(&run, s, w->skip));
        if (s == 2 && !w->update) {
            hil_store_save_next(run.store, &saving);
            CHECK_OK(hil_store_save(run.store));
        }
        if (s == 2) CHECK_OK(hil_store_save_finish(run.store, finish, &c));
    }
    CHECK_OK(hil_store_saved(run.store));
    CHECK(c.finished);
    for (int s = 1; s <= 2; ++s) CHECK_OK(take_step(&plain, s, w->skip));
    check_copy(&c, &plain);
    for (int s = 3; s <= STEPS; ++s) CHECK_OK(take_step(&plain, s, w->skip));
    for (int p = 0; p < PARAMS; ++p) {
        int64_t n = hil_param_elements(run.param[p]);
        float *a = malloc((size_t)n * 4), *b = malloc((size_t)n * 4);
        CHECK(a && b);
        CHECK_OK(hil_store_read(run.store, run.param[p], HIL_MASTER, 0, n, a));
        CHECK_OK(hil_store_read(plain.store, plain.param[p], HIL_MASTER, 0, n, b));
        runs_same(a, b, n);
        free(a);
        free(b);
    }
    copy_destroy(&c);
    rig_close(&run);
    rig_close(&plain);
}

/* A failed save returns the writer's message; put and finish are not called again. */
static void check_failure(int placement)
{
    variant w = {.rule = HIL_ADAMW, .dtype = HIL_BF16, .frozen = -1, .placement = placement};
    rig run;
    copy c;
    create(&run, &w);
    copy_create(&c, &run);
    c.fail_at = 5;
    run.saving = &(hil_saving){put, &c};
    CHECK_OK(take_step(&run, 1, -1));
    CHECK_OK(hil_store_save_finish(run.store, finish, &c));
    CHECK_FAILS(hil_store_saved(run.store), HIL_ERR_IO, "the disk is full");
    CHECK_INT(c.calls, 5);
    CHECK(!c.finished);
    hil_store_step_end(run.store);
    rig_close(&run);
    copy_destroy(&c);
}

int main(void)
{
    static const variant variants[] = {{HIL_ADAMW, HIL_BF16, -1, -1, 0, true},
                                       {HIL_ADAMW, HIL_F32, 3, -1, 0, true},
                                       {HIL_ADAMW8BIT, HIL_BF16, -1, 1, 0, true},
                                       {HIL_LION, HIL_F16, 3, -1, 0, true},
                                       {HIL_ADAMW8BIT, HIL_F16, 3, 1, 0, false}};
    fixture_open();
    for (int placement = EVERYTHING_ON_DEVICE; placement < MIXED + 2; ++placement)
        for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i) {
            if (placement != EVERYTHING_ON_DISK && ((size_t)placement + i) % 2) continue;
            variant w = variants[i];
            w.placement = placement;
            check_variant(&w);
        }
    check_failure(EVERYTHING_ON_DEVICE);
    check_failure(EVERYTHING_ON_DISK);
    fixture_close();
    return 0;
}
