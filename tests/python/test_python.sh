#!/usr/bin/env bash
# The Python package, with pytest; skips where PyTorch or pytest is not installed. HIL_PYTHON names
# the interpreter, HIL_PYTHON_TESTS some of the files.
set -euo pipefail

python=${HIL_PYTHON:-python3}
"$python" -c 'import torch, pytest' 2> /dev/null || { echo "no PyTorch or pytest for $python"; exit 77; }
export HILBERT_LIBRARY=$BUILD/libhilbert.so
cd "$TESTS/python"
exec "$python" -m pytest -q -p no:cacheprovider ${HIL_PYTHON_TESTS:-.}
