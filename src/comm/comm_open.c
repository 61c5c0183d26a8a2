/* comm_open.c - connects the ranks that a launcher started, through the module that speaks MPI. */
#include "comm/comm_module.h"

#include <dlfcn.h>

/* A function of the module at `path`, which stays loaded: MPI cannot be taken out again. */
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

hil_status hil_comm_open(hil_comm **out, const hil_comm_options *options)
{
    *out = NULL;
    if (options->expected < 2) return HIL_OK;
    if (!options->module)
        return hil_fail(HIL_ERR_INPUT,
                        "%d ranks were started, but this hilbert was built without MPI; install "
                        "libopenmpi-dev and build it again, or start one process",
                        options->expected);
    hil_comm *comm = NULL;
    hil_comm_module_open open;
    hil_status status;
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
    return HIL_OK;
done:
    hil_comm_close(comm);
    return status;
}
