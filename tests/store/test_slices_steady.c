/* Several ranks: once a step has been seen every step does the same, on every rank, without any
   allocation, and all of it is what a rehearsal of one rank says beforehand. What a rank keeps
   falls with their number. The same where ranks have devices, also ones that are connected. */
#include "slices.h"

static const hil_speeds speeds = {.disk_read = 3e9,
                                  .disk_write = 2e9,
                                  .disk_mixed = 3e9,
                                  .to_device = 1e10,
                                  .to_host = 1e10,
                                  .network = 5e9,
                                  .memory = 2e10,
                                  .update = 1e9,
                                  .update_device = 1e10};

/* A step in which every rank does what it does in step 0, and a pass over the weights. */
static hil_status step(mate *m)
{
    double norm;
    HIL_TRY(mate_step(m, 0, &norm));
    HIL_TRY(hil_store_pass_begin(m->store, HIL_PASS_LOSS));
    for (int s = 0; s < SEGMENTS; ++s) HIL_TRY(mate_visit(m, 0, s, 0, HIL_FORWARD));
    HIL_TRY(hil_store_pass_end(m->store));
    return hil_store_settle(m->store);
}

static void note(mate *m, int s)
{
    hil_account account;
    hil_links_take_account(m->tiers.links, &account);
    memcpy(m->link[s], account.bytes, sizeof account.bytes);
    hil_store_peaks(m->store, m->peak);
    hil_disk_extent(m->tiers.disk, m->drive_bytes);
}

static void rehearse(mate *m, int steps)
{
    hil_pool *dry;
    CHECK_OK(hil_pool_create_dry(&dry));
    hil_tiers_options tiers = {.device_bytes = (size_t)1 << 34,
                               .host_bytes = (size_t)1 << 34,
                               .drives = &m->drive,
                               .drive_count = 1,
                               .speeds = &speeds,
                               .device = m->device};
    hil_store_opening opening = {.tiers = &m->tiers,
                                 .plan = &m->plan,
                                 .pool = dry,
                                 .update = dry,
                                 .square = hil_block_square,
                                 .speeds = &speeds};
    CHECK_OK(hil_tiers_open(&m->tiers, &tiers));
    CHECK_OK(hil_store_open(m->store, &opening));
    m->dry = true;
    for (int s = 0; s < steps; ++s) {
        CHECK_OK(step(m));
        note(m, s);
    }
    m->dry = false;
    mate_close(m);
    hil_pool_destroy(dry);
}

static hil_status meet(const mate *m)
{
    return hil_comm_agree(m->comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL);
}

static hil_status go(mate *m)
{
    hil_account account;
    long made = 0;
    int descriptors = 0;
    HIL_TRY(mate_open(m));
    hil_links_take_account(m->tiers.links, &account);
    for (int s = 0; s < STEPS; ++s) {
        HIL_TRY(step(m));
        note(m, s);
        HIL_TRY(meet(m));
        if (s == 1 && m->rank == 0) made = hil_alloc_count();
        if (s == 1 && m->rank == 0) descriptors = open_descriptors(); /* opens one itself */
        HIL_TRY(meet(m));
    }
    if (m->rank == 0) CHECK_INT(hil_alloc_count(), made);
    if (m->rank == 0) CHECK_INT(open_descriptors(), descriptors);
    return meet(m);
}

static void *run(void *argument)
{
    mate *m = argument;
    m->status = go(m);
    if (m->status != HIL_OK) snprintf(m->message, sizeof m->message, "%s", hil_status_message());
    hil_comm_fail(m->comm, m->status);
    mate_close(m);
    return NULL;
}

static void check_same(const char *what, const uint64_t *a, const uint64_t *b, int count)
{
    for (int i = 0; i < count; ++i)
        if (a[i] != b[i]) {
            fprintf(stderr, "%s: number %d is %llu, expected %llu\n", what, i,
                    (unsigned long long)a[i], (unsigned long long)b[i]);
            exit(1);
        }
}

static void check_run(const setting *s)
{
    static mate rehearsed, mates[MATES];
    hil_comm *comms[MATES];
    mate_create(&rehearsed, s, 0, NULL);
    rehearse(&rehearsed, 1); /* learns the order */
    rehearse(&rehearsed, STEPS);
    CHECK_OK(hil_comm_threads_create(s->ranks, comms));
    for (int r = 0; r < s->ranks; ++r) {
        mate_create(&mates[r], s, r, comms[r]);
        rehearse(&mates[r], 1);
        rehearse(&mates[r], STEPS);
    }
    mates_run(mates, s->ranks, run);
    for (int r = 0; r < s->ranks; ++r) {
        const mate *m = &mates[r];
        if (m->status != HIL_OK) fprintf(stderr, "rank %d: %s\n", r, m->message);
        CHECK_INT(m->status, HIL_OK);
        for (int i = 0; i < STEPS; ++i)
            check_same("links of the rehearsal", m->link[i], rehearsed.link[i], HIL_LINKS);
        check_same("another step", m->link[STEPS - 1], m->link[1], HIL_LINKS);
        check_same("peaks of the rehearsal", m->peak, rehearsed.peak, HIL_TIERS);
        check_same("drives of the rehearsal", m->drive_bytes, rehearsed.drive_bytes, HIL_DRIVES);
        mate_destroy(&mates[r]);
        hil_comm_close(comms[r]);
    }
    mate_destroy(&rehearsed);
}

/* Bytes of all states of all units. */
static size_t kept(int ranks, size_t *units)
{
    setting s = {.ranks = ranks, .dtype = HIL_BF16, .rule = HIL_ADAMW, .window = 1, .chunk = 4096};
    mate m;
    size_t bytes = 0;
    mate_create(&m, &s, 0, NULL);
    *units = hil_store_units(m.store);
    for (size_t u = 0; u < *units; ++u)
        for (int k = 0; k < HIL_UNIT_STATES; ++k)
            bytes += hil_unit_bytes(m.store, u, (hil_unit_state)k);
    mate_destroy(&m);
    return bytes;
}

static void check_kept(void)
{
    size_t units, alone = kept(1, &units);
    for (int ranks = 2; ranks <= MATES; ++ranks) {
        size_t padding = units * HIL_UNIT_STATES * HIL_CODEC_GROUP * sizeof(float);
        CHECK(kept(ranks, &units) >= alone / (size_t)ranks);
        CHECK(kept(ranks, &units) <= alone / (size_t)ranks + padding);
    }
}

int main(void)
{
    fixture_open();
    alarm(600);
    check_kept();
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
            s.apart = s.device = true;
            s.wired = tiers % 2 == by_segment;
            check_run(&s);
        }
    fixture_close();
    return 0;
}
