# kill -9 at any moment, then --resume: the same bits as an uninterrupted run.
# soak: --full
set -u
. "$TESTS/cli/lib.sh"
ranks=0
. "$TESTS/run/kills.sh"
[ "${1:-}" = --full ] && kill_many 250 || kill_many 8
