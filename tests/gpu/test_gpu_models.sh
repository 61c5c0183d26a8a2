# Every golden model on a GPU, or those that are named.
set -u
. "$TESTS/cli/lib.sh"
nvidia-smi -L 2>/dev/null | grep -q GPU || { echo "skipped: there is no GPU"; exit 77; }
[ -f "$BUILD/hilbert_cuda.so" ] || { echo "skipped: this build has no CUDA"; exit 77; }
jobs=$(nproc)
. "$TESTS/gpu/models.sh"
[ $# -gt 0 ] || set -- "$TESTS"/golden/models/*/
check_goldens "$@"
