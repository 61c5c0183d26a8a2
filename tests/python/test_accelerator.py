"""hilbert.Accelerator in a loop written for accelerate."""

import pytest
import torch
from compare import same
from conftest import third
from test_engine import Simple, data

accelerate = pytest.importorskip("accelerate")
import hilbert


def run(accelerator, model, clip=0.5):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    loader = torch.utils.data.DataLoader(data(14), batch_size=None)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    losses, norms, rates = [], [], []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = model(x, y)
            accelerator.backward(loss)
            norm = accelerator.clip_grad_norm_(model.parameters(), clip) if accelerator.sync_gradients else None
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        rates.append(scheduler.get_last_lr()[0])
        if norm is not None:
            norms.append(norm.item())
    return losses, norms, rates


def test_same_numbers(tmp_path):
    """Also at the end of the data, which cuts the last accumulation short."""
    out = []
    for kind in ("mine", "theirs"):
        torch.manual_seed(3)
        model = Simple()
        if kind == "mine":
            accelerator = hilbert.Accelerator(cpu=True, gradient_accumulation_steps=3,
                                              hilbert={**third(model, tmp_path), "clip": 0.5})
        else:
            accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
        out.append(run(accelerator, model))
    (losses, norms, rates), (their_losses, their_norms, their_rates) = out
    same(losses, their_losses)
    same(norms, their_norms, 1e-4)
    assert len(norms) == 5 and rates == their_rates


def test_states(tmp_path):
    """save_state and load_state of accelerate; weights are fp32, so the bits are the same."""
    def make(seed):
        torch.manual_seed(seed)
        model = Simple()
        accelerator = hilbert.Accelerator(cpu=True, hilbert={"device_memory": "8M", "host_memory": "8M"})
        return accelerator, *accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=2e-3))

    def train(accelerator, model, optimizer, first, last):
        losses = []
        for x, y in data(last)[first:]:
            loss = model(x, y)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
        return losses

    one, two = make(1), make(2)
    train(*one, 0, 3)
    one[0].save_state(tmp_path / "state")
    two[0].load_state(tmp_path / "state")
    assert train(*one, 3, 6) == train(*two, 3, 6)


def test_refused(tmp_path):
    model = Simple()
    accelerator = hilbert.Accelerator(cpu=True, hilbert={"device_memory": "8M", "host_memory": "8M"})
    with pytest.raises(hilbert.UsageError, match="together with its optimizer"):
        accelerator.prepare(model)
    with pytest.raises(hilbert.UsageError, match="clip=0.5"):
        run(accelerator, model)
    with pytest.raises(hilbert.UsageError, match="fp8"):
        hilbert.Accelerator(cpu=True, mixed_precision="fp8")


def test_precision_of_accelerate_launch(monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert hilbert.Accelerator(cpu=True).hilbert["dtype"] == "bf16"
    assert hilbert.Accelerator(cpu=True, mixed_precision="no").hilbert["dtype"] is None
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp8")
    with pytest.raises(hilbert.UsageError, match="fp8"):
        hilbert.Accelerator(cpu=True)
