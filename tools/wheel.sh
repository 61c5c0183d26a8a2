#!/usr/bin/env bash
# wheel.sh - packs what BUILD holds as a Python wheel: tools/wheel.sh BUILD OUT gives
# OUT/hilbert-VERSION-py3-none-manylinux_2_34_x86_64.whl with program, library, modules and python/hilbert.
# docs/install.md describes it.
set -euo pipefail

die() { echo "wheel: $*" >&2; exit 1; }
[ $# = 2 ] || die "usage: tools/wheel.sh BUILD OUT"
mkdir -p "$2"
source=$(cd "$(dirname "$0")/.." && pwd) build=$(cd "$1" && pwd) out=$(cd "$2" && pwd) work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
platform=manylinux_2_34_x86_64 # bundle_check.sh has the same version of glibc

version=$(sed -nE 's/^CMAKE_PROJECT_VERSION:[A-Z]+=//p' "$build/CMakeCache.txt")
"$source/tools/bundle_link.sh" "$build" "$work/tree"
package=$work/wheel/hilbert
mkdir -p "$package"
(cd "$source/python" && find hilbert -name '*.py' -o -name py.typed) |
    while read -r file; do install -D -m 644 "$source/python/$file" "$work/wheel/$file"; done
# One folder: the program and the library look for their modules beside themselves.
install -m 755 "$work/tree/bin/hilbert" "$package/hilbert"
install -m 644 "$work/tree/lib/libhilbert.so.$version" "$package/libhilbert.so.${version%.*}"
find "$work/tree/lib/hilbert" -name '*.so' -exec install -m 644 {} "$package" \;
install -D -m 644 -t "$package/clusters" "$source"/clusters/*.json
"$source/tools/bundle_check.sh" "$work/wheel" || die "it would not run elsewhere"
mkdir "$work/wheel/licences"
cp "$source/LICENSE" "$work"/tree/share/doc/hilbert/licence-*.txt "$work/wheel/licences"
wheel=$(python3 "$source/tools/wheel.py" "$work/wheel" "$version" "$platform" "$source/README.md" "$out")

# auditwheel agrees where it is installed; what GPUs and MPI need is not packed.
if command -v auditwheel > /dev/null && command -v patchelf > /dev/null; then
    auditwheel -v repair --plat "$platform" --exclude 'libcu*' --exclude 'libnccl*' --exclude 'libmpi*' \
        --exclude 'libopen-*' -w "$work/checked" "$wheel" > "$work/log" 2>&1 || { cat "$work/log" >&2; die "auditwheel refuses it"; }
    ls "$work"/checked/*"$platform"*.whl > /dev/null || die "auditwheel gives it another platform"
    echo "auditwheel: $platform"
fi
echo "$wheel: $(du -h "$wheel" | cut -f 1)"
