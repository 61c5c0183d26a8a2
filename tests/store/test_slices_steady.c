/* Several ranks: after the first step every step moves the same bytes on every rank, allocates
   nothing, and matches a rehearsal of one rank. The bytes that a rank keeps shrink with the number
   of ranks. Also with a device per rank, connected or not. */
#include "rehearsal.h"
#include "slices.h"
#include "store/pass.h"
#include "store/store.h"
#include "store/unit.h"
#include "store/update.h"

/* Step 0 again, then a pass over the weights. */
static hil_status step(peer *m)
{
    double norm;
    HIL_TRY(peer_step(m, 0, &norm));
    HIL_TRY(hil_store_pass_begin(m->store, HIL_PASS_LOSS));
    for (int s = 0; s < SEGMENTS; ++s) HIL_TRY(peer_visit(m, 0, s, 0, HIL_FORWARD));
    HIL_TRY(hil_store_pass_end(m->store));
    return hil_store_sweep_wait(m->store);
}

static void record(peer *m, int s)
{
    hil_account account;
    hil_links_take_account(m->tiers.links, &account);
    memcpy(m->link[s], account.bytes, sizeof account.bytes);
    hil_store_peaks(m->store, m->peak);
    hil_disk_extent(m->tiers.disk, m->drive_bytes);
}

static void rehearse(peer *m, int steps)
{
    hil_pool *dry = rehearsal_open(
        m->store, (hil_tiers_options){.drives = &m->drive, .drive_count = 1, .device = m->device},
        (hil_store_opening){.tiers = &m->tiers, .plan = &m->plan});
    m->dry = true;
    for (int s = 0; s < steps; ++s) {
        CHECK_OK(step(m));
        record(m, s);
    }
    m->dry = false;
    peer_close(m);
    hil_pool_destroy(dry);
}

static hil_status barrier(const peer *m)
{
    return hil_comm_agree(m->comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL);
}

static hil_status go(peer *m)
{
    hil_account account;
    long made = 0;
    int descriptors = 0;
    HIL_TRY(peer_open(m));
    hil_links_take_account(m->tiers.links, &account);
    for (int s = 0; s < STEPS; ++s) {
        HIL_TRY(step(m));
        record(m, s);
        HIL_TRY(barrier(m));
        if (s == 1 && m->rank == 0) made = hil_alloc_count();
        if (s == 1 && m->rank == 0)
            descriptors = open_descriptors(); /* counting opens one itself */
        HIL_TRY(barrier(m));
    }
    if (m->rank == 0) CHECK_INT(hil_alloc_count(), made);
    if (m->rank == 0) CHECK_INT(open_descriptors(), descriptors);
    return barrier(m);
}

static void *run(void *argument)
{
    peer *m = argument;
    return peer_end(m, go(m));
}

static void check_run(const setting *s)
{
    static peer rehearsed, peers[PEERS];
    peer_create(&rehearsed, s, 0, NULL);
    rehearse(&rehearsed, 1); /* learns the order */
    rehearse(&rehearsed, STEPS);
    peers_create(peers, s);
    for (int r = 0; r < s->ranks; ++r) {
        rehearse(&peers[r], 1);
        rehearse(&peers[r], STEPS);
    }
    peers_run(peers, s->ranks, run);
    peers_check(peers, s->ranks);
    for (int r = 0; r < s->ranks; ++r) {
        const peer *m = &peers[r];
        for (int i = 0; i < STEPS; ++i)
            rehearsal_same("links of the rehearsal", m->link[i], rehearsed.link[i], HIL_LINKS);
        rehearsal_same("another step", m->link[STEPS - 1], m->link[1], HIL_LINKS);
        rehearsal_same("peaks of the rehearsal", m->peak, rehearsed.peak, HIL_TIERS);
        rehearsal_same("drives of the rehearsal", m->drive_bytes, rehearsed.drive_bytes,
                       HIL_DRIVES);
        peer_destroy(&peers[r]);
    }
    peer_destroy(&rehearsed);
}

/* Bytes of all states of all units of one rank. */
static size_t state_bytes(int ranks, size_t *units)
{
    setting s = {.ranks = ranks, .dtype = HIL_BF16, .rule = HIL_ADAMW, .window = 1, .chunk = 4096};
    peer m;
    size_t bytes = 0;
    peer_create(&m, &s, 0, NULL);
    *units = hil_store_units(m.store);
    for (size_t u = 0; u < *units; ++u)
        for (int k = 0; k < HIL_UNIT_STATES; ++k)
            bytes += hil_unit_bytes(m.store, u, (hil_unit_state)k);
    peer_destroy(&m);
    return bytes;
}

static void check_state_bytes(void)
{
    size_t units, alone = state_bytes(1, &units);
    for (int ranks = 2; ranks <= PEERS; ++ranks) {
        size_t padding = units * HIL_UNIT_STATES * HIL_CODEC_GROUP * sizeof(float);
        CHECK(state_bytes(ranks, &units) >= alone / (size_t)ranks);
        CHECK(state_bytes(ranks, &units) <= alone / (size_t)ranks + padding);
    }
}

int main(void)
{
    fixture_open();
    alarm(600);
    check_state_bytes();
    for (int tiers = HIL_DEVICE; tiers < HIL_TIERS + 3; ++tiers)
        for (int by_segment = 0; by_segment < 2; ++by_segment) {
            if (CHECK_SLOW && by_segment != tiers / 2 % 2) continue;
            setting s = {.ranks = 2 + tiers % 2,
                         .dtype = HIL_BF16,
                         .rule = tiers % 2 ? HIL_ADAMW : HIL_ADAMW8BIT,
                         .by_segment = by_segment,
                         .prefetch = tiers != HIL_HOST,
                         .tiers = tiers,
                         .window = by_segment ? 1 << 20 : 190 << 10,
                         .chunk = 4096};
            check_run(&s);
            s.discrete = s.device = true;
            s.connected = tiers % 2 == by_segment;
            check_run(&s);
        }
    fixture_close();
    return 0;
}
