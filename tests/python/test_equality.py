"""Losses equal those of plain PyTorch with torch.optim.AdamW; placements do not change a bit."""

import copy

import hilbert
import models
import pytest
import torch
from conftest import third

STEPS = 20
RATES = {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}


def batches(make, steps):
    generator = torch.Generator().manual_seed(7)
    return [make(generator) for _ in range(steps)]


def plain(model, make):
    optimizer = torch.optim.AdamW(model.parameters(), **RATES)
    losses = []
    for inputs in batches(make, STEPS):
        loss = models.loss_of(model, inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def offloaded(model, make, steps, budgets):
    model = hilbert.offload(model, clip=1.0, **RATES, **budgets)
    losses = []
    for inputs in batches(make, steps):
        loss = models.loss_of(model, inputs)
        model.backward(loss)
        model.step()
        losses.append(loss.item())
    return losses, model


def prepare(make_model, seed):
    torch.manual_seed(seed)
    try:
        model, make = make_model()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    return model.train(), make


@pytest.mark.parametrize("make_model", models.ALL, ids=lambda f: f.__name__)
def test_equals_torch(make_model, tmp_path):
    model, make = prepare(make_model, 1)
    twin = copy.deepcopy(model)
    mine, model = offloaded(model, make, STEPS, third(model, tmp_path))
    theirs = plain(twin, make)
    assert abs(mine[0] - theirs[0]) <= 1e-6 * abs(theirs[0])
    for a, b in zip(mine, theirs):
        assert abs(a - b) <= 1e-5 * abs(b)
    assert model.hilbert.store.placed()["disk"] > 0


def placements(model, folder):
    """From everything in device memory to most on disk."""
    most, disk = {"device_memory": "64M", "host_memory": "64M"}, f"{folder}:100M"
    least = third(model, folder)
    return [most, {**most, "device_memory": least["device_memory"] + (64 << 10), "activations": 0},
            {**least, "device_memory": "1M"}, {**least, "host_memory": "700K"},
            {**least, "disk": [disk, disk], "threads": 2}]


@pytest.mark.parametrize("make_model", models.ALL, ids=lambda f: f.__name__)
def test_same_bits_everywhere(make_model, tmp_path):
    original, make = prepare(make_model, 2)
    first = None
    for budgets in placements(original, tmp_path):
        losses, model = offloaded(copy.deepcopy(original), make, 3, budgets)
        weights = model.state_dict()
        if first is None:
            first = losses, weights
        assert losses == first[0], budgets
        for name, value in weights.items():
            assert torch.equal(value, first[1][name]), (name, budgets)
