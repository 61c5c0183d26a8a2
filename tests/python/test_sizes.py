"""How budgets are written, and which library is loaded."""

import os
import subprocess
import sys

import hilbert
import pytest
from hilbert.sizes import parse_disk, parse_size
from torch import nn


def test_numbers():
    assert parse_size("device_memory", 2e9) == 2 * 10**9
    assert parse_size("device_memory", "2G") == 2 << 30
    for wrong in (-1, 1.5, float("nan"), float("inf"), True, [1]):
        with pytest.raises(hilbert.UsageError, match="device_memory"):
            parse_size("device_memory", wrong)


def test_paths(tmp_path):
    assert parse_disk(tmp_path)[0] == str(tmp_path)
    for disk in (tmp_path, [tmp_path]):
        model = hilbert.offload(nn.Linear(4, 4), device_memory=1e6, host_memory="1M", disk=disk, device="cpu")
        assert model.hilbert.store.options.disks[0][0] == str(tmp_path)


def test_a_library_that_is_missing(tmp_path):
    path = str(tmp_path / "no.so")
    package = os.path.join(os.path.dirname(__file__), "..", "..", "python")
    run = subprocess.run([sys.executable, "-c", "import hilbert; hilbert.version()"], text=True, capture_output=True,
                         env={**os.environ, "PYTHONPATH": package, "HILBERT_LIBRARY": path})
    assert run.returncode and "ImportError" in run.stderr and path in run.stderr
