#!/usr/bin/env bash
# deps.sh - what a part of the build needs from the distribution, installed if it may be.
#   tools/deps.sh build|test|lint|fuzz|bench|bundle...
# Says nothing when all is there. Without the right to install, prints the command and exits 1.
set -euo pipefail

missing=()
optional=()
need() { # need PACKAGE COMMAND...: PACKAGE unless the command succeeds
    local package=$1
    shift
    "$@" > /dev/null 2>&1 || missing+=("$package")
}
want() { # the same for a package that the build can do without: installed if it may be, or let be
    local package=$1
    shift
    "$@" > /dev/null 2>&1 || optional+=("$package")
}
have() { command -v "$1"; }
compiles() { # compiles COMPILER FLAGS...: a program of one function, on standard input
    local out status=0
    out=$(mktemp)
    "$@" -x c - -o "$out" || status=1
    rm -f "$out"
    return $status
}
hello() { echo '#include <stdio.h>
int main(void) { return puts("") < 0; }' | compiles "${CC:-cc}"; }
ranks() { echo '#include <mpi.h>
int main(void) { return MPI_Finalize(); }' | compiles mpicc; }
fuzzer() { echo '#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *d, unsigned long n) { return d[n] != 0; }' |
    compiles clang -fsanitize=fuzzer,address,undefined; }

for part; do
    case $part in
    build)
        need gcc have "${CC:-cc}"
        need libc6-dev hello
        need cmake have cmake
        need pkg-config have pkg-config
        need libjansson-dev pkg-config --exists jansson
        need libxxhash-dev pkg-config --exists libxxhash
        need zlib1g-dev pkg-config --exists zlib
        need libzstd-dev pkg-config --exists libzstd
        want liburing-dev pkg-config --exists liburing
        want libopenmpi-dev ranks
        want openmpi-bin have mpirun
        ;;
    test) # two machines are played by network namespaces; the wheel is installed into an environment
        want iproute2 have ip
        want python3-venv python3 -c 'import ensurepip'
        ;;
    lint)
        need clang have clang
        need clang-format have clang-format
        need clang-tidy have clang-tidy
        need python3 have python3
        ;;
    fuzz)
        need clang have clang
        need libclang-rt-dev fuzzer
        ;;
    bench)
        need python3 have python3
        need python3-venv python3 -c 'import ensurepip'
        ;;
    bundle)
        need binutils have objcopy
        need liburing-dev pkg-config --exists liburing
        need xz-utils have xz
        need python3 have python3
        ;;
    *)
        echo "usage: tools/deps.sh build|test|lint|fuzz|bench|bundle..." >&2
        exit 2
        ;;
    esac
done
[ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || exit 0

may_install() { have apt-get && { [ "$(id -u)" = 0 ] || sudo -n true; }; }
if [ ${#missing[@]} = 0 ] && ! may_install > /dev/null 2>&1; then exit 0; fi
if ! have apt-get > /dev/null; then
    echo "hilbert needs these packages (Debian's names): ${missing[*]}" >&2
    echo "Install them with the package manager of this system, then run make again." >&2
    exit 1
fi
as=()
if [ "$(id -u)" != 0 ]; then as=(sudo); fi
if [ "$(id -u)" != 0 ] && ! sudo -n true 2> /dev/null; then
    echo "hilbert needs packages that are not installed. Run this, then make again:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y ${missing[*]} ${optional[*]}" >&2
    exit 1
fi
echo "installing:" "${missing[@]}" "${optional[@]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() { "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >> "$log" 2>&1; }
run update || echo "warning: apt-get update failed; trying with the lists that are there" >&2
# Older releases have the sanitizer runtimes inside the clang package.
known=()
for package in "${missing[@]}"; do
    if [ "$package" != libclang-rt-dev ] || apt-cache show "$package" > /dev/null 2>&1; then
        known+=("$package")
    fi
done
for package in "${optional[@]}"; do
    run install -y --no-install-recommends "$package" ||
        echo "warning: $package cannot be installed; building without it" >&2
done
if [ ${#known[@]} -gt 0 ] && ! run install -y --no-install-recommends "${known[@]}"; then
    tail -n 20 "$log" >&2
    echo "error: apt-get could not install: ${known[*]}" >&2
    exit 1
fi
