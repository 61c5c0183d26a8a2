# kill -9 of a rank, of mpirun or of all of them, then --resume with as many ranks: the same bits as
# an uninterrupted job.
# soak: --full
set -u
. "$TESTS/cli/lib.sh"
. "$TESTS/mpi.sh"
if [ "${1:-}" = --full ]; then
    for ranks in 2 3 4; do
        (. "$TESTS/run/kills.sh" && kill_many 90) || exit 1
        rm -rf "$work"/*
    done
else
    ranks=2
    . "$TESTS/run/kills.sh"
    kill_many 3
fi
