/* save_rig.h - a small store whose states are known numbers, saved by several ranks. */
#ifndef HIL_TESTS_SAVE_RIG_H
#define HIL_TESTS_SAVE_RIG_H

#include "check.h"
#include "comm/comm_threads.h"
#include "format/checkpoint_manifest.h"
#include "format/safetensors.h"
#include "io/file.h"
#include "store/state.h"
#include "store/store.h"

#include <pthread.h>
#include <unistd.h>

#define RIG_MODEL HIL_TESTS "/golden/models/gpt2_untied"
#define RIG_RANKS 8
#ifndef RIG_PIECE
#define RIG_PIECE 40 /* elements that are put at once */
#endif

static hil_sidecar_files rig_files; /* of RIG_MODEL */

/* Parameters with fewer elements than ranks, with sizes that no number of ranks divides, frozen,
   and transposed in files. The store is arranged but has no memory for states. */
static inline hil_store *rig_store(void)
{
    static const hil_param_spec specs[] = {
        {.name = "wte", .shape = {2, {37, 16}}},
        {.name = "scale", .shape = {1, {1}}},
        {.name = "bias", .shape = {1, {5}}},
        {.name = "turned", .shape = {2, {12, 21}}, .transposed = true},
        {.name = "frozen", .shape = {2, {6, 8}}},
        {.name = "norm", .shape = {1, {301}}},
    };
    hil_store *store;
    hil_param *param;
    CHECK_OK(hil_store_create(&store));
    for (size_t i = 0; i < sizeof specs / sizeof *specs; ++i)
        CHECK_OK(hil_store_add(store, &specs[i], &param));
    hil_param_freeze(hil_store_find(store, "frozen"));
    hil_store_options options = {
        .compute = HIL_F32, .training = true, .tile_size = 1 << 20, .moments = 2};
    CHECK_OK(hil_store_arrange(store, &options));
    CHECK_OK(hil_sidecar_files_read(&rig_files, RIG_MODEL));
    return store;
}

static inline float rig_value(size_t param, int state, int64_t element, int64_t step)
{
    return (float)(element * 64 + (int64_t)param * 8 + state) + (float)step / 16;
}

/* One rank of a save. */
typedef struct rig_rank {
    const char *folder;
    int64_t step;
    hil_store *store;
    hil_comm *comm;
    int rank, ranks;
    void (*started)(int rank); /* on the rank's thread; may be NULL */
    hil_status status;
    char message[1024];
    pthread_t thread;
} rig_rank;

/* Puts this rank's share: ranks take turns by piece. */
static inline void rig_put(const rig_rank *r, hil_checkpoint_writer *writer)
{
    float piece[RIG_PIECE];
    int turn = 0;
    for (size_t i = 0; i < hil_store_count(r->store); ++i) {
        hil_param *p = hil_store_at(r->store, i);
        for (int s = 0; s < HIL_STATES; ++s) {
            if (!hil_param_has(p, (hil_state)s)) continue;
            int64_t count, all = hil_param_elements(p);
            for (int64_t first = 0; first < all; first += count) {
                count = all - first < RIG_PIECE ? all - first : RIG_PIECE;
                if (turn++ % r->ranks != r->rank) continue;
                for (int64_t k = 0; k < count; ++k) piece[k] = rig_value(i, s, first + k, r->step);
                if (hil_checkpoint_put(writer, p, (hil_state)s, first, count, piece) != HIL_OK)
                    return; /* finish fails with the same message */
            }
        }
    }
}

static inline void *rig_save_rank(void *context)
{
    rig_rank *r = context;
    hil_checkpoint_writer *writer;
    if (r->started) r->started(r->rank);
    hil_checkpoint_options options = {.folder = r->folder,
                                      .step = r->step,
                                      .store = r->store,
                                      .comm = r->comm,
                                      .files = &rig_files};
    r->status = hil_checkpoint_begin(&writer, &options);
    if (r->status == HIL_OK) {
        json_t *state = json_pack("{s:I}", "step", (json_int_t)r->step);
        rig_put(r, writer);
        r->status = hil_checkpoint_finish(writer, r->rank == 0 ? state : NULL);
        json_decref(state);
    }
    snprintf(r->message, sizeof r->message, "%s", r->status == HIL_OK ? "" : hil_status_message());
    return NULL;
}

/* Saves from all ranks and checks that they end alike. Returns rank 0's status and message. */
static inline hil_status rig_save(const rig_rank *how, char message[1024])
{
    rig_rank rank[RIG_RANKS];
    hil_comm *comm[RIG_RANKS] = {NULL};
    CHECK(how->ranks <= RIG_RANKS);
    if (how->ranks > 1) CHECK_OK(hil_comm_threads_create(how->ranks, comm));
    for (int r = 0; r < how->ranks; ++r) {
        rank[r] = *how;
        rank[r].rank = r;
        rank[r].comm = comm[r];
        CHECK(pthread_create(&rank[r].thread, NULL, rig_save_rank, &rank[r]) == 0);
    }
    for (int r = 0; r < how->ranks; ++r) CHECK(pthread_join(rank[r].thread, NULL) == 0);
    for (int r = 0; r < how->ranks; ++r) {
        CHECK_INT(rank[r].status, rank[0].status);
        CHECK_TEXT(rank[r].message, rank[0].message);
        hil_comm_close(comm[r]);
    }
    if (message) memcpy(message, rank[0].message, sizeof rank[0].message);
    return rank[0].status;
}

/* Checks that the checkpoint holds exactly the numbers of its step. */
static inline void rig_check_content(const hil_store *store, const char *folder, int64_t step)
{
    char dir[HIL_PATH_MAX], path[HIL_PATH_MAX];
    hil_safetensors *file;
    CHECK_OK(hil_step_path(dir, folder, step));
    for (int s = 0; s < HIL_STATES; ++s) {
        CHECK_OK(hil_path_join(path, dir, hil_state_file[s]));
        CHECK_OK(hil_safetensors_open(&file, path));
        for (size_t i = 0; i < hil_store_count(store); ++i) {
            const hil_param *p = hil_store_at(store, i);
            if (!hil_param_has(p, (hil_state)s)) continue;
            const hil_entry *entry = hil_safetensors_find(file, hil_param_spec_of(p)->name);
            CHECK(entry && entry->bytes == (size_t)hil_param_elements(p) * 4);
            for (int64_t k = 0; k < hil_param_elements(p); ++k) {
                float value;
                CHECK_OK(hil_entry_read(entry, (size_t)k * 4, &value, 4));
                CHECK(value == rig_value(i, s, k, step));
            }
        }
        hil_safetensors_close(file);
    }
}

#endif
