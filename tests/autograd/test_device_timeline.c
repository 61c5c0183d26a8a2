/* The timeline shows when a device computed: every visit of every segment, in sequence, between the
   start of the step and the end of the host's wait. */
#include "../tier/trace.h"
#include "base/clock.h"
#include "device_net.h"

#define PATH "test_device_timeline.json"

int main(void)
{
    net_rig r;
    double loss, norm;
    hil_timeline *timeline;
    net_how how = {.model = "gpt2", .training = true, .delay = 8, .keep = {9, 0, 1}};
    net_open(&r, &how);
    net_step(&r, &loss, &norm);
    CHECK_OK(hil_timeline_open(&timeline, PATH, hil_clock_now()));
    hil_engine_set_timeline(r.engine, timeline);
    double began = hil_clock_now();
    net_step(&r, &loss, &norm);
    double seconds = hil_clock_now() - began;
    hil_timeline_close(timeline);
    hil_engine_set_timeline(r.engine, NULL);
    trace told = trace_read(PATH);
    const trace_track *compute = &told.track[HIL_TRACK_COMPUTE];
    int visits = (int)r.model->count * NET_MICROS; /* 5 segments; keep: all, none, one, all, none */
    CHECK_INT(compute->forward, visits);
    CHECK_INT(compute->backward, visits);
    CHECK_INT(compute->recompute, NET_MICROS + NET_MICROS - 1);
    CHECK(compute->seconds > 0 && compute->seconds <= seconds);
    net_close(&r);
    CHECK(remove(PATH) == 0);
    return 0;
}
