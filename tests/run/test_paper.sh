# The tables of ZeRO-Infinity's paper that plans reproduce: within its numbers, and as docs/scale.md has them.
# soak: --full also makes hilbert's own plans anew, of up to 100T parameters.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 >/dev/null || exit 77
export XDG_CACHE_HOME=$work/cache
blocks=()
[ "${1-}" = --full ] && blocks=(largest tiling own sums)
python3 -B "$TESTS/../tools/paper.py" check "$HILBERT" "${blocks[@]}" || die "see above"
