#!/usr/bin/env bash
# bundle.sh - packs what BUILD holds for other machines: tools/bundle.sh BUILD OUT gives
# OUT/hilbert-VERSION-linux-x86_64.tar.xz. jansson, xxHash, zlib, zstd and liburing are linked in; MPI and
# CUDA stay outside, in modules that are loaded where they are of use. docs/install.md describes it.
set -euo pipefail

[ $# = 2 ] || { echo "usage: tools/bundle.sh BUILD OUT" >&2; exit 2; }
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "bundle: $*" >&2; exit 1; }

cached() { sed -nE "s/^$1:[A-Z]+=//p" "$build/CMakeCache.txt"; }
cc=$(cached CMAKE_C_COMPILER)
version=$(cached CMAKE_PROJECT_VERSION)
major=${version%.*}
machine=$("$cc" -dumpmachine)
[ "${machine%%-*}" = x86_64 ] || die "it is for x86-64; this compiler is for $machine"
tree=$work/hilbert-$version-linux-x86_64
mkdir -p "$tree"/{bin,lib/{hilbert,pkgconfig,cmake/hilbert},include,share/{man,doc/hilbert}}

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

# What is read: headers, descriptions for builds, manual, documents, examples, measurements.
cp -r "$source/include/hilbert" "$tree/include"
"$source/tools/man_pages.sh" "$tree/share/man" "$version"
cp "$source/cmake/bundle-config.cmake" "$tree/lib/cmake/hilbert/hilbert-config.cmake"
cp "$build/hilbert-config-version.cmake" "$tree/lib/cmake/hilbert"
describe() { # describe NAME LIBS: a file for pkg-config
    cat > "$tree/lib/pkgconfig/$1.pc" << END
prefix=\${pcfiledir}/../..

Name: $1
Description: Trains language models that are larger than the memory of the machine
Version: $version
Libs: $2
Cflags: -I\${prefix}/include
END
}
describe hilbert '-L${prefix}/lib -Wl,-rpath,${prefix}/lib -lhilbert -lm'
describe hilbert-static '-L${prefix}/lib -l:libhilbert.a -pthread -lm -ldl'
cp -r "$source"/{README.md,CHANGELOG.md,LICENSE,docs,examples} "$tree"
mkdir "$tree/bench"
cp "$source"/bench/{README.md,gpu*.py,report.py} "$tree/bench"
{
    echo "hilbert $version, commit $(git -C "$source" describe --always --dirty --abbrev=40 2> /dev/null || echo unknown)"
    sed -nE 's/^PRETTY_NAME="(.*)"/built on \1/p' /etc/os-release
    "$cc" --version | head -n 1
    [ ! -f "$tree/lib/hilbert/hilbert_cuda.so" ] || echo "CUDA for $(cached HIL_CUDA_ARCHITECTURES) and PTX"
} > "$tree/share/doc/hilbert/build.txt"

"$source/tools/bundle_check.sh" "$tree" || die "it would not run elsewhere"
archive=$out/${tree##*/}.tar.xz
XZ_OPT=${XZ_OPT:--6 -T0} tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w \
    -cJf "$archive" "${tree##*/}"
echo "$archive: $(du -h "$archive" | cut -f 1), unpacked $(du -sh "$tree" | cut -f 1)"
