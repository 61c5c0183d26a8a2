"""Ways in which programs use modules and parameters: the losses are those of plain PyTorch."""

import contextlib
import copy

import hilbert
import models
import pytest
import torch
from conftest import third
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    """Blocks that are checkpointed in one of two ways, or not."""

    def __init__(self, way=None, blocks=4):
        super().__init__()
        self.way = way
        self.embedding = nn.Embedding(64, 96)
        self.blocks = nn.ModuleList(models.Block() for _ in range(blocks))
        self.head = nn.Linear(96, 64, bias=False)

    def forward(self, x):
        h = self.embedding(x)
        for block in self.blocks:
            if self.way is None:
                h = block(h)
            else:
                h = checkpoint(block, h, use_reentrant=self.way == "reentrant")
        return self.head(h)


def loss_of(model, x):
    return F.cross_entropy(model(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten())


def inputs(steps, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 64, (2, 9), generator=generator) for _ in range(steps)]


def twins(folder, make=Net, seed=3, **options):
    """A model with torch.optim.AdamW, and the same offloaded."""
    torch.manual_seed(seed)
    theirs = make()
    mine = hilbert.offload(copy.deepcopy(theirs), lr=1e-3, weight_decay=0.1,
                           **{**third(theirs, folder), **options})
    return mine, theirs, torch.optim.AdamW(theirs.parameters(), lr=1e-3, weight_decay=0.1)


def close(a, b, most=1e-5):
    a, b = float(a.detach()), float(b.detach())
    return abs(a - b) <= most * abs(b)


def train(mine, theirs, optimizer, loss=loss_of, steps=3):
    for x in inputs(steps):
        a, b = loss(mine, x), loss(theirs, x)
        assert close(a, b)
        mine.backward(a)
        mine.step()
        b.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("way", ["reentrant", "not reentrant"])
def test_checkpoint(tmp_path, way):
    train(*twins(tmp_path, lambda: Net(way)))


def test_checkpoint_keeps_no_weight(tmp_path):
    mine, _, _ = twins(tmp_path, lambda: Net("not reentrant"))
    loss = loss_of(mine, inputs(1)[0])
    assert not mine.hilbert.store.referred()
    mine.backward(loss)
    assert not mine.hilbert.store.referred()


@pytest.mark.parametrize("way", ["reentrant", "not reentrant"])
def test_checkpoint_of_frozen_vectors(way):
    """In bf16, where a vector in use is a copy of what the store has."""
    torch.manual_seed(0)
    theirs = Net(way).bfloat16().requires_grad_(False)
    theirs.embedding.requires_grad_(True)
    mine = hilbert.offload(copy.deepcopy(theirs), device_memory="4M", host_memory="1M")
    x, found = inputs(1)[0], []
    for model in (mine, theirs):
        model.embedding.weight.register_hook(found.append)
        loss_of(model, x).backward()
    assert torch.equal(found[0], found[1])


def test_same_object(tmp_path):
    torch.manual_seed(0)
    model = Net()
    names, keys = [n for n, _ in model.named_parameters()], list(model.state_dict())
    params = list(model.parameters())
    offloaded = hilbert.offload(model, **third(model, tmp_path))
    assert offloaded is model and type(model) is Net
    assert [n for n, _ in model.named_parameters()] == names
    assert list(model.state_dict()) == keys
    assert all(a is b and type(a) is nn.Parameter for a, b in zip(model.parameters(), params))
    assert sum(p.untyped_storage().nbytes() for p in params) == 4 * len(params)


def test_accumulation(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    for x, y in zip(inputs(3), inputs(3, seed=6)):
        for part in (x, y):
            a, b = loss_of(mine, part), loss_of(theirs, part)
            assert close(a, b)
            mine.backward(a)
            b.backward()
            with torch.no_grad():  # in the middle of accumulation
                assert close(loss_of(mine, y), loss_of(theirs, y))
        mine.step()
        optimizer.step()
        optimizer.zero_grad()


def test_irregular_accumulation(tmp_path):
    """More backward calls than in the step before, and fewer."""
    mine, theirs, optimizer = twins(tmp_path, host_memory="4M")
    for count in (1, 1, 3, 2, 1, 4):
        for x in inputs(count, seed=count):
            a, b = loss_of(mine, x), loss_of(theirs, x)
            assert close(a, b)
            mine.backward(a)
            b.backward()
        mine.step()
        optimizer.step()
        optimizer.zero_grad()


def test_late_gradients_that_do_not_fit(tmp_path):
    """The step is refused and names what helps; the next ones are right."""
    mine, theirs, optimizer = twins(tmp_path)
    train(mine, theirs, optimizer, steps=2)
    for x in inputs(3):
        mine.backward(loss_of(mine, x))
    with pytest.raises(hilbert.BudgetError, match="give steady=False"):
        mine.step()
    train(mine, theirs, optimizer)


def test_evaluation_between_steps(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    for x in inputs(3):
        train(mine, theirs, optimizer, steps=1)
        mine.eval(), theirs.eval()
        with torch.no_grad():
            assert close(loss_of(mine, x), loss_of(theirs, x))
        with torch.inference_mode():
            assert close(loss_of(mine, x), loss_of(theirs, x))
        assert close(loss_of(mine, x), loss_of(theirs, x))  # with a graph that nobody uses
        mine.train(), theirs.train()


def test_forward_twice_before_backward(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    x, y = inputs(2)
    train(mine, theirs, optimizer, lambda model, _: loss_of(model, x) + loss_of(model, y))


def test_exception_in_forward(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    with pytest.raises(IndexError):
        mine(torch.full((1, 3), 999))
    train(mine, theirs, optimizer)


def test_discarded_gradients(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    x, y = inputs(2)
    mine.backward(loss_of(mine, x))
    mine.optimizer.zero_grad()
    loss = loss_of(mine, y)
    mine.optimizer.zero_grad()  # between forward and backward
    loss.backward()
    mine.optimizer.step()
    loss_of(theirs, y).backward()
    optimizer.step()
    optimizer.zero_grad()
    train(mine, theirs, optimizer)


def test_frozen_parts(tmp_path):
    def make():
        net = Net()
        net.embedding.requires_grad_(False)
        net.blocks[1].requires_grad_(False)
        return net

    mine, theirs, optimizer = twins(tmp_path, make)
    before = theirs.embedding.weight.clone()
    train(mine, theirs, optimizer)
    assert torch.equal(mine.state_dict()["embedding.weight"], before)


def test_frozen_later(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    train(mine, theirs, optimizer)
    for model in (mine, theirs):
        model.blocks[0].requires_grad_(False)
    train(mine, theirs, optimizer)
    for model in (mine, theirs):
        model.blocks[0].requires_grad_(True)
    train(mine, theirs, optimizer)


class Outside(nn.Module):
    """Weights that leave their module: as an output, a view, a global."""

    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList(Giving() for _ in range(12))
        self.embedding = nn.Embedding(64, 96)

    def forward(self, x):
        h = self.embedding(x)
        for inner in self.inner:
            weight, bias = inner()
            h = torch.tanh(F.linear(h, weight, bias)) + h
        return F.linear(h, self.embedding.weight)


class Giving(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(96, 96) / 9)
        self.bias = nn.Parameter(torch.zeros(96))

    def forward(self):
        return self.weight.t(), self.bias


def test_weights_as_outputs(tmp_path):
    train(*twins(tmp_path, Outside))


def test_use_outside_of_any_forward(tmp_path):
    def loss(model, x):
        h = F.embedding(x, model.embedding.weight)
        h = model.blocks[0](h) + F.linear(h, model.blocks[1].up.weight)[..., :96]
        return F.cross_entropy(F.linear(h, model.head.weight).flatten(0, 1), x.flatten())

    train(*twins(tmp_path), loss)


def test_double_backward(tmp_path):
    def loss(model, x):
        h = model.embedding(x)
        out = model.blocks[0](h).square().sum()
        (slope,) = torch.autograd.grad(out, h, create_graph=True)
        return loss_of(model, x) + slope.square().mean()

    train(*twins(tmp_path), loss)


def test_autocast(tmp_path):
    def loss(model, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss_of(model, x).float()

    mine, theirs, optimizer = twins(tmp_path)
    for x in inputs(3):
        a, b = loss(mine, x), loss(theirs, x)
        assert close(a, b, 1e-3)  # other bits of weights may round otherwise
        mine.backward(a)
        mine.step()
        b.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_compiled_after_offload(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    mine.blocks[0] = torch.compile(mine.blocks[0], backend="aot_eager")
    train(mine, theirs, optimizer)


def test_inplace_modification_is_noticed(tmp_path):
    mine, _, _ = twins(tmp_path)
    h = mine.embedding(inputs(1)[0])
    out = torch.sigmoid(mine.blocks[0](h))

    class Bad(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear

        def forward(self, x):
            y = torch.sigmoid(x)
            z = self.linear(y)
            y.mul_(2)
            return z

    bad = hilbert.offload(Bad(nn.Linear(96, 8)), device_memory="1M", host_memory="1M")
    with pytest.raises(RuntimeError, match="inplace"):
        bad.backward(bad(out.detach().requires_grad_()).sum())


def test_sparse_gradients(tmp_path):
    torch.manual_seed(0)
    theirs = Net()
    mine = copy.deepcopy(theirs)
    mine.embedding.sparse = True
    mine = hilbert.offload(mine, lr=1e-3, weight_decay=0.1, **third(theirs, tmp_path))
    train(mine, theirs, torch.optim.AdamW(theirs.parameters(), lr=1e-3, weight_decay=0.1))


def test_generate(tmp_path):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    theirs = models.llama(4).eval()
    mine = hilbert.offload(copy.deepcopy(theirs), **third(theirs, tmp_path))
    prompt = torch.randint(3, models.VOCABULARY, (1, 5))
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(mine.generate(prompt, **options), theirs.generate(prompt, **options))


def test_to_and_half(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    mine.to("cpu").cpu()
    mine.to(torch.float32)
    with pytest.raises(hilbert.UsageError, match="dtype"):
        mine.half()
    train(mine, theirs, optimizer)


def test_no_copy(tmp_path):
    mine, _, _ = twins(tmp_path)
    with pytest.raises(hilbert.UsageError, match="state_dict"):
        copy.deepcopy(mine)


def test_low_precision(tmp_path):
    """bf16 and fp16 learn; vectors and masters are fp32."""
    for dtype in ("bf16", "fp16"):
        torch.manual_seed(0)
        model = Net()
        budgets = third(model, tmp_path)
        model = hilbert.offload(model, lr=3e-3, dtype=dtype, **budgets)
        x = inputs(1)[0]
        losses = []
        for _ in range(12):
            loss = loss_of(model, x)
            assert model.head.weight.dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
            model.backward(loss)
            model.step()
            losses.append(float(loss))
        assert losses[-1] < 0.5 * losses[0], (dtype, losses)


@pytest.mark.parametrize("how", ["read", "gathered", "saved"])
def test_graph_outside_of_a_forward_before_one(tmp_path, how):
    """Backward needs the weight that was read, although a forward or a save came in between."""
    def loss(model, x):
        start = torch.zeros(1, requires_grad=True)
        with hilbert.gathered(model) if how == "gathered" and model is mine else contextlib.nullcontext():
            extra = (start.exp() * model.blocks[1].up.weight).square().mean()
        if how == "saved" and model is mine:
            hilbert.save(model, tmp_path / "run")
        total = loss_of(model, x) + extra
        (slope,) = torch.autograd.grad(extra, start, retain_graph=True)
        assert slope.isfinite().all()
        return total + slope.sum()

    mine, theirs, optimizer = twins(tmp_path, saves=how == "saved", host_memory="4M")
    train(mine, theirs, optimizer, loss)
    assert not mine.hilbert.uses._copies


def test_graph_of_old_weights(tmp_path):
    """Backward through a weight that a step has changed is refused, as in PyTorch."""
    mine, _, _ = twins(tmp_path)
    start = torch.zeros(1, requires_grad=True)
    old = (start.exp() * mine.blocks[1].up.weight).square().mean()
    mine.backward(loss_of(mine, inputs(1)[0]))
    mine.step()
    with pytest.raises(RuntimeError, match="inplace|in-place"):
        old.backward()


def test_graph_of_a_forward_before_a_step(tmp_path):
    """The same through saved weights, also if another forward came first."""
    mine, _, _ = twins(tmp_path)
    x, other = inputs(2)
    old = loss_of(mine, x)
    mine.backward(loss_of(mine, other))
    mine.step()
    loss_of(mine, other)
    with pytest.raises(RuntimeError, match="inplace"):
        mine.backward(old)


@pytest.mark.parametrize("how", ["zero_grad", "gathered"])
def test_between_forward_and_backward(tmp_path, how):
    """Gradients of another loss are discarded, or weights are read, after the forward."""
    def loss(model, x):
        loss_of(model, x.flip(1)).backward()
        total = loss_of(model, x)
        model.zero_grad()
        if how == "gathered":
            with hilbert.gathered(model) if model is mine else contextlib.nullcontext():
                total = total + 0.1 * sum(p.square().mean() for p in model.parameters())
        return total

    mine, theirs, optimizer = twins(tmp_path, steady=False)
    train(mine, theirs, optimizer, loss)
