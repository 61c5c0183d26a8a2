/* comm_open.c - connects the ranks that a launcher started, through the module that calls MPI. */
#include "comm/comm_module.h"
#include "base/sized.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CONNECT_SECONDS 60

/* Finds a function of the module at `path`, which stays loaded: MPI cannot be unloaded. */
static hil_status load(const char *path, const char *name, void **function)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!module)
        return hil_fail(HIL_ERR_INPUT,
                        "cannot load MPI (%s); install it (Open MPI: openmpi-bin), or start one "
                        "process without mpirun",
                        dlerror());
    *function = dlsym(module, name);
    if (!*function) return hil_fail(HIL_ERR_INPUT, "%s is not hilbert's module for MPI", path);
    return HIL_OK;
}

hil_status hil_comm_version(const char *module, const char **out)
{
    hil_comm_module_version version;
    HIL_TRY(load(module, HIL_COMM_MODULE_VERSION, (void **)&version));
    *out = version();
    return HIL_OK;
}

/* MPI waits forever for a rank that does not connect, and heartbeats have not started yet: this
   thread calls `lost` after a timeout. */
typedef struct start_watch {
    const hil_comm_options *options;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool over; /* guarded by `mutex` */
} start_watch;

/* Waits up to a second. Time in which this process is stopped counts as one second at most. */
static void wait_second(start_watch *w)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    ++until.tv_sec;
    int error = 0;
    while (!w->over && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&w->changed, &w->mutex, &until);
}

static void *watch_start(void *context)
{
    start_watch *w = context;
    char message[160];
    pthread_mutex_lock(&w->mutex);
    for (int seconds = 0; seconds < CONNECT_SECONDS && !w->over; ++seconds) wait_second(w);
    bool over = w->over;
    pthread_mutex_unlock(&w->mutex);
    if (over) return NULL;
    snprintf(message, sizeof message,
             "the %d ranks are not connected after %d s: one of them did not start, ended, was "
             "stopped, or cannot be reached",
             w->options->expected, CONNECT_SECONDS);
    w->options->lost(w->options->context, message);
    return NULL;
}

static hil_status watch_begin(start_watch *w, const hil_comm_options *options)
{
    sigset_t all, before;
    *w = (start_watch){.options = options, .over = !options->lost};
    if (w->over) return HIL_OK;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    sigfillset(&all); /* handlers run on the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&w->thread, NULL, watch_start, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return HIL_OK;
    w->over = true;
    return hil_fail(HIL_ERR_MEMORY, "cannot start a thread: %s", strerror(error));
}

static void watch_end(start_watch *w)
{
    if (w->over) return;
    pthread_mutex_lock(&w->mutex);
    w->over = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
}

void hil_comm_defaults_sized(hil_comm_options *options, size_t size)
{
    const hil_comm_options defaults = {0};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

static hil_status connect_ranks(hil_comm **out, const hil_comm_options *options)
{
    if (options->expected < 2) return HIL_OK;
    if (!options->module)
        return hil_fail(HIL_ERR_INPUT,
                        "%d ranks were started, but this hilbert was built without MPI; install "
                        "libopenmpi-dev and build it again, or start one process",
                        options->expected);
    hil_comm *comm = NULL;
    hil_comm_module_open open;
    start_watch watch;
    hil_status status = watch_begin(&watch, options);
    if (status != HIL_OK) return status;
    HIL_TRY_DONE(load(options->module, HIL_COMM_MODULE_OPEN, (void **)&open));
    HIL_TRY_DONE(hil_comm_create(&comm));
    HIL_TRY_DONE(open(comm, sizeof *comm, hil_fail));
    HIL_TRY_DONE(hil_comm_prepare(comm));
    if (comm->size != options->expected)
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT,
                              "%d copies were started, but MPI connects only %d of them: the "
                              "launcher belongs to another MPI than the one hilbert was built "
                              "with; use the mpirun of that MPI, or another --mpi= of srun",
                              options->expected, comm->size));
    HIL_TRY_DONE(hil_comm_watch(comm, options));
    *out = comm;
done:
    watch_end(&watch);
    if (status != HIL_OK) hil_comm_close(comm);
    return status;
}

hil_status hil_comm_open(hil_comm **out, const hil_comm_options *options)
{
    hil_comm_options own;
    *out = NULL;
    HIL_TRY(HIL_SIZED_TAKE(hil_comm, &own, options));
    return connect_ranks(out, &own);
}
