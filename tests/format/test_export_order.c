/* After a kill or a power loss at any call of an export, the folder holds the whole new model, the
   whole old one, or none that loads; never a mixture. The user's files stay. */
#include "disk_model.h"
#include "save_rig.h"

#include "format/checkpoint_export.h"
#include "model/config/config.h"
#include "format/model_sum.h"
#include "store/store.h"

#include <dirent.h>

static char folder[HIL_PATH_MAX]; /* of the model, on the modelled disk */
static uint64_t old_model, new_model;
static bool crashing;
static int crashes, loads;

static int before(const call *c)
{
    (void)c;
    return 0;
}

/* Checks that the folder holds one of the two models, or does not load. */
static void check_folder(const char *path)
{
    char notes[HIL_PATH_MAX];
    hil_config config;
    hil_bytes content;
    CHECK_OK(hil_path_join(notes, path, "notes.txt"));
    CHECK_OK(hil_bytes_read(&content, notes));
    CHECK_TEXT(content.data, "mine");
    hil_bytes_free(&content);
    if (hil_config_open(&config, path) != HIL_OK) {
        CHECK(strstr(hil_status_message(), "no config.json is there"));
        return;
    }
    uint64_t sum = model_sum(path);
    CHECK(sum == old_model || sum == new_model);
    ++loads;
}

static void crash(disk_loss loss, unsigned seed)
{
    char place[] = "/tmp/hilbert-crash-XXXXXX", root[HIL_PATH_MAX], path[HIL_PATH_MAX];
    CHECK(mkdtemp(place) != NULL);
    CHECK_OK(hil_path_join(root, place, "root"));
    disk_restore(0, root, loss, &seed);
    CHECK_OK(hil_path_join(path, root, "model"));
    check_folder(path);
    CHECK_OK(hil_file_remove_tree(place));
    ++crashes;
}

static void after(const call *c, long result)
{
    if (!disk_apply(c, result) || !crashing) return;
    check_folder(folder); /* a kill */
    crash(LOSS_ALL, 0);
    crash(LOSS_BYTES, 0);
    for (unsigned i = 0; i < 3; ++i) crash(LOSS_CHANCE, (unsigned)crashes);
}

static void export(const char *checkpoints, int64_t step, size_t shard_bytes)
{
    char dir[HIL_PATH_MAX];
    hil_checkpoint_model *model;
    CHECK_OK(hil_step_path(dir, checkpoints, step));
    CHECK_OK(hil_checkpoint_model_open(&model, dir));
    hil_checkpoint_model_options options = {
        .out = folder, .replaced = HIL_NAMES_ALL, .dtype = HIL_F32, .shard_bytes = shard_bytes};
    CHECK_OK(hil_checkpoint_model_write(model, &options));
    hil_checkpoint_model_close(model);
}

static void give(hil_sidecar_file which, const char *text)
{
    hil_bytes *file = &rig_files.file[which];
    hil_bytes_free(file);
    if (!text) return;
    CHECK_OK(hil_text_copy(text, &file->data));
    file->size = strlen(text);
}

static void add_file(const char *name, const char *text)
{
    char path[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(path, folder, name));
    CHECK_OK(hil_file_write(path, text, strlen(text)));
}

static void check_kept(bool (*is)(const char *name), bool expected)
{
    DIR *dir = opendir(folder);
    bool found = false;
    for (struct dirent *entry; dir && (entry = readdir(dir));) found |= is(entry->d_name);
    closedir(dir);
    CHECK(found == expected);
}

static bool is_foreign(const char *name)
{
    return hil_install_names_kind(name) == HIL_NAMES_FOREIGN;
}

int main(void)
{
    char checkpoints[] = "/tmp/hilbert-export-order-XXXXXX";
    disk_begin();
    ++calls_unseen;
    CHECK(mkdtemp(checkpoints) != NULL);
    hil_store *store = rig_store();
    --calls_unseen;
    CHECK_OK(hil_path_join(folder, disk_root, "model"));
    rig_rank how = {.folder = checkpoints, .step = 1, .store = store, .ranks = 1};
    give(HIL_SIDECAR_TOKENIZER, "old");
    give(HIL_SIDECAR_MERGES, "old");
    CHECK_OK(rig_save(&how, NULL));
    give(HIL_SIDECAR_TOKENIZER, "new");
    give(HIL_SIDECAR_MERGES, NULL);
    give(HIL_SIDECAR_TOKENIZER_CONFIG, "new");
    how.step = 2;
    CHECK_OK(rig_save(&how, NULL));

    /* The new model in an empty folder. */
    CHECK_OK(hil_dir_create(folder));
    export(checkpoints, 2, 0);
    new_model = model_sum(folder);
    CHECK_OK(hil_install_remove(folder, HIL_NAMES_ALL));
    /* The old model: shards, another tokenizer, files of another program; and files of the user. */
    export(checkpoints, 1, 2000);
    add_file("pytorch_model.bin", "old");
    add_file("adapter_config.json", "{}");
    add_file("notes.txt", "mine");
    CHECK_OK(hil_dir_sync(folder));
    old_model = model_sum(folder);
    CHECK(old_model != new_model);

    crashing = true;
    export(checkpoints, 2, 0);
    crashing = false;
    CHECK(model_sum(folder) == new_model);
    check_kept(is_foreign, false);
    check_kept(hil_temporary_is, false);
    CHECK(crashes > 50 && loads > 20);
    ++calls_unseen;
    hil_store_destroy(store);
    hil_sidecar_files_free(&rig_files);
    CHECK_OK(hil_file_remove_tree(checkpoints));
    --calls_unseen;
    disk_end();
    return 0;
}
