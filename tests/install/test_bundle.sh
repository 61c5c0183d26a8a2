# The bundle of `make bundle` runs from any folder, needs only libc and an empty environment, also in a
# chroot, with and without MPI; examples/ build with its library. A program that would not run on other
# machines is refused.
set -euo pipefail

[ "$(uname -m)" = x86_64 ] || { echo "the bundle is for x86-64"; exit 77; }
grep -q '^URING_FOUND:INTERNAL=1' "$BUILD/CMakeCache.txt" || { echo "this build has no liburing"; exit 77; }
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
die() { echo "$*" >&2; exit 1; }

XZ_OPT=-1 "$SOURCE/tools/bundle.sh" "$BUILD" "$temporary/out"
mkdir -p "$temporary/a home/of mine"
cd "$temporary/a home/of mine"
tar xf "$temporary"/out/hilbert-*-linux-x86_64.tar.xz
bundle=$(echo "$PWD"/hilbert-*-linux-x86_64)
[ "$(ls)" = "$(basename "$bundle")" ] || die "the archive holds more than its folder"
mkdir home
bare() { env -i HOME="$PWD/home" PATH=/nowhere "$@"; }

# The program, in a bare environment: needs libc alone, trains, generates.
for file in "$bundle/bin/hilbert" "$bundle/lib/libhilbert.so"; do
    if ldd "$file" | awk '{ print $1 }' | grep -vE '^(linux-vdso|lib(c|m|dl|pthread|rt)|/lib64/ld-linux-x86-64)\.so'; then
        die "$file needs these libraries"
    fi
done
version=$(bare "$bundle/bin/hilbert" --version)
grep -q '^hilbert [0-9]' <<< "$version" || die "hilbert --version says: $version"
. "$TESTS/llama_config.sh"
llama_config 257 32 64 2 4 2 64 '"rope_theta": 10000.0, "tie_word_embeddings": true, "eos_token_id": 256' \
    > config.json
cp "$SOURCE/docs/memory.md" text
run=(train --model config.json --data text --steps 3 --seq 64 --batch 4 --lr 1e-3)
bare "$bundle/bin/hilbert" "${run[@]}" --out model > log 2>&1 || { cat log >&2; die "it does not train"; }
bare "$bundle/bin/hilbert" generate --model model --tokenizer bytes --prompt a --max-tokens 4 > log 2>&1 ||
    { cat log >&2; die "it does not generate"; }
"$HILBERT" "${run[@]}" --out same > log 2>&1
cmp model/model.safetensors same/model.safetensors || die "it trains to other bits than the build"

# A driver that shows a GPU but lacks its libraries: the program uses the CPU and says why.
mkdir driver
echo 'int cuInit(unsigned f) { return (int)f; } int cuDeviceGetCount(int *n) { *n = 1; return 0; }' |
    "$CC" -shared -fPIC -x c - -o driver/libcuda.so.1
bare LD_LIBRARY_PATH="$PWD/driver" "$bundle/bin/hilbert" "${run[@]}" --out shown > log 2>&1 ||
    { cat log >&2; die "it does not train where a GPU cannot be used"; }
grep -q '^the GPU is not used: ' log || { cat log >&2; die "it does not say why the GPU is not used"; }
cmp model/model.safetensors shown/model.safetensors || die "it trains to other bits then"

# A chroot with only libc.
mkdir -p root/{lib64,tmp,lib}
ln -s ../lib64 root/lib/x86_64-linux-gnu # where Debian's loader looks
for library in libc.so.6 libm.so.6; do cp "$("$CC" -print-file-name=$library)" root/lib64; done
cp /lib64/ld-linux-x86-64.so.2 root/lib64
cp -r "$bundle" root/hilbert
cp config.json text root/tmp
inside=("$(command -v chroot)")
if [ "$(id -u)" != 0 ]; then inside=("$(command -v unshare)" -r "${inside[@]}"); fi
if "${inside[@]}" / true 2> log; then
    bare "${inside[@]}" root /hilbert/bin/hilbert train --model /tmp/config.json --data /tmp/text \
        --out /tmp/model --steps 3 --seq 64 --batch 4 --lr 1e-3 > log 2>&1 ||
        { cat log >&2; die "it does not train where libc is alone"; }
    cmp model/model.safetensors root/tmp/model/model.safetensors || die "it trains to other bits there"
else
    echo "not tried in a root of its own: $(cat log)"
fi

# Its library, found by pkg-config and CMake.
export PKG_CONFIG_PATH=$bundle/lib/pkgconfig
for example in "$bundle"/examples/*.c; do
    name=$(basename "$example" .c)
    eval "\"\$CC\" -O2 \"\$example\" $(pkg-config --cflags --libs hilbert) -o shared-$name" ||
        die "examples/$name.c does not build on libhilbert.so"
    eval "\"\$CC\" -O2 \"\$example\" $(pkg-config --cflags --libs hilbert-static) -o static-$name" ||
        die "examples/$name.c does not build on libhilbert.a"
    for kind in shared static; do
        mkdir "in-$kind-$name"
        (cd "in-$kind-$name" && bare "../$kind-$name" > ../log 2>&1) || { cat log >&2; die "$kind-$name fails"; }
    done
done
mkdir project
cat > project/CMakeLists.txt << END
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(hilbert $(pkg-config --modversion hilbert) REQUIRED)
foreach(kind hilbert shared)
  add_executable(user_\${kind} user.c)
  target_link_libraries(user_\${kind} hilbert::\${kind})
endforeach()
END
printf '#include <hilbert/version.h>\n#include <stdio.h>\nint main(void) { return puts(hil_version()) < 0; }\n' > project/user.c
{ cmake -S project -B project/build -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$bundle" &&
    cmake --build project/build; } > log 2>&1 || { cat log >&2; die "find_package(hilbert) does not work"; }
for kind in hilbert shared; do
    [ "$(bare "project/build/user_$kind")" = "$(pkg-config --modversion hilbert)" ] || die "hilbert::$kind has another version"
done

# With MPI installed the program uses it; without MPI it runs alone.
if [ -f "$BUILD/hilbert_mpi.so" ]; then
    grep -q '^MPI: [A-Z]' <<< "$version" || die "it does not find MPI: $version"
    "$SOURCE/tools/bundle_check.sh" "$bundle" || die "the check refuses what it let pass"
fi
mv "$bundle/lib/hilbert" away
bare "$bundle/bin/hilbert" "${run[@]}" --out alone > log 2>&1 || { cat log >&2; die "it needs its modules"; }

# A program that would not run on other machines is refused, with the reason.
mkdir bad
refused() { # refused WORDS SOURCE FLAGS...: a library of SOURCE is not let pass
    local words=$1 code=$2
    shift 2
    echo "$code" | "$CC" -shared -fPIC -x c - -x none "$@" -o bad/bad.so
    if "$SOURCE/tools/bundle_check.sh" bad 2> log; then die "let pass: $words"; fi
    grep -q "^bad.so: .*$words" log || { cat log >&2; die "another reason than: $words"; }
}
echo 'GLIBC_2.99 { future; };' > future.map
echo 'GLIBCXX_3.4 { plus; };' > plus.map
for name in future plus; do
    echo "int $name(void) { return 0; }" |
        "$CC" -shared -fPIC -x c - -Wl,--version-script=$name.map -Wl,-soname,libm.so.6 -o $name.so
    refused "$name needs GLIBC" "int $name(void); int user(void) { return $name(); }" ./$name.so
done
echo 'int other(void) { return 0; }' | "$CC" -shared -fPIC -x c - -Wl,-soname,libother.so.1 -o other.so
refused 'needs libother.so.1' 'int other(void); int user(void) { return other(); }' ./other.so
refused 'looks for libraries in /opt/here' 'int x;' -Wl,-rpath,/opt/here
