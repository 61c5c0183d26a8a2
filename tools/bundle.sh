#!/usr/bin/env bash
# bundle.sh - packs what BUILD holds for other machines: tools/bundle.sh BUILD OUT gives
# OUT/hilbert-VERSION-linux-x86_64.tar.xz. docs/install.md describes it.
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
tree=$work/hilbert-$version-linux-x86_64
mkdir -p "$tree"/{bin,lib/{hilbert,pkgconfig,cmake/hilbert},include,share/{man,hilbert,doc/hilbert}}

"$source/tools/bundle_link.sh" "$build" "$tree"

# What is read: headers, descriptions for builds and of clusters, manual, documents, examples, measurements.
cp -r "$source/include/hilbert" "$tree/include"
cp -r "$source/clusters" "$tree/share/hilbert"
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
