/* If any call on any rank fails during a save, the checkpoint before stays whole and the newest,
   the message names the call's file and reason, no file is left, and the next save works. */
/* soak: --full */
#include "base/alloc.h"
#include "interpose.h"
#include "save_rig.h"
#include "store/store.h"

#include <dirent.h>

static hil_store *store;
static char root[] = "/tmp/hilbert-faults-XXXXXX", folder[HIL_PATH_MAX];
static const char *const kind_name[CALL_KINDS] = {"open",   "close",  "write",  "fsync",
                                                  "rename", "resize", "unlink", "mkdir"};
static int seen[RIG_RANKS][CALL_KINDS]; /* calls so far */
static int fail_rank = -1, fail_call, fail_error;
static call_kind fail_kind;
static bool failed;
static int fd_inside[1024]; /* opened below the folder */

/* Counts only calls on the checkpoints, and no close, which comes after a sync. */
static bool is_ours(const call *c)
{
    if (c->path) return strncmp(c->path, root, sizeof root - 1) == 0;
    return c->fd >= 0 && c->fd < 1024 && fd_inside[c->fd];
}

static int before(const call *c)
{
    if (!is_ours(c)) return 0;
    if (++seen[call_rank][c->kind] != fail_call || c->kind != fail_kind || call_rank != fail_rank)
        return 0;
    failed = true;
    return fail_error;
}

static void after(const call *c, long result)
{
    if (c->kind == CALL_OPEN && result < 1024) fd_inside[result] = is_ours(c);
    if (c->kind == CALL_CLOSE && c->fd < 1024) fd_inside[c->fd] = 0;
}

static void take_rank(int rank)
{
    call_rank = rank;
}

static hil_status save(int64_t step, int ranks, char message[1024])
{
    rig_rank how = {.folder = folder, .step = step, .store = store, .ranks = ranks};
    how.started = take_rank;
    memset(seen, 0, sizeof seen);
    failed = false;
    return rig_save(&how, message);
}

/* Expects exactly `latest` and the steps up to the newest. */
static void check_folder(int64_t newest, int count)
{
    hil_checkpoint_found found;
    CHECK_OK(hil_checkpoint_find(folder, NULL, &found));
    CHECK_INT(found.step, newest);
    CHECK_TEXT(found.warning, "");
    rig_check_content(store, folder, newest);
    DIR *dir = opendir(folder);
    int names = 0;
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));) names += entry->d_name[0] != '.';
    closedir(dir);
    CHECK_INT(names, count + 1);
}

/* Saves `step` with one fault, then again without. */
static void inject(int64_t step, int ranks, int rank, call_kind kind, int n)
{
    char message[1024], path[HIL_PATH_MAX];
    fail_rank = rank;
    fail_kind = kind;
    fail_call = n;
    hil_status status = save(step, ranks, message);
    fail_rank = -1;
    CHECK(failed);
    if (status == HIL_OK) { /* only harmless calls may fail */
        if (kind != CALL_UNLINK) check_die(kind_name[kind], n, "its failure was not noticed");
        CHECK_OK(hil_checkpoint_tidy(folder, 1, -1));
        return;
    }
    if (!strstr(message, folder) || !strstr(message, strerror(fail_error)))
        check_die(kind_name[kind], n, message);
    check_folder(step - 1, 1);
    CHECK_OK(save(step, ranks, NULL));
    check_folder(step, 2);
    CHECK_OK(hil_checkpoint_tidy(folder, 1, -1));
    CHECK_OK(hil_step_path(path, folder, step - 1));
    CHECK(!hil_file_exists(path));
}

/* How often each rank makes each call in an undisturbed save. */
static void count_calls(int ranks, int64_t *step, int count[RIG_RANKS][CALL_KINDS])
{
    CHECK_OK(save(++*step, ranks, NULL));
    memcpy(count, seen, sizeof seen);
    CHECK_OK(hil_checkpoint_tidy(folder, 1, -1));
    for (int r = 0; r < ranks; ++r) {
        CHECK(count[r][CALL_OPEN] >= 3 && count[r][CALL_WRITE] >= 3 && count[r][CALL_FSYNC] >= 3);
        for (int k = 0; k < CALL_KINDS; ++k)
            if (k == CALL_CLOSE) count[r][k] = 0;
    }
    CHECK(count[0][CALL_RENAME] == 5 && count[0][CALL_RESIZE] == 3 && count[0][CALL_MKDIR] >= 1);
}

/* Fails every call of every rank once, or `most` of them at random. */
static int inject_all(int ranks, int64_t *step, int most, unsigned *seed)
{
    int count[RIG_RANKS][CALL_KINDS], all = 0, done = 0;
    count_calls(ranks, step, count);
    for (int r = 0; r < ranks; ++r)
        for (int k = 0; k < CALL_KINDS; ++k) all += count[r][k];
    for (int r = 0; r < ranks; ++r)
        for (int k = 0; k < CALL_KINDS; ++k)
            for (int n = 1; n <= count[r][k]; ++n) {
                if (rand_r(seed) % all >= most) continue;
                if (k == CALL_MKDIR && n < count[r][k])
                    continue; /* mkdir of an existing folder may fail */
                fail_error = rand_r(seed) % 2 ? EIO : ENOSPC;
                inject(++*step, ranks, r, (call_kind)k, n);
                ++done;
            }
    return done;
}

/* The n-th allocation fails, for every n. */
static void fail_allocations(int64_t *step)
{
    CHECK_OK(hil_checkpoint_tidy(folder, 1, -1));
    for (long n = 1;; ++n) {
        hil_alloc_fail_at(n);
        hil_status status = save(*step + 1, 1, NULL);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) break;
        CHECK_INT(status, HIL_ERR_MEMORY);
        check_folder(*step, 1);
        CHECK(n < 1000);
    }
    check_folder(++*step, 2);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    static const int ranks[] = {1, 3, 8};
    unsigned seed = 4;
    int64_t step = 0;
    int done = 0;
    CHECK(mkdtemp(root) != NULL);
    CHECK_OK(hil_path_join(folder, root, "checkpoints"));
    store = rig_store();
    CHECK_OK(save(++step, 1, NULL)); /* creates the folder */
    for (int i = 0; i < 3; ++i) done += inject_all(ranks[i], &step, full ? 1 << 20 : 20, &seed);
    CHECK(done >= (full ? 200 : 30));
    fail_allocations(&step);
    printf("%d faults\n", done);
    hil_store_destroy(store);
    CHECK_OK(hil_file_remove_tree(root));
    return 0;
}
