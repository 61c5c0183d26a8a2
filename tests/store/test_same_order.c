/* All ranks fetch in the same order. An undeclared use, or (without visits by segment) one that is
   skipped or swapped, ends all ranks with a message that names parameter and segment. No rank
   hangs. */
#include "slices.h"
#include "store/pass.h"

typedef enum wrong { UNDECLARED, OMITTED, SWAPPED, WRONGS } wrong;

static wrong how;

/* Runs segment 1, which has "three", "vector" and "middle"; rank 1 takes a wrong path. */
static hil_status take_wrong_path(peer *m)
{
    HIL_TRY(hil_store_pass_begin(m->store, HIL_PASS_TRAIN));
    HIL_TRY(peer_visit(m, 0, 0, 0, HIL_FORWARD));
    HIL_TRY(peer_visit(m, 0, 0, 1, HIL_FORWARD));
    HIL_TRY(hil_store_pass_enter(m->store, &(hil_segment_visit){1, HIL_FORWARD, "the second"}));
    static const int order[WRONGS][4] = {{3, 4, 2, 8}, {3, 4, -1, -1}, {8, 3, 4, -1}};
    static const int right[4] = {3, 4, 8, -1};
    for (int i = 0; i < 4; ++i) {
        int p = m->rank == 1 ? order[how][i] : right[i];
        if (p >= 0) HIL_TRY(peer_use(m, p, 1, 1, false));
    }
    HIL_TRY(peer_visit(m, 0, 1, 1, HIL_FORWARD));
    for (int micro = 0; micro < MICROS; ++micro) HIL_TRY(peer_visit(m, 0, 2, micro, HIL_FORWARD));
    return HIL_OK;
}

static void *train(void *argument)
{
    peer *m = argument;
    double norm;
    m->status = peer_open(m);
    if (m->status == HIL_OK) m->status = peer_step(m, 0, &norm);
    if (m->status == HIL_OK) m->status = take_wrong_path(m);
    hil_comm_fail(m->comm, m->status);
    if (m->status == HIL_OK) m->status = hil_comm_agree(m->comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL);
    if (m->status != HIL_OK) snprintf(m->message, sizeof m->message, "%s", hil_status_message());
    hil_store_pass_drop(m->store);
    peer_close(m);
    return NULL;
}

static void check(bool by_segment, wrong what, hil_status status, const char *words)
{
    setting s = {.ranks = 2,
                 .dtype = HIL_F32,
                 .rule = HIL_ADAMW,
                 .by_segment = by_segment,
                 .prefetch = true,
                 .tiers = HIL_HOST,
                 .window = by_segment ? 1 << 20 : 150 << 10,
                 .chunk = 4096};
    peer peers[2];
    how = what;
    alarm(30);
    peers_create(peers, &s);
    peers_run(peers, 2, train);
    for (int r = 0; r < 2; ++r) {
        CHECK_INT(peers[r].status, status);
        if (!strstr(peers[r].message, words)) check_die(__FILE__, __LINE__, peers[r].message);
        peer_destroy(&peers[r]);
    }
    alarm(0);
}

int main(void)
{
    fixture_open();
    for (int by_segment = 0; by_segment < 2; ++by_segment)
        check(by_segment, UNDECLARED, HIL_ERR_USAGE,
              "parameter small is used in segment the second, which did not say so: with several "
              "ranks declare it there with hil_model_use");
    check(true, OMITTED, HIL_OK, "");
    check(true, SWAPPED, HIL_OK, "");
    check(false, OMITTED, HIL_ERR_USAGE, "parameter middle is left out in segment the second");
    check(false, SWAPPED, HIL_ERR_USAGE,
          "parameter middle is used in another order in segment the second");
    fixture_close();
    return 0;
}
