"""The strategy "hilbert" of Lightning does what a Trainer on one device does, under budgets."""

import collections
import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from compare import environment, kill_when, same
from conftest import LIMIT, third
from torch import nn

L = pytest.importorskip("lightning.pytorch")
import hilbert
import hilbert.lightning
from hilbert.lightning import HilbertStrategy


def batches(count=8):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(count, 4, 96, generator=generator)
    return [(a, a.roll(1, -1).tanh()) for a in x]


def module_for(package):
    class Module(package.LightningModule):
        """With attributes of the names that `offload` gives, and a weight that training_step reads."""

        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(96, 96), nn.Tanh())))
            self.scale = nn.Parameter(torch.ones(96))
            self.register_buffer("seen", torch.zeros(()))
            self.optimizer = "AdamW"
            self.losses, self.checks, self.rates = [], [], []

        def step(self, batch):
            x, y = batch
            return nn.functional.mse_loss(self.net(x) * self.scale, y)

        def training_step(self, batch, index):
            loss = self.step(batch)
            self.seen += 1
            self.losses.append(loss.item())
            self.rates.append(self.optimizers().param_groups[0]["lr"])
            return loss

        def validation_step(self, batch, index):
            loss = self.step(batch)
            self.checks.append(loss.item())
            self.log("val_loss", loss)

        def predict_step(self, batch, index):
            return self.net(batch[0])

        def configure_optimizers(self):
            groups = [{"params": [p for p in self.parameters() if p.ndim > 1], "weight_decay": 0.2},
                      {"params": [p for p in self.parameters() if p.ndim < 2], "weight_decay": 0.0}]
            optimizer = getattr(torch.optim, self.optimizer)(groups, lr=1e-3, betas=(0.9, 0.95))
            scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=20)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    return Module


Module = module_for(L)


def make(kind=Module, seed=1):
    torch.manual_seed(seed)
    return kind()


def budgets(folder):
    return {**third(make(), folder), "device_memory": "400K", "host_memory": "1M", "saves": True}


def trainer(strategy, folder, package=L, **more):
    return package.Trainer(**{"strategy": strategy, "max_epochs": 3, "accelerator": "cpu", "devices": 1,
                              "logger": False, "enable_checkpointing": False, "default_root_dir": str(folder),
                              "enable_progress_bar": False, "enable_model_summary": False,
                              "num_sanity_val_steps": 0, **more})


def loader(count=8):
    return torch.utils.data.DataLoader(batches(count), batch_size=None)


def both(folder, make=make, **more):
    pair = []
    for strategy in (HilbertStrategy(**budgets(folder)), "auto"):
        pair.append(make())
        trainer(strategy, folder, **more).fit(pair[-1], loader(), loader(2))
    same(pair[0].losses, pair[1].losses)
    assert pair[0].rates == pair[1].rates
    return pair


def test_same_numbers(tmp_path):
    """Losses of every step and of validation; schedulers, groups, clipping."""
    mine, plain = both(tmp_path, gradient_clip_val=0.05)
    assert len(mine.losses) == 24 and mine.losses[-1] < 0.95 * mine.losses[0]
    same(mine.checks, plain.checks)
    assert mine.optimizer == "AdamW" and mine.hilbert.store.placed()["disk"] > 0
    same([v.sum().item() for v in mine.state_dict().values()],
         [v.sum().item() for v in plain.state_dict().values()], 1e-4)


def test_accumulation(tmp_path):
    both(tmp_path, accumulate_grad_batches=3, gradient_clip_val=0.1)


def test_placements_give_the_same_bits(tmp_path):
    losses = []
    for options in (budgets(tmp_path), {"device_memory": "64M", "host_memory": "64M"}):
        module = make()
        trainer(HilbertStrategy(**options), tmp_path, max_epochs=1).fit(module, loader())
        losses.append(module.losses)
    assert losses[0] == losses[1]


def test_by_name_and_other_package(tmp_path):
    """strategy="hilbert" works in both packages."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        package = pytest.importorskip(name)
        module = make(module_for(package))
        trainer("hilbert", tmp_path, package, max_epochs=1).fit(module, loader())
        plain = make(module_for(package))
        trainer("auto", tmp_path, package, max_epochs=1).fit(plain, loader())
        same(module.losses, plain.losses)


@pytest.mark.parametrize("precision, dtype", [("bf16-mixed", torch.bfloat16), ("16-true", torch.float16)])
def test_precision(tmp_path, precision, dtype):
    module = make()
    trainer(HilbertStrategy(**budgets(tmp_path)), tmp_path, precision=precision).fit(module, loader())
    assert module.hilbert.store.options.dtype == dtype and module.losses[-1] < 0.95 * module.losses[0]


def test_inputs_get_the_dtype():
    """In whatever Lightning moves to the device: also in dictionaries with defaults and in dataclasses."""
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        name: str

    x, ids = torch.ones(2), torch.ones(2, dtype=torch.int64)
    given = {"list": [x, ids], "tuple": (x, "text"), "defaults": collections.defaultdict(list, x=x),
             "batch": Batch(x, "one")}
    got = hilbert.lightning._Precision("bf16-true", "bf16").convert_input(given)
    found = [*got["list"], got["tuple"][0], got["defaults"]["x"], got["batch"].x]
    assert [t.dtype for t in found] == [torch.bfloat16, torch.int64] + 3 * [torch.bfloat16]
    assert got["tuple"][1] == "text" and got["batch"].name == "one" and x.dtype == torch.float32


class Manual(Module):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = super().training_step(batch, index)
        self.manual_backward(loss)
        optimizer.step()
        self.lr_schedulers().step()


def test_manual_optimization(tmp_path):
    both(tmp_path, lambda: make(Manual))


def test_clipping_by_the_module(tmp_path):
    """The Trainer refuses gradient_clip_val with manual optimization, so that the strategy has it."""
    class Clipping(Manual):
        def manual_backward(self, loss):
            super().manual_backward(loss)
            self.clip_gradients(self.optimizers(), gradient_clip_val=0.05, gradient_clip_algorithm="norm")

    mine, plain = make(Clipping), make(Clipping)
    trainer(HilbertStrategy(**budgets(tmp_path), clip=0.05), tmp_path).fit(mine, loader())
    trainer("auto", tmp_path).fit(plain, loader())
    same(mine.losses, plain.losses)
    with pytest.raises(hilbert.UsageError, match="or clip=0.05 to HilbertStrategy"):
        trainer(HilbertStrategy(**budgets(tmp_path)), tmp_path).fit(make(Clipping), loader())


def test_validate_predict_and_fit_again(tmp_path):
    mine, plain = make(), make()
    runs = [trainer(HilbertStrategy(**budgets(tmp_path)), tmp_path), trainer("auto", tmp_path)]
    out = []
    for run, module in zip(runs, (mine, plain)):
        run.fit(module, loader())
        run.fit_loop.max_epochs = 6
        run.fit(module, loader())
        run.validate(module, loader(2), verbose=False)
        out.append(run.predict(module, loader(2)))
    same(mine.losses, plain.losses)
    same(mine.checks, plain.checks)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*out))
    other = make()
    trainer(HilbertStrategy(**budgets(tmp_path)), tmp_path).validate(other, loader(2), verbose=False)
    same(other.checks, [Module.step(make().eval(), batch).item() for batch in batches(2)])


def saver(folder, package=L, **more):
    return package.callbacks.ModelCheckpoint(dirpath=str(folder), filename="{epoch}", **{"save_top_k": -1, **more})


def fit(module, folder, out, strategy=None, ckpt_path=None, **more):
    run = trainer(strategy or HilbertStrategy(**budgets(folder)), folder, enable_checkpointing=True,
                  callbacks=[saver(out)], **more)
    run.fit(module, loader(), loader(2), ckpt_path=ckpt_path)
    return run


def test_checkpoints(tmp_path):
    """Training continues with the same bits, under other budgets too; weights are there for others."""
    whole = make()
    fit(whole, tmp_path, tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == [f"epoch={n}.ckpt" for n in range(3)]
    other = make(seed=7)
    fit(other, tmp_path, tmp_path / "other", HilbertStrategy(device_memory="64M", host_memory="64M"),
        tmp_path / "out" / "epoch=0.ckpt")
    assert other.losses == whole.losses[8:] and other.rates == whole.rates[8:]
    state = whole.state_dict()
    for name, value in other.state_dict().items():
        assert torch.equal(value, state[name])
    safetensors = pytest.importorskip("safetensors.torch")
    file = safetensors.load_file(tmp_path / "out" / "epoch=2.ckpt" / "model.safetensors")
    assert all(torch.equal(file[name], state[name]) for name in state)


class Often(L.Callback):
    """Saves after every batch, also inside of an accumulation."""

    def on_train_batch_end(self, run, module, outputs, batch, index):
        run.save_checkpoint(os.path.join(run.default_root_dir, f"batch{index}.ckpt"))


def test_checkpoint_inside_of_an_accumulation(tmp_path):
    more = {"accumulate_grad_batches": 3, "max_epochs": 1, "enable_checkpointing": True}
    mine, plain = make(), make()
    trainer(HilbertStrategy(**budgets(tmp_path)), tmp_path, callbacks=[Often()], **more).fit(mine, loader())
    trainer("auto", tmp_path, **more).fit(plain, loader())
    same(mine.losses, plain.losses)
    assert (tmp_path / "batch1.ckpt" / "model.safetensors").exists()


def test_best_and_weights_only(tmp_path):
    module = make()
    callback = L.callbacks.ModelCheckpoint(dirpath=str(tmp_path / "best"), monitor="val_loss", save_top_k=1)
    weights = L.callbacks.ModelCheckpoint(dirpath=str(tmp_path / "weights"), save_weights_only=True)
    run = trainer(HilbertStrategy(**budgets(tmp_path)), tmp_path, enable_checkpointing=True,
                  callbacks=[callback, weights])
    run.fit(module, loader(), loader(2))
    assert len(os.listdir(tmp_path / "best")) == 1
    best = min(sum(module.checks[i:i + 2]) / 2 for i in range(0, 6, 2))
    value = run.validate(module, loader(2), ckpt_path="best", verbose=False)[0]["val_loss"]
    assert abs(value - best) <= 1e-6 * best
    (name,) = os.listdir(tmp_path / "weights")
    again = Module.load_from_checkpoint(tmp_path / "weights" / name)
    assert torch.equal(again.net[0].weight, torch.load(tmp_path / "weights" / name)["state_dict"]["net.0.weight"])


def test_continues_a_run_of_lightning(tmp_path):
    plain = make()
    fit(plain, tmp_path, tmp_path / "out", "auto")
    mine = make(seed=7)
    fit(mine, tmp_path, tmp_path / "mine", ckpt_path=tmp_path / "out" / "epoch=0.ckpt")
    same(mine.losses, plain.losses[8:])
    assert mine.rates == plain.rates[8:]


def test_refused(tmp_path):
    class Two(Module):
        def configure_optimizers(self):
            return [torch.optim.AdamW(self.net.parameters()), torch.optim.AdamW([self.scale])]

        automatic_optimization = False

    class Backward(Module):
        def backward(self, loss):
            loss.backward()

    for kind, words in ((Two, "2 optimizers"), (Backward, "overrides backward")):
        with pytest.raises(hilbert.UsageError, match=words):
            trainer(HilbertStrategy(**budgets(tmp_path)), tmp_path).fit(make(kind), loader())
    with pytest.raises(hilbert.UsageError, match="64-true"):
        trainer(HilbertStrategy(), tmp_path, precision="64-true")
    with pytest.raises(hilbert.UsageError, match="sync_batchnorm"):
        trainer("hilbert", tmp_path, sync_batchnorm=True).fit(make(), loader())


RUN = """
import sys
sys.path[:0] = {path!r}
import conftest, test_lightning as t
from pathlib import Path
folder = Path({folder!r})
module = t.make(seed=1)
resume = {resume}
t.fit(module, folder, folder / "out", ckpt_path=folder / "out" / "epoch=0.ckpt" if resume else None,
      max_epochs=3 if resume else 1000)
print(t.json.dumps(module.losses))
"""


def test_kill_and_resume(tmp_path):
    """kill -9 while training goes on after a checkpoint; the losses are those of a whole run."""
    whole = make()
    trainer(HilbertStrategy(**budgets(tmp_path)), tmp_path).fit(whole, loader())
    kill_when(program(tmp_path, False), lambda: (tmp_path / "out" / "epoch=1.ckpt").exists())
    again = subprocess.run(program(tmp_path, True), check=True, text=True, capture_output=True, env=environment())
    assert json.loads(again.stdout.splitlines()[-1]) == whole.losses[8:]


def program(folder, resume):
    text = RUN.format(path=[os.path.dirname(__file__)], folder=str(folder), resume=resume)
    return [sys.executable, "-c", text]


class Items(torch.utils.data.Dataset):
    """Single examples, of which a DataLoader makes batches."""

    def __init__(self):
        self.items = [pair for x, y in batches(12) for pair in zip(x, y)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Logged(Module):
    """Logs what the ranks have together."""

    def __init__(self):
        super().__init__()
        self.logged = []

    def training_step(self, batch, index):
        loss = super().training_step(batch, index)
        self.log("loss", loss, sync_dist=True)
        return loss

    def on_train_batch_end(self, *arguments):
        self.logged.append(self.trainer.callback_metrics["loss"].item())

    def validation_step(self, batch, index):
        self.log("val_loss", self.step(batch), sync_dist=True, on_epoch=True)

    def on_validation_end(self):
        self.checks.append(self.trainer.callback_metrics["val_loss"].item())


def fit_ranks(rank, ranks, folder, ckpt=None, epochs=2):
    """Batches of 12 over all ranks; every rank keeps what it logged and how the weights ended."""
    folder.mkdir(parents=True, exist_ok=True)
    module = make(Logged, seed=1 if rank == 0 else 9)
    data = Items()
    order = None if ranks > 1 else torch.utils.data.DistributedSampler(data, 1, 0)  # Lightning's for training
    loads = [torch.utils.data.DataLoader(data, 12 // ranks, sampler=sampler) for sampler in (order, None)]
    run = trainer(HilbertStrategy(**{**budgets(folder), "host_memory": "4M"}), folder, devices=ranks, max_epochs=epochs,
                  enable_checkpointing=True, callbacks=[saver(folder / "out")], gradient_clip_val=0.05)
    run.fit(module, *loads, ckpt_path=ckpt)
    assert run.world_size == ranks and len(module.losses) == 4 * (epochs - (ckpt is not None))
    return module.logged, module.checks, module.rates, module.state_dict()


def test_ranks(tmp_path):
    """Losses, logged values and checkpoints of two ranks are those of one with the same batches."""
    if not torch.distributed.is_gloo_available():
        pytest.skip("no gloo")
    from test_ranks import assert_same, run
    alone = fit_ranks(0, 1, tmp_path / "one")
    assert "LOCAL_RANK" not in os.environ  # as a launcher leaves it
    two = run(2, fit_ranks, tmp_path / "two")
    for logged, checks, rates, weights in two:
        same(logged, alone[0], 1e-6)
        same(checks, alone[1], 1e-6)
        assert (logged, rates) == (two[0][0], alone[2])
        assert_same(weights, two[0][3])
    assert sorted(os.listdir(tmp_path / "two" / "out")) == ["epoch=0.ckpt", "epoch=1.ckpt"]
    ckpt = tmp_path / "two" / "out" / "epoch=0.ckpt"
    again = run(2, functools.partial(fit_ranks, ckpt=ckpt), tmp_path / "again")
    assert again[0][0] == two[0][0][4:]
    assert_same(again[1][3], two[0][3])
    three = run(3, functools.partial(fit_ranks, ckpt=ckpt), tmp_path / "three")
    one = fit_ranks(0, 1, tmp_path / "resumed", ckpt)
    for result in (three[0], three[2], one):
        same(result[0], alone[0][4:], 1e-6)


SCRIPT = """
import sys
sys.path[:0] = [{here!r}]
import conftest, test_lightning as t
from pathlib import Path
folder = Path({folder!r})
module = t.make()
run = t.trainer("hilbert", folder, devices=2, max_epochs=1)
run.fit(module, t.torch.utils.data.DataLoader(t.Items(), batch_size=6))
(folder / f"rank{{run.global_rank}}.json").write_text(t.json.dumps(module.losses))
"""


@pytest.mark.parametrize("start", [(), ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")])
def test_started(tmp_path, start):
    """By Lightning itself, and by torchrun."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(here=os.path.dirname(os.path.abspath(__file__)), folder=str(tmp_path)))
    done = subprocess.run([sys.executable, *start, str(file)], text=True, capture_output=True,
                          env={**environment(), "OMP_NUM_THREADS": "1"}, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-2000:]
    losses = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert len(losses[0]) == len(losses[1]) == 4 and losses[0] != losses[1]


def write_fake(text, folder):
    os.makedirs(folder)
    for name in ("one", "two"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


@pytest.mark.parametrize("exchanged", [True, False])
def test_kill_while_replacing(tmp_path, exchanged, monkeypatch):
    """kill -9 before every change of a folder that Python makes: the old checkpoint or the new one is
    there as a whole, and once the new one is, the old one does not come back."""
    if not exchanged:
        monkeypatch.setattr(hilbert.lightning, "_exchange", lambda one, other: False)
    path, partial = str(tmp_path / "a.ckpt"), str(tmp_path / "a.ckpt.partial")
    seen = []
    for calls in range(1, 100):
        shutil.rmtree(tmp_path)
        write_fake("old", path)
        child = os.fork()
        if child == 0:
            write_fake("new", partial)
            left = [calls]

            def count(event, arguments):
                if event in ("os.rename", "os.remove", "os.rmdir"):
                    left[0] -= 1
                    if not left[0]:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            hilbert.lightning._replace(partial, path)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        found = hilbert.lightning._find(path)
        texts = {open(os.path.join(found, name)).read() for name in ("one", "two")}
        assert len(texts) == 1, (calls, texts)
        seen += texts
        if not status:
            break
    assert seen == sorted(seen, reverse=True) and seen[-1] == "new" and len(seen) > 2
    assert os.listdir(tmp_path) == ["a.ckpt"]
