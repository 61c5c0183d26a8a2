/* comm_open.c - connects the ranks that a launcher started, through the module that speaks MPI. */
#include "comm/comm_module.h"

#include <dlfcn.h>

static hil_status load(hil_comm *comm, const char *path)
{
    comm->module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!comm->module)
        return hil_fail(HIL_ERR_INPUT,
                        "cannot load MPI (%s); install it (Open MPI: openmpi-bin), or start one "
                        "process without mpirun",
                        dlerror());
    hil_comm_module_open open;
    *(void **)&open = dlsym(comm->module, HIL_COMM_MODULE_OPEN);
    if (!open) return hil_fail(HIL_ERR_INPUT, "%s is not hilbert's module for MPI", path);
    return open(comm, sizeof *comm, hil_fail);
}

hil_status hil_comm_open(hil_comm **out, const hil_comm_options *options)
{
    *out = NULL;
    if (options->expected < 1) return HIL_OK;
    if (!options->module) {
        if (options->expected == 1) return HIL_OK;
        return hil_fail(HIL_ERR_USAGE,
                        "%d ranks were started, but this hilbert was built without MPI; install "
                        "libopenmpi-dev and build it again, or start one process",
                        options->expected);
    }
    hil_comm *comm = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_comm_create(&comm));
    HIL_TRY_DONE(load(comm, options->module));
    HIL_TRY_DONE(hil_comm_prepare(comm));
    if (comm->size != options->expected)
        HIL_TRY_DONE(hil_fail(HIL_ERR_USAGE,
                              "%d copies were started, but MPI connects only %d of them: the "
                              "launcher belongs to another MPI than the one hilbert was built "
                              "with; use the mpirun of that MPI",
                              options->expected, comm->size));
    if (comm->size > 1) HIL_TRY_DONE(hil_comm_watch(comm, options));
    *out = comm;
    return HIL_OK;
done:
    hil_comm_close(comm);
    return status;
}
