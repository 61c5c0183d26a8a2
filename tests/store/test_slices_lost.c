/* A rank that fails in the middle of a step, on a link's thread or in the model, ends the step on
   all ranks with its message, and all of them close: no rank waits for a lost one. Also with
   connected devices. */
#include "slices.h"
#include "store/internal.h"

enum { FAILING_RANK = 1 };

typedef enum failure_kind { BAD_WEIGHT, BAD_MOMENT, MODEL } failure_kind;
static failure_kind now;

/* Corrupts every written page of one state of every unit. */
static hil_status damage(peer *m, hil_unit_state state)
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

/* Runs up to segment 1, where the model fails. */
static hil_status fail_in_model(peer *m)
{
    HIL_TRY(hil_store_pass_begin(m->store, HIL_PASS_TRAIN));
    for (int s = 0; s < SEGMENTS; ++s)
        for (int micro = 0; micro < MICROS; ++micro)
            HIL_TRY(peer_visit(m, 0, s, micro, HIL_FORWARD));
    HIL_TRY(peer_visit(m, 0, 2, 0, HIL_BACKWARD));
    hil_status status = hil_fail(HIL_ERR_INPUT, "checksum of a model that gives up");
    hil_comm_fail(m->comm, status);
    return status;
}

static hil_status go(peer *m)
{
    double norm;
    HIL_TRY(peer_open(m));
    HIL_TRY(peer_step(m, 0, &norm));
    HIL_TRY(hil_store_sweep_wait(m->store));
    if (m->rank == FAILING_RANK && now != MODEL)
        HIL_TRY(damage(m, now == BAD_WEIGHT ? HIL_WEIGHT : HIL_STATE1));
    HIL_TRY(hil_comm_agree(m->comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL));
    if (m->rank == FAILING_RANK && now == MODEL) return fail_in_model(m);
    for (int s = 0; s < 3; ++s) HIL_TRY(peer_step(m, 0, &norm));
    return hil_store_sweep_wait(m->store);
}

static void *run(void *argument)
{
    peer *m = argument;
    m->status = go(m);
    if (m->status != HIL_OK) snprintf(m->message, sizeof m->message, "%s", hil_status_message());
    hil_store_pass_drop(m->store);
    hil_store_step_end(m->store);
    peer_close(m);
    return NULL;
}

static void check(const setting *s)
{
    peer peers[PEERS];
    peers_create(peers, s);
    peers_run(peers, s->ranks, run);
    for (int r = 0; r < s->ranks; ++r) {
        CHECK(peers[r].status != HIL_OK);
        CHECK(strstr(peers[r].message, "checksum") != NULL);
        CHECK((strstr(peers[r].message, "rank 1: ") != NULL) == (r != FAILING_RANK));
    }
    for (int r = 0; r < s->ranks; ++r) peer_destroy(&peers[r]);
}

int main(void)
{
    fixture_open();
    alarm(60);
    for (int i = 0; i < 3; ++i)
        for (int by_segment = 0; by_segment < 2; ++by_segment) {
            now = (failure_kind)i;
            setting s = {.ranks = 2 + 2 * by_segment,
                         .dtype = HIL_BF16,
                         .rule = HIL_ADAMW,
                         .by_segment = by_segment,
                         .prefetch = true,
                         .tiers = HIL_DISK,
                         .window = by_segment ? 1 << 20 : 190 << 10,
                         .chunk = 4096};
            check(&s);
            s.discrete = s.device = s.connected = true;
            check(&s);
        }
    fixture_close();
    return 0;
}
