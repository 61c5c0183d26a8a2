/* Invalid budgets, shapes, ranges and orders of calls are refused with a message. After a refusal
   inside a step the store still works. */
#include "param_store_rig.h"

#include <sys/wait.h>
#include <unistd.h>

static void check_budget(uint64_t device, uint64_t host, uint64_t disk, const char *words)
{
    rig r;
    rig_options(&r, "bf16", device, host);
    r.disk[0].bytes = disk;
    r.options.memory.disk_count = disk ? 1 : 0;
    CHECK_OK(hil_param_store_create(&r.store, &r.options));
    rig_add(&r);
    CHECK_FAILS(hil_param_store_place(r.store), HIL_ERR_BUDGET, words);
    CHECK_FAILS(hil_param_store_begin(r.store, HIL_PARAM_STORE_TRAIN), HIL_ERR_USAGE,
                "hil_param_store_place");
    CHECK_FAILS(hil_param_store_add(r.store, "late", &rig_form[0], &r.param[0]), HIL_ERR_USAGE,
                "too late");
    hil_param_store_destroy(r.store);
}

static void check_options(void)
{
    rig r;
    rig_options(&r, "int4", 1 << 20, 0);
    CHECK_FAILS(hil_param_store_create(&r.store, &r.options), HIL_ERR_USAGE, "int4");
    rig_options(&r, "bf16", 1 << 20, 0);
    r.options.optimizer = "sgd";
    CHECK_FAILS(hil_param_store_create(&r.store, &r.options), HIL_ERR_USAGE, "sgd");
    rig_options(&r, "bf16", 120 << 10, 1 << 20);
    r.options.memory.disk_count = 1;
    r.speed[0] = -1;
    CHECK_FAILS(hil_param_store_create(&r.store, &r.options), HIL_ERR_USAGE, "disk 0");
    r.speed[0] = 1;
    r.disk[0] = (hil_disk_budget){.path = "/nowhere/at/all", .bytes = 4 << 20};
    CHECK_FAILS(hil_param_store_create(&r.store, &r.options), HIL_ERR_IO, "/nowhere/at/all");
    rig_options(&r, "bf16", 1 << 20, 0);
    r.options.stream = &r;
    CHECK_FAILS(hil_param_store_create(&r.store, &r.options), HIL_ERR_USAGE, "stream");
    hil_param_store_destroy(NULL);
}

static void check_forms(rig *r)
{
    hil_stored_param *p;
    CHECK_FAILS(hil_param_store_add(r->store, "p.0.w", &rig_form[0], &p), HIL_ERR_USAGE, "p.0.w");
    CHECK_FAILS(
        hil_param_store_add(r->store, "x", &(hil_param_store_form){.rows = -1, .cols = 4}, &p),
        HIL_ERR_USAGE, "x");
    CHECK_FAILS(hil_param_store_add(r->store, "x", &(hil_param_store_form){.rows = 4}, &p),
                HIL_ERR_USAGE, "x");
    CHECK_FAILS(
        hil_param_store_add(r->store, "x", &(hil_param_store_form){.cols = 4, .group = -1}, &p),
        HIL_ERR_USAGE, "group");
    const hil_param_store_form huge = {.rows = INT64_MAX / 2, .cols = INT64_MAX / 2};
    CHECK_FAILS(hil_param_store_add(r->store, "x", &huge, &p), HIL_ERR_INPUT, "too large");
    CHECK(hil_param_store_find(r->store, "p.3.w") == r->param[3]);
    CHECK(hil_param_store_find(r->store, "x") == NULL);
}

static void check_ranges(rig *r)
{
    float x[8] = {0};
    hil_stored_param *vector = r->param[1], *frozen = r->param[5];
    CHECK_FAILS(hil_param_store_read(r->store, vector, HIL_PARAM_STORE_WEIGHT, 60, 5, x),
                HIL_ERR_USAGE, "64");
    CHECK_FAILS(hil_param_store_write(r->store, vector, HIL_PARAM_STORE_WEIGHT, -1, 5, x),
                HIL_ERR_USAGE, "64");
    CHECK_FAILS(hil_param_store_write(r->store, vector, HIL_PARAM_STORE_WEIGHT, 0, INT64_MAX, x),
                HIL_ERR_USAGE, "64");
    CHECK_FAILS(hil_param_store_read(r->store, frozen, HIL_PARAM_STORE_MOMENT1, 0, 1, x),
                HIL_ERR_USAGE, "state");
    CHECK_FAILS(hil_param_store_set_progress(r->store, &(hil_param_store_progress){-1, 1, 0}),
                HIL_ERR_INPUT, "updates");
    CHECK_FAILS(hil_param_store_set_progress(r->store, &(hil_param_store_progress){1, 1024, 0}),
                HIL_ERR_INPUT, "scale");
}

static void check_step(rig *r)
{
    const void *w;
    float *sum, x;
    double norm;
    hil_param_store *b = r->store;
    hil_stored_param *p = r->param[2];
    CHECK_FAILS(hil_param_store_end(b), HIL_ERR_USAGE, "begun");
    CHECK_FAILS(hil_param_store_acquire(b, p, 0, &w), HIL_ERR_USAGE, "p.2.w");
    CHECK_OK(hil_param_store_begin(b, HIL_PARAM_STORE_EVAL));
    CHECK_FAILS(hil_param_store_begin(b, HIL_PARAM_STORE_TRAIN), HIL_ERR_USAGE, "not ended");
    CHECK_FAILS(hil_param_store_gradient_acquire(b, p, 0, &sum), HIL_ERR_USAGE, "only reads");
    CHECK_FAILS(hil_param_store_step(b, 0.1, &norm), HIL_ERR_USAGE, "training");
    CHECK_OK(hil_param_store_end(b));

    CHECK_OK(hil_param_store_begin(b, HIL_PARAM_STORE_TRAIN));
    CHECK_FAILS(hil_param_store_read(b, p, HIL_PARAM_STORE_WEIGHT, 0, 1, &x), HIL_ERR_USAGE,
                "between");
    CHECK_FAILS(hil_param_store_acquire(b, p, hil_param_store_tiles(p), &w), HIL_ERR_USAGE, "tile");
    CHECK_FAILS(hil_param_store_acquire(b, p, -1, &w), HIL_ERR_USAGE, "tile");
    CHECK_FAILS(hil_param_store_gradient_acquire(b, r->param[5], 0, &sum), HIL_ERR_USAGE, "frozen");
    CHECK_FAILS(hil_param_store_give_gradients(b, 9), HIL_ERR_USAGE, "group 9");
    CHECK_OK(hil_param_store_gradient_acquire(b, p, 0, &sum));
    sum[0] = 1;
    CHECK_FAILS(hil_param_store_give_gradients(b, 1), HIL_ERR_USAGE, "not released");
    CHECK_FAILS(hil_param_store_step(b, 0.1, &norm), HIL_ERR_USAGE, "not released");
    CHECK_FAILS(hil_param_store_end(b), HIL_ERR_USAGE, "not released");
    hil_param_store_gradient_release(b, p, 0);
    CHECK_OK(hil_param_store_give_gradients(b, 1));
    CHECK_FAILS(hil_param_store_give_gradients(b, 1), HIL_ERR_USAGE, "given");
    CHECK_FAILS(hil_param_store_gradient_acquire(b, p, 0, &sum), HIL_ERR_USAGE, "given");
    CHECK_OK(hil_param_store_step(b, 0.1, &norm));
    CHECK_NEAR(norm, 1, 0);
    CHECK_FAILS(hil_param_store_step(b, 0.1, &norm), HIL_ERR_USAGE, "once");
    CHECK_OK(hil_param_store_end(b));
}

/* A gradient of NaN changes nothing, and the next step works. */
static void check_numbers(rig *r)
{
    float *sum, before, after;
    double norm;
    hil_stored_param *p = r->param[0];
    CHECK_OK(hil_param_store_read(r->store, p, HIL_PARAM_STORE_WEIGHT, 5, 1, &before));
    CHECK_OK(hil_param_store_begin(r->store, HIL_PARAM_STORE_TRAIN));
    CHECK_OK(hil_param_store_gradient_acquire(r->store, p, 0, &sum));
    sum[5] = NAN;
    hil_param_store_gradient_release(r->store, p, 0);
    CHECK_FAILS(hil_param_store_step(r->store, 0.1, &norm), HIL_ERR_NUMERIC, "finite");
    CHECK_OK(hil_param_store_end(r->store));
    CHECK_OK(hil_param_store_read(r->store, p, HIL_PARAM_STORE_WEIGHT, 5, 1, &after));
    CHECK(before == after);
    CHECK(isfinite(rig_step(r, RIG_GROUP_MAJOR)));
    CHECK_OK(hil_param_store_read(r->store, p, HIL_PARAM_STORE_WEIGHT, 5, 1, &after));
    CHECK(before != after);
}

/* The window holds two tiles with their sums, not everything; releasing makes room again. */
static void check_window(void)
{
    rig r;
    const void *w;
    rig_options(&r, "bf16", 72 << 10, 200 << 10);
    r.options.memory.disk_count = 1;
    r.options.window = 56 << 10;
    rig_open(&r);
    CHECK_OK(hil_param_store_begin(r.store, HIL_PARAM_STORE_TRAIN));
    hil_status status = HIL_OK;
    int held = 0;
    static const int tile[][2] = {{0, 0}, {0, 1}, {0, 2}, {2, 0}, {2, 1}, {4, 0}, {4, 1}};
    while (held < 7 && status == HIL_OK) {
        status = hil_param_store_acquire(r.store, r.param[tile[held][0]], tile[held][1], &w);
        held += status == HIL_OK;
    }
    CHECK_FAILS(status, HIL_ERR_BUDGET, "in use");
    CHECK(held >= 2);
    for (int i = 0; i < held; ++i)
        hil_param_store_release(r.store, r.param[tile[i][0]], tile[i][1]);
    CHECK_OK(hil_param_store_end(r.store));
    CHECK(isfinite(rig_step(&r, RIG_GROUP_MAJOR)));
    hil_param_store_destroy(r.store);
}

/* A release without an acquire is a programming error: an assert ends the program. */
static void check_release(rig *r)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(freopen("/dev/null", "w", stderr) != NULL);
        hil_param_store_release(r->store, r->param[0], 0);
        _exit(0);
    }
    int end;
    CHECK(waitpid(child, &end, 0) == child);
    CHECK(WIFSIGNALED(end));
}

int main(void)
{
    check_budget(10 << 10, 8 << 20, 8 << 20, "device memory of 10.0 KiB is too little");
    check_budget(200 << 10, 300 << 10, 0, "are missing");
    check_budget(200 << 10, 300 << 10, 64 << 10, "are missing");
    check_budget(200 << 10, 10 << 10, 8 << 20, "are missing");
    check_options();
    rig r;
    rig_options(&r, "bf16", 200 << 10, 300 << 10);
    r.options.memory.disk_count = 1;
    CHECK_OK(hil_param_store_create(&r.store, &r.options));
    rig_add(&r);
    check_forms(&r);
    CHECK_OK(hil_param_store_place(r.store));
    CHECK_FAILS(hil_param_store_place(r.store), HIL_ERR_USAGE, "already");
    rig_fill(&r);
    check_ranges(&r);
    check_step(&r);
    check_numbers(&r);
    check_release(&r);
    hil_param_store_destroy(r.store);
    check_window();
    return 0;
}
