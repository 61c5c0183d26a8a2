#!/usr/bin/env python3
"""Writes tests/golden/formats: small files made by NumPy, safetensors and transformers."""
import os

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "formats")


def npy():
    ids = [0, 1, 300, 65535, 7]
    for kind in ("u2", "u4", "i4", "i8"):
        np.save(os.path.join(ROOT, kind + ".npy"), np.array(ids, dtype="<" + kind))
    np.save(os.path.join(ROOT, "empty.npy"), np.array([], dtype="<u2"))
    np.save(os.path.join(ROOT, "matrix.npy"), np.zeros((2, 3), dtype="<i4"))
    np.save(os.path.join(ROOT, "scalar.npy"), np.array(3, dtype="<i4"))
    np.save(os.path.join(ROOT, "big.npy"), np.array(ids, dtype=">i4"))
    np.save(os.path.join(ROOT, "float.npy"), np.array(ids, dtype="<f4"))
    np.save(os.path.join(ROOT, "records.npy"), np.zeros(2, dtype=[("a", "<u2"), ("b", "<u4")]))
    for version in ((2, 0), (3, 0)):
        with open(os.path.join(ROOT, "version%d.npy" % version[0]), "wb") as f:
            np.lib.format.write_array(f, np.array(ids, dtype="<u2"), version=version)


if __name__ == "__main__":
    os.makedirs(ROOT, exist_ok=True)
    npy()
