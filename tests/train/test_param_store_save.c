/* A parameter store is saved while steps go on. What is loaded elsewhere, with other budgets or on
   a device, continues with the same bits; a checkpoint is whole or not there, also after kill -9;
   and what does not fit is refused. */
#include "param_store_kinds.h"

#include "hilbert/checkpoint.h"
#include "io/file.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT "{\"step\": 3, \"big\": 340282366920938463463374607431768211456, \"é\": [0.1]}"

static char folder[] = "/tmp/param_store_save_XXXXXX";

static const placement here = {.device = 8 * M, .host = 4 * M};

static void check_whole(size_t count)
{
    hil_verified found;
    CHECK_OK(hil_checkpoint_verify(folder, NULL, &found));
    CHECK_INT(found.whole_count, count);
    CHECK_INT(found.damage_count, 0);
    hil_verified_free(&found);
}

static void check_resumed(const char *dtype)
{
    static const placement row[] = {{.device = 8 * M, .host = 4 * M, .early = true},
                                    {.device = 500 << 10, .host = 4 * M},
                                    {.device = 400 << 10, .host = 300 << 10, .drives = 1}};
    static outcome straight, resumed;
    CHECK_OK(hil_file_remove_tree(folder));
    run(dtype, &kinds_cpu, &here, &straight);
    run_saving(dtype, &kinds_cpu, &here, folder, TEXT, &resumed);
    CHECK(memcmp(&straight, &resumed, sizeof resumed) == 0);
    check_whole(1);
    for (size_t i = 0; i < sizeof row / sizeof *row; ++i) {
        run_loaded(dtype, &kinds_cpu, &row[i], folder, TEXT, &resumed);
        CHECK(memcmp(&straight, &resumed, sizeof resumed) == 0);
    }
}

/* The shapes in the files are the parameters'. */
static void check_shapes(void)
{
    char path[HIL_PATH_MAX];
    hil_bytes file;
    snprintf(path, sizeof path, "%s/step-%d/master.safetensors", folder, HALF);
    CHECK_OK(hil_bytes_read(&file, path));
    CHECK(memmem(file.data, file.size, "\"shape\":[24,3,5,5]", 18) != NULL);
    CHECK(memmem(file.data, file.size, "\"shape\":[2,360]", 15) != NULL);
    hil_bytes_free(&file);
}

/* Each save has a number of its own; `keep` of them stay. */
static void check_kept(void)
{
    hil_stored_param *param[PARAMS];
    hil_param_store_loaded loaded;
    hil_param_store *store = open_store("bf16", &kinds_cpu, &here, param);
    CHECK_OK(hil_file_remove_tree(folder));
    for (int i = 0; i < 3; ++i) CHECK_OK(hil_param_store_save(store, folder, NULL, 0));
    CHECK_OK(hil_param_store_saved(store));
    check_whole(3);
    CHECK_OK(hil_param_store_save(store, folder, NULL, 2));
    CHECK_OK(hil_param_store_saved(store));
    check_whole(2);
    CHECK_OK(hil_param_store_load(store, folder, &loaded));
    CHECK_INT(loaded.step, 3);
    CHECK(loaded.extra == NULL);
    char path[HIL_PATH_MAX];
    snprintf(path, sizeof path, "%s/step-3/master.safetensors", folder);
    CHECK(truncate(path, 5000) == 0);
    CHECK_OK(hil_param_store_load(store, folder, &loaded));
    CHECK_INT(loaded.step, 2);
    CHECK(loaded.warning && strstr(loaded.warning, "step-3"));
    hil_param_store_destroy(store);
}

/* Killed at some time within its second save. */
static void save_and_die(int delay)
{
    hil_stored_param *param[PARAMS];
    char seen[PARAMS][64];
    hil_param_store *store = open_store("bf16", &kinds_cpu, &here, param);
    CHECK_OK(hil_param_store_save(store, folder, "old", 1));
    CHECK_OK(hil_param_store_saved(store));
    (void)take_step(store, &kinds_cpu, &here, param, 0, seen);
    CHECK_OK(hil_param_store_save(store, folder, "new", 1));
    usleep((useconds_t)delay);
    kill(getpid(), SIGKILL);
}

static void check_killed(void)
{
    int end;
    for (int delay = 0; delay < 4000; delay += 500) {
        CHECK_OK(hil_file_remove_tree(folder));
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) save_and_die(delay);
        CHECK(waitpid(child, &end, 0) == child && WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
        hil_stored_param *param[PARAMS];
        hil_param_store_loaded loaded;
        hil_param_store *store = open_store("bf16", &kinds_cpu, &here, param);
        CHECK_OK(hil_param_store_load(store, folder, &loaded));
        bool fresh = hil_param_store_updates(param[0]) == 1;
        CHECK_TEXT(loaded.extra, fresh ? "new" : "old");
        CHECK_INT(loaded.step, fresh);
        CHECK_OK(hil_param_store_save(store, folder, NULL, 1)); /* removes what was left */
        CHECK_OK(hil_param_store_saved(store));
        check_whole(1);
        hil_param_store_destroy(store);
    }
}

static void check_refused(void)
{
    static const placement bare = {.device = 8 * M};
    hil_stored_param *param[PARAMS], *other;
    hil_param_store_loaded loaded;
    hil_param_store *store = open_store("bf16", &kinds_cpu, &bare, param);
    CHECK_FAILS(hil_param_store_save(store, folder, NULL, 1), HIL_ERR_USAGE, "options.saves");
    CHECK_FAILS(hil_param_store_load(store, "/nowhere/at/all", &loaded), HIL_ERR_INPUT,
                "no checkpoint in /nowhere/at/all");
    CHECK_OK(hil_param_store_begin(store, HIL_PARAM_STORE_TRAIN));
    CHECK_FAILS(hil_param_store_load(store, folder, &loaded), HIL_ERR_USAGE, "between steps");
    CHECK_OK(hil_param_store_end(store));
    hil_param_store_destroy(store);
    store = open_store("bf16", &kinds_cpu, &here, param);
    CHECK_FAILS(hil_param_store_save(store, folder, "\xff", 1), HIL_ERR_INPUT, "UTF-8");
    CHECK_FAILS(hil_param_store_save(store, "/proc/nowhere", NULL, 1), HIL_ERR_IO, "/proc/nowhere");
    CHECK_OK(hil_param_store_save(store, folder, NULL, 1));
    CHECK_OK(hil_param_store_saved(store));
    hil_param_store_destroy(store);
    hil_param_store_options options;
    hil_param_store_defaults(&options);
    options.memory.device = M;
    options.optimizer = "lion";
    for (int k = 0; k < 2; ++k) {
        CHECK_OK(hil_param_store_create(&store, &options));
        hil_param_store_form form = {.cols = 7};
        CHECK_OK(hil_param_store_add(store, "p0", &form, &other));
        CHECK_OK(hil_param_store_place(store));
        CHECK_FAILS(hil_param_store_load(store, folder, &loaded), HIL_ERR_INPUT,
                    k ? "does not fit the model: tensor p0" : "the optimizer adamw");
        hil_param_store_destroy(store);
        options.optimizer = "adamw";
    }
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    check_resumed("fp32");
    check_resumed("fp16");
    check_resumed("bf16");
    check_shapes();
    check_kept();
    check_killed();
    check_refused();
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
