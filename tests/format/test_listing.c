/* A failure of readdir is an error; it does not look like a folder with fewer files. */
#include "check.h"
#include "data/dataset.h"
#include "data/files.h"
#include "format/checkpoint_manifest.h"
#include "format/model_folder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_at; /* the call of readdir that fails; 0: none */

/* Overrides the C library's. */
struct dirent *readdir(DIR *dir)
{
    static struct dirent *(*real)(DIR *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    if (fail_at && --fail_at == 0) {
        errno = EIO;
        return NULL;
    }
    return real(dir);
}

static char folder[] = "hilbert-listing-XXXXXX";

static bool is_left(const char *name)
{
    return strcmp(name, "left") == 0;
}

static hil_status weed(void)
{
    return hil_dir_remove_matching(folder, is_left);
}

static hil_status find_model(void)
{
    char name[256];
    return hil_install_find(folder, HIL_NAMES_FOREIGN, name);
}

static hil_status list_steps(void)
{
    int64_t *steps;
    size_t count;
    hil_status status = hil_steps_list(folder, &steps, &count);
    if (status == HIL_OK) CHECK_INT(count, 2);
    hil_free(steps);
    return status;
}

static hil_status find_foreign(void)
{
    char name[HIL_PATH_MAX];
    return hil_checkpoint_foreign(folder, name);
}

static hil_status find_data(void)
{
    const char *given[] = {folder};
    hil_files files;
    hil_status status = hil_files_find(&files, given, 1);
    if (status == HIL_OK) CHECK_INT(files.count, 2);
    if (status == HIL_OK) hil_files_free(&files);
    return status;
}

/* Builds a token cache in a folder that has unfinished files of killed builders. */
static hil_status prepare(void)
{
    char path[HIL_PATH_MAX];
    const char *given[] = {path};
    hil_dataset_options options = {
        .vocab = 256, .seq = 1, .eot = -1, .bos = -1, .cache_dir = folder};
    hil_dataset *dataset = NULL;
    CHECK_OK(hil_path_join(path, folder, "a.txt"));
    hil_status status = hil_dataset_open(&dataset, given, 1, &options);
    if (status == HIL_OK) hil_dataset_close(dataset);
    return status;
}

/* Fails the n-th call for n = 1, 2, ... until there is none. */
static void fails_each(hil_status (*list)(void))
{
    int failed = 0;
    for (int n = 1;; ++n) {
        fail_at = n;
        hil_status status = list();
        bool hit = fail_at == 0;
        fail_at = 0;
        if (!hit) {
            CHECK_OK(status);
            break;
        }
        CHECK_FAILS(status, HIL_ERR_IO, "cannot list");
        ++failed;
    }
    CHECK(failed >= 3);
}

static void make(const char *name, bool is_folder)
{
    char path[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(path, folder, name));
    if (is_folder)
        CHECK(mkdir(path, 0700) == 0);
    else
        CHECK_OK(hil_file_write(path, "xyz", 3));
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    make("a.txt", false);
    make("b.txt", false);
    make("step-2", true);
    make("step-4", true);
    fails_each(weed);
    fails_each(find_model);
    fails_each(list_steps);
    fails_each(find_data);
    fails_each(prepare);
    CHECK_OK(hil_file_remove_tree(folder));
    CHECK(mkdir(folder, 0700) == 0);
    make("step-2", true);
    fails_each(find_foreign);
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
