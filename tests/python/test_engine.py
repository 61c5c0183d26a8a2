"""hilbert.initialize behaves as deepspeed.initialize."""

import copy

import hilbert
import pytest
import torch
from conftest import third
from torch import nn

HIDDEN = 100


class Simple(nn.Module):
    """Parameters of 100 x 100 and 100 elements; one layer may be left out."""

    def __init__(self, layers=8, empty=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(layers))
        if empty:
            self.spare = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return nn.functional.cross_entropy(x, y)


def config(**more):
    return {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.05}}, **more}


def data(steps, seed=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(2, HIDDEN, generator=generator).to(dtype),
             torch.randint(0, HIDDEN, (2,), generator=generator)) for _ in range(steps)]


def start(folder, settings=None, model=None, **more):
    model = model or Simple()
    return hilbert.initialize(model=model, config=settings or config(),
                              **{**third(model, folder), **more})


def test_notes(tmp_path, capsys):
    """Of decay there is nothing to say: it is that of the groups, as in DeepSpeed."""
    start(tmp_path, config(wall_clock_breakdown=True))
    assert capsys.readouterr().err == "config: without effect here: wall_clock_breakdown\n"


def test_optimizer_as_a_function(tmp_path):
    engine, *_ = start(tmp_path, {"train_batch_size": 2},
                       optimizer=lambda params: torch.optim.AdamW(params, lr=3e-3))
    assert engine.get_lr() == [3e-3]


def test_methods_of_deepspeed(tmp_path):
    """Those that scripts call besides training."""
    engine, *_ = start(tmp_path, config(zero_optimization={"stage": 3}, bf16={"enabled": True}))
    assert (engine.zero_optimization(), engine.zero_optimization_stage()) == (True, 3)
    assert (engine.fp16_enabled(), engine.bfloat16_enabled()) == (False, True)
    assert engine.get_batch_info() == (4, 2, 2) and engine.get_mom() == [(0.9, 0.999)]
    x, y = data(1, dtype=torch.bfloat16)[0]
    before = engine.module_state_dict()
    with engine.no_sync():
        engine.backward(engine(x, y))
        engine.step()
    assert not engine.was_step_applied() and engine.global_steps == 0
    engine.set_gradient_accumulation_boundary(True)
    engine.backward(engine(x, y))
    engine.step()
    assert engine.was_step_applied() and engine.global_steps == 1
    assert engine.save_16bit_model(tmp_path / "out")
    saved = torch.load(tmp_path / "out" / "pytorch_model.bin")
    assert all(v.dtype == torch.bfloat16 and torch.equal(v, saved[k]) for k, v in engine.module.state_dict().items())
    assert not torch.equal(saved["layers.0.weight"], before["layers.0.weight"])
    engine.load_module_state_dict(before)
    assert torch.equal(engine.module_state_dict()["layers.0.weight"], before["layers.0.weight"])
    engine.layers[0].requires_grad_(False)
    assert "layers.0.weight" not in engine.module_state_dict(exclude_frozen_parameters=True)
    with pytest.raises(AttributeError, match="neither hilbert's engine nor Simple has train_batch"):
        engine.train_batch()


def test_equals_torch_with_accumulation(tmp_path):
    torch.manual_seed(0)
    model = Simple()
    twin = copy.deepcopy(model)
    engine, optimizer, loader, scheduler = start(tmp_path, model=model)
    assert loader is None and scheduler is None and optimizer is engine.optimizer
    theirs = torch.optim.AdamW(twin.parameters(), lr=1e-3, weight_decay=0.05)
    for micro, (x, y) in enumerate(data(8)):
        loss, other = engine(x, y), twin(x, y)
        assert abs(loss.item() - other.item()) <= 1e-5 * other.item()
        engine.backward(loss)
        assert engine.is_gradient_accumulation_boundary() == (micro % 2 == 1)
        engine.step()
        (other / 2).backward()
        if micro % 2:
            norm = nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
            assert abs(engine.get_global_grad_norm() - norm.item()) <= 1e-5 * norm.item()
            theirs.step()
            theirs.zero_grad()
    assert engine.global_steps == 4 and engine.micro_steps == 8


class Scaled(Simple):
    """With a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x, y):
        return super().forward(x * self.scale, y)


def test_forward_runs_the_hooks(tmp_path):
    engine = start(tmp_path, model=Scaled())[0]
    x, y = data(1)[0]
    assert torch.equal(engine.forward(x, y), engine(x, y))
    assert not engine.module.hilbert.uses._copies


@pytest.mark.parametrize("batch, micro, accumulation, good",
                         [(32, 16, 2, True), (33, 17, 2, False), (32, 18, 2, False), (32, 16, None, True),
                          (32, None, 2, True), (None, 16, 2, True), (None, None, None, False)])
def test_batch_arithmetic(tmp_path, batch, micro, accumulation, good):
    settings = {"train_batch_size": batch, "train_micro_batch_size_per_gpu": micro,
                "gradient_accumulation_steps": accumulation,
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
    settings = {key: value for key, value in settings.items() if value is not None}
    if not good:
        with pytest.raises(hilbert.Error):
            start(tmp_path, settings)
        return
    engine = start(tmp_path, settings)[0]
    assert engine.train_batch_size() == 32
    assert engine.train_micro_batch_size_per_gpu() == 16
    assert engine.gradient_accumulation_steps() == 2


def test_unknown_keys_are_refused(tmp_path):
    with pytest.raises(hilbert.UsageError, match="train_bach_size"):
        start(tmp_path, config(train_bach_size=4))


def test_scheduler(tmp_path):
    settings = config(scheduler={"type": "WarmupLR", "params": {
        "warmup_min_lr": 0, "warmup_max_lr": 1e-3, "warmup_num_steps": 4, "warmup_type": "linear"}})
    engine, _, _, scheduler = start(tmp_path, settings)
    rates = []
    for x, y in data(12):
        engine.backward(engine(x, y))
        if engine.is_gradient_accumulation_boundary():
            rates.append(engine.get_lr()[0])
        engine.step()
    assert rates == pytest.approx([0, 0, 0.25e-3, 0.5e-3, 0.75e-3, 1e-3])
    assert scheduler.get_last_lr() == pytest.approx([1e-3])


def test_torch_optimizer_and_scheduler(tmp_path):
    torch.manual_seed(0)
    model = Simple()
    twin = copy.deepcopy(model)
    decay = lambda net: [{"params": [p for p in net.parameters() if p.ndim > 1], "weight_decay": 0.1},
                         {"params": [p for p in net.parameters() if p.ndim < 2], "lr": 5e-3,
                          "weight_decay": 0.0}]
    settings = config(train_batch_size=2, gradient_accumulation_steps=1)
    settings.pop("optimizer")
    mine = torch.optim.AdamW(decay(model), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(mine, 2, 0.5)
    engine = start(tmp_path, settings, model, optimizer=mine, lr_scheduler=schedule)[0]
    theirs = torch.optim.AdamW(decay(twin), lr=1e-3)
    other_schedule = torch.optim.lr_scheduler.StepLR(theirs, 2, 0.5)
    for x, y in data(6):
        loss, other = engine(x, y), twin(x, y)
        assert abs(loss.item() - other.item()) <= 1e-5 * other.item()
        engine.backward(loss)
        engine.step()
        other.backward()
        nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
        theirs.step()
        theirs.zero_grad()
        other_schedule.step()
        assert engine.get_lr() == [group["lr"] for group in theirs.param_groups]


def test_parameters_without_gradient_and_empty_groups(tmp_path):
    """An unused layer keeps its weights; a group may be empty."""
    torch.manual_seed(0)
    model = Simple(empty=True)
    before = model.spare.weight.detach().clone()
    groups = [{"params": list(model.parameters())}, {"params": []}]
    engine = start(tmp_path, model=model, model_parameters=groups)[0]
    for x, y in data(4):
        engine.backward(engine(x, y))
        engine.step()
    assert torch.equal(engine.module.state_dict()["spare.weight"], before)


def test_fp16_overflow_skips_the_step(tmp_path):
    torch.manual_seed(0)
    settings = config(fp16={"enabled": True, "hysteresis": 1}, train_batch_size=2,
                      gradient_accumulation_steps=1)
    engine = start(tmp_path, settings)[0]
    weights = {k: v.clone() for k, v in engine.module.state_dict().items()}
    scale = engine.loss_scale
    x, y = data(1, dtype=torch.float16)[0]
    engine.backward(engine(x, y) * float("inf"))
    engine.step()
    assert engine.skipped_steps == 1 and engine.loss_scale == scale // 2
    for name, value in engine.module.state_dict().items():
        assert torch.equal(value, weights[name])
    engine.backward(engine(x, y))
    engine.step()
    assert engine.global_steps == 2 and engine.skipped_steps == 1


def test_fp16_loss_scale_is_that_of_the_config(tmp_path):
    fp16 = {"enabled": True, "initial_scale_power": 8, "loss_scale_window": 3, "hysteresis": 2,
            "min_loss_scale": 64}
    settings = config(fp16=fp16, train_batch_size=2, gradient_accumulation_steps=1)
    engine = start(tmp_path, settings)[0]
    x, y = data(1, dtype=torch.float16)[0]
    scales = []
    for overflow in (True, True, True, False, False, False, False):
        engine.backward(engine(x, y) * (float("inf") if overflow else 1))
        engine.step()
        scales.append(engine.loss_scale)
    # DeepSpeed: the second overflow halves, and each later one; three updates in a row double
    assert scales == [256, 128, 64, 64, 64, 64, 128]
    fixed = config(fp16={"enabled": True, "loss_scale": 32}, train_batch_size=2,
                   gradient_accumulation_steps=1)
    assert start(tmp_path, fixed)[0].loss_scale == 32


def test_training_data(tmp_path):
    dataset = [(x[0], y[0]) for x, y in data(8)]
    engine, _, loader, _ = start(tmp_path, training_data=dataset)
    for x, y in loader:
        assert len(x) == 2
        engine.backward(engine(x, y))
        engine.step()
    assert engine.global_steps == 2
