"""What the tests share: the package from this tree, one thread, no GPU, nothing from the network."""

import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks are forked: no threads of MKL before
_cache = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = _cache.name
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
sys.path.insert(0, os.path.dirname(__file__))

import pytest

# Seconds until a test whose processes hang fails. They import PyTorch, which takes minutes where ten
# others want the same two cores.
LIMIT = float(os.environ.get("HIL_RANKS_LIMIT", "300"))

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def third(model, folder):
    """Budgets of a third of the state in fp32; the rest is on disk. The host has at least what the
    drives' buffers need."""
    size = sum((16 if p.requires_grad else 4) * p.numel() for p in model.parameters())
    host = max(164 << 10, size // 12)
    return {"device_memory": size // 3 - host, "host_memory": host, "disk": f"{folder}:100M",
            "saves": False, "threads": 1}
