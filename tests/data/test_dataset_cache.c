/* The token cache is used while it is up to date, rebuilt otherwise, and never left incomplete. */
#include "data/fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

/* Counts progress calls, which happen only while a cache is built. */
struct progress {
    int calls;
    uint64_t done, total;
    hil_status give;
    const char *append_to;
};

static hil_status note(void *context, uint64_t done, uint64_t total)
{
    struct progress *progress = context;
    CHECK(done >= progress->done && done <= total);
    ++progress->calls;
    progress->done = done;
    progress->total = total;
    if (progress->append_to) {
        FILE *file = fopen(progress->append_to, "ab");
        CHECK(file && fputc('!', file) == '!' && fclose(file) == 0);
    }
    return progress->give == HIL_OK ? HIL_OK : hil_fail(progress->give, "stopped");
}

static int files_in(const char *folder, char name[256])
{
    DIR *listing = opendir(folder);
    int count = 0;
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (entry->d_name[0] == '.') continue;
        if (name) snprintf(name, 256, "%s/%.200s", folder, entry->d_name);
        ++count;
    }
    if (listing) closedir(listing);
    return count;
}

/* The tokens; *built: files were read for them. */
static const char *tokens(const char *const *paths, size_t count, hil_dataset_options options,
                          bool *built)
{
    struct progress progress = {0};
    options.progress = note;
    options.context = &progress;
    const char *text = fixture_tokens(paths, count, &options);
    *built = progress.calls > 0;
    if (*built) CHECK_INT(progress.done, progress.total);
    return text;
}

static void check_reuse(void)
{
    bool built;
    const char *paths[] = {fixture_text("a.txt", "abc"), fixture_text("b.txt", "de")};
    hil_dataset_options options = fixture_options(3);
    CHECK_TEXT(tokens(paths, 2, options, &built), "97 98 99 256 100 101");
    CHECK(built);
    struct stat info;
    CHECK(stat(options.cache_dir, &info) == 0);
    CHECK_INT(info.st_mode & 0777, 0700);
    options.seq = 2;
    CHECK_TEXT(tokens(paths, 2, options, &built), "97 98 99 256 100 101");
    CHECK(!built);
    CHECK_INT(files_in(options.cache_dir, NULL), 1);

    fixture_text("b.txt", "fg");
    CHECK_TEXT(tokens(paths, 2, options, &built), "97 98 99 256 102 103");
    CHECK(built);
    CHECK_INT(files_in(options.cache_dir, NULL), 1);

    const char *only = paths[0];
    CHECK_TEXT(tokens(&only, 1, options, &built), "97 98");
    CHECK(built);
    options.eot = -1;
    CHECK_TEXT(tokens(paths, 2, options, &built), "97 98 99 102");
    CHECK(built);
    options.vocab = 99;
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, paths, 2, &options), HIL_ERR_INPUT, "position 2");
}

/* Windows of examples depend on --seq. */
static void check_examples(void)
{
    bool built;
    CHECK_OK(hil_file_remove_tree(fixture_path("cache")));
    const char *path = fixture_text(
        "e.jsonl", "{\"text\": \"xyz\"}\n{\"prompt\": \"b\", \"completion\": \"c\"}\n");
    hil_dataset_options options = fixture_options(3);
    CHECK_TEXT(tokens(&path, 1, options, &built), "120 121 122 98 99 256");
    CHECK(built);
    CHECK_TEXT(tokens(&path, 1, options, &built), "120 121 122 98 99 256");
    CHECK(!built);
    options.seq = 4;
    CHECK_TEXT(tokens(&path, 1, options, &built), "98 99 256 256");
    CHECK(built);
    options.stops = (int64_t[]){99, -1};
    CHECK_TEXT(tokens(&path, 1, options, &built), "98 99 256 256");
    CHECK(built);
    CHECK_INT(files_in(options.cache_dir, NULL), 2);
}

static void flip(const char *path, long place)
{
    FILE *file = fopen(path, "r+b");
    CHECK(file && fseek(file, place, place < 0 ? SEEK_END : SEEK_SET) == 0);
    int byte = fgetc(file);
    CHECK(fseek(file, -1, SEEK_CUR) == 0 && fputc(byte ^ 4, file) != EOF && fclose(file) == 0);
}

static void check_damage(void)
{
    CHECK_OK(hil_file_remove_tree(fixture_path("cache")));
    bool built;
    char cache[256], text[5000], again[1 << 15];
    for (size_t i = 0; i < sizeof text; ++i) text[i] = (char)('a' + i % 26);
    const char *path = fixture_bytes("c.txt", text, sizeof text);
    hil_dataset_options options = fixture_options(5);
    snprintf(again, sizeof again, "%s", tokens(&path, 1, options, &built));
    CHECK(built);
    CHECK_INT(files_in(options.cache_dir, cache), 1);

    for (long place = -32; place < 0; ++place) {
        flip(cache, place);
        CHECK_TEXT(tokens(&path, 1, options, &built), again);
        CHECK(built);
    }
    struct stat info;
    CHECK(stat(cache, &info) == 0);
    const long sizes[] = {0, 1, 31, 32, info.st_size - 4096, info.st_size - 1, info.st_size + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        CHECK(truncate(cache, sizes[i]) == 0);
        CHECK_TEXT(tokens(&path, 1, options, &built), again);
        CHECK(built);
    }
    int32_t token[5];
    const hil_window window = {token, token, token, token};
    for (long place = 0; place < 4096; place += 371) {
        hil_dataset *dataset;
        flip(cache, place);
        CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
        CHECK_FAILS(hil_dataset_window(dataset, 0, &window), HIL_ERR_IO, "damaged");
        CHECK_OK(hil_dataset_window(dataset, 300, &window));
        hil_dataset_close(dataset);
        CHECK_TEXT(tokens(&path, 1, options, &built), again);
        CHECK(built);
    }
}

/* A block is missing, but the footer is complete. */
static void check_missing_block(void)
{
    char cache[256];
    bool built;
    hil_dataset_options options = fixture_options(5);
    const char *path = fixture_path("c.txt");
    CHECK_INT(files_in(options.cache_dir, cache), 1);
    hil_bytes map;
    CHECK_OK(hil_bytes_read(&map, cache));
    CHECK_OK(hil_file_write(cache, map.data + 4096, map.size - 4096));
    hil_bytes_free(&map);
    tokens(&path, 1, options, &built);
    CHECK(built);
}

/* One block is copied over another. */
static void check_moved_block(void)
{
    char cache[256], block[4096];
    hil_dataset_options options = fixture_options(5);
    const char *path = fixture_path("c.txt");
    CHECK_INT(files_in(options.cache_dir, cache), 1);
    int fd = open(cache, O_RDWR);
    CHECK(pread(fd, block, 4096, 4096) == 4096 && pwrite(fd, block, 4096, 0) == 4096);
    close(fd);
    int32_t token[5];
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_FAILS(hil_dataset_window(dataset, 0, &(hil_window){token, token, token, token}),
                HIL_ERR_IO, "damaged");
    hil_dataset_close(dataset);
}

static void check_stops(void)
{
    CHECK_OK(hil_file_remove_tree(fixture_path("cache")));
    struct progress progress = {.give = HIL_ERR_INTERRUPTED};
    hil_dataset_options options = fixture_options(1);
    options.progress = note;
    options.context = &progress;
    hil_dataset *dataset;
    const char *path = fixture_text("s.txt", "stop");
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INTERRUPTED, "stopped");
    CHECK(!hil_file_exists(options.cache_dir));

    progress = (struct progress){.append_to = path};
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT,
                "changed while it was being read");
    CHECK(!hil_file_exists(options.cache_dir));

    options.progress = NULL;
    options.cache_dir = path;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, "not a folder");
    options.cache_dir = "/proc/hilbert";
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_IO, "/proc/hilbert");
}

/* A limit on file sizes simulates a full disk. */
static void check_full_disk(void)
{
    const char *path = fixture_path("c.txt");
    struct rlimit before, limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = before;
    limit.rlim_cur = 8192;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    hil_dataset_options options = fixture_options(5);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_IO, "cannot write");
    CHECK(!hil_file_exists(options.cache_dir));
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

static void check_allocations(void)
{
    const char *paths[] = {
        fixture_text("a.jsonl", "{\"text\": \"a\"}\n{\"prompt\": \"b\", \"completion\": \"c\"}"),
        fixture_npy("a.npy", (uint16_t[]){1, 2}, 2), fixture_text("a.txt", "abc")};
    hil_dataset_options options = fixture_options(3);
    long n = 0;
    for (hil_status status = HIL_ERR_MEMORY; status != HIL_OK;) {
        hil_dataset *dataset, *held = NULL;
        hil_alloc_fail_at(++n);
        status = hil_dataset_open(&dataset, paths, 3, &options);
        if (status == HIL_OK) {
            status = hil_dataset_hold_out(dataset, 0.6, &held);
            CHECK_INT(hil_dataset_windows(dataset), status == HIL_OK ? 1 : 3);
        }
        hil_alloc_fail_at(0);
        if (status != HIL_OK) CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
        CHECK(files_in(options.cache_dir, NULL) <= 1);
        hil_dataset_close(dataset);
        hil_dataset_close(held);
        if (n % 2) CHECK_OK(hil_file_remove_tree(options.cache_dir));
    }
    CHECK(n > 10);
}

/* Two processes build the same cache at once: both get it, and one file remains. */
static void check_two_processes(void)
{
    CHECK_OK(hil_file_remove_tree(fixture_path("cache")));
    hil_text text = {0};
    for (int i = 0; i < 300000; ++i) CHECK_OK(hil_text_print(&text, "%d ", i));
    const char *path = fixture_bytes("big.txt", text.data, text.size);
    hil_dataset_options options = fixture_options(64);
    pid_t child[3];
    for (int i = 0; i < 3; ++i) {
        child[i] = fork();
        if (child[i]) continue;
        hil_dataset *dataset;
        CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
        CHECK_INT(hil_dataset_tokens(dataset), text.size);
        int32_t token[64], other[64];
        for (int64_t w = 0; w < hil_dataset_windows(dataset); ++w) {
            CHECK_OK(hil_dataset_window(dataset, w, &(hil_window){token, other, other, other}));
            for (int64_t t = 0; t < 64; ++t) CHECK_INT(token[t], text.data[w * 64 + t]);
        }
        _exit(0);
    }
    for (int i = 0; i < 3; ++i) {
        int status;
        CHECK(waitpid(child[i], &status, 0) == child[i]);
        CHECK_INT(status, 0);
    }
    CHECK_INT(files_in(options.cache_dir, NULL), 1);
    hil_text_free(&text);
}

/* The unfinished file of a killed builder is removed once it is old. */
static void check_leftovers(void)
{
    CHECK_OK(hil_file_remove_tree(fixture_path("cache")));
    hil_dataset_options options = fixture_options(1);
    const char *path = fixture_text("l.txt", "left");
    bool built;
    char cache[256], name[HIL_PATH_MAX];
    tokens(&path, 1, options, &built);
    CHECK_INT(files_in(options.cache_dir, cache), 1);
    const struct timeval old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    CHECK_OK(hil_temporary_name(name, cache));
    CHECK_OK(hil_file_write(name, "x", 1));
    CHECK(utimes(name, old) == 0);
    CHECK_OK(hil_temporary_name(name, cache));
    CHECK_OK(hil_file_write(name, "x", 1));
    CHECK_OK(hil_file_write(fixture_path("cache/other"), "x", 1));
    CHECK(utimes(fixture_path("cache/other"), old) == 0);
    CHECK(truncate(cache, 0) == 0);
    tokens(&path, 1, options, &built);
    CHECK(built);
    CHECK_INT(files_in(options.cache_dir, NULL), 3);
    CHECK(hil_file_exists(name) && hil_file_exists(fixture_path("cache/other")));
}

int main(void)
{
    fixture_create();
    check_reuse();
    check_examples();
    check_damage();
    check_missing_block();
    check_moved_block();
    check_stops();
    check_full_disk();
    check_allocations();
    check_two_processes();
    check_leftovers();
    return 0;
}
