#!/usr/bin/env bash
# torch_cpu.sh - a PyTorch for tests without a GPU: tools/torch_cpu.sh FOLDER makes FOLDER/python, an interpreter
# with PyTorch, numpy and pytest. The package index has PyTorch for CUDA only (about 0.5 GB), whose libraries of
# NVIDIA are 3 GB more: instead of these it gets empty ones, in which every function fails. Messages of errors
# are strings, so that PyTorch raises an exception; transformers catches some.
set -euo pipefail

[ $# = 1 ] || { echo "usage: tools/torch_cpu.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ ! -x "$folder/python" ] || exit 0
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/pip" install --quiet --no-warn-conflicts --disable-pip-version-check "$@"; }
pip --no-deps torch
pip typing_extensions sympy networkx jinja2 filelock fsspec setuptools numpy safetensors pytest

cd "$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch/lib"
stubs=$folder/stubs
mkdir -p "$stubs"
wanted='^(cu|nv|nccl|__cuda|__nv)'
nm -D --undefined-only -- *.so | awk '$1 == "U" { print $2 }' | grep -E "$wanted" | sort -u > "$folder/symbols"
version_of() { readelf -V -- *.so | awk -v file="$1" '/File:/ { at = $5 == file } at && /Name:/ && !seen++ { print $3 }'; }
readelf -d -- *.so | sed -nE 's/.*NEEDED.*\[(lib(cu|nv|nccl)[^]]*)\]/\1/p' | sort -u | while read -r library; do
    version=$(version_of "$library")
    # Symbols without a version, and those of libraries without versions, are all in libcudart.
    awk -F@ -v v="${version:-none}" -v rest="${library%%.*}" '$2 == v || (NF == 1 && rest == "libcudart") {
        if ($1 ~ /^cudaGetError(String|Name)$/) print "char *" $1 "(int error) { return \"no CUDA\"; }"
        else print "int " $1 "(void) { return 100; }" }' "$folder/symbols" > "$folder/stub.c"
    echo "${version:-NONE} { global: *; };" > "$folder/stub.map"
    cc -w -shared -fPIC "$folder/stub.c" -Wl,--version-script="$folder/stub.map" -Wl,-soname,"$library" -o "$stubs/$library"
done
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$stubs" "$folder/venv/bin/python" > "$folder/python"
chmod +x "$folder/python"
"$folder/python" -c 'import torch; assert not torch.cuda.is_available()'
