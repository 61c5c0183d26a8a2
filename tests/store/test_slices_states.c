/* States written by all ranks are read back whole by each rank, from any placement; all ranks then
   compute with the new numbers, also when the window held a copy of the old ones. */
#include "slices.h"
#include "store/pass.h"
#include "store/state.h"

static float *written[PARAMS];

static float number(int p, int64_t i)
{
    return (float)(p + 1) / (float)(i + 3);
}

/* Compares every tile of every parameter as a pass acquires it. */
static hil_status compare(peer *m, bool fresh)
{
    static _Thread_local float full[128 * 72];
    HIL_TRY(hil_store_pass_begin(m->store, HIL_PASS_LOSS));
    for (int p = 0; p < PARAMS; ++p) {
        int64_t first, count;
        for (int64_t t = 0; (count = tile_count(m->param[p], t, &first)); ++t) {
            const void *w;
            HIL_TRY(hil_store_acquire(m->store, m->param[p], t, &w));
            hil_dtype_to_f32(full, w, hil_param_dtype(m->param[p]), count);
            for (int64_t i = 0; i < count && fresh; ++i) {
                float x = written[p][first + i];
                if (hil_param_dtype(m->param[p]) == HIL_BF16) x = hil_bf16_load(hil_bf16_high(x));
                CHECK(full[i] == x);
            }
            hil_store_release(m->store, m->param[p], t);
        }
    }
    return hil_store_pass_end(m->store);
}

static hil_status go(peer *m)
{
    HIL_TRY(peer_open(m));
    HIL_TRY(compare(m, false));
    for (int p = 0; p < PARAMS; ++p)
        for (int k = 0; k < HIL_STATES; ++k) {
            int64_t n = hil_param_elements(m->param[p]);
            if (!hil_param_has(m->param[p], (hil_state)k)) continue;
            HIL_TRY(hil_store_write(m->store, m->param[p], (hil_state)k, 0, n, written[p]));
            float *got = malloc((size_t)n * sizeof *got);
            CHECK(got != NULL);
            hil_status status = hil_store_read_whole(m->store, m->param[p], (hil_state)k, got);
            for (int64_t i = 0; i < n && status == HIL_OK; ++i) {
                float x = written[p][i];
                if (p == FROZEN && hil_param_dtype(m->param[p]) == HIL_BF16)
                    x = hil_bf16_load(hil_bf16_high(x)); /* a frozen parameter has no rest */
                CHECK(memcmp(&got[i], &x, sizeof x) == 0);
            }
            free(got);
            HIL_TRY(status);
        }
    return compare(m, true);
}

static void *run(void *argument)
{
    peer *m = argument;
    return peer_end(m, go(m));
}

static void check(const setting *s)
{
    peer peers[PEERS];
    peers_create(peers, s);
    peers_run(peers, s->ranks, run);
    peers_check(peers, s->ranks);
    for (int r = 0; r < s->ranks; ++r) peer_destroy(&peers[r]);
}

int main(void)
{
    fixture_open();
    alarm(120);
    for (int p = 0; p < PARAMS; ++p) {
        int64_t n = hil_shape_count(&specs[p].shape);
        CHECK((written[p] = malloc((size_t)n * sizeof(float))) != NULL);
        for (int64_t i = 0; i < n; ++i) written[p][i] = number(p, i);
    }
    for (int tiers = HIL_DEVICE; tiers < HIL_TIERS + 3; ++tiers) {
        setting s = {.ranks = 1 + (tiers * 3 + 1) % PEERS,
                     .dtype = tiers % 2 ? HIL_F32 : HIL_BF16,
                     .rule = HIL_ADAMW,
                     .prefetch = true,
                     .tiers = tiers,
                     .window = 1 << 20,
                     .chunk = 4096};
        check(&s);
    }
    for (int p = 0; p < PARAMS; ++p) free(written[p]);
    fixture_close();
    return 0;
}
