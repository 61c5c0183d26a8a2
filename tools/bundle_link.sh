#!/usr/bin/env bash
# bundle_link.sh - links what BUILD holds so that it runs on other machines, for the bundle and the wheel:
# tools/bundle_link.sh BUILD TREE gives TREE/bin/hilbert, TREE/lib with the library and lib/hilbert with the
# modules, and the licences of what is linked in in TREE/share/doc/hilbert. jansson, xxHash, zlib, zstd and
# liburing are linked in; MPI and CUDA stay outside, in modules that are loaded where they are of use.
set -euo pipefail

die() { echo "bundle: $*" >&2; exit 1; }
[ $# = 2 ] || die "usage: tools/bundle_link.sh BUILD TREE"
source=$(cd "$(dirname "$0")/.." && pwd) build=$(cd "$1" && pwd) tree=$2 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cached() { sed -nE "s/^$1:[A-Z]+=//p" "$build/CMakeCache.txt"; }
cc=$(cached CMAKE_C_COMPILER)
version=$(cached CMAKE_PROJECT_VERSION)
major=${version%.*}
machine=$("$cc" -dumpmachine)
[ "${machine%%-*}" = x86_64 ] || die "it is for x86-64; this compiler is for $machine"
mkdir -p "$tree"/{bin,lib/hilbert,share/doc/hilbert}

# Debian's archives, and the licences of what is in them.
archives=()
link_in() { # link_in LIBRARY PACKAGE
    local archive
    archive=$("$cc" -print-file-name="$1.a")
    [ -f "$archive" ] || die "$1.a was not found; install $2"
    archives+=("$archive")
    [ -f "/usr/share/doc/$2/copyright" ] || die "/usr/share/doc/$2/copyright was not found"
    cp "/usr/share/doc/$2/copyright" "$tree/share/doc/hilbert/licence-$1.txt"
}
link_in libjansson libjansson-dev
link_in libxxhash libxxhash-dev
link_in libz zlib1g-dev
link_in libzstd libzstd-dev
[ "$(cached URING_FOUND)" = 1 ] || die "the library was built without liburing; install liburing-dev and build again"
link_in liburing liburing-dev

# The program.
"$cc" -O2 -D_GNU_SOURCE -I"$source/include" -I"$source/src" "$source/src/cli/main.c" \
    "$build/libhil_cli.a" "$build/libhilbert.a" "${archives[@]}" -pthread -lm -ldl -s -o "$tree/bin/hilbert"

# The library as one object in which only the public functions have a name: what is linked in then
# meets no other jansson in the same program. jansson compares a file with stdin, in code that is
# not made for shared libraries; hilbert gives it no files, so that any pointer does.
echo 'void *hil_no_stdin;' | "$cc" -x c -c -fPIC -o "$work/no_stdin.o" -
objcopy --redefine-sym stdin=hil_no_stdin "${archives[0]}" "$work/libjansson.a"
ld -r -o "$work/whole.o" --whole-archive "$build/libhilbert.a" --no-whole-archive \
    "$work/libjansson.a" "${archives[@]:1}" "$work/no_stdin.o"
readelf -sW "$build/libhilbert.a" |
    awk '$5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND" { print $8 }' | sort -u > "$work/public"
objcopy --strip-debug --keep-global-symbols="$work/public" "$work/whole.o" "$work/hilbert.o"
ar rcs "$tree/lib/libhilbert.a" "$work/hilbert.o"
"$cc" -shared -Wl,-soname,"libhilbert.so.$major" -Wl,-z,defs "$work/hilbert.o" -pthread -lm -ldl -s \
    -o "$tree/lib/libhilbert.so.$version"
ln -s "libhilbert.so.$version" "$tree/lib/libhilbert.so.$major"
ln -s "libhilbert.so.$major" "$tree/lib/libhilbert.so"

# The modules, which find their libraries by name and not in folders of this machine.
for module in hilbert_mpi hilbert_cuda; do
    if [ ! -f "$build/$module.so" ]; then
        echo "without $module.so: this build has none"
        continue
    fi
    strip --strip-unneeded -o "$tree/lib/hilbert/$module.so" "$build/$module.so"
    echo "file(RPATH_REMOVE FILE \"$tree/lib/hilbert/$module.so\")" > "$work/rpath.cmake"
    cmake -P "$work/rpath.cmake"
done
