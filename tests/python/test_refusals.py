"""What is refused: by a line that says why, before anything of the model is lost."""

import pickle
import subprocess
import sys

import hilbert
import pytest
import torch
from compare import environment
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.testing._internal.two_tensor import TwoTensor

ROOM = {"device_memory": "1M", "host_memory": "1M"}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.complex64))


class Wrapped(nn.Module):
    """Has a weight whose numbers are in other tensors."""

    def __init__(self):
        super().__init__()
        self.inner = net()
        self.weight = nn.Parameter(TwoTensor(torch.ones(3, 2), torch.ones(3, 2)))

    def forward(self, x):
        return self.inner(x)


def shared(change):
    """A net, changed so that memory has two owners."""
    def make():
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        change(model)
        return model
    return make


def tie_data(model):
    model[1].weight.data = model[0].weight.data


def tie_transposed(model):
    model[1].weight.data = model[0].weight.data.t()


def overlap(model):
    base = torch.randn(9, 8)
    model[0].weight, model[1].weight = nn.Parameter(base[:8]), nn.Parameter(base[1:])


def keep_as_buffer(model):
    model[1].register_buffer("before", model[0].weight.detach())


def halves_of_one_tensor(model):
    base = torch.randn(8, 16)
    model[0].weight, model[1].weight = nn.Parameter(base[:, :8]), nn.Parameter(base[:, 8:])
    model[0].bias.data, model[1].bias.data = torch.randn(16).chunk(2)


@pytest.mark.parametrize("make, options, why", [
    (shared(tie_data), {}, "0.weight and 1.weight share memory|1.weight and 0.weight share memory"),
    (shared(tie_transposed), {}, "share memory.* tie them as one object"),
    (shared(overlap), {}, "share memory"),
    (shared(keep_as_buffer), {}, "1.before.* share memory|1.before share memory"),
    (Wrapped, {}, "weight is TwoTensor, which is not trained: freeze it"),
    (net, {"optimizer": torch.optim.AdamW}, "optimizer"),
    (net, {"optimizer": None}, "optimizer"),
    (net, {"optimizer": torch.optim.AdamW(net().parameters())}, r"\[8, 8\] that is not one of Sequential"),
    (net, {"params": [nn.Parameter(torch.ones(3))]}, r"\[3\]"),
    (net, {"params": [{"params": ["0.weight"]}, {"params": ["0.weight"]}]}, "more than one"),
    (net, {"lr": -1.0}, "lr -1"),
    (net, {"weight_decay": -0.5}, "weight decay -0.5"),
    (net, {"betas": (0.9, 1.5)}, "1.5"),
    (net, {"betas": (0.9,)}, "two numbers"),
    (net, {"clip": -1.0}, "clip -1.0"),
    (net, {"clip": float("nan")}, "clip nan"),
    (net, {"params": iter(())}, "params is empty"),
    (net, {"dtype": "fp64"}, "fp64"),
    (net, {"dtype": torch.float64}, "float64"),
    (net, {"device": "mps"}, "mps"),
    (net, {"loss_scale": {"initial": 8}}, "initial"),
    (net, {"device_memory": "2K"}, r"give \S+ KiB more$"),
    (lambda: net().to("meta"), {}, "0.weight has no values"),
    (Complex, {}, "weight is torch.complex64"),
    (lambda: "gpt2", {}, "str is not an nn.Module"),
])
def test_arguments(make, options, why):
    model = make()
    with pytest.raises(ValueError if options.get("device_memory") is None else hilbert.BudgetError, match=why):
        hilbert.offload(model, **{**ROOM, **options})
    if make is net:
        assert all(p.isfinite().all() for p in model.parameters())
        hilbert.offload(model, **ROOM)  # it is as it was


def test_parts_of_an_offloaded_model():
    model = hilbert.offload(net(), **ROOM)
    for other in (model[0], nn.Sequential(model)):
        with pytest.raises(hilbert.UsageError, match="shares parameters"):
            hilbert.offload(other, **ROOM)
    assert model(torch.ones(1, 8)).isfinite().all()


def test_pickle():
    with pytest.raises(hilbert.UsageError, match="state_dict"):
        pickle.dumps(hilbert.offload(net(), **ROOM))


def test_gradient_scaler():
    model = hilbert.offload(net(), **ROOM)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 8)).sum()).backward()
    with pytest.raises(hilbert.UsageError, match="model.backward"):
        scaler.step(model.optimizer)


def test_backward_without_the_loss_scale():
    model = hilbert.offload(net(), dtype="fp16", **ROOM)
    with pytest.raises(hilbert.UsageError, match="model.backward"):
        model(torch.ones(1, 8).half()).sum().backward()
    model.zero_grad()
    model.backward(model(torch.ones(1, 8).half()).float().square().mean())
    assert model.step() > 0


@pytest.mark.parametrize("taken", [False, True])
def test_step_of_another_optimizer(taken):
    model = net()
    other = torch.optim.AdamW(model.parameters())
    model = hilbert.offload(model, optimizer=other if taken else "adamw", **ROOM)
    model.backward(model(torch.ones(1, 8)).sum())
    with pytest.raises(hilbert.UsageError, match="model.optimizer"):
        other.step()
    assert model.step() > 0


def test_parameters_that_come_later():
    model = hilbert.offload(net(), **ROOM)
    model[2] = nn.Linear(8, 4)
    model.backward(model(torch.ones(1, 8)).sum())
    with pytest.warns(UserWarning, match="2.weight was added after hilbert.offload"):
        model.step()


def test_placeholders_in_a_loss():
    model = hilbert.offload(net(), **ROOM)
    model.backward(sum(p.square().sum() for p in model.parameters()))
    with pytest.raises(hilbert.NumericError, match="hilbert.gathered"):
        model.step()


def test_what_json_cannot_hold(tmp_path):
    with pytest.raises(hilbert.UsageError, match="object"):
        hilbert.save(hilbert.offload(net(), **ROOM), tmp_path, object())


def test_accepted_as_well():
    for options in ({"disk": None}, {"dtype": torch.bfloat16}, {"clip": None}):
        hilbert.offload(net(), **ROOM, **options)
    model = net()
    hilbert.offload(model, params=list(model.named_parameters()), **ROOM)
    model.backward(model(torch.ones(1, 8)).sum())
    assert model.step() > 0


def test_memory_that_is_shared_without_harm():
    for make in (shared(halves_of_one_tensor), shared(lambda model: tie_data(model.requires_grad_(False)))):
        model, same = make(), make()
        same.load_state_dict(model.state_dict())
        hilbert.offload(model, **ROOM)
        x = torch.randn(2, 8)
        assert torch.equal(model(x), same(x))


def test_weights_that_wrap_others_stay():
    model = Wrapped()
    model.weight.requires_grad_(False)
    hilbert.offload(model, **ROOM)
    assert torch.equal(model.weight.a, torch.ones(3, 2))
    model.backward(model(torch.ones(1, 8)).sum())
    assert model.step() > 0


def test_averages():
    """AveragedModel gets weights, not placeholders."""
    model = net()
    average = AveragedModel(model)
    hilbert.offload(model, lr=0.1, **ROOM)
    weights = []
    for _ in range(3):
        model.backward(model(torch.ones(1, 8)).square().sum())
        model.step()
        average.update_parameters(model)
        weights.append(model.state_dict()["0.weight"])
    torch.testing.assert_close(average.module[0].weight.data, sum(weights) / 3)


def test_weights_of_8_bits_stay():
    """Their scales are elsewhere: as numbers of another dtype they would be wrong."""
    model = net()
    model[0].weight = nn.Parameter(model[0].weight.detach().to(torch.float8_e4m3fn), requires_grad=False)
    hilbert.offload(model, **ROOM)
    assert model[0].weight.dtype == torch.float8_e4m3fn


def test_help_without_packages():
    """Without PyTorch, accelerate, transformers and TRL."""
    code = """
import sys
for name in "torch", "accelerate", "transformers", "trl": sys.modules[name] = None
import importlib.util, pydoc
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in sys.modules else find(name)
import hilbert
assert "version" in dir(hilbert) and "offload" not in dir(hilbert)
assert "hilbert" in pydoc.render_doc(hilbert)
for name in "offload", "Accelerator", "Trainer", "SFTTrainer":
    try:
        getattr(hilbert, name)
    except ModuleNotFoundError as error:
        assert f"hilbert.{name} needs " in str(error) and "pip install" in str(error), error
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True, timeout=60)


def test_clipping_by_pytorch():
    model, other = hilbert.offload(net(), **ROOM), net()
    model.backward(model(torch.ones(2, 8)).sum())
    with pytest.raises(hilbert.UsageError, match="give clip=MAX_NORM to hilbert.offload"):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with pytest.raises(hilbert.UsageError, match="by value"):
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    model.step()
    other(torch.ones(2, 8)).sum().backward()
    assert nn.utils.clip_grad_norm_(other.parameters(), 1e-3) > 0
    assert nn.utils.clip_grad_norm_(other[0].weight, 1.0) <= 1e-3
