/* fio.c - starts fio and reads its speed. */
#include "run/fio.h"

#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS = 15, ARGUMENT_BYTES = 320 };

/* Starts fio with `out` as its standard output. Returns 0 or an errno value. */
static int start_fio(const hil_fio_job *job, int out, pid_t *child)
{
    char text[ARGUMENTS][ARGUMENT_BYTES], *argument[ARGUMENTS + 1];
    int count = 0;
#define ADD(...) snprintf(text[count++], ARGUMENT_BYTES, __VA_ARGS__)
    ADD("fio");
    ADD("--name=hilbert");
    ADD("--filename=%s", job->file);
    ADD("--rw=%s", job->write ? "write" : "read");
    ADD("--bs=%zu", job->block);
    ADD("--iodepth=%d", job->depth);
    ADD("--ioengine=%s", job->engine);
    ADD("--size=%llu", (unsigned long long)job->size);
    ADD("--direct=%d", job->direct);
    ADD("--fallocate=none");
    ADD("--allow_file_create=0");
    ADD("--thread");
    ADD("--output-format=json");
    if (strcmp(job->engine, "io_uring") == 0) {
        ADD("--fixedbufs");
        ADD("--registerfiles");
    }
#undef ADD
    for (int i = 0; i < count; ++i) argument[i] = text[i];
    argument[count] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(child, "fio", &actions, NULL, argument, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static hil_status read_all(int fd, hil_text *text)
{
    char part[4096];
    for (;;) {
        ssize_t got = read(fd, part, sizeof part);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return hil_fail(HIL_ERR_IO, "cannot read from fio: %s", strerror(errno));
        if (got == 0) return HIL_OK;
        HIL_TRY(hil_text_add(text, part, (size_t)got));
    }
}

/* fio may print warnings before the JSON object. */
static double parse(const hil_text *text, bool write)
{
    json_t *all;
    const char *start = text->size ? strchr(text->data, '{') : NULL;
    if (!start) return NAN;
    size_t size = text->size - (size_t)(start - text->data);
    if (hil_json_parse(start, size, "fio", &all) != HIL_OK) return NAN;
    const json_t *job = json_array_get(json_object_get(all, "jobs"), 0);
    const json_t *bytes =
        json_object_get(json_object_get(job, write ? "write" : "read"), "bw_bytes");
    double speed = json_number_value(bytes);
    json_decref(all);
    return speed > 0 ? speed * 1e-9 : NAN;
}

hil_status hil_fio_run(const hil_fio_job *job, double *gbps)
{
    int channel[2], ended = 1;
    pid_t child;
    hil_text text = {0};
    *gbps = NAN;
    if (pipe2(channel, O_CLOEXEC) != 0)
        return hil_fail(HIL_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    int error = start_fio(job, channel[1], &child);
    close(channel[1]);
    hil_status status = error ? HIL_OK : read_all(channel[0], &text);
    close(channel[0]);
    if (!error)
        while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
    if (!error && status == HIL_OK && ended == 0) *gbps = parse(&text, job->write);
    hil_text_free(&text);
    return status;
}
