"""What programs change after offload, as they do in plain PyTorch: the losses are the same, or one line refuses it."""

import copy
import os
import subprocess
import sys
import threading

import hilbert
import pytest
import torch
from compare import environment
from test_uses import Net, close, inputs, loss_of, train, twins
from torch import nn

ROOM = {"device_memory": "2M", "host_memory": "2M"}


def named(model, name):
    """As programs find it that do not read the attribute."""
    return dict(model.named_parameters())[name]


def give_data(weight):
    weight.data = torch.linspace(-0.1, 0.1, weight.numel()).view_as(weight)


def fill(weight):
    nn.init.constant_(weight, 0.01)


def fill_data(weight):
    weight.data.fill_(0.01)


def test_weights_that_are_given_to_placeholders(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    train(mine, theirs, optimizer, steps=1)
    for model in (mine, theirs):
        give_data(named(model, "blocks.1.up.weight"))
        give_data(named(model, "head.weight"))
    assert torch.equal(mine.state_dict()["head.weight"], theirs.head.weight)
    train(mine, theirs, optimizer)


def fill_part(weight):
    weight.data[3].zero_()


@pytest.mark.parametrize("change", [fill, fill_data, fill_part])
def test_weights_that_are_written_to_placeholders(tmp_path, change):
    """PyTorch lets these through: all elements have the same memory."""
    mine, theirs, optimizer = twins(tmp_path)
    change(named(mine, "head.weight"))
    with pytest.raises(hilbert.UsageError, match="head.weight was written to"):
        mine(inputs(1)[0])
    change(named(mine, "blocks.1.up.weight"))
    with pytest.raises(hilbert.UsageError, match="blocks.1.up.weight was written to"):
        mine.state_dict()
    with hilbert.gathered(mine):
        change(named(mine, "head.weight"))
    with torch.no_grad():
        change(theirs.head.weight)
    train(mine, theirs, optimizer)


def test_weights_that_are_given_at_the_wrong_time(tmp_path):
    mine, _, _ = twins(tmp_path)
    mine.backward(loss_of(mine, inputs(1)[0]))
    give_data(named(mine, "head.weight"))
    with pytest.raises(hilbert.UsageError, match="head.weight was given"):
        mine.step()
    mine.zero_grad()
    named(mine, "head.weight").data = torch.zeros(3)
    with pytest.raises(hilbert.UsageError, match=r"shape \[3\] instead of \[64, 96\]"):
        mine.state_dict()


def test_weights_of_another_shape(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    mine.head.weight.data = torch.zeros(80, 96)
    with pytest.raises(hilbert.UsageError, match=r"head.weight was given data of shape \[80, 96\]"):
        mine(inputs(1)[0])
    train(mine, theirs, optimizer)


def test_forwards_on_two_threads(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    found = []

    def look(*_):
        with pytest.raises(hilbert.UsageError, match="another thread"):
            mine(inputs(1)[0])
        found.append(True)

    def start(*_):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    handle = mine.blocks[0].register_forward_hook(start)
    mine(inputs(1)[0])
    handle.remove()
    assert found
    train(mine, theirs, optimizer)


class Renormalizing(Net):
    def __init__(self):
        super().__init__()
        self.embedding.max_norm = 1.0


def test_a_change_inside_of_a_forward(tmp_path):
    mine, _, _ = twins(tmp_path, Renormalizing)
    with pytest.raises(hilbert.UsageError, match="embedding.weight was changed in place inside of a forward"):
        mine(inputs(1)[0])


def test_gradients_that_the_program_sets(tmp_path):
    mine, theirs, optimizer = twins(tmp_path)
    for number, (x, y) in enumerate(zip(inputs(3), inputs(3, seed=6))):
        for model, step in ((mine, mine.step), (theirs, optimizer.step)):
            model.zero_grad()
            found = torch.autograd.grad(loss_of(model, x), list(model.parameters()))
            for param, gradient in zip(model.parameters(), found):
                param.grad = 0.5 * gradient
            if number != 1:  # then these are all
                loss_of(model, y).backward()
            step()
        assert close(loss_of(mine, y), loss_of(theirs, y))
    named(mine, "head.weight").grad = torch.ones(64, 96)
    mine.optimizer.zero_grad()
    assert mine.step() == 0


def test_a_weight_tied_afterwards(tmp_path):
    mine, theirs, _ = twins(tmp_path)
    for model in (mine, theirs):
        model.head.weight = model.embedding.weight
    assert mine.head.weight is mine.embedding.weight
    train(mine, theirs, torch.optim.AdamW(theirs.parameters(), lr=1e-3, weight_decay=0.1))
    for model in (mine, theirs):
        model.head.weight = nn.Parameter(torch.full((64, 96), 0.01), requires_grad=False)
    train(mine, theirs, torch.optim.AdamW(theirs.blocks.parameters(), lr=1e-3), steps=1)


def test_modules_added_between_steps(tmp_path):
    mine, _, _ = twins(tmp_path)
    x = inputs(1)[0]
    mine.backward(loss_of(mine, x))
    mine.step()
    mine.head = nn.Sequential(mine.head, nn.Linear(64, 64))
    mine.backward(loss_of(mine, x))
    with pytest.warns(UserWarning, match="head.1.weight was added"):
        mine.step()


def test_unfrozen_afterwards(tmp_path):
    model = Net()
    model.embedding.requires_grad_(False)
    model = hilbert.offload(model, **ROOM)
    model.embedding.requires_grad_(True)
    model.backward(loss_of(model, inputs(1)[0]))
    with pytest.raises(hilbert.UsageError, match="embedding.weight was frozen"):
        model.step()
    model.embedding.requires_grad_(False)
    assert model.step() > 0


class Mixed(Net):
    """Its head computes in fp32, a block in fp16, the rest in bf16."""

    def __init__(self):
        super().__init__(blocks=2)
        self.bfloat16()
        self.head.float()
        self.blocks[1].half()

    def forward(self, x):
        h = self.blocks[0](self.embedding(x))
        return self.head(self.blocks[1](h.half()).float())


def test_dtypes_of_a_model_with_several(tmp_path):
    torch.manual_seed(0)
    theirs = Mixed()
    mine = hilbert.offload(copy.deepcopy(theirs), **ROOM)
    expected = theirs.state_dict()
    assert all(value.dtype == expected[name].dtype and torch.equal(value, expected[name])
               for name, value in mine.state_dict().items())
    x = inputs(1)[0]
    assert torch.equal(mine(x), theirs(x))
    losses = []
    for _ in range(3):
        losses.append(float(loss_of(mine, x).detach()))
        mine.backward(loss_of(mine, x))
        mine.step()
    assert losses[0] > losses[1] > losses[2]
    hilbert.save(mine, tmp_path)
    again = hilbert.offload(Mixed(), **ROOM)
    hilbert.load(again, tmp_path)
    assert torch.equal(again(x), mine(x))
    theirs.head.double()
    with pytest.raises(hilbert.UsageError, match="head.weight is torch.float64"):
        hilbert.offload(theirs, **ROOM)


def test_functional_calls(tmp_path):
    """With other values than the model's, also below transforms of torch.func."""
    mine, theirs, optimizer = twins(tmp_path)
    x = inputs(1)[0]

    def slopes(model, values):
        return torch.func.grad(lambda given: loss_of(lambda y: torch.func.functional_call(model, given, (y,)), x))(values)

    with hilbert.gathered(mine):
        values = {name: param.detach().clone() for name, param in mine.named_parameters()}
        found = slopes(mine, values)
    expected = slopes(theirs, {name: param.detach() for name, param in theirs.named_parameters()})
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    stacked = torch.stack(inputs(3))
    assert torch.equal(torch.vmap(mine)(stacked), torch.vmap(theirs)(stacked))
    for slope in (torch.func.grad(lambda h: mine.blocks[0](h).sum()), lambda h: torch.func.jvp(mine.blocks[0], (h,), (h,))):
        with pytest.raises(hilbert.UsageError, match="torch.func.grad"):
            slope(torch.ones(1, 96))
    with torch.no_grad():
        h = torch.ones(1, 96)
        assert torch.equal(*(torch.func.jvp(model.blocks[0], (h,), (h,))[1] for model in (mine, theirs)))
    train(mine, theirs, optimizer)


CLIPPING = """
import sys
sys.path[:0] = sys.argv[1:2]
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_
import hilbert, torch
model = hilbert.offload(torch.nn.Linear(4, 4), device_memory="1M", host_memory="1M")
model.backward(model(torch.ones(1, 4)).sum())
for clip in (clip_grad_norm_, clip_grad_value_, lambda p, n: clip_grads_with_norm_(p, n, torch.tensor(1.0))):
    try:
        clip(model.parameters(), 1.0)
    except hilbert.UsageError as error:
        print(str(error).split()[0])
"""


def test_clipping_that_was_imported_before():
    tests = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", CLIPPING, f"{tests}/../../python"], env=environment(),
                          stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"]
    param = nn.Parameter(torch.zeros(3))
    param.grad = torch.full((3,), 4.0)
    nn.utils.clip_grad_norm_(iter([param]), 1.0)
    assert abs(float(param.grad.norm()) - 1) < 1e-5


def test_wrappers():
    inner = nn.Linear(8, 8)
    with pytest.raises(hilbert.UsageError, match="inside of DataParallel"):
        hilbert.offload(nn.DataParallel(inner), **ROOM)
    model = hilbert.offload(inner, **ROOM)
    with pytest.raises(hilbert.UsageError, match="needs no DataParallel"):
        nn.DataParallel(model)
    with pytest.raises(hilbert.UsageError, match="needs no DistributedDataParallel"):
        nn.parallel.DistributedDataParallel(model)
    with pytest.raises(hilbert.UsageError, match="torch.jit"):
        hilbert.offload(torch.jit.trace(nn.Linear(8, 8), torch.ones(1, 8)), **ROOM)
    with pytest.raises(hilbert.UsageError, match="weight has no shape"):
        hilbert.offload(nn.LazyLinear(8), **ROOM)


def test_forked_process(tmp_path):
    """It cannot use the model, and ends without harm to that."""
    mine, theirs, optimizer = twins(tmp_path)
    train(mine, theirs, optimizer, steps=1)
    child = os.fork()
    if not child:
        code = 1
        try:
            mine(inputs(1)[0])
        except hilbert.UsageError:
            del mine
            code = 7
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    train(mine, theirs, optimizer)
