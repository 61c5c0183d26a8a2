"""The optimizer of an offloaded model is used like one of torch.optim."""

import copy

import hilbert
import pytest
import torch
from conftest import third
from test_uses import Net, close, inputs, loss_of


def groups(model):
    return [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.2},
            {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0,
             "lr": 4e-3, "betas": (0.8, 0.9)}]


def twins(folder):
    torch.manual_seed(8)
    theirs = Net()
    mine = copy.deepcopy(theirs)
    mine = hilbert.offload(mine, lr=1e-3, params=groups(mine), **third(mine, folder))
    return mine, theirs, torch.optim.AdamW(groups(theirs), lr=1e-3)


def run(mine, theirs, optimizer, steps, seed=5, schedulers=()):
    for x in inputs(steps, seed):
        a, b = loss_of(mine, x), loss_of(theirs, x)
        assert close(a, b)
        a.backward()
        mine.optimizer.step()
        mine.optimizer.zero_grad()
        b.backward()
        optimizer.step()
        optimizer.zero_grad()
        for scheduler in schedulers:
            scheduler.step()


def test_groups_and_schedulers(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    assert isinstance(mine.optimizer, torch.optim.Optimizer)
    schedulers = [torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step))
                  for o in (mine.optimizer, optimizer)]
    run(mine, theirs, optimizer, 6, schedulers=schedulers)
    assert mine.optimizer.param_groups[1]["lr"] == optimizer.param_groups[1]["lr"] < 4e-3


def test_defaults(tmp_path):
    """Some schedulers of transformers take the learning rate from there."""
    for own in (False, True):
        model = Net()
        given = {"optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3)} if own else {"lr": 3e-3}
        assert hilbert.offload(model, **given, **third(model, tmp_path)).optimizer.defaults["lr"] == 3e-3


def test_moments_of_an_optimizer_that_was_used(tmp_path):
    """Steps before offload, or states that it loaded, count."""
    torch.manual_seed(8)
    theirs = Net()
    optimizer = torch.optim.AdamW(groups(theirs), lr=1e-3)
    for x in inputs(3):
        loss_of(theirs, x).backward()
        optimizer.step()
        optimizer.zero_grad()
    mine = copy.deepcopy(theirs)
    used = torch.optim.AdamW(groups(mine), lr=1e-3)
    used.load_state_dict(optimizer.state_dict())
    mine = hilbert.offload(mine, optimizer=used, **third(mine, tmp_path))
    assert not used.state  # nothing is held twice
    run(mine, theirs, optimizer, 4)


def test_state_dict_is_that_of_torch(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    run(mine, theirs, optimizer, 3)
    a, b = mine.optimizer.state_dict(), optimizer.state_dict()
    assert [g["params"] for g in a["param_groups"]] == [g["params"] for g in b["param_groups"]]
    assert sorted(a["state"]) == sorted(b["state"])
    for index, state in b["state"].items():
        assert float(a["state"][index]["step"]) == float(state["step"]) == 3
        for moment in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(a["state"][index][moment], state[moment], rtol=1e-4, atol=1e-8)


def test_states_move_from_and_to_torch(tmp_path):
    """Training continues with weights and moments of the other one."""
    mine, theirs, optimizer = twins(tmp_path)
    run(mine, theirs, optimizer, 3)
    fresh, others, other = twins(tmp_path)
    fresh.load_state_dict(theirs.state_dict())
    fresh.optimizer.load_state_dict(optimizer.state_dict())
    others.load_state_dict(mine.state_dict())
    other.load_state_dict(mine.optimizer.state_dict())
    run(fresh, others, other, 3, seed=9)
    for x in inputs(1, 10):
        assert close(loss_of(fresh, x), loss_of(others, x))


def test_a_group_is_frozen_for_a_while(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    run(mine, theirs, optimizer, 2)
    mine.optimizer.param_groups[1]["frozen"] = True
    for param in optimizer.param_groups[1]["params"]:
        param.requires_grad_(False)
    run(mine, theirs, optimizer, 2, seed=6)
    mine.optimizer.param_groups[1]["frozen"] = False
    for param in optimizer.param_groups[1]["params"]:
        param.requires_grad_(True)
    run(mine, theirs, optimizer, 2, seed=7)


def test_a_part_of_the_parameters(tmp_path):
    """Parameters in no group are not trained; groups may name theirs."""
    torch.manual_seed(8)
    theirs = Net()
    mine = copy.deepcopy(theirs)
    names = [name for name, _ in mine.named_parameters() if "blocks" in name]
    mine = hilbert.offload(mine, params=[{"params": names}], weight_decay=0.0, **third(mine, tmp_path))
    optimizer = torch.optim.AdamW(theirs.blocks.parameters(), lr=1e-3, weight_decay=0.0)
    run(mine, theirs, optimizer, 3)
    with pytest.raises(hilbert.UsageError, match="no parameter x.y"):
        hilbert.offload(Net(), params=[{"params": ["x.y"]}])


def test_closure(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    x = inputs(1)[0]

    def closure(model):
        loss = loss_of(model, x)
        loss.backward()
        return loss

    for _ in range(2):
        a = mine.optimizer.step(lambda: closure(mine))
        b = optimizer.step(lambda: closure(theirs))
        optimizer.zero_grad()
        assert close(a, b)


def test_refused(tmp_path):
    model = Net()
    for optimizer, word in ((torch.optim.SGD(model.parameters(), lr=0.1), "SGD"),
                            (torch.optim.AdamW(model.parameters(), amsgrad=True), "amsgrad"),
                            (torch.optim.Adam(model.parameters(), weight_decay=0.1), "AdamW")):
        with pytest.raises(hilbert.UsageError, match=word):
            hilbert.offload(model, optimizer=optimizer)
    with pytest.raises(hilbert.UsageError, match="adam7"):
        hilbert.offload(model, optimizer="adam7")
    with pytest.raises(hilbert.UsageError, match="not a size"):
        hilbert.offload(model, device_memory="7 apples")
    with pytest.raises(hilbert.BudgetError, match="device memory"):
        hilbert.offload(model, device_memory="10K")
    model = hilbert.offload(model, **third(model, tmp_path))
    with pytest.raises(hilbert.UsageError, match="already"):
        hilbert.offload(model)
    with pytest.raises(hilbert.UsageError, match="groups"):
        model.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
    model.backward(loss_of(model, inputs(1)[0]))
    with pytest.raises(hilbert.UsageError, match="step"):
        model.optimizer.state_dict()


def test_nan_is_an_error(tmp_path):
    model = Net()
    model = hilbert.offload(model, **third(model, tmp_path))
    model.backward(loss_of(model, inputs(1)[0]) * float("nan"))
    with pytest.raises(hilbert.NumericError, match="finite"):
        model.step()


def test_other_rules(tmp_path):
    for rule in ("lion", "adamw8bit"):
        torch.manual_seed(0)
        model = Net()
        model = hilbert.offload(model, optimizer=rule, lr=3e-4, **third(model, tmp_path))
        x = inputs(1)[0]
        losses = []
        for _ in range(10):
            loss = loss_of(model, x)
            model.backward(loss)
            model.step()
            losses.append(float(loss.detach()))
        assert losses[-1] < 0.9 * losses[0]


class Blocks(torch.nn.Module):
    """Two blocks with matrices that Muon updates, tied to nothing, and a head for AdamW."""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(128, 128) for _ in range(2))
        self.wide = torch.nn.ModuleList([torch.nn.Linear(128, 384), torch.nn.Linear(384, 128)])
        self.head = torch.nn.Linear(128, 5)

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return self.head(x + self.wide[1](torch.relu(self.wide[0](x))))


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch before 2.9 has no Muon")
def test_muon_is_pytorchs(tmp_path):
    torch.manual_seed(3)
    plain = Blocks()
    model = Blocks()
    model.load_state_dict(plain.state_dict())
    of_blocks = {name for name, p in plain.named_parameters() if p.ndim == 2 and "head" not in name}
    muon = torch.optim.Muon([p for n, p in plain.named_parameters() if n in of_blocks], lr=2e-3,
                            weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW([p for n, p in plain.named_parameters() if n not in of_blocks],
                              lr=2e-3, weight_decay=0.1, betas=(0.9, 0.95))
    model = hilbert.offload(model, optimizer="muon", lr=2e-3, weight_decay=0.1, betas=(0.9, 0.95),
                            dtype="fp32", device_memory="2M", host_memory="1M",
                            disk=[str(tmp_path)])
    x, y = torch.randn(16, 128), torch.randint(0, 5, (16,))
    for _ in range(20):
        ours, theirs = (torch.nn.functional.cross_entropy(m(x), y) for m in (model, plain))
        assert abs(ours.item() - theirs.item()) <= 1e-3 * theirs.item()
        model.backward(ours)
        model.step()
        theirs.backward()
        for optimizer in (muon, adamw):
            optimizer.step()
            optimizer.zero_grad()
    state = model.optimizer.state_dict()
    names = [name for name, _ in model.named_parameters()]
    for index, part in state["state"].items():
        assert ("exp_avg_sq" in part) == (names[index] not in of_blocks)
    model.optimizer.load_state_dict(state)


def test_a_scheduler_after_load_state_dict(tmp_path):
    mine, _, _ = twins(tmp_path)
    scheduler = torch.optim.lr_scheduler.LambdaLR(mine.optimizer, lambda step: 0.5**step)
    before = list(mine.optimizer.param_groups)
    mine.optimizer.load_state_dict(mine.optimizer.state_dict())
    assert all(a is b for a, b in zip(mine.optimizer.param_groups, before))
    rate = before[0]["lr"]
    mine.optimizer.step()
    scheduler.step()
    assert mine.optimizer.param_groups[0]["lr"] == 0.5 * rate
