# `make install` is complete: self-contained headers, a static and a shared library that pkg-config and
# CMake find even after the tree was moved, the program and its manual pages. examples/ build with both
# libraries and run. The shared library exports the functions of the headers and nothing else.
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
die() { echo "$*" >&2; exit 1; }

DESTDIR=$temporary/stage cmake --install "$BUILD" --prefix /opt/hilbert > "$temporary/log"
mv "$temporary/stage/opt/hilbert" "$temporary/moved"
prefix=$temporary/moved
for file in bin/hilbert include/hilbert/status.h share/man/man1/hilbert.1 \
    share/man/man1/hilbert-train.1 share/man/man3/hilbert-store.3 share/hilbert/clusters/dgx-2.json; do
    [ -s "$prefix/$file" ] || die "make install does not give $file"
done
libdir=$(dirname "$(find "$prefix" -name libhilbert.a)")
[ -f "$libdir/libhilbert.a" ] || die "make install does not give libhilbert.a"
[ -f "$libdir/libhilbert.so" ] || die "make install does not give libhilbert.so"
if find "$prefix/include" -type f | grep -v '/include/hilbert/[a-z]*\.h$'; then
    die "make install gives more than the public headers"
fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
version=$(pkg-config --modversion hilbert)
[ "$("$prefix/bin/hilbert" --version | head -n 1)" = "hilbert $version" ] ||
    die "the installed program does not say that it is hilbert $version"
if [ -f "$BUILD/hilbert_mpi.so" ]; then
    "$prefix/bin/hilbert" --version | grep -q '^MPI: [A-Z]' ||
        die "the installed program does not find its MPI: $("$prefix/bin/hilbert" --version)"
fi
. "$TESTS/llama_config.sh"
llama_config 257 32 64 2 4 2 64 '"rope_theta": 10000.0' > "$temporary/config.json"
"$prefix/bin/hilbert" plan --model "$temporary/config.json" --cluster laptop > "$temporary/log" 2>&1 ||
    { cat "$temporary/log" >&2; die "it does not find the descriptions of clusters"; }
read -ra flags <<< "$(pkg-config --cflags hilbert)"
read -ra shared <<< "$(pkg-config --libs hilbert)"
read -ra static <<< "$(pkg-config --libs hilbert-static)"
strict=(-std=c11 -Wall -Wextra -Wpedantic -Werror)

for header in "$prefix"/include/hilbert/*.h; do
    name=$(basename "$header")
    printf '#include <hilbert/%s>\nint main(void) { return 0; }\n' "$name" > "$temporary/alone.c"
    "$CC" "${strict[@]}" "${flags[@]}" -fsyntax-only "$temporary/alone.c" ||
        die "$name does not compile on its own"
done

soname=libhilbert.so.${version%.*}
file=$(readlink -f "$libdir/libhilbert.so")
[ "$(basename "$file")" = "libhilbert.so.$version" ] || die "libhilbert.so is $file"
readelf -d "$file" | grep -q "SONAME.*\[$soname\]" || die "the shared library is not called $soname"
[ "$(readlink -f "$libdir/$soname")" = "$file" ] || die "there is no $soname"
comm -3 <(nm -D --defined-only "$file" | awk '{ print $3 }' | sort) \
    <(tr '\n' ' ' < <(cat "$prefix"/include/hilbert/*.h) | grep -oE 'HIL_API [^(;]*' |
        grep -oE 'hil_[a-z0-9_]+$' | sort -u) > "$temporary/differ"
[ ! -s "$temporary/differ" ] ||
    { cat "$temporary/differ" >&2; die "exported only (left) or declared only (right)"; }

shopt -s nullglob
for example in "$SOURCE"/examples/*.c; do
    name=$(basename "$example" .c)
    for kind in shared static; do
        if [ $kind = shared ]; then libs=("${shared[@]}"); else libs=("${static[@]}"); fi
        "$CC" "${strict[@]}" -O2 "${flags[@]}" "$example" "${libs[@]}" -o "$temporary/$kind-$name" ||
            die "examples/$name.c does not build on the $kind library"
        needs=$(readelf -d "$temporary/$kind-$name" | grep -c "NEEDED.*\[$soname\]") || true
        if [ $kind = shared ]; then [ "$needs" = 1 ]; else [ "$needs" = 0 ]; fi ||
            die "$kind-$name needs libhilbert.so $needs times"
    done
    mkdir "$temporary/in-$name"
    (cd "$temporary/in-$name" && "../shared-$name" > ../out 2>&1) ||
        { cat "$temporary/out" >&2; die "examples/$name.c fails"; }
done

mkdir "$temporary/project"
cd "$temporary/project"
cat > CMakeLists.txt << END
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(hilbert $version REQUIRED)
foreach(kind hilbert shared)
  add_executable(user_\${kind} user.c)
  target_link_libraries(user_\${kind} hilbert::\${kind})
endforeach()
END
cat > user.c << END
#include <hilbert/version.h>
#include <stdio.h>
int main(void)
{
    puts(hil_version());
    return printf("%d.%d.%d\n", HIL_VERSION / 10000, HIL_VERSION / 100 % 100, HIL_VERSION % 100) < 0;
}
END
{ cmake -B build -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build build; } \
    > log 2>&1 || { cat log >&2; die "find_package(hilbert) does not work"; }
for kind in hilbert shared; do
    [ "$("./build/user_$kind" | sort -u)" = "$version" ] ||
        die "hilbert::$kind or its headers say another version than $version"
done
