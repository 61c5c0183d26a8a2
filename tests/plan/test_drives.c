/* Every rank fetches its slice of every unit: with as many equally slow drives as ranks, weights
   arrive as many times faster. */
#include "base/clock.h"
#include "../run/crew.h"
#include "io/file.h"
#include "io/io_faulty.h"

#include <unistd.h>

#define SPEED 2e6 /* bytes per second of each drive */
enum { PASSES = 3 };

static char place[] = "/tmp/hilbert-drives-XXXXXX";

/* Bytes per second that all ranks fetch together, in the fastest of a few forward passes. */
static void measure(hil_trainer *t, void *context)
{
    int32_t token[CREW_SEQ] = {0};
    hil_batch batch = {.sequences = 1, .length = CREW_SEQ, .token = token};
    hil_comm *comm = t->options.comm;
    hil_step_result result;
    hil_account account;
    hil_io_throttle(SPEED);
    for (int i = 0; i < PASSES; ++i) {
        hil_links_take_account(t->tiers.links, &account);
        CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL));
        double began = hil_clock_now();
        CHECK_OK(hil_trainer_loss(t, &batch, &result));
        CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL));
        double seconds = hil_clock_now() - began;
        hil_links_take_account(t->tiers.links, &account);
        double fetched = (double)account.disk_read, *best = context;
        CHECK_OK(hil_comm_sum(comm, &fetched, 1));
        if (hil_comm_rank(comm)) continue;
        printf("%d ranks: %.0f bytes in %.3f s: %.2f MB/s\n", hil_comm_size(comm), fetched, seconds,
               fetched / seconds / 1e6);
        if (fetched / seconds > *best) *best = fetched / seconds;
    }
}

/* Weights are kept on disk, everything else on the device. */
static double bandwidth(int ranks)
{
    char file[HIL_PATH_MAX];
    hil_disk_budget disk = {place, 64 << 20};
    double best = 0;
    json_t *unit;
    size_t i;
    crew c = crew_of(0, ranks);
    c.config = crew_large;
    c.disk = &disk;
    c.device_memory = 32 << 20;
    json_t *plan = crew_plan(&c);
    json_array_foreach(json_object_get(plan, "units"), i, unit)
        CHECK(json_object_set_new(unit, "weight", json_string("disk")) == 0);
    CHECK(json_object_set_new(plan, "window", json_integer(2 << 20)) == 0);
    CHECK(json_object_set_new(plan, "chunk", json_integer(4096)) == 0);
    CHECK(json_object_set_new(plan, "ring", json_integer(1 << 20)) == 0);
    CHECK_OK(hil_path_join(file, place, "plan.json"));
    CHECK(json_dump_file(plan, file, JSON_INDENT(1)) == 0);
    json_decref(plan);
    c.plan = file;
    c.steps = 0;
    c.inspect = measure;
    c.context = &best;
    hil_io_throttle(1e12);
    crew_run(&c);
    hil_io_throttle(0);
    crew_free(&c);
    CHECK(unlink(file) == 0);
    return best;
}

int main(void)
{
    CHECK(mkdtemp(place) != NULL);
    double one = bandwidth(1), four = bandwidth(4);
    printf("1 rank %.2f MB/s, 4 ranks %.2f MB/s: %.2f times\n", one / 1e6, four / 1e6, four / one);
    CHECK(one <= 1.05 * SPEED);
    CHECK(four >= 3.5 * one);
    CHECK(rmdir(place) == 0);
    return 0;
}
