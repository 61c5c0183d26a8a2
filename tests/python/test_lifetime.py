"""What outlives what: models, views of weights, interrupted forwards, edits between passes."""

import gc
import subprocess
import sys
import weakref

import hilbert
import pytest
import torch
from conftest import third
from test_uses import Net, inputs, loss_of, train, twins
from torch import nn
from torch.nn import functional as F


def test_a_dropped_model_frees_its_store(tmp_path):
    model = Net()
    model = hilbert.offload(model, **third(model, tmp_path))
    model.backward(loss_of(model, inputs(1)[0]))
    model.step()
    store = weakref.ref(model.hilbert.store)
    del model
    gc.collect()
    assert store() is None


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, kept):
        kept.append(self.linear.weight.detach().t())
        return self.linear(x)


def test_a_view_outlives_its_model():
    model = hilbert.offload(Keeping(), device_memory="1M", host_memory="1M")
    expected, kept = model.state_dict()["linear.weight"].t(), []
    with torch.no_grad():
        model(torch.zeros(1, 8), kept)
    store = weakref.ref(model.hilbert.store)
    del model
    gc.collect()
    assert torch.equal(kept[0], expected)
    kept.clear()
    gc.collect()
    assert store() is None


EXIT = """
import sys, torch
sys.path[:0] = sys.argv[1:3]
import hilbert
from test_lifetime import Keeping
model, kept = hilbert.offload(Keeping(), device_memory="1M", host_memory="4M", disk=sys.argv[3] + ":50M"), []
model.backward(model(torch.ones(1, 8), []).sum())
model.step()
hilbert.save(model, sys.argv[3], wait=False)
with torch.no_grad():
    model(torch.zeros(1, 8), kept)
"""


def test_end_of_the_program(tmp_path):
    """A checkpoint in the background is written to its end; views that are left do no harm."""
    tests = __file__.rpartition("/")[0]
    subprocess.run([sys.executable, "-c", EXIT, f"{tests}/../../python", tests, str(tmp_path)], check=True)
    model = hilbert.offload(Keeping(), device_memory="1M", host_memory="1M")
    hilbert.load(model, tmp_path)
    assert model.hilbert.store.progress.updates == 1
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["latest", "step-1"]


def test_a_view_at_the_end_of_a_step():
    """Once nothing refers to the weights any more, the step can be taken."""
    model, kept = hilbert.offload(Keeping(), device_memory="1M", host_memory="1M"), []
    before = model.state_dict()["linear.weight"]
    model.backward(model(torch.ones(1, 8), kept).sum())
    with pytest.raises(hilbert.UsageError, match="refers"):
        model.step()
    kept.clear()
    assert model.step() > 0
    assert not torch.equal(model.state_dict()["linear.weight"], before)


def test_zero_grad_of_the_model(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    mine.backward(loss_of(mine, inputs(1, seed=8)[0]))
    mine.zero_grad()
    train(mine, theirs, optimizer)


def test_edit_after_a_forward_with_a_graph(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    train(mine, theirs, optimizer)
    x = inputs(1)[0]
    loss_of(mine, x)
    for model in (mine, theirs):
        model.head.weight.data.mul_(2)
    train(mine, theirs, optimizer)
    loss_of(mine, x)
    mine.head.weight.data.zero_()
    assert not mine.state_dict()["head.weight"].any()


def test_edit_with_gradients_is_refused(tmp_path):
    mine, _, _ = twins(tmp_path)
    mine.backward(loss_of(mine, inputs(1)[0]))
    mine.head.weight.data.mul_(2)
    with pytest.raises(hilbert.UsageError, match="head.weight"):
        mine.step()
    mine.step()


class Stopping(Net):
    """Its forward may be interrupted, in a block."""

    stop = False

    def forward(self, x):
        h = self.blocks[0](self.embedding(x))
        if self.stop:
            raise KeyboardInterrupt
        return self.head(self.blocks[1](h))


@pytest.mark.parametrize("at", ["root", "block"])
def test_interrupted_forward(tmp_path, at):
    mine, theirs, optimizer = twins(tmp_path, Stopping)
    train(mine, theirs, optimizer)
    up = mine.blocks[0].up

    def stop(*_):
        raise KeyboardInterrupt

    handle = up.register_forward_hook(stop) if at == "block" else None
    mine.stop = True
    with pytest.raises(KeyboardInterrupt):
        mine(inputs(1)[0])
    mine.stop = False
    if handle is not None:
        handle.remove()
    assert mine.state_dict()["head.weight"].isfinite().all()
    train(mine, theirs, optimizer)
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None


class Recursive(nn.Module):
    """Calls itself: that is no interrupted forward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 96)
        self.embedding = nn.Embedding(64, 96)

    def forward(self, x, depth=2):
        h = self.embedding(x) if depth == 2 else x
        h = self(torch.tanh(self.linear(h)), depth - 1) if depth else h
        return F.linear(h, self.embedding.weight) if depth == 2 else h


def test_recursive_forward(tmp_path):
    train(*twins(tmp_path, Recursive, device_memory="1M", host_memory="1M"))


def test_frozen_model():
    model = Net().requires_grad_(False)
    expected = model(inputs(1)[0])
    model = hilbert.offload(model, device_memory="2M", host_memory="2M")
    assert torch.equal(model(inputs(1)[0]), expected)
    assert model.step() == 0


@pytest.mark.parametrize("name", ["step", "backward", "optimizer", "hilbert"])
def test_names_that_are_taken(name):
    model = nn.Linear(4, 4)
    own = object()
    setattr(model, name, own)
    with pytest.raises(hilbert.UsageError, match=name):
        hilbert.offload(model, device_memory="1M", host_memory="1M", dtype="bf16")
    assert getattr(model, name) is own and model.weight.isfinite().all()
