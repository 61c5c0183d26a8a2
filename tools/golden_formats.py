#!/usr/bin/env python3
"""Writes tests/golden/formats: small files made by NumPy, safetensors and transformers."""
import os

import numpy as np
import torch
from safetensors.torch import save_file

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


def safetensors():
    """Every dtype that is written, names that need escaping, an empty tensor and a scalar."""
    ramp = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 8
    save_file(
        {
            "b.half": (ramp[:1, :3] - 1).to(torch.float16),
            "a.brain": ramp.to(torch.bfloat16),
            'quote" back\\ \t\u00e9\U0001f600': ramp[0].clone(),
            "a.float": ramp,
            "scalar": torch.tensor(-2.5),
            "empty": torch.zeros(0, 5),
            "count": torch.tensor([1, -2, 3], dtype=torch.int32),
        },
        os.path.join(ROOT, "mixed.safetensors"),
        metadata={"format": "pt"},
    )


if __name__ == "__main__":
    os.makedirs(ROOT, exist_ok=True)
    npy()
    safetensors()
