/* disk_model.h - a simulated disk behind the file calls of the library: its content now, and what a
   power loss would leave.

   The bytes of a file are durable once the host that wrote them synced the file; names in a folder
   once the folder was synced. Each rank is a host. A power loss may drop any write and any name
   that was not synced, independently. */
#ifndef HIL_TESTS_DISK_MODEL_H
#define HIL_TESTS_DISK_MODEL_H

#include "interpose.h"

#include "base/alloc.h"
#include "io/file.h"

#define DISK_NODES 256
#define DISK_NAMES 24
#define DISK_NAME 96
#define DISK_PENDING 256
#define DISK_FDS 256

typedef struct disk_names {
    struct {
        char name[DISK_NAME];
        int node;
    } entry[DISK_NAMES];
    int count;
} disk_names;

/* A write by one host, or a new size (data NULL). */
typedef struct disk_write {
    int host;
    char *data;
    size_t offset, size;
} disk_write;

/* Renames `from` to `to`. "" as `from`: a new name; as `to`: a removed name. */
typedef struct disk_naming {
    char from[DISK_NAME], to[DISK_NAME];
    int node;
} disk_naming;

typedef struct disk_node {
    bool folder;
    int parent;
    disk_names now, kept; /* of a folder */
    disk_naming naming[DISK_PENDING];
    char *data; /* of a file: what is on the disk */
    size_t size;
    disk_write write[DISK_PENDING];
    int pending; /* renames or writes that are not durable yet */
} disk_node;

static char disk_root[64];
static disk_node *disk;
static int disk_used;
static int disk_of_fd[DISK_FDS];
static size_t disk_at[DISK_FDS];

static inline int disk_find(const disk_names *names, const char *name)
{
    for (int i = 0; i < names->count; ++i)
        if (strcmp(names->entry[i].name, name) == 0) return names->entry[i].node;
    return -1;
}

static inline void disk_rename(disk_names *names, const disk_naming *n)
{
    const char *gone[] = {n->from, n->to};
    for (int g = 0; g < 2; ++g)
        for (int i = 0; i < names->count; ++i)
            if (strcmp(names->entry[i].name, gone[g]) == 0)
                names->entry[i] = names->entry[--names->count];
    if (!n->to[0]) return;
    CHECK(names->count < DISK_NAMES);
    memcpy(names->entry[names->count].name, n->to, DISK_NAME);
    names->entry[names->count++].node = n->node;
}

static inline void disk_name(int folder, const char *from, const char *to, int node)
{
    disk_node *f = &disk[folder];
    CHECK(f->pending < DISK_PENDING && strlen(from) < DISK_NAME && strlen(to) < DISK_NAME);
    disk_naming *n = &f->naming[f->pending++];
    snprintf(n->from, DISK_NAME, "%s", from);
    snprintf(n->to, DISK_NAME, "%s", to);
    n->node = node;
    disk_rename(&f->now, n);
}

static inline int disk_add(int parent, bool folder, const char *name)
{
    CHECK(disk_used < DISK_NODES);
    memset(&disk[disk_used], 0, sizeof *disk);
    disk[disk_used].folder = folder;
    disk[disk_used].parent = parent;
    if (name) disk_name(parent, "", name, disk_used);
    return disk_used++;
}

/* The folder of `path` and its last name; false if the path is not on this disk. */
static inline bool disk_resolve(const char *path, int *folder, char name[DISK_NAME])
{
    size_t root = strlen(disk_root);
    if (strncmp(path, disk_root, root) != 0) return false;
    *folder = 0;
    name[0] = 0;
    for (const char *at = path + root; *at;) {
        size_t size = strcspn(at, "/");
        if (name[0] && size) { /* one more level down */
            *folder = disk_find(&disk[*folder].now, name);
            CHECK(*folder >= 0);
        }
        if (size == 2 && strncmp(at, "..", 2) == 0) {
            *folder = disk[*folder].parent;
            name[0] = 0;
        } else if (size) {
            CHECK(size < DISK_NAME);
            memcpy(name, at, size);
            name[size] = 0;
        }
        at += size + (at[size] == '/');
    }
    return true;
}

/* Applies one write to the image of a file. */
static inline void disk_write_image(char **data, size_t *size, const disk_write *w)
{
    size_t end = w->offset + w->size;
    if (end > *size) {
        char *larger = calloc(end, 1);
        CHECK(larger != NULL);
        if (*size) memcpy(larger, *data, *size);
        free(*data);
        *data = larger;
        *size = end;
    }
    if (w->data) memcpy(*data + w->offset, w->data, w->size);
}

static inline void disk_write_at(int node, const char *data, size_t offset, size_t size)
{
    disk_node *f = &disk[node];
    CHECK(f->pending < DISK_PENDING);
    disk_write *w = &f->write[f->pending++];
    *w = (disk_write){.host = call_rank, .offset = offset, .size = size};
    if (!data) return;
    w->data = malloc(size);
    CHECK(w->data != NULL);
    memcpy(w->data, data, size);
}

static inline void disk_sync(int node)
{
    disk_node *f = &disk[node];
    int left = 0;
    for (int i = 0; i < f->pending; ++i) {
        disk_write *w = &f->write[i];
        if (f->folder) continue;
        if (w->host != call_rank) {
            f->write[left++] = *w;
            continue;
        }
        disk_write_image(&f->data, &f->size, w);
        free(w->data);
    }
    if (f->folder) f->kept = f->now;
    f->pending = left;
}

static inline int disk_node_of(const call *c)
{
    return c->fd >= 0 && c->fd < DISK_FDS ? disk_of_fd[c->fd] : -1;
}

/* Applies the call to the disk; true if it changed something. */
static inline bool disk_apply(const call *c, long result)
{
    int folder = 0, node = disk_node_of(c);
    char name[DISK_NAME], to[DISK_NAME];
    if (c->path && !disk_resolve(c->path, &folder, name)) {
        if (c->kind == CALL_OPEN) disk_of_fd[result] = -1;
        return false;
    }
    if (!c->path && node < 0) return false;
    switch (c->kind) {
    case CALL_OPEN:
        node = name[0] ? disk_find(&disk[folder].now, name) : folder;
        bool create = node < 0;
        CHECK(!create || (c->flags & O_CREAT));
        if (create) node = disk_add(folder, false, name);
        CHECK(result < DISK_FDS);
        disk_of_fd[result] = node;
        disk_at[result] = 0;
        return create;
    case CALL_CLOSE:
        disk_of_fd[c->fd] = -1;
        return false;
    case CALL_WRITE:
        disk_write_at(node, c->data, c->offset < 0 ? disk_at[c->fd] : (size_t)c->offset,
                      (size_t)result);
        if (c->offset < 0) disk_at[c->fd] += (size_t)result;
        return true;
    case CALL_RESIZE:
        disk_write_at(node, NULL, 0, c->size);
        return true;
    case CALL_FSYNC:
        disk_sync(node);
        return true;
    case CALL_RENAME: {
        int other;
        node = disk_find(&disk[folder].now, name);
        CHECK(disk_resolve(c->to, &other, to) && node >= 0);
        if (other == folder) {
            disk_name(folder, name, to, node);
            return true;
        }
        disk_name(other, "", to, node); /* the two folders become durable independently */
        disk_name(folder, name, "", -1);
        disk[node].parent = other;
        return true;
    }
    case CALL_UNLINK:
        disk_name(folder, name, "", -1);
        return true;
    case CALL_MKDIR:
        disk_add(folder, true, name);
        return true;
    default:
        return false;
    }
}

/* Begins with an empty, durable folder. */
static inline void disk_begin(void)
{
    ++calls_unseen;
    if (!disk) CHECK_OK(HIL_ALLOC(DISK_NODES, &disk));
    snprintf(disk_root, sizeof disk_root, "/tmp/hilbert-disk-XXXXXX");
    CHECK(mkdtemp(disk_root) != NULL);
    disk_used = 0;
    disk_add(0, true, NULL);
    for (int i = 0; i < DISK_FDS; ++i) disk_of_fd[i] = -1;
    --calls_unseen;
}

static inline void disk_end(void)
{
    ++calls_unseen;
    for (int i = 0; i < disk_used; ++i) {
        for (int k = 0; !disk[i].folder && k < disk[i].pending; ++k) free(disk[i].write[k].data);
        free(disk[i].data);
    }
    CHECK_OK(hil_file_remove_tree(disk_root));
    disk_used = 0;
    --calls_unseen;
}

/* What a power loss leaves: only what was synced; all names but only synced bytes; a random part.
 */
typedef enum disk_loss { LOSS_ALL, LOSS_BYTES, LOSS_CHANCE } disk_loss;

static inline bool disk_survives(disk_loss loss, bool name, unsigned *seed)
{
    if (loss == LOSS_CHANCE) return rand_r(seed) & 1;
    return loss == LOSS_BYTES && name;
}

static inline void disk_restore(int node, const char *path, disk_loss loss, unsigned *seed)
{
    disk_node *f = &disk[node];
    if (!f->folder) {
        char *data = NULL;
        size_t size = 0;
        disk_write whole = {.data = f->data, .size = f->size};
        disk_write_image(&data, &size, &whole);
        for (int i = 0; i < f->pending; ++i)
            if (disk_survives(loss, false, seed)) disk_write_image(&data, &size, &f->write[i]);
        CHECK_OK(hil_file_write(path, size ? data : "", size));
        free(data);
        return;
    }
    disk_names names = f->kept;
    CHECK(mkdir(path, 0777) == 0);
    for (int i = 0; i < f->pending; ++i)
        if (disk_survives(loss, true, seed)) disk_rename(&names, &f->naming[i]);
    for (int i = 0; i < names.count; ++i) {
        char inner[HIL_PATH_MAX];
        CHECK_OK(hil_path_join(inner, path, names.entry[i].name));
        disk_restore(names.entry[i].node, inner, loss, seed);
    }
}

#endif
