"""Tensors that wait for backward in RAM or on disk: the same bits as without."""

import hilbert
import pytest
import torch
from conftest import third
from test_uses import Net, inputs, loss_of
from torch import nn


def losses(folder, make, steps=3, **options):
    """Losses of some steps of two backward calls, the model, and bytes that were moved."""
    torch.manual_seed(3)
    model = make()
    budgets = third(model, folder)
    budgets["host_memory"] += 128 << 10
    model = hilbert.offload(model, lr=1e-3, clip=1.0, **{**budgets, **options})
    found = []
    for x in inputs(steps):
        for part in (x, x.flip(0)):
            loss = loss_of(model, part.repeat(1, 8))
            model.backward(loss)
            found.append(float(loss.detach()))
        found.append(model.step())
    activations = model.hilbert.uses.activations
    return found, model, activations.moved if activations else 0


@pytest.mark.parametrize("way", [None, "reentrant", "nonreentrant"])
@pytest.mark.parametrize("most", [0, 100000])
def test_same_bits(tmp_path, way, most):
    expected, _, _ = losses(tmp_path, lambda: Net(way))
    found, model, moved = losses(tmp_path, lambda: Net(way), activations=most)
    assert found == expected
    assert moved > 0
    assert model.hilbert.uses.activations.here == 0


def test_auto(tmp_path):
    expected, _, _ = losses(tmp_path, Net)
    found, model, _ = losses(tmp_path, Net, activations="auto")
    assert found == expected
    assert model.hilbert.uses.activations.most == model.hilbert.store.options.device_memory // 2


def wide(folder, **options):
    """A model whose states fit into device memory, with host memory for a part of its activations."""
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6)))
    return hilbert.offload(model, lr=1e-3, device_memory="8M", host_memory="1M",
                           **{"saves": False, "threads": 1, "activations": 0, **options})


def test_disk(tmp_path):
    model = wide(tmp_path, disk=f"{tmp_path}:100M")
    x = torch.randn(2048, 64)  # 512 KiB each
    model.hilbert.store.account()
    model.backward(model(x).square().mean())
    account = model.hilbert.store.account()
    assert account.disk_written_bytes >= 2 << 20
    assert account.disk_read_bytes >= 2 << 20
    assert account.host_peak <= 1 << 20
    model.step()


def test_no_room(tmp_path):
    """What the budgets do not hold stays with PyTorch."""
    model = wide(tmp_path)
    x = torch.randn(2048, 64)
    loss = model(x).square().mean()
    activations = model.hilbert.uses.activations
    assert 0 < activations.here and activations.moved < 6 * x.nbytes
    model.backward(loss)
    model.step()
    assert activations.here == 0


class Shared(nn.Module):
    """Three layers that save the same tensor, and one that saves a view of it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 8) for _ in range(3))
        self.last = nn.Linear(32, 8)

    def forward(self, x):
        x = x.relu()
        return sum(layer(x) for layer in self.layers) + self.last(x.view(-1, 32)[:len(x)])


def test_one_storage_moves_once(tmp_path):
    torch.manual_seed(1)
    model = hilbert.offload(Shared(), device_memory="8M", host_memory="8M", saves=False, threads=1,
                            activations=0)
    x = torch.randn(512, 64, requires_grad=True)
    loss = model(x).sum()
    assert model.hilbert.uses.activations.moved == x.nbytes
    model.backward(loss, retain_graph=True)
    first = x.grad.clone()
    model.backward(loss)
    assert torch.equal(x.grad, 2 * first)
    assert model.hilbert.uses.activations.here == 0


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        y = self.layer(x).sigmoid()
        return y.mul_(2)


def test_in_place(tmp_path):
    """A change that backward notices is noticed here too."""
    model = hilbert.offload(InPlace(), device_memory="8M", host_memory="8M", saves=False, threads=1,
                            activations="64M")
    loss = model(torch.randn(512, 64)).sum()
    with pytest.raises(RuntimeError, match="inplace"):
        model.backward(loss)


def test_sizes():
    with pytest.raises(hilbert.UsageError, match="activations"):
        hilbert.offload(nn.Linear(8, 8), device_memory="8M", host_memory="8M", activations="some")
