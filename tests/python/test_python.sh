#!/usr/bin/env bash
# The Python package, with pytest; skips where PyTorch or pytest is not installed. HIL_PYTHON names
# the interpreter, HIL_PYTHON_TESTS some of the files.
set -euo pipefail

python=${HIL_PYTHON:-python3}
"$python" -c 'import torch, pytest' 2> /dev/null || { echo "no PyTorch or pytest for $python"; exit 77; }
# On some virtual machines PyTorch's own bf16 products with AMX end with an illegal instruction.
(ulimit -c 0; "$python" -c 'import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); torch.nn.functional.linear(x, x)' \
    2> /dev/null) || export ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16
export HILBERT_LIBRARY=$BUILD/libhilbert.so
cd "$TESTS/python"
exec "$python" -m pytest -q -p no:cacheprovider ${HIL_PYTHON_TESTS:-.}
