/* Several ranks bring everything in the same order. A use that no segment declared, or without
   visits by segment one that is left out or comes in another order, ends all ranks with a message
   that names parameter and segment; none waits for another for ever. */
#include "slices.h"
#include "store/pass.h"

typedef enum wrong { UNDECLARED, OMITTED, SWAPPED, WRONGS } wrong;

static wrong how;

/* Segment 1 has "three", "vector" and "middle". */
static hil_status stray(mate *m)
{
    HIL_TRY(hil_store_pass_begin(m->store, HIL_PASS_TRAIN));
    HIL_TRY(mate_visit(m, 0, 0, 0, HIL_FORWARD));
    HIL_TRY(mate_visit(m, 0, 0, 1, HIL_FORWARD));
    HIL_TRY(hil_store_pass_enter(m->store, &(hil_stop){1, HIL_FORWARD, "the second"}));
    static const int order[WRONGS][4] = {{3, 4, 2, 8}, {3, 4, -1, -1}, {8, 3, 4, -1}};
    static const int right[4] = {3, 4, 8, -1};
    for (int i = 0; i < 4; ++i) {
        int p = m->rank == 1 ? order[how][i] : right[i];
        if (p >= 0) HIL_TRY(mate_use(m, p, 1, 1, false));
    }
    HIL_TRY(mate_visit(m, 0, 1, 1, HIL_FORWARD));
    for (int micro = 0; micro < MICROS; ++micro) HIL_TRY(mate_visit(m, 0, 2, micro, HIL_FORWARD));
    return HIL_OK;
}

static void *train(void *argument)
{
    mate *m = argument;
    double norm;
    m->status = mate_open(m);
    if (m->status == HIL_OK) m->status = mate_step(m, 0, &norm);
    if (m->status == HIL_OK) m->status = stray(m);
    hil_comm_fail(m->comm, m->status);
    if (m->status == HIL_OK) m->status = hil_comm_agree(m->comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL);
    if (m->status != HIL_OK) snprintf(m->message, sizeof m->message, "%s", hil_status_message());
    hil_store_pass_drop(m->store);
    mate_close(m);
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
    mate mates[2];
    how = what;
    alarm(30);
    mates_create(mates, &s);
    mates_run(mates, 2, train);
    for (int r = 0; r < 2; ++r) {
        CHECK_INT(mates[r].status, status);
        if (!strstr(mates[r].message, words)) check_die(__FILE__, __LINE__, mates[r].message);
        mate_destroy(&mates[r]);
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
