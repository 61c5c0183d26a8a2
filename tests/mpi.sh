# mpi.sh - for tests that start several ranks: mpi N COMMAND... . Skips where there is no MPI.
command -v mpirun > /dev/null || { echo "mpirun is not installed"; exit 77; }
[ -f "$BUILD/hilbert_mpi.so" ] || { echo "this build has no MPI"; exit 77; }

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers refuse the others with a warning
export PMIX_MCA_gds=hash # in the other store a killed rank may hold a lock that mpirun then waits for
export OMPI_MCA_plm_rsh_agent=false                  # ranks on this machine need no ssh
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" # MPI's own

mpi() {
    local ranks=$1
    shift
    timeout -k 5 "${MPI_SECONDS:-120}" mpirun -n "$ranks" "$@" < /dev/null
}
