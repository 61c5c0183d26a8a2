"""Models that are never whole in memory: made, loaded and saved."""

import contextlib
import copy
import os
import pickle

import hilbert
import models
import pytest
import torch
from conftest import third
from torch import nn


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a, b):
    assert list(a) == list(b)
    for name in a:
        assert torch.equal(a[name], b[name]), name


class Large(nn.Module):
    def __init__(self, layers=8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(layers))
        self.head = nn.Linear(128, 128)
        self.head.weight = self.layers[0].weight
        for layer in self.layers:  # as transformers does after a model was made
            nn.init.normal_(layer.weight, std=0.02)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x).square().mean()


def resident(model):
    """Bytes that the parameters take in memory of PyTorch."""
    return sum(p.untyped_storage().nbytes() for p in model.parameters())


def test_same_numbers_as_in_memory(tmp_path):
    torch.manual_seed(4)
    plain = Large()
    torch.manual_seed(4)
    with hilbert.init(host_memory="200K", disk=str(tmp_path)):
        model = Large()
        assert resident(model) <= 200 << 10 < resident(plain)
    model = hilbert.offload(model, **third(plain, tmp_path))
    same(weights(model), weights(plain))
    model.backward(model(torch.randn(2, 128)))
    model.step()
    assert not os.listdir(tmp_path)  # files without names


def test_changes_before_offload(tmp_path):
    """Data that are given to placeholders, another dtype, and copies."""
    pair = []
    for where in (hilbert.init(host_memory="100K", disk=str(tmp_path)), contextlib.nullcontext()):
        torch.manual_seed(4)
        with where:
            pair.append(Large())
    for model in pair:
        params = list(model.parameters())
        params[6].data = torch.full((128, 128), 0.1)
    for model in pair:
        model.bfloat16()
    for mine, plain in zip(pair[0].layers, pair[1].layers):
        assert mine.weight.dtype == torch.bfloat16 and torch.equal(mine.weight, plain.weight)
        assert torch.equal(mine.bias, plain.bias)
    assert resident(pair[0]) <= 100 << 10 < resident(pair[1])
    with pytest.raises(hilbert.UsageError, match="state_dict"):
        pickle.dumps(pair[0])
    same(weights(copy.deepcopy(pair[0])), weights(pair[1]))
    model = hilbert.offload(pair[0], **third(pair[1], tmp_path))
    same(weights(model), weights(pair[1]))
    with hilbert.init(host_memory="100K", disk=str(tmp_path)):
        model = Large()
    nn.init.constant_(list(model.parameters())[0], 0.5)
    with pytest.raises(hilbert.UsageError, match="written to"):
        model(torch.ones(1, 128))


def test_gathered_before_offload(tmp_path):
    """As scripts for DeepSpeed initialise parameters that were partitioned away."""
    with hilbert.init(host_memory="200K", disk=str(tmp_path)):
        model = Large()
    for number, param in enumerate(model.parameters()):
        with hilbert.zero.GatheredParameters(param, modifier_rank=0):
            assert param.isfinite().all()
            nn.init.constant_(param, number)
    with hilbert.zero.GatheredParameters(model.parameters()):
        assert [p.max().item() for p in model.parameters()] == list(range(17))
    kept = Large().state_dict()
    model = hilbert.offload(model, **third(Large(), tmp_path))
    for number, (name, param) in enumerate(model.named_parameters()):
        kept[name] = torch.full(param.shape, float(number))
    kept["head.weight"] = kept["layers.0.weight"]
    same(weights(model), kept)


@pytest.mark.parametrize("kind", ["llama", "mixtral", "t5"])
def test_pretrained_folders(tmp_path, kind):
    pytest.importorskip("transformers")
    torch.manual_seed(5)
    made = {"llama": lambda: models.llama(4), "mixtral": lambda: models.mixtral()[0],
            "t5": lambda: models.t5()[0]}[kind]()
    made.save_pretrained(tmp_path / "a", max_shard_size="300KB")
    budgets = third(made, tmp_path)
    model = hilbert.from_pretrained(type(made), tmp_path / "a", **budgets)
    same(weights(model), weights(made))
    assert resident(model) == 4 * sum(1 for _ in model.parameters())
    hilbert.save_pretrained(model, tmp_path / "b", max_shard_size="300KB")
    again = type(made).from_pretrained(tmp_path / "b")
    same(weights(again), weights(made))
    model.save_pretrained(tmp_path / "c")
    same(weights(type(made).from_pretrained(tmp_path / "c")), weights(made))


def test_state_dict_round_trip(tmp_path):
    torch.manual_seed(6)
    plain, other = Large(), Large()
    model = hilbert.offload(copy.deepcopy(plain), **third(plain, tmp_path))
    state = model.state_dict()
    assert state["head.weight"] is state["layers.0.weight"]
    model.load_state_dict(other.state_dict())
    same(weights(model), weights(other))
    model.load_state_dict(weights(plain), assign=True)
    same(weights(model), weights(plain))
    missing = weights(other)
    del missing["layers.3.bias"]
    with pytest.raises(RuntimeError, match="layers.3.bias"):
        model.load_state_dict(missing)
    missing["head.bias"] = torch.zeros(3)
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(missing, strict=False)


def test_changes_between_steps(tmp_path):
    torch.manual_seed(7)
    plain = Large()
    model = hilbert.offload(copy.deepcopy(plain), **third(plain, tmp_path))
    model.layers[2].weight.data.mul_(2)
    with torch.no_grad():
        model.layers[3].bias.fill_(0.5)
    with hilbert.gathered(model):
        for param in model.layers[4].parameters():
            param.data.zero_()
    with torch.no_grad():
        plain.layers[2].weight.mul_(2)
        plain.layers[3].bias.fill_(0.5)
        for param in plain.layers[4].parameters():
            param.zero_()
    same(weights(model), weights(plain))
    x = torch.randn(2, 128)
    assert torch.equal(model(x), plain(x))


def test_more_than_the_disk_may_hold(tmp_path):
    with pytest.raises(hilbert.BudgetError, match="disk"):
        with hilbert.init(host_memory="64K", disk=f"{tmp_path}:256K"):
            nn.Sequential(*(nn.Linear(128, 128) for _ in range(8)))
    with hilbert.init(host_memory="64K", disk=tmp_path):
        nn.Sequential(*(nn.Linear(128, 128) for _ in range(8)))


def test_pretrained_takes_every_argument_of_offload(tmp_path):
    pytest.importorskip("transformers")
    made = models.llama(4)
    made.save_pretrained(tmp_path / "a")
    model = hilbert.from_pretrained(type(made), tmp_path / "a", device_memory="8M", host_memory="8M", dtype="fp16",
                                    activations="64K", loss_scale={"start": 1024})
    assert model.hilbert.uses.activations.most == 64 << 10
    assert model.hilbert.store.progress.loss_scale == 1024
