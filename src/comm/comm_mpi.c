/* comm_mpi.c - ranks over MPI. The only file that uses MPI; a module that the program loads when a
   launcher started it, see comm_module.h. */
#include "comm/comm_module.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOWEST 0.5e9 /* lowest expected bytes per second of a transfer */

enum {
    PIECE = 1 << 24, /* bytes of each rank in one call: MPI counts in int */
    LARGE = 1 << 16, /* from so many bytes of each rank, a barrier precedes the transfer */
    YIELDS = 20,     /* tests before the first sleep */
    NAP_LEAST = 10,  /* microseconds */
    NAP_MOST = 200
};

typedef struct mpi {
    bool ours; /* MPI was initialized here, so it is finalized here */
    MPI_Comm channel[HIL_CHANNEL_ALL];
    atomic_int inside; /* threads inside MPI calls */
} mpi;

static hil_comm_module_fail fail;

static hil_status check(int code, const char *what)
{
    if (code == MPI_SUCCESS) return HIL_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    return fail(HIL_ERR_IO, "MPI cannot %s: %s", what, text);
}

static void nap(int *microseconds)
{
    nanosleep(&(struct timespec){0, *microseconds * 1000L}, NULL);
    *microseconds += *microseconds / 4 + 1;
    if (*microseconds > NAP_MOST) *microseconds = NAP_MOST;
}

/* A thread calls MPI only between begin_call and end_call. begin_call returns false if the comm is
   broken, and waits until no thread is inside MPI: then nothing moves, see [Note: broken]. */
static void end_call(mpi *m)
{
    atomic_fetch_sub(&m->inside, 1);
}

static bool begin_call(const hil_comm *comm)
{
    mpi *m = comm->state;
    atomic_fetch_add(&m->inside, 1);
    if (!atomic_load(&comm->broken)) return true;
    end_call(m);
    int pause = NAP_LEAST;
    while (atomic_load(&m->inside) > 0) nap(&pause);
    return false;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* Polls without occupying a core, because ranks may share one. MPI moves bytes only while it is
   called, so for the first `seconds` it only yields; then it sleeps between tests. */
static hil_status wait_for(const hil_comm *comm, MPI_Request *request, double seconds)
{
    mpi *m = comm->state;
    int pause = NAP_LEAST, done = 0;
    double until = seconds > 0 ? now() + seconds : 0;
    for (int tests = 0;; ++tests) {
        if (!begin_call(comm)) return fail(HIL_ERR_IO, "the ranks are no longer connected");
        int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        end_call(m);
        if (code != MPI_SUCCESS || done) return check(code, "move data between ranks");
        if (tests < YIELDS || (until > 0 && now() < until))
            sched_yield();
        else
            nap(&pause);
    }
}

/* A type of `bytes` bytes with extent `stride`. */
static int make_type(size_t bytes, size_t stride, MPI_Datatype *type)
{
    MPI_Datatype piece;
    int code = MPI_Type_contiguous((int)bytes, MPI_BYTE, &piece);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Type_create_resized(piece, 0, (MPI_Aint)stride, type);
    MPI_Type_free(&piece);
    return code == MPI_SUCCESS ? MPI_Type_commit(type) : code;
}

/* A gather or an exchange, or a piece of one; the data of ranks is `stride` bytes apart. */
typedef struct movement {
    enum { GATHER, EXCHANGE } kind;
    MPI_Comm over;
    const void *out;
    void *in;
    size_t bytes, stride;
} movement;

static int begin(const movement *p, MPI_Request *request)
{
    MPI_Datatype type = MPI_BYTE;
    int count = (int)p->bytes;
    if (p->bytes != p->stride) {
        int code = make_type(p->bytes, p->stride, &type);
        if (code != MPI_SUCCESS) return code;
        count = 1;
    }
    int code = p->kind == GATHER
                   ? MPI_Iallgather(p->out, count, type, p->in, count, type, p->over, request)
                   : MPI_Ialltoall(p->out, count, type, p->in, count, type, p->over, request);
    if (type != MPI_BYTE) MPI_Type_free(&type);
    return code;
}

static hil_status move_piece(const hil_comm *comm, const movement *p)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (!begin_call(comm)) return fail(HIL_ERR_IO, "the ranks are no longer connected");
    int code = begin(p, &request);
    end_call(comm->state);
    if (code != MPI_SUCCESS) return check(code, "begin to move data between ranks");
    double bytes = p->bytes < LARGE ? 0 : (double)p->bytes * (double)comm->size;
    return wait_for(comm, &request, bytes / SLOWEST);
}

static hil_status barrier(const hil_comm *comm, MPI_Comm over)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (!begin_call(comm)) return fail(HIL_ERR_IO, "the ranks are no longer connected");
    int code = MPI_Ibarrier(over, &request);
    end_call(comm->state);
    if (code != MPI_SUCCESS) return check(code, "assemble the ranks");
    return wait_for(comm, &request, 0);
}

static hil_status move_all(const hil_comm *comm, const movement *all)
{
    hil_status status = all->bytes < LARGE ? HIL_OK : barrier(comm, all->over);
    for (size_t at = 0; status == HIL_OK && (at < all->bytes || at == 0); at += PIECE) {
        movement p = *all;
        p.bytes = all->bytes - at < PIECE ? all->bytes - at : PIECE;
        if (p.out != MPI_IN_PLACE) p.out = (const unsigned char *)p.out + at;
        p.in = (unsigned char *)p.in + at;
        status = move_piece(comm, &p);
    }
    return status;
}

static hil_status gather(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                         size_t bytes)
{
    const mpi *m = comm->state;
    bool placed = slice == (unsigned char *)whole + (size_t)comm->rank * bytes;
    return move_all(comm, &(movement){GATHER, m->channel[channel], placed ? MPI_IN_PLACE : slice,
                                      whole, bytes, bytes});
}

static hil_status exchange(hil_comm *comm, hil_channel channel, const void *out, void *in,
                           size_t bytes)
{
    const mpi *m = comm->state;
    return move_all(comm, &(movement){EXCHANGE, m->channel[channel], out, in, bytes, bytes});
}

/* Does not finalize MPI if the comm is broken: that would wait for lost ranks. */
static void destroy(hil_comm *comm)
{
    mpi *m = comm->state;
    if (atomic_load(&comm->broken)) return;
    for (int i = 0; i < (int)HIL_CHANNEL_ALL; ++i)
        if (m->channel[i] != MPI_COMM_NULL) MPI_Comm_free(&m->channel[i]);
    if (m->ours) MPI_Finalize();
    free(m);
}

static const hil_comm_engine engine = {"mpi", true, destroy, gather, exchange, NULL};

static int find_place(hil_comm *comm)
{
    MPI_Comm local;
    MPI_Comm_rank(MPI_COMM_WORLD, &comm->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &comm->size);
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm_rank(local, &comm->local_rank);
    MPI_Comm_size(local, &comm->local_size);
    return MPI_Comm_free(&local);
}

static int start_mpi(mpi *m, int *threads)
{
    int begun = 0;
    MPI_Initialized(&begun);
    if (begun) return MPI_Query_thread(threads);
    m->ours = true;
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, threads);
}

static int connect_channels(mpi *m)
{
    int code = MPI_SUCCESS;
    for (int i = 0; code == MPI_SUCCESS && i < (int)HIL_CHANNEL_ALL; ++i)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &m->channel[i]);
    return code;
}

HIL_API hil_status hil_comm_mpi_open(hil_comm *comm, size_t size, hil_comm_module_fail say)
{
    fail = say;
    if (size != sizeof *comm)
        return fail(HIL_ERR_INPUT, "hilbert_mpi.so is not of the same build as this program");
    mpi *m = calloc(1, sizeof *m);
    if (!m) return fail(HIL_ERR_MEMORY, "no memory is left for MPI");
    for (int i = 0; i < (int)HIL_CHANNEL_ALL; ++i) m->channel[i] = MPI_COMM_NULL;
    int threads = MPI_THREAD_SINGLE;
    hil_status status = check(start_mpi(m, &threads), "start");
    if (status != HIL_OK) {
        free(m);
        return status;
    }
    comm->state = m;
    comm->engine = &engine;
    if (threads < MPI_THREAD_MULTIPLE)
        return fail(HIL_ERR_INPUT, "this MPI does not allow calls from several threads");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* its copies inherit it */
    status = check(find_place(comm), "find the ranks of this machine");
    if (status != HIL_OK) return status;
    return check(connect_channels(m), "connect the ranks");
}

HIL_API const char *hil_comm_mpi_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    return text;
}
