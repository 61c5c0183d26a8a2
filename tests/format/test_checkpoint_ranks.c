/* The files of a checkpoint do not depend on the number of ranks or the placement of states, and
   any number of ranks loads the same bits. */
#include "same_bytes.h"
#include "store/slices.h"

#include "format/checkpoint_manifest.h"
#include "io/file.h"
#include "store/state.h"

static const int counts[] = {1, 2, 3, 4, 8};
enum { COUNTS = 5 };

static float *expected[PARAMS][HIL_STATES]; /* what a single rank loads */
static char place[HIL_PATH_MAX];

typedef enum task { WRITE, SAVE, LOAD, FIND } task;

/* One rank's work, on its thread. */
typedef struct worker {
    peer peer;
    task task;
    int64_t step;
    char path[HIL_PATH_MAX]; /* the checkpoints */
    char warning[1024];      /* of FIND */
    pthread_t thread;
} worker;

/* Arbitrary numbers that use all bits. */
static float value_of(int p, int state, int64_t element)
{
    uint32_t word[4];
    hil_philox(9, (uint64_t)(p * HIL_STATES + state), (uint64_t)element, word);
    float value = (float)(int32_t)word[0] * 0x1p-31f;
    return state == HIL_MOMENT2 ? value * value : value; /* second moments have no sign */
}

/* Called with elements [at, at + n) of one state that a rank holds. */
typedef hil_status use(peer *m, int p, hil_state s, int64_t at, int64_t n, float *range);

static _Thread_local hil_checkpoint_writer *writer; /* of put_held, on this thread */

static hil_status fill_held(peer *m, int p, hil_state s, int64_t at, int64_t n, float *range)
{
    for (int64_t k = 0; k < n; ++k) range[k] = value_of(p, (int)s, at + k);
    return hil_store_write(m->store, m->param[p], s, at, n, range);
}

static hil_status take_held(peer *m, int p, hil_state s, int64_t at, int64_t n, float *range)
{
    (void)range;
    return hil_store_read(m->store, m->param[p], s, at, n, expected[p][s] + at);
}

/* Compares with what a single rank loads. */
static hil_status compare_held(peer *m, int p, hil_state s, int64_t at, int64_t n, float *range)
{
    HIL_TRY(hil_store_read(m->store, m->param[p], s, at, n, range));
    CHECK(memcmp(expected[p][s] + at, range, (size_t)n * 4) == 0);
    return HIL_OK;
}

static hil_status put_held(peer *m, int p, hil_state s, int64_t at, int64_t n, float *range)
{
    HIL_TRY(hil_store_read(m->store, m->param[p], s, at, n, range));
    return hil_checkpoint_put(writer, m->param[p], s, at, n, range);
}

/* Calls `what` for everything that a rank holds, in ranges. */
static hil_status each_held(peer *m, use *what)
{
    float *range;
    HIL_TRY(HIL_ALLOC(hil_store_range(m->store), &range));
    for (int p = 0; p < PARAMS; ++p)
        for (int s = 0; s < HIL_STATES; ++s) {
            if (!hil_param_has(m->param[p], (hil_state)s)) continue;
            for (int64_t at = 0, n; (n = hil_param_held(m->param[p], &at)); at += n)
                CHECK_OK(what(m, p, (hil_state)s, at, n, range));
        }
    hil_free(range);
    return HIL_OK;
}

static hil_status do_task(worker *w)
{
    peer *m = &w->peer;
    hil_checkpoint_found found;
    HIL_TRY(peer_open(m));
    if (w->task == FIND) {
        HIL_TRY(hil_checkpoint_find(w->path, m->comm, &found));
        CHECK_INT(found.step, w->step);
        memcpy(w->warning, found.warning, sizeof w->warning);
        return HIL_OK;
    }
    if (w->task == LOAD) {
        HIL_TRY(hil_checkpoint_find(w->path, m->comm, &found));
        CHECK_INT(found.step, w->step);
        CHECK_TEXT(found.warning, "");
        HIL_TRY(hil_checkpoint_load(w->path, found.step, m->store));
        return each_held(m, compare_held);
    }
    HIL_TRY(each_held(m, fill_held));
    if (w->task == WRITE) return each_held(m, take_held);
    json_t *state = json_pack("{s:I}", "step", (json_int_t)w->step);
    hil_checkpoint_options options = {
        .folder = w->path, .step = w->step, .store = m->store, .comm = m->comm};
    CHECK_OK(hil_checkpoint_begin(&writer, &options));
    HIL_TRY(each_held(m, put_held));
    hil_status status = hil_checkpoint_finish(writer, state);
    json_decref(state);
    return status;
}

static void *work(void *argument)
{
    worker *w = argument;
    CHECK_OK(do_task(w));
    peer_close(&w->peer);
    return NULL;
}

static void run_ranks(const setting *s, task what, int64_t step, const char *at)
{
    static worker worker_of[PEERS];
    hil_comm *comm[PEERS] = {NULL};
    if (s->ranks > 1) CHECK_OK(hil_comm_threads_create(s->ranks, comm));
    for (int r = 0; r < s->ranks; ++r) {
        worker *w = &worker_of[r];
        *w = (worker){.task = what, .step = step};
        snprintf(w->path, sizeof w->path, "%s", at);
        peer_create(&w->peer, s, r, comm[r]);
        CHECK(pthread_create(&w->thread, NULL, work, w) == 0);
    }
    for (int r = 0; r < s->ranks; ++r) CHECK(pthread_join(worker_of[r].thread, NULL) == 0);
    for (int r = 0; r < s->ranks; ++r) {
        CHECK_TEXT(worker_of[r].warning, worker_of[0].warning);
        CHECK_INT(worker_of[r].warning[0] != 0, what == FIND);
        peer_destroy(&worker_of[r].peer);
    }
}

static setting setting_of(int ranks, hil_dtype dtype, hil_rule_kind rule, int tiers)
{
    return (setting){.ranks = ranks,
                     .dtype = dtype,
                     .rule = rule,
                     .prefetch = true,
                     .tiers = tiers,
                     .window = 1 << 20,
                     .chunk = 4096};
}

static void check_same_file(const char *a, const char *b, const char *name)
{
    char x[HIL_PATH_MAX], y[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(x, a, name));
    CHECK_OK(hil_path_join(y, b, name));
    CHECK_INT(hil_file_exists(x), hil_file_exists(y));
    if (hil_file_exists(x)) check_same_bytes(x, y);
}

static void check_rule(hil_dtype dtype, hil_rule_kind rule)
{
    char by[COUNTS][HIL_PATH_MAX], name[64], first[HIL_PATH_MAX], other[HIL_PATH_MAX];
    setting alone = setting_of(1, dtype, rule, HIL_DEVICE);
    run_ranks(&alone, WRITE, 0, "");
    for (int i = 0; i < COUNTS; ++i) {
        snprintf(name, sizeof name, "by-%d", counts[i]);
        CHECK_OK(hil_path_join(by[i], place, name));
        setting s = setting_of(counts[i], dtype, rule, HIL_TIERS + i);
        run_ranks(&s, SAVE, 7, by[i]);
        CHECK_OK(hil_step_path(first, by[0], 7));
        CHECK_OK(hil_step_path(other, by[i], 7));
        for (int k = 0; k < HIL_STATES; ++k) check_same_file(first, other, hil_state_file[k]);
    }
    for (int i = 0; i < COUNTS; ++i)
        for (int k = 0; k < COUNTS; ++k) {
            setting s = setting_of(counts[k], dtype, rule, HIL_TIERS + 5 + i);
            run_ranks(&s, LOAD, 7, by[i]);
        }
    CHECK_OK(hil_file_remove_tree(place));
}

static void flip(const char *file, off_t at)
{
    char byte = 0;
    int fd = open(file, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte = (char)(byte ^ 16);
    CHECK(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0);
}

/* Whichever rank reads the damaged piece, all fall back to the checkpoint before, with the same
   warning. */
static void check_damage(void)
{
    char dir[HIL_PATH_MAX], file[HIL_PATH_MAX];
    setting s = setting_of(3, HIL_BF16, HIL_ADAMW, HIL_HOST);
    run_ranks(&s, SAVE, 7, place);
    run_ranks(&s, SAVE, 8, place);
    CHECK_OK(hil_step_path(dir, place, 8));
    CHECK_OK(hil_path_join(file, dir, hil_state_file[HIL_MOMENT1]));
    for (off_t at = 3; at < 200000; at += 31111) {
        flip(file, at);
        run_ranks(&s, FIND, 7, place);
        flip(file, at);
    }
    run_ranks(&s, LOAD, 8, place);
    CHECK_OK(hil_file_remove_tree(place));
}

int main(void)
{
    fixture_open();
    CHECK_OK(hil_path_join(place, folder, "checkpoints"));
    for (int p = 0; p < PARAMS; ++p)
        for (int s = 0; s < HIL_STATES; ++s)
            CHECK_OK(HIL_ALLOC(hil_shape_count(&specs[p].shape), &expected[p][s]));
    check_rule(HIL_BF16, HIL_ADAMW);
    check_damage();
    check_rule(HIL_F32, HIL_LION);
    check_rule(HIL_F16, HIL_ADAMW8BIT);
    for (int p = 0; p < PARAMS; ++p)
        for (int s = 0; s < HIL_STATES; ++s) hil_free(expected[p][s]);
    fixture_close();
    return 0;
}
