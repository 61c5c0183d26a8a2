/* A damaged checkpoint is noticed, whichever byte is wrong, and the whole one before it is used. */
/* soak: --full */
#include "copy.h"
#include "format/checkpoint.h"
#include "hilbert/checkpoint.h"
#include "job.h"

#include <fcntl.h>
#include <sys/stat.h>

static void flip(const char *path, off_t at)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    CHECK(pread(fd, &byte, 1, at) == 1);
    byte ^= (unsigned char)(1u << (at % 8));
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    CHECK(close(fd) == 0);
}

static off_t size_of(const char *path)
{
    struct stat info;
    CHECK(stat(path, &info) == 0);
    return info.st_size;
}

static void check_found(const char *checkpoints, int64_t step, bool warned)
{
    hil_checkpoint_found found;
    CHECK_OK(hil_checkpoint_find(checkpoints, NULL, &found));
    CHECK_INT(found.step, step);
    CHECK_INT(found.warning[0] != 0, warned);
}

/* What `hilbert verify` says of the run. */
static hil_status verify(const char *checkpoints)
{
    FILE *out = fopen("/dev/null", "w");
    CHECK(out != NULL);
    hil_status status = hil_checkpoint_verify_path(checkpoints, false, NULL, out);
    fclose(out);
    return status;
}

/* hil_checkpoint_verify returns the same: damage is part of the result. */
static void check_data(const char *checkpoints)
{
    hil_verified v;
    char path[JOB_PATH];
    CHECK_OK(hil_checkpoint_verify(checkpoints, NULL, &v));
    CHECK(v.whole_count == 2 && v.whole[0].step == 4 && v.whole[1].step == 2);
    CHECK_INT(v.damage_count, 0);
    CHECK(strstr(v.whole[0].path, "/step-4") && v.whole[0].bytes > 0 && v.whole[0].checksums > 6);
    hil_verified_free(&v);
    CHECK_OK(hil_path_join(path, checkpoints, "step-4/moment2.safetensors"));
    flip(path, 100);
    CHECK_OK(hil_checkpoint_verify(checkpoints, NULL, &v));
    CHECK(v.whole_count == 1 && v.whole[0].step == 2);
    CHECK_INT(v.damage_count, 1);
    CHECK(strstr(v.damage[0], path));
    hil_verified_free(&v);
    flip(path, 100);
    CHECK_FAILS(hil_checkpoint_verify("/nonexistent", NULL, &v), HIL_ERR_INPUT, "/nonexistent");
    CHECK(v.whole == NULL && v.damage == NULL);
}

/* Flips a bit of every byte in turn, or of `most` random bytes and the first and last; `step` is
   the checkpoint that must be found then. */
static void flip_each(const char *checkpoints, const char *path, off_t most, int64_t step)
{
    off_t size = size_of(path);
    unsigned seed = (unsigned)size;
    for (off_t at = 0; at < size; ++at) {
        if (at > 0 && at < size - 1 && (off_t)rand_r(&seed) % size >= most) continue;
        flip(path, at);
        CHECK_FAILS(verify(checkpoints), HIL_ERR_INPUT, "is damaged");
        CHECK(strstr(hil_status_message(), path));
        check_found(checkpoints, step, true);
        flip(path, at);
    }
    check_found(checkpoints, 4, false);
    CHECK_OK(verify(checkpoints));
}

static void cut_each(const char *checkpoints, const char *path)
{
    hil_bytes map;
    CHECK_OK(hil_bytes_read(&map, path));
    char *bytes;
    CHECK_OK(HIL_ALLOC(map.size, &bytes));
    memcpy(bytes, map.data, map.size);
    size_t size = map.size;
    hil_bytes_free(&map);
    size_t cuts[] = {0, 1, 2, size / 2, size - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; ++i) {
        CHECK_OK(hil_file_write(path, bytes, cuts[i]));
        check_found(checkpoints, 2, true);
    }
    CHECK(unlink(path) == 0);
    check_found(checkpoints, 2, true);
    CHECK_OK(hil_file_write(path, bytes, size));
    check_found(checkpoints, 4, false);
    hil_free(bytes);
}

/* A `latest` that is unreadable or names nothing does not hide the newest whole checkpoint. */
static void spoil_pointer(const char *checkpoints)
{
    static const struct {
        const char *text;
        bool warned;
    } spoilt[] = {{"", true},         {"step-", true},    {"step-4", true},
                  {"step-4\n", true}, {"step-4x", true},  {"../step-4", true},
                  {"step-9\n", true}, {"\xff\xfe", true}, {"step-99999999999999999999", true}};
    char path[JOB_PATH];
    CHECK_OK(hil_path_join(path, checkpoints, "latest"));
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; ++i) {
        CHECK_OK(hil_file_write(path, spoilt[i].text, strlen(spoilt[i].text)));
        check_found(checkpoints, 4, spoilt[i].warned);
    }
    CHECK(unlink(path) == 0);
    check_found(checkpoints, 4, false);
    CHECK_OK(hil_checkpoint_return_to(checkpoints, 4));
}

static void take_note(void *context, const char *line)
{
    if (strstr(line, "damaged")) *(bool *)context = true;
}

/* The run resumes from the whole checkpoint, and never loses the last, even with --keep 1. */
static void check_run(job_place *place, hil_train_options *options, const char *checkpoints)
{
    char path[JOB_PATH], whole[JOB_PATH];
    hil_train_options undisturbed = *options;
    undisturbed.out = job_path(place, whole, "undisturbed");
    undisturbed.steps = 6;
    job_train(&undisturbed);
    CHECK_OK(hil_path_join(path, checkpoints, "step-4/moment2.safetensors"));
    flip(path, size_of(path) - 1);
    CHECK_OK(hil_path_join(path, checkpoints, "step-4/notes.txt"));
    CHECK_OK(hil_file_write(path, "mine", 4));
    bool warned = false;
    hil_observer observer = {.context = &warned, .note = take_note};
    hil_train_result result;
    options->resume = true;
    options->steps = 2; /* nothing to do, so nothing new is saved */
    options->keep = 1;
    CHECK_OK(hil_train(options, &observer, &result));
    CHECK(warned);
    check_found(checkpoints, 2, false);
    CHECK_OK(hil_path_join(path, checkpoints, "step-4.rest/notes.txt"));
    CHECK(hil_file_exists(path)); /* a file of the user's does not hold the name */
    options->steps = 6;
    job_train(options);
    CHECK(job_same(options->out, whole));
    /* With every checkpoint damaged, resuming fails with a message. */
    CHECK_OK(hil_path_join(path, checkpoints, "step-6/manifest.json"));
    flip(path, 20);
    options->steps = 8;
    CHECK_FAILS(hil_train(options, NULL, &result), HIL_ERR_INPUT, "no whole checkpoint");
    CHECK(hil_file_exists(path));
}

/* The golden model and a file of its tokenizer. */
static void copy_model(job_place *place, hil_train_options *options)
{
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors"};
    static char model[JOB_PATH];
    char from[JOB_PATH], to[JOB_PATH];
    CHECK_OK(hil_dir_create(job_path(place, model, "model")));
    for (int i = 0; i < 3; ++i) {
        CHECK_OK(hil_path_join(from, options->model, files[i]));
        CHECK_OK(hil_path_join(to, model, files[i]));
        CHECK_OK(copy_file(from, to));
    }
    CHECK_OK(hil_path_join(to, model, "special_tokens_map.json"));
    CHECK_OK(hil_file_write(to, "{\"eos_token\": \"<|endoftext|>\"}\n", 32));
    options->model = model;
}

int main(int argc, char **argv)
{
    static const char *const files[] = {"manifest.json",          "config.json",
                                        "generation_config.json", "master.safetensors",
                                        "moment1.safetensors",    "moment2.safetensors",
                                        "special_tokens_map.json"};
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    off_t most = full ? (off_t)1 << 40 : 60;
    job_place place;
    char out[JOB_PATH], checkpoints[JOB_PATH], path[JOB_PATH], name[64];
    job_begin(&place);
    hil_train_options options = job_options(&place, "gpt2_untied", job_path(&place, out, "run"));
    copy_model(&place, &options);
    options.steps = 4;
    options.save_every = 2;
    job_train(&options);
    job_path(&place, checkpoints, "run/checkpoints");
    check_found(checkpoints, 4, false);
    check_data(checkpoints);
    for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
        snprintf(name, sizeof name, "step-4/%s", files[i]);
        CHECK_OK(hil_path_join(path, checkpoints, name));
        flip_each(checkpoints, path, most, 2);
        cut_each(checkpoints, path);
    }
    CHECK_OK(hil_path_join(path, checkpoints, "latest"));
    flip_each(checkpoints, path, size_of(path), 4);
    spoil_pointer(checkpoints);
    check_run(&place, &options, checkpoints);
    job_end(&place);
    return 0;
}
