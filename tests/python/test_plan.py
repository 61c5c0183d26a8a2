"""hilbert.plan says what offload then does, and takes nothing."""

import os

import hilbert
import pytest
import torch
from conftest import third
from test_uses import Net, inputs, loss_of
from torch import nn


def test_says_what_offload_does(tmp_path):
    torch.manual_seed(1)
    model = Net()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    budgets = third(model, tmp_path)
    made = hilbert.plan(model, inputs(1)[0], **budgets)
    assert os.listdir(tmp_path) == []
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    hilbert.offload(model, **budgets)
    assert made.states == model.hilbert.store.placed()
    assert made.parameters == sum(p.numel() for p in model.parameters())
    assert made.taken["device"] <= budgets["device_memory"]
    assert made.taken["host"] <= budgets["host_memory"]
    for x in inputs(3):
        model.backward(loss_of(model, x))
        model.hilbert.store.account()
        model.step()
    memory = model.hilbert.memory()
    assert memory["held"]["device"] <= made.taken["device"] <= memory["budget"]["device"]
    assert memory["held"]["disk"] <= made.taken["disk"]
    assert memory["process"]["host"] > 0


def test_activations_of_a_forward():
    """Counted without computing: what PyTorch really saves, but for scalars."""
    model = Net(blocks=2)
    x = inputs(1)[0]
    saved = {}

    def pack(tensor):
        if not isinstance(tensor, nn.Parameter):
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    params = {p.untyped_storage().data_ptr() for p in model.parameters()}
    expected = sum(storage.nbytes() for at, storage in saved.items() if at not in params)
    made = hilbert.plan(model, x, device_memory="8M", host_memory="8M", device="cpu")
    assert abs(made.activations - expected) <= 0.02 * expected
    assert "for backward" in str(made)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64, bias=False)

    def forward(self, x):
        if x.sum() > 0:  # values decide
            x = x + 1
        return self.layer(self.layer(x))


class Loop(Twice):
    def forward(self, x):
        return self.layer(self.layer(x))


def test_traffic_counts_uses():
    budgets = {"device_memory": "128K", "host_memory": "8M", "window": "120K", "device": "cpu",
               "saves": False}
    models = nn.Linear(64, 64, bias=False), Loop(), Twice()
    once, twice, unknown = (hilbert.plan(model, torch.randn(4, 64), **budgets) for model in models)
    key = "weights to the device"
    assert 0 < once.traffic[key] and twice.traffic[key] == 2 * once.traffic[key]
    assert unknown.activations is None and unknown.traffic[key] == once.traffic[key]
    assert hilbert.plan(Loop(), device_memory="8M", host_memory="8M", device="cpu").traffic[key] == 0


def test_too_little(tmp_path):
    made = hilbert.plan(Net(), device_memory="500K", host_memory="100K", device="cpu")
    assert "missing" in made.fits and "does not fit" in str(made)
    with pytest.raises(hilbert.BudgetError):
        hilbert.offload(Net(), device_memory="500K", host_memory="100K", device="cpu")
    with pytest.raises(TypeError):
        hilbert.plan(Net(), no_such_option=1)


def test_activations_in_the_dtype_and_from_meta():
    budgets = {"device_memory": "8M", "host_memory": "8M", "device": "cpu"}
    x = inputs(1)[0]
    full = hilbert.plan(Net(), x, **budgets)
    half = hilbert.plan(Net(), x, dtype="bf16", **budgets)
    assert 0.4 * full.activations < half.activations < 0.8 * full.activations
    with torch.device("meta"):
        empty = Net()
    made = hilbert.plan(empty, x, **budgets)
    assert made.activations == full.activations
    assert next(empty.parameters()).device.type == "meta"


def test_says_why_a_forward_cannot_be_traced():
    made = hilbert.plan(nn.Linear(64, 64), torch.randn(4, 63), device_memory="8M", host_memory="8M", device="cpu")
    assert made.activations is None and made.untraced in str(made)
    assert "63" in made.untraced
