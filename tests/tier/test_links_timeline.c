/* The timeline of links shows every job and every wait, as the account counts them. */
#include "base/clock.h"
#include "trace.h"

#include <unistd.h>

#define ROUNDS 300
#define BYTES 5000

static char from[BYTES], to[HIL_LINKS][BYTES];

static hil_status slow(void *context, int64_t index)
{
    (void)context, (void)index;
    usleep(200);
    return HIL_OK;
}

static void add_jobs(hil_links *links, int64_t i)
{
    static const hil_link path[] = {HIL_LINK_IN, HIL_LINK_UPDATE, HIL_LINK_OUT};
    hil_fence fence = {0};
    for (int k = 0; k < 3; ++k) {
        hil_job job = {.link = path[k], .after = fence, .name = "job"};
        if (path[k] == HIL_LINK_UPDATE)
            job.run = slow;
        else
            job.part[job.parts++] =
                (hil_part){.to = to[path[k]], .from = from, .bytes = BYTES - (size_t)i};
        CHECK_OK(hil_links_submit(links, &job, &fence));
    }
    if (i % 3 == 0) CHECK_OK(hil_links_wait(links, &fence, (hil_wait_reason)(i / 3 % HIL_WAITS)));
}

int main(void)
{
    char path[] = "/tmp/hilbert-timeline-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    hil_timeline *timeline;
    hil_links *links;
    hil_account account;
    CHECK_OK(hil_timeline_open(&timeline, path, hil_clock_now()));
    CHECK_OK(hil_links_create(&links, &(hil_links_options){0}));
    hil_links_set_timeline(links, timeline);
    for (int64_t i = 0; i < ROUNDS; ++i) add_jobs(links, i);
    CHECK_OK(hil_links_drain(links));
    hil_links_take_account(links, &account);
    hil_links_set_timeline(links, NULL);
    add_jobs(links, 1);
    CHECK_OK(hil_links_drain(links));
    hil_links_destroy(links);
    CHECK_OK(hil_timeline_flush(timeline));
    hil_timeline_close(timeline);
    trace t = trace_read(path);
    for (int i = 0; i < HIL_LINKS; ++i) {
        CHECK_INT(t.track[i].bytes, account.bytes[i]);
        CHECK_NEAR(t.track[i].seconds, account.busy[i], 1e-3);
    }
    uint64_t moved = (uint64_t)ROUNDS * BYTES - ROUNDS * (ROUNDS - 1) / 2;
    CHECK_INT(t.track[HIL_LINK_IN].spans, ROUNDS);
    CHECK_INT(t.track[HIL_LINK_UPDATE].spans, ROUNDS);
    CHECK_INT(t.track[HIL_LINK_IN].bytes, moved);
    CHECK_INT(t.track[HIL_LINK_OUT].bytes, moved);
    CHECK(t.track[HIL_LINK_UPDATE].seconds >= ROUNDS * 200e-6);
    for (int i = 0; i < HIL_WAITS; ++i) {
        CHECK_NEAR(t.wait[i], account.wait[i], 1e-4);
        CHECK(t.wait[i] > 0);
    }
    unlink(path);
    return 0;
}
