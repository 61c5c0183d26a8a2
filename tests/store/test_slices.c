/* Ranks that keep one slice each of every state train together: weights, moments and norms equal,
   bit for bit, those of one machine that adds the ranks' gradients in rank order, for any placement
   of the slices. Each element is held by one rank; the bytes received match the formula. Also with
   a device per rank, connected or not. */
#include "slices.h"
#include "store/unit.h"
#include "store/update.h"

/* soak: --full */

static hil_status train(peer *m)
{
    HIL_TRY(peer_open(m));
    for (int s = 0; s < STEPS; ++s) {
        hil_account account;
        HIL_TRY(hil_store_sweep_wait(m->store));
        hil_links_take_account(m->tiers.links, &account);
        HIL_TRY(peer_step(m, s, &m->norm[s]));
        hil_links_take_account(m->tiers.links, &account);
        memcpy(m->link[s], account.bytes, sizeof account.bytes);
    }
    return peer_read(m);
}

static void *run(void *argument)
{
    peer *m = argument;
    return peer_end(m, train(m));
}

/* Compares the bytes with the slices of everything that is gathered or reduced once per step. */
static void check_bytes(const peer *m)
{
    const setting *s = m->setting;
    uint64_t weights = 0, gradients = 0, others = (uint64_t)s->ranks - 1;
    for (size_t u = 0; u < hil_store_units(m->store); ++u) {
        size_t weight = hil_unit_bytes(m->store, u, HIL_WEIGHT);
        size_t gradient = hil_unit_bytes(m->store, u, HIL_GRADIENT);
        CHECK_INT(hil_unit_slice(m->store, u) * s->ranks, hil_unit_elements(m->store, u));
        CHECK_INT(hil_unit_slice(m->store, u) % HIL_CODEC_GROUP, 0);
        weights += weight;
        gradients += gradient * (uint64_t)hil_unit_uses(m->store, u);
    }
    for (int step = 0; step < STEPS; ++step) {
        CHECK_INT(m->link[step][HIL_LINK_REDUCE], others * gradients);
        if (s->by_segment) CHECK_INT(m->link[step][HIL_LINK_GATHER], others * weights);
        if (s->ranks > 1) CHECK(m->link[step][HIL_LINK_GATHER] > 0);
    }
}

static void check_states(const peer *peers, const oracle *o)
{
    const setting *s = peers->setting;
    for (int p = 0; p < PARAMS; ++p) {
        hil_param *param = peers->param[p];
        int64_t n = hil_param_elements(param);
        float *expected = malloc((size_t)n * 4);
        CHECK(expected != NULL);
        for (int k = 0; k < HIL_STATES; ++k) {
            if (!hil_param_has(param, (hil_state)k)) continue;
            oracle_read(o, param, p, (hil_state)k, expected);
            for (int64_t i = 0; i < n; ++i) {
                int holders = 0, holder = 0;
                for (int r = 0; r < s->ranks; ++r)
                    if (peers[r].held[p][i]) ++holders, holder = r;
                CHECK_INT(holders, 1);
                if (memcmp(&peers[holder].state[p][k][i], &expected[i], 4) == 0) continue;
                fprintf(stderr,
                        "%d ranks, dtype %d, rule %d, tiers %d: state %d of %s, element %lld of "
                        "rank %d is %.9g, expected %.9g\n",
                        s->ranks, (int)s->dtype, (int)s->rule, s->tiers, k, specs[p].name,
                        (long long)i, holder, (double)peers[holder].state[p][k][i],
                        (double)expected[i]);
                exit(1);
            }
        }
        free(expected);
    }
}

/* Compares the norms with `expected`, if given, and copies them to `norm`. */
static void check_run(const setting *s, const oracle *o, const double *expected, double *norm)
{
    peer peers[PEERS];
    peers_create(peers, s);
    peers_run(peers, s->ranks, run);
    peers_check(peers, s->ranks);
    for (int r = 0; r < s->ranks; ++r) {
        check_bytes(&peers[r]);
        for (int step = 0; step < STEPS; ++step) {
            CHECK(peers[r].norm[step] == peers[0].norm[step]);
            CHECK(fabs(peers[r].norm[step] - o->norm[step]) <= 1e-9 * o->norm[step]);
            if (expected) CHECK(peers[r].norm[step] == expected[step]);
        }
    }
    memcpy(norm, peers[0].norm, sizeof peers[0].norm);
    check_states(peers, o);
    for (int r = 0; r < s->ranks; ++r) peer_destroy(&peers[r]);
}

static void check_ranks(int ranks, hil_dtype dtype, hil_rule_kind rule, bool full)
{
    static const int quick[2][3] = {{HIL_HOST, HIL_DISK, 6}, {HIL_DEVICE, 7, 8}};
    for (int by_segment = 0; by_segment < 2; ++by_segment) {
        setting s = {.ranks = ranks, .dtype = dtype, .rule = rule, .by_segment = by_segment};
        peer shapes;
        oracle o;
        oracle_create(&o, &s);
        peer_create(&shapes, &s, 0, NULL);
        for (int step = 0; step < STEPS; ++step) oracle_step(&o, shapes.param, step);
        peer_destroy(&shapes);
        double norm[STEPS];
        for (int i = 0; i < (full ? 40 : CHECK_SLOW ? 1 : 2); ++i) {
            s.tiers = full ? i : quick[by_segment][(i + (CHECK_SLOW ? ranks / 2 : ranks)) % 3];
            s.prefetch = s.tiers % 4 != 3;
            s.discrete = s.tiers % 2;
            s.window = by_segment ? 1 << 20 : (size_t)(150 + 37 * (s.tiers % 4)) << 10;
            s.chunk = 4096 << (s.tiers % 2);
            check_run(&s, &o, i ? norm : NULL, norm);
            s.discrete = s.device = true;
            if (full || (ranks <= 2 && i < 2)) check_run(&s, &o, norm, norm);
            s.connected = ranks > 1;
            if (s.connected && (full || i == (ranks + 1) % 3)) check_run(&s, &o, norm, norm);
            s.device = s.connected = false;
        }
        oracle_destroy(&o);
    }
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    fixture_open();
    alarm(full ? 3600 : 600);
    const int most = CHECK_SLOW ? 4 : PEERS, few = CHECK_SLOW ? 2 : 3;
    for (int ranks = 1; ranks <= most; ++ranks) {
        if (!full && ranks > few && ranks < most) continue;
        if (!CHECK_SLOW || ranks <= few) check_ranks(ranks, HIL_F32, HIL_ADAMW, full);
        if (!CHECK_SLOW || ranks > 1) check_ranks(ranks, HIL_BF16, HIL_ADAMW8BIT, full);
        if (!full) continue;
        check_ranks(ranks, HIL_F32, HIL_ADAMW8BIT, full);
        check_ranks(ranks, HIL_BF16, HIL_LION, full);
    }
    fixture_close();
    return 0;
}
