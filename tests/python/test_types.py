"""The type hints of the package, by mypy, where it and the packages whose hints it reads are installed."""

import os
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")
for needed in ("transformers", "trl", "accelerate", "lightning"):
    pytest.importorskip(needed)


def test_types(tmp_path):
    package = Path(__file__).parents[2] / "python"
    cache = Path(os.environ.get("BUILD", tmp_path)) / "mypy"  # a second run takes seconds
    said, failed, status = api.run(["--config-file", str(package / "mypy.ini"), "--cache-dir", str(cache),
                                    str(package / "hilbert")])
    assert status == 0, said + failed
