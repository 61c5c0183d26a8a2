"""Checkpoints: training continues with the same bits, under other budgets too."""

import os
import subprocess

import hilbert
import models
import pytest
import torch
from conftest import third
from test_engine import config, data, start
from test_uses import Net, inputs, loss_of


def make(folder, seed=3, **budgets):
    torch.manual_seed(seed)
    model = models.ConvNet()
    budgets = {**third(model, folder), "host_memory": "1M", "saves": True, **budgets}
    return hilbert.offload(model, lr=1e-3, clip=1.0, **budgets)


def train(model, first, last):
    losses = []
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        inputs_ = models.conv()[1](generator)
        loss = model(**inputs_)
        model.backward(loss)
        model.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("budgets", [{}, {"device_memory": "64M", "host_memory": "64M"}])
def test_same_bits_after_a_checkpoint(tmp_path, budgets):
    model = make(tmp_path)
    train(model, 0, 3)
    model.optimizer.param_groups[0]["lr"] = 5e-4
    hilbert.save(model, tmp_path / "run", {"step": 3, "note": "ä"}, wait=False)
    later = train(model, 3, 6)
    model.hilbert.store.saved()
    other = make(tmp_path, seed=4, **budgets)
    assert hilbert.load(other, tmp_path / "run") == {"step": 3, "note": "ä"}
    assert train(other, 3, 6) == later
    a, b = model.state_dict(), other.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_the_program_verifies_it(tmp_path):
    program = os.environ.get("HILBERT", os.path.join(os.path.dirname(__file__), "../../build/hilbert"))
    if not os.path.exists(program):
        pytest.skip("no program")
    model = make(tmp_path)
    train(model, 0, 1)
    hilbert.save(model, tmp_path / "run")
    hilbert.save(model, tmp_path / "run", keep=1)  # immediately after another
    assert len([name for name in os.listdir(tmp_path / "run") if name.startswith("step-")]) == 1
    subprocess.run([program, "verify", str(tmp_path / "run")], check=True, capture_output=True)


def test_refused(tmp_path):
    model = make(tmp_path)
    with pytest.raises(hilbert.InputError, match="checkpoint"):
        hilbert.load(model, tmp_path)
    model.backward(model(**models.conv()[1](torch.Generator())))
    with pytest.raises(hilbert.UsageError, match="step"):
        hilbert.load(model, tmp_path / "run")


def run(engine, first, last):
    losses = []
    for x, y in data(last)[first:]:
        loss = engine(x, y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses


def test_engine(tmp_path):
    settings = config(scheduler={"type": "WarmupLR", "params": {"warmup_num_steps": 8}})
    budgets = {"host_memory": "4M", "saves": True}
    torch.manual_seed(0)
    engine = start(tmp_path, settings, **budgets)[0]
    run(engine, 0, 4)
    assert engine.load_checkpoint(tmp_path / "none") == (None, {})
    engine.save_checkpoint(tmp_path / "run", client_state={"epoch": 2})
    assert (tmp_path / "run" / "latest").read_text() == "global_step2"
    later = run(engine, 4, 8)
    torch.manual_seed(1)
    other = start(tmp_path, settings, **budgets)[0]
    path, client = other.load_checkpoint(tmp_path / "run")
    assert path.endswith("global_step2") and client == {"epoch": 2}
    other.save_checkpoint(tmp_path / "again")  # immediately after a load
    assert run(other, 4, 8) == later
    assert other.global_steps == 4 and other.get_lr() == engine.get_lr()
    third_engine = start(tmp_path, settings, **budgets)[0]
    third_engine.load_checkpoint(tmp_path / "again", load_optimizer_states=False)
    assert run(third_engine, 4, 5) == later[:1]


def test_between_backward_calls(tmp_path):
    """Training goes on with the same bits; what is loaded begins that step anew."""
    def steps(model, save=None):
        found = []
        for i, x in enumerate(inputs(4)):
            for k in range(2):
                loss = loss_of(model, x.roll(k))
                model.backward(loss)
                found.append(float(loss.detach()))
                if (i, k) == save:
                    hilbert.save(model, tmp_path / "run")
            found.append(model.step())
        return found

    def new():
        torch.manual_seed(4)
        net = Net()
        return hilbert.offload(net, lr=1e-3, **{**third(net, tmp_path), "host_memory": "4M",
                                                "saves": True})

    expected = steps(new())
    assert steps(new(), (2, 0)) == expected
    model = new()
    hilbert.load(model, tmp_path / "run")
    found = []
    for x in inputs(4)[2:]:
        for k in range(2):
            loss = loss_of(model, x.roll(k))
            model.backward(loss)
            found.append(float(loss.detach()))
        found.append(model.step())
    assert found == expected[6:]


def test_engine_in_the_middle_of_accumulation(tmp_path):
    budgets = {"host_memory": "4M", "saves": True}
    torch.manual_seed(0)
    engine = start(tmp_path, config(), **budgets)[0]
    assert engine.gradient_accumulation_steps() == 2
    run(engine, 0, 3)
    engine.save_checkpoint(tmp_path / "run")
    run(engine, 3, 4)
    later = run(engine, 4, 8)
    other = start(tmp_path, config(), **budgets)[0]
    other.load_checkpoint(tmp_path / "run")
    assert other.micro_steps == 2
    run(other, 2, 4)
    assert run(other, 4, 8) == later
