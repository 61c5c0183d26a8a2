"""The default of device_memory: after the first step, what PyTorch did not need."""

import hilbert
import pytest
import torch
from hilbert import _offload
from test_uses import Net, inputs, loss_of


def trained(model, steps=4):
    """Losses and norms."""
    found = []
    for x in inputs(steps):
        loss = loss_of(model, x)
        model.backward(loss)
        found += [float(loss.detach()), model.step()]
    return found


def made(folder, **options):
    torch.manual_seed(3)
    return hilbert.offload(Net(), lr=1e-3, device="cpu", disk=f"{folder}:100M", threads=1, **options)


@pytest.fixture(name="small")
def small_machine(monkeypatch):
    """One with little memory: the defaults put a part on disk."""
    monkeypatch.setattr(_offload, "available_memory", lambda: 2 << 20)


@pytest.mark.parametrize("spare", [0, 300 << 10, 64 << 20])
def test_grows_after_the_first_step(tmp_path, small, monkeypatch, spare):
    asked = []

    def spare_memory(device):
        asked.append(device.type)
        return spare

    expected = trained(made(tmp_path, device_memory=512 << 10, host_memory=1 << 20))
    assert asked == []
    monkeypatch.setattr(_offload, "spare_memory", spare_memory)
    model = made(tmp_path)
    store, before = model.hilbert.store, model.hilbert.store.placed()
    assert before["device"] < sum(before.values())
    assert trained(model) == expected
    assert asked == ["cpu"]
    after, budget = store.placed(), model.hilbert.memory()["budget"]["device"]
    assert sum(after.values()) == sum(before.values())
    assert (after["device"] > before["device"]) == (spare > 0)
    assert after["disk"] == 0 if spare == 64 << 20 else after["disk"] <= before["disk"]
    assert 512 << 10 <= budget <= (512 << 10) + spare
    assert model.hilbert.memory()["held"]["device"] <= budget


def test_stays_where_it_was_given(tmp_path, small, monkeypatch):
    monkeypatch.setattr(_offload, "spare_memory", lambda device: pytest.fail("was asked"))
    trained(made(tmp_path, device_memory=512 << 10), 2)
