"""On a GPU; skipped where there is none."""

import os

import hilbert
import pytest
import torch
from test_lifetime import Keeping
from test_uses import Net, inputs, loss_of
from torch.nn import functional as F

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
BUDGETS = {"device_memory": "3M", "host_memory": "16M", "device": "cuda", "saves": False}


def batch(x, call):
    return x.roll(call).repeat(1, 8).cuda()  # so that activations are large enough to move


def made(make=Net, **options):
    torch.manual_seed(3)
    return hilbert.offload(make(), lr=1e-3, weight_decay=0.1, **{**BUDGETS, **options})


def losses(model, steps=4, calls=2, between=lambda step, call: None):
    """Losses and norms of steps with several backward calls."""
    found = []
    for step, x in enumerate(inputs(steps)):
        for call in range(calls):
            loss = loss_of(model, batch(x, call))
            model.backward(loss)
            found.append(float(loss.detach()))
            between(step, call)
        found.append(model.step())
    return found


def plain(steps=4, calls=2):
    torch.manual_seed(3)
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    found = []
    for x in inputs(steps):
        for call in range(calls):
            loss = loss_of(model, batch(x, call))
            loss.backward()
            found.append(float(loss.detach()))
        found.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)))
        optimizer.step()
        optimizer.zero_grad()
    return found


def test_losses_are_those_of_pytorch():
    for mine, theirs in zip(losses(made()), plain()):
        assert abs(mine - theirs) <= 1e-5 * abs(theirs)


def test_placements_and_activations_give_the_same_bits(tmp_path):
    expected = losses(made(device_memory="64M"))
    assert losses(made()) == expected
    assert losses(made(host_memory="1M", disk=f"{tmp_path}:100M")) == expected
    for way in (None, "reentrant", "nonreentrant"):
        model = made(lambda: Net(way), activations=20000)
        assert losses(model) == expected
        activations = model.hilbert.uses.activations
        assert activations.moved > 0 and activations.here == 0


def test_automatic_activations():
    model = made(activations="auto")
    assert model.hilbert.uses.activations.most > 1 << 30
    assert losses(model) == losses(made())


def test_save_between_backward_calls(tmp_path):
    expected = losses(made())
    model = made(saves=True)
    found = losses(model, between=lambda step, call: (step, call) == (2, 0) and
                   hilbert.save(model, tmp_path / "run", wait=False))
    assert found == expected
    other = made(saves=True, device_memory="64M")
    hilbert.load(other, tmp_path / "run")
    for step, x in list(enumerate(inputs(4)))[2:]:
        for call in range(2):
            loss = loss_of(other, batch(x, call))
            other.backward(loss)
            assert float(loss.detach()) == expected[3 * step + call]
        assert other.step() == expected[3 * step + 2]


def test_a_lease_has_no_copy_and_lives_as_long_as_its_views():
    model, kept = made(Keeping, device_memory="1M"), []
    expected = model.state_dict()["linear.weight"].t()
    store = model.hilbert.store
    with torch.no_grad():
        model(torch.zeros(1, 8, device="cuda"), kept)
    assert kept[0].untyped_storage().data_ptr() in store.live and store.referred()
    assert torch.equal(kept[0].cpu(), expected)
    kept.clear()
    assert not store.referred()


def test_graph_outside_of_a_forward():
    model = made()
    start = torch.zeros(1, device="cuda", requires_grad=True)
    extra = (start.exp() * model.blocks[1].up.weight).square().mean()
    expected = 2 * float(extra.detach())
    (loss_of(model, inputs(1)[0].cuda()) + extra).backward()
    assert abs(float(start.grad) - expected) <= 1e-5 * expected
    model.optimizer.step()


def test_plan():
    torch.manual_seed(3)
    model, x = Net(), inputs(1)[0]
    allocated = torch.cuda.memory_allocated()
    found = hilbert.plan(model, x, **BUDGETS)
    assert torch.cuda.memory_allocated() - allocated <= 1 << 20
    assert found.activations > 0 and next(model.parameters()).device.type == "cpu"
    model = hilbert.offload(model, **BUDGETS)
    assert found.states == model.hilbert.store.placed()
    losses(model, 2)
    memory = model.hilbert.memory()
    assert memory["held"]["device"] <= found.taken["device"] <= memory["budget"]["device"]
    assert memory["pytorch"]["device"] > 0


def test_other_stream():
    """Everything is ordered on the stream that is current in offload."""
    expected = losses(made())
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model = made()
        assert losses(model) == expected


def test_half_precision():
    model = made(dtype="bf16", device_memory="2M", clip=1.0)
    x = inputs(1)[0].cuda()
    first = None
    for _ in range(12):
        loss = loss_of(model, x)
        first = first or float(loss.detach())
        model.backward(loss)
        model.step()
    assert float(loss.detach()) < 0.8 * first
    assert F.linear(torch.ones(1, 96, device="cuda", dtype=torch.bfloat16), model.head.weight).isfinite().all()


def test_default_device_memory_leaves_what_the_first_step_needs(monkeypatch):
    from hilbert import _offload
    expected = losses(made())
    own = torch.cuda.mem_get_info
    # As if the GPU were small: half of what is free are 3 MB.
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (6 << 20, own(device)[1]))
    model = made(device_memory=None)
    monkeypatch.undo()
    before = model.hilbert.store.placed()
    assert model.hilbert.store.options.device_memory == 3 << 20 and before["host"] > 0
    assert losses(model) == expected
    after = model.hilbert.store.placed()
    assert after["host"] == 0 and after["device"] == sum(before.values())
    assert _offload.spare_memory(torch.device("cuda")) < own()[0] - (1 << 29)
