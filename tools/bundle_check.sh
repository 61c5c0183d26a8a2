#!/usr/bin/env bash
# bundle_check.sh - whether what was built here runs elsewhere: tools/bundle_check.sh FOLDER. Every
# program and library in it needs no glibc newer than 2.34 and no C++ library, no library that is
# not on every Linux (modules may need what they are for), and names no folder of this machine.
set -euo pipefail

floor=2.34
everywhere='libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-x86-64'
bad=0
complain() { # complain FILE WORDS...
    printf '%s\n' "$*" >&2
    bad=1
}
newer() { # newer VERSION: than the floor
    [ "$1" != $floor ] && [ "$(printf '%s\n' $floor "$1" | sort -V | tail -n 1)" = "$1" ]
}

check() { # check FILE
    local file=$1 name also= symbol version needed
    name=${file#"$folder"/}
    case $name in
    */hilbert_mpi.so) also='|libmpi' ;;
    */hilbert_cuda.so) also='|libcublasLt|libcudnn|libcuda|libnccl' ;;
    esac
    while read -r version symbol; do
        case $version in
        GLIBC_[0-9]*) ! newer "${version#GLIBC_}" || complain "$name: $symbol needs $version" ;;
        GLIBC_PRIVATE | GLIBC_ABI_* | GLIBCXX_* | CXXABI_*) complain "$name: $symbol needs $version" ;;
        esac
    done < <(objdump -T "$file" |
        sed -nE 's/.*\*UND\*.*[ (]((GLIBC|GLIBCXX|CXXABI)_[A-Z0-9_.]+)\)? +(\.hidden )?([^ ]+)$/\1 \4/p')
    while read -r needed; do
        [[ $needed =~ ^($everywhere$also)\.so(\.|$) ]] || complain "$name: needs $needed"
    done < <(readelf -d "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
    ! readelf -d "$file" | grep -qE '\((RPATH|RUNPATH)\)' ||
        complain "$name: looks for libraries in" "$(readelf -d "$file" | sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\]/\2/p')"
}

[ $# = 1 ] && [ -d "$1" ] || { echo "usage: tools/bundle_check.sh FOLDER" >&2; exit 2; }
folder=${1%/}
count=0
while IFS= read -r -d '' file; do
    if readelf -h "$file" 2> /dev/null | grep -qE 'Type: +(EXEC|DYN)'; then
        check "$file"
        count=$((count + 1))
    fi
done < <(find "$folder" -type f -print0)
[ $count -gt 0 ] || complain "$folder: has no program and no library"
exit $bad
