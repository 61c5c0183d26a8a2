# The functions that the shared library exports, the layouts of public structures and the values of
# public constants are those of abi.txt: a change of them is made on purpose, with `make abi`.
set -euo pipefail

list=$TESTS/install/abi.txt
now=$(mktemp)
trap 'rm -f "$now"' EXIT
[ "$(getconf LONG_BIT)" = 64 ] || { echo "abi.txt is for 64-bit machines: skipped"; exit 77; }
"$SOURCE/tools/abi.sh" "$BUILD/libhilbert.so" > "$now"
grep -q '^function hil_param_store_create$' "$now"
grep -q '^struct hil_param_store_options ' "$now"
grep -q '^  HIL_ERR_USAGE ' "$now"
for kind in struct enum; do
    all=$(cat "$SOURCE"/include/hilbert/*.h | grep -c "typedef $kind .*{")
    [ "$(grep -c "^$kind " "$now")" = "$all" ] ||
        { echo "tools/abi.awk does not find all $all of '$kind'" >&2; exit 1; }
done
if ! diff "$list" "$now"; then
    echo "the binary interface is not that of tests/install/abi.txt (above: < there, > now)." >&2
    echo "Programs that were compiled before may break: add members at the end of sized structures only," >&2
    echo "raise the minor version for anything else, and run 'make abi'." >&2
    exit 1
fi

# A change is seen: a member between two others, and a function that is not exported.
for change in 's/^  tile_size /&1/' '/^function hil_param_store_add$/d'; do
    if sed "$change" "$now" | cmp -s "$list"; then
        echo "a change of the list is not seen: $change" >&2
        exit 1
    fi
done
