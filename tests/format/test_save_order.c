/* `latest` names a checkpoint only once every byte of it would survive a power loss, and no sync on
   the way to that can be omitted. */
#define RIG_PIECE 150
#include "disk_model.h"
#include "save_rig.h"
#include "store/store.h"

#include <dirent.h>

static hil_store *store;
static char folder[HIL_PATH_MAX]; /* of checkpoints, on the modelled disk */
static char complaint[256];
static int syncs[RIG_RANKS];              /* so far, by rank */
static int counted[RIG_RANKS];            /* in two saves */
static int skip_rank = -1, skip_sync = 0; /* the sync that is omitted */
static int moved;                         /* how often `latest` was replaced */
static int64_t old_step, new_step;        /* a power loss may leave either */
static int crashes;                       /* power losses tried; -1: none is */

static void complain(const char *what, const char *name)
{
    if (!complaint[0]) snprintf(complaint, sizeof complaint, "%s %s", name, what);
}

static int before(const call *c)
{
    if (c->kind != CALL_FSYNC || disk_node_of(c) < 0) return 0;
    ++syncs[call_rank];
    return call_rank == skip_rank && syncs[call_rank] == skip_sync ? CALL_SKIP : 0;
}

/* Checks that all names on the path to a folder are durable. */
static void check_parents(int node)
{
    while (node) {
        const disk_node *parent = &disk[disk[node].parent];
        bool kept = false;
        for (int i = 0; i < parent->kept.count; ++i)
            kept = kept || parent->kept.entry[i].node == node;
        if (!kept) complain("is not synced", "the name of a folder above");
        node = disk[node].parent;
    }
}

/* Called when `latest` becomes the file `pointer`. */
static void check_pointer(int parent, int pointer)
{
    char name[DISK_NAME];
    const disk_node *p = &disk[pointer];
    if (p->pending) complain("is not synced", "the new latest");
    const char *text = p->pending ? p->write[0].data : p->data;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "\n"), text);
    int step = disk_find(&disk[parent].now, name);
    CHECK(step >= 0);
    if (disk_find(&disk[parent].kept, name) != step) complain("has no name that lasts", name);
    if (disk[step].pending) complain("has names that are not synced", name);
    for (int i = 0; i < disk[step].now.count; ++i)
        if (disk[disk[step].now.entry[i].node].pending)
            complain("is not synced", disk[step].now.entry[i].name);
    CHECK_INT(disk[step].now.count, 6);
    check_parents(parent);
    ++moved;
}

static bool has_leftovers(const char *path)
{
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        found = found || strstr(entry->d_name, "tmp");
    if (dir) closedir(dir);
    return found;
}

/* Simulates a power loss and checks that a whole checkpoint is found. */
static void crash(disk_loss loss, unsigned seed)
{
    char place[] = "/tmp/hilbert-crash-XXXXXX", root[HIL_PATH_MAX], path[HIL_PATH_MAX];
    hil_checkpoint_found found;
    CHECK(mkdtemp(place) != NULL);
    CHECK_OK(hil_path_join(root, place, "root"));
    disk_restore(0, root, loss, &seed);
    CHECK_OK(hil_path_join(path, root, "run/checkpoints"));
    CHECK_OK(hil_checkpoint_find(path, NULL, &found));
    CHECK_TEXT(found.warning, "");
    CHECK(found.step == old_step || found.step == new_step);
    if (found.step >= 0) {
        rig_check_content(store, path, found.step);
        CHECK_OK(hil_checkpoint_return_to(path, found.step));
        CHECK_OK(hil_checkpoint_tidy(path, 1, -1));
    }
    CHECK_OK(hil_checkpoint_tidy(path, 1, -1));
    CHECK(!has_leftovers(path));
    CHECK_OK(hil_file_remove_tree(place));
    ++crashes;
}

static void crash_all(void)
{
    static const disk_loss losses[] = {LOSS_ALL, LOSS_BYTES, LOSS_CHANCE};
    if (crashes < 0) return;
    for (int i = crashes % 3, count = CHECK_SLOW ? 1 : 3; count > 0; i = (i + 1) % 3, --count)
        crash(losses[i], (unsigned)crashes);
}

static void after(const call *c, long result)
{
    int parent;
    char name[DISK_NAME];
    bool done = disk_apply(c, result);
    if (done && c->kind == CALL_RENAME && disk_resolve(c->to, &parent, name) &&
        strcmp(name, "latest") == 0)
        check_pointer(parent, disk_find(&disk[parent].now, name));
    if (done) crash_all();
}

static void take_rank(int rank)
{
    call_rank = rank;
}

/* Saves and checks the result. */
static void save(int64_t step, int ranks)
{
    rig_rank how = {.folder = folder, .step = step, .store = store, .ranks = ranks};
    how.started = take_rank;
    new_step = step;
    if (rig_save(&how, NULL) != HIL_OK) check_die(__FILE__, __LINE__, "a save failed");
    int run = disk_find(&disk[0].now, "run");
    const disk_node *f = &disk[disk_find(&disk[run].now, "checkpoints")];
    CHECK_INT(moved, step);
    if (disk_find(&f->kept, "latest") != disk_find(&f->now, "latest"))
        complain("has no name that lasts", "latest");
    old_step = step;
    ++calls_unseen;
    crash_all(); /* a save that returned is durable */
    --calls_unseen;
}

/* Removing old checkpoints never loses the newest. */
static void remove_old(int ranks)
{
    old_step = new_step = 2;
    CHECK_OK(hil_checkpoint_tidy(folder, 1, -1));
    save(3, ranks);
    new_step = 2;
    CHECK_OK(hil_checkpoint_return_to(folder, 2));
    old_step = 2;
    ++calls_unseen;
    crash_all();
    --calls_unseen;
}

/* Saves step 1 into a new folder, then step 2. */
static void save_two(int ranks)
{
    disk_begin();
    memset(syncs, 0, sizeof syncs);
    complaint[0] = 0;
    moved = 0;
    old_step = -1;
    snprintf(folder, sizeof folder, "%s/run/checkpoints", disk_root);
    for (int64_t step = 1; step <= 2; ++step) save(step, ranks);
    memcpy(counted, syncs, sizeof syncs);
    if (crashes >= 0) remove_old(ranks);
    disk_end();
}

static void check_ranks(int ranks)
{
    int count[RIG_RANKS];
    crashes = 0;
    save_two(ranks);
    CHECK_TEXT(complaint, "");
    CHECK(crashes > (CHECK_SLOW ? 130 : 400));
    crashes = -1;
    memcpy(count, counted, sizeof count);
    for (int r = 0; r < ranks; ++r) {
        CHECK(count[r] >= 4); /* at least two files in each save */
        for (int k = 1; k <= count[r]; ++k) {
            skip_rank = r;
            skip_sync = k;
            save_two(ranks);
            if (complaint[0]) continue;
            fprintf(stderr, "%d ranks: no check failed without sync %d of rank %d\n", ranks, k, r);
            exit(1);
        }
    }
    skip_rank = -1;
}

int main(void)
{
    ++calls_unseen;
    store = rig_store();
    --calls_unseen;
    check_ranks(1);
    check_ranks(3);
    hil_store_destroy(store);
    return 0;
}
