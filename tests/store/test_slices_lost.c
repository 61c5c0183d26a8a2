/* A rank that fails in the middle of a step, on a thread of its transfers or in the model, ends the
   step on all ranks with its message, and all of them close: nobody waits for what will not come.
   Also where their devices wait for each other. */
#include "slices.h"
#include "store/inside.h"

enum { CULPRIT = 1 };

typedef enum mishap { BAD_WEIGHT, BAD_MOMENT, MODEL } mishap;
static mishap now;

/* Every page that was written of one state of every unit. */
static hil_status damage(mate *m, hil_unit_state state)
{
    for (size_t u = 0; u < m->store->units; ++u) {
        const hil_home *home = &m->store->unit[u].home[state];
        if (!home->exists || home->tier != HIL_DISK) continue;
        for (int64_t page = 0; page < home->extent.pages; ++page)
            if (home->extent.at[page].written)
                HIL_TRY(hil_disk_damage(m->tiers.disk, &home->extent, page, 5));
    }
    return HIL_OK;
}

/* As far as segment 1, where its model gives up. */
static hil_status give_up(mate *m)
{
    HIL_TRY(hil_store_pass_begin(m->store, HIL_PASS_TRAIN));
    for (int s = 0; s < SEGMENTS; ++s)
        for (int micro = 0; micro < MICROS; ++micro)
            HIL_TRY(mate_visit(m, 0, s, micro, HIL_FORWARD));
    HIL_TRY(mate_visit(m, 0, 2, 0, HIL_BACKWARD));
    hil_status status = hil_fail(HIL_ERR_INPUT, "checksum of a model that gives up");
    hil_comm_fail(m->comm, status);
    return status;
}

static hil_status go(mate *m)
{
    double norm;
    HIL_TRY(mate_open(m));
    HIL_TRY(mate_step(m, 0, &norm));
    HIL_TRY(hil_store_sweep_wait(m->store));
    if (m->rank == CULPRIT && now != MODEL)
        HIL_TRY(damage(m, now == BAD_WEIGHT ? HIL_WEIGHT : HIL_STATE1));
    HIL_TRY(hil_comm_agree(m->comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL));
    if (m->rank == CULPRIT && now == MODEL) return give_up(m);
    for (int s = 0; s < 3; ++s) HIL_TRY(mate_step(m, 0, &norm));
    return hil_store_sweep_wait(m->store);
}

static void *run(void *argument)
{
    mate *m = argument;
    m->status = go(m);
    if (m->status != HIL_OK) snprintf(m->message, sizeof m->message, "%s", hil_status_message());
    hil_store_pass_drop(m->store);
    hil_store_step_end(m->store);
    mate_close(m);
    return NULL;
}

static void check(const setting *s)
{
    mate mates[MATES];
    mates_create(mates, s);
    mates_run(mates, s->ranks, run);
    for (int r = 0; r < s->ranks; ++r) {
        CHECK(mates[r].status != HIL_OK);
        CHECK(strstr(mates[r].message, "checksum") != NULL);
        CHECK((strstr(mates[r].message, "rank 1: ") != NULL) == (r != CULPRIT));
    }
    for (int r = 0; r < s->ranks; ++r) mate_destroy(&mates[r]);
}

int main(void)
{
    fixture_open();
    alarm(60);
    for (int i = 0; i < 3; ++i)
        for (int by_segment = 0; by_segment < 2; ++by_segment) {
            now = (mishap)i;
            setting s = {.ranks = 2 + 2 * by_segment,
                         .dtype = HIL_BF16,
                         .rule = HIL_ADAMW,
                         .by_segment = by_segment,
                         .prefetch = true,
                         .tiers = HIL_DISK,
                         .window = by_segment ? 1 << 20 : 190 << 10,
                         .chunk = 4096};
            check(&s);
            s.apart = s.device = s.wired = true;
            check(&s);
        }
    fixture_close();
    return 0;
}
