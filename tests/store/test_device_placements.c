/* On a device with its own memory and asynchronous streams, any placement of any state gives the
   CPU's bits: every rule and dtype, frozen and shared parameters, windows of any size, sweeps that
   save, device updates, late moments, sums kept as gradients; with streams that are delayed at
   random. */
#include "base/philox.h"
#include "rules.h"
#include "runs.h"
#include "store/update.h"

#include <pthread.h>
#include <stdatomic.h>

/* soak: --full */

enum { STEPS = 4, SAVED = 2 };

static void create(rig *r, const rules_kind *k)
{
    rules_create(r, k);
    r->drive[0].path = r->drive[1].path = folder;
}

/* The saved numbers, at the indices of runs_go's output. */
typedef struct copy {
    const rig *rig;
    float *out;
    pthread_mutex_t lock;
} copy;

static hil_status put(void *context, hil_param *param, hil_state state, int64_t first,
                      int64_t count, const float *data)
{
    copy *c = context;
    float *at = c->out;
    for (int p = 0; c->rig->param[p] != param; ++p)
        at += HIL_STATES * hil_param_elements(c->rig->param[p]);
    at += (int)state * hil_param_elements(param);
    pthread_mutex_lock(&c->lock);
    memcpy(at + first, data, (size_t)count * sizeof *data);
    pthread_mutex_unlock(&c->lock);
    return HIL_OK;
}

/* Returns the norms, the states that a step saves, and the final states. */
static float *run(rig *r, int drives, int64_t *count)
{
    int64_t states = rules_count(r);
    *count = STEPS + 2 * states;
    float *out = calloc((size_t)*count, sizeof *out);
    CHECK(out != NULL);
    CHECK_OK(rig_open(r, drives, HIL_IO_AUTO));
    copy c = {.rig = r, .out = out + STEPS, .lock = PTHREAD_MUTEX_INITIALIZER};
    for (int s = 0; s < STEPS; ++s) {
        double norm;
        r->saving = s == SAVED ? &(hil_saving){put, &c} : NULL;
        CHECK_OK(rig_step(r, s == 2 ? 1 : -1, &norm));
        out[s] = (float)norm;
    }
    CHECK_OK(hil_store_saved(r->store));
    rules_read(r, out + STEPS + states);
    hil_device *device = r->device;
    rig_close(r);
    if (device) device->close(device);
    return out;
}

static void check_plan(uint64_t number, const rules_kind *k, const float *expected)
{
    uint32_t word[4];
    rig r;
    create(&r, k);
    for (size_t u = 0; u < r.plan.units; ++u) {
        hil_philox(number, u, 99, word);
        /* Some units are on the device as a whole; some of those on the host are device updates. */
        uint32_t whole = word[0] % 4;
        r.plan.unit[u].device_updates = word[1] % 3 != 0;
        for (int s = 0; s < HIL_UNIT_STATES; ++s) {
            hil_philox(number, u, (uint64_t)s, word);
            uint32_t uniform = number % 4; /* 1 to 3: everything on one tier */
            uint32_t tier = uniform ? uniform - 1 : whole < 2 ? whole : word[0] % 3;
            r.plan.unit[u].tier[s] = (unsigned char)tier;
        }
    }
    hil_philox(number, 1u << 30, 0, word);
    r.device = adding_device(number, word[0] % 200);
    r.plan.discrete = true;
    r.plan.prefetch = word[0] % 4 != 0;
    r.plan.window = ((size_t)130 + word[1] % 200) << 10;
    /* Sums that are kept cannot be evicted. */
    r.plan.keeps_sums = word[1] >> 8 & 1;
    if (r.plan.keeps_sums) r.plan.window += (size_t)512 << 10;
    r.plan.chunk = 4096 << word[2] % 3;
    r.plan.ring = (size_t)r.plan.chunk * 4 * (2 + word[3] % 2);
    r.plan.slots = 2 + (int)(word[3] % 3);
    r.plan.device_slots = (int)(word[0] >> 8 & 3);
    r.plan.late_moments = word[3] >> 8 & 1;
    r.plan.spill = word[2] % 2 ? HIL_HOST : HIL_DISK;
    int64_t count;
    float *got = run(&r, 1 + (int)(number % 2), &count);
    if (memcmp(got, expected, (size_t)count * sizeof *got) != 0)
        fprintf(stderr, "plan %d: %s in dtype %d\n", (int)number, rules_now->name, (int)k->dtype);
    runs_same(got, expected, count);
    free(got);
}

static atomic_int updates;

static hil_status count_update(hil_device *device, hil_stream stream, const void *rule,
                               const hil_block *block, int blocks)
{
    ++updates;
    return hil_math_threads.update(device, stream, rule, block, blocks);
}

/* Units that stay on the device are updated together: one call in each step. */
static void check_joint_updates(void)
{
    hil_device_math math = hil_math_threads;
    rig r;
    create(&r, &(rules_kind){HIL_ADAMW, HIL_BF16, -1});
    CHECK(r.plan.units > SEGMENTS);
    CHECK_OK(hil_device_threads_open(&r.device));
    r.plan.discrete = true;
    math.update = count_update;
    hil_device_math_set(r.device, &math);
    CHECK_OK(rig_open(&r, 0, HIL_IO_AUTO));
    double norm;
    for (int s = 0; s < STEPS; ++s) CHECK_OK(rig_step(&r, -1, &norm));
    CHECK_OK(hil_store_sweep_wait(r.store));
    rig_close(&r);
    r.device->close(r.device);
    CHECK(updates == STEPS);
}

int main(int argc, char **argv)
{
    static const rules_kind kinds[] = {
        {HIL_ADAMW, HIL_BF16, -1},     {HIL_ADAMW, HIL_F32, 0}, {HIL_ADAMW, HIL_F16, -1},
        {HIL_ADAMW8BIT, HIL_BF16, -1}, {HIL_LION, HIL_F32, 3},
    };
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    fixture_open();
    alarm(full ? 3600 : 600);
    check_joint_updates();
    uint64_t plans = full ? 400 : CHECK_SLOW ? 4 : 10;
    rules_each(&(rules_test){create, run, check_plan}, kinds, sizeof kinds / sizeof *kinds, plans);
    fixture_close();
    return 0;
}
