# What `make install` gives is complete: headers that stand alone, a library that pkg-config and
# CMake find wherever the tree was moved, the program and its manual; examples/ build on it and run.
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
die() { echo "$*" >&2; exit 1; }

DESTDIR=$temporary/stage cmake --install "$BUILD" --prefix /opt/hilbert > "$temporary/log"
mv "$temporary/stage/opt/hilbert" "$temporary/moved"
prefix=$temporary/moved
for file in bin/hilbert include/hilbert/status.h share/man/man1/hilbert.1 \
    share/man/man1/hilbert-train.1 share/man/man3/hilbert-store.3; do
    [ -s "$prefix/$file" ] || die "make install does not give $file"
done
libdir=$(dirname "$(find "$prefix" -name libhilbert.a)")
[ -f "$libdir/libhilbert.a" ] || die "make install does not give libhilbert.a"
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
read -ra flags <<< "$(pkg-config --cflags hilbert)"
read -ra libs <<< "$(pkg-config --libs hilbert)" # without --static: libhilbert.a is all there is
strict=(-std=c11 -Wall -Wextra -Wpedantic -Werror)

for header in "$prefix"/include/hilbert/*.h; do
    name=$(basename "$header")
    printf '#include <hilbert/%s>\nint main(void) { return 0; }\n' "$name" > "$temporary/alone.c"
    "$CC" "${strict[@]}" "${flags[@]}" -fsyntax-only "$temporary/alone.c" ||
        die "$name does not compile on its own"
done

shopt -s nullglob
for example in "$SOURCE"/examples/*.c; do
    name=$(basename "$example" .c)
    "$CC" "${strict[@]}" -O2 "${flags[@]}" "$example" "${libs[@]}" -o "$temporary/$name" ||
        die "examples/$name.c does not build on the installed library"
    mkdir "$temporary/in-$name"
    (cd "$temporary/in-$name" && "../$name" > ../out 2>&1) ||
        { cat "$temporary/out" >&2; die "examples/$name.c fails"; }
done

mkdir "$temporary/project"
cd "$temporary/project"
cat > CMakeLists.txt << END
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(hilbert $version REQUIRED)
add_executable(user user.c)
target_link_libraries(user hilbert::hilbert)
END
cat > user.c << END
#include <hilbert/status.h>
#include <stdio.h>
int main(void) { return puts(hil_version()) < 0; }
END
{ cmake -B build -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build build; } \
    > log 2>&1 || { cat log >&2; die "find_package(hilbert) does not work"; }
[ "$(./build/user)" = "$version" ] || die "the library says another version than $version"
