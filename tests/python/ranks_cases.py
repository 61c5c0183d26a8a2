"""What ranks do in test_ranks.py. Each case is a function of rank, number of ranks and a folder; with
one rank and all batches it is its own reference."""

import os
import time

import hilbert
import models
import torch
import torch.distributed as dist
from conftest import third
from torch import nn
from torch.nn import functional as F

RATES = {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 0.1, "clip": 1.0}
PARTS = 12  # of a batch; ranks divide them


def part_of(parts, rank, ranks):
    """This rank's part of a batch, as one."""
    own = parts[rank * len(parts) // ranks:(rank + 1) * len(parts) // ranks]
    return {key: torch.cat([part[key] for part in own]) for key in own[0]}


def batches(make, steps, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return [[make(generator) for _ in range(PARTS)] for _ in range(steps)]


def mean(loss, ranks):
    value = loss.detach().double()
    if ranks > 1:
        dist.all_reduce(value)
    return value.item() / ranks


def offload(model, folder, **more):
    return hilbert.offload(model, **{**RATES, **third(model, folder), "host_memory": "2M", **more})


def placements():
    return [{"device_memory": "64M", "host_memory": "64M"},
            {"device_memory": "1M", "host_memory": "64M"},
            {"device_memory": "800K", "host_memory": "600K"}]


def train(model, rank, ranks, steps, accumulation=lambda step: 1, first=0):
    """Losses and norms of steps [first, steps); each `backward` has its own part."""
    make, losses = models.text, []
    for step, parts in list(enumerate(batches(make, steps)))[first:]:
        micros = accumulation(step)
        for micro in range(micros):
            share = parts[micro * PARTS // micros:(micro + 1) * PARTS // micros]
            loss = models.loss_of(model, part_of(share, rank, ranks))
            model.backward(loss / micros)
        losses += [mean(loss, ranks), model.step()]
    return losses


def given(rank, ranks, folder):
    """One rank gives a parameter other data, then all do; gradients are set by the program."""
    torch.manual_seed(0)
    model = models.listed()[0]
    model = offload(model, folder)
    named = dict(model.named_parameters())
    losses = train(model, rank, ranks, 1)
    if rank == 0:
        named["layers.3"].data = torch.full((96, 96), 0.01)
    losses += train(model, rank, ranks, 2, first=1)
    torch.nn.init.zeros_(named["scale"])
    named["layers.5"].data = torch.eye(96)
    named["layers.7"].grad = torch.full((96, 96), 0.1)
    return losses + train(model, rank, ranks, 3, first=2), model.state_dict()


def placed(rank, ranks, folder):
    """20 steps under three placements: the same bits, and losses of one rank. Weights are tied."""
    runs = []
    for budgets in placements():
        torch.manual_seed(1)
        model = offload(models.TiedNet(), folder, **budgets)
        losses = train(model, rank, ranks, 20)
        runs.append((losses, model.state_dict(), model.hilbert.store.placed()))
    return runs


def kind(name, rank, ranks, folder):
    """Norms of three steps of a model of models.py. Two ranks have a batch each, one has both."""
    torch.manual_seed(1)
    model, make = getattr(models, name)()
    size = sum((16 if p.requires_grad else 4) * p.numel() for p in model.parameters())
    model = offload(model.train(), folder, device_memory=size, host_memory="2M")
    generator = torch.Generator().manual_seed(7)
    norms = []
    for _ in range(3):
        pair = [make(generator), make(generator)]
        for inputs in pair if ranks == 1 else [pair[rank]]:
            model.backward(models.loss_of(model, inputs) * ranks / 2)
        norms.append(model.step())
    return norms


def accumulated(rank, ranks, folder, all_ranks=None):
    """Several backward calls before a step, also more of them than in the step before."""
    torch.manual_seed(1)
    model = offload(models.TiedNet(), folder, host_memory="8M")
    most = {2: 3, 3: 2}[all_ranks or ranks]
    return train(model, rank, ranks, 8, lambda step: 1 + step % most)


def accumulated_alone(ranks, folder):
    return accumulated(0, 1, folder, ranks)


def chosen(rank, ranks, folder):
    """Ranks choose different experts, and one module is used by none."""
    torch.manual_seed(1)
    model = offload(models.ChoosingNet(), folder, host_memory="8M")
    losses = []
    for parts in batches(models.text, 12):
        loss = models.loss_of(model, parts[rank])
        model.backward(loss)
        losses += [mean(loss, ranks), model.step()]
    return losses, model.state_dict(), list(model.optimizer.state_dict()["state"])


def chosen_plainly(ranks):
    """The same in plain PyTorch."""
    torch.manual_seed(1)
    model = models.ChoosingNet()
    optimizer = torch.optim.AdamW(model.parameters(), **{k: v for k, v in RATES.items() if k != "clip"})
    losses = []
    for parts in batches(models.text, 12):
        loss = sum(models.loss_of(model, part) for part in parts[:ranks]) / ranks
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), RATES["clip"])
        optimizer.step()
        optimizer.zero_grad()
        losses += [loss.item(), norm.item()]
    return losses


def unbalanced(rank, ranks, folder):
    """The last rank has no batch in some steps, and evaluates more often than the others."""
    torch.manual_seed(1)
    model = offload(models.TiedNet(), folder, host_memory="8M")
    losses = []
    for step, parts in enumerate(batches(models.text, 6)):
        with torch.no_grad():
            for _ in range(rank):
                models.loss_of(model, parts[rank])
        if step % 2 == 0 or rank < ranks - 1 or ranks == 1:
            loss = models.loss_of(model, parts[rank])
            model.backward(loss)
        losses.append(model.step())
    return losses, model.state_dict()


def alone(rank, ranks, folder):
    """Rank 0 reads, saves and loads alone, the others go on; a parameter that one rank changes is
    changed for all, and at first the weights of rank 0 count."""
    torch.manual_seed(1 + rank)
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1), nn.Linear(1, 1))
    model = offload(net, folder, saves=True, device_memory="4M", host_memory="4M")
    first = model.state_dict()
    seen = []
    for step in range(3):
        x = torch.randn(4, 64, generator=torch.Generator().manual_seed(step * 7 + rank))
        model.backward(model(x).square().mean())
        model.step()
        if rank == 0:
            hilbert.save(model, folder / "run", step)
            seen.append(model.state_dict()["0.weight"].sum().item())
    last = ranks - 1
    with hilbert.zero.GatheredParameters(model[3].weight, modifier_rank=last):
        if rank == last:
            model[3].weight.data.fill_(5.0)
    changed = model.state_dict()
    if rank == 0:
        assert hilbert.load(model, folder / "run") == 2
    model.hilbert.store.meet()
    return first, seen, changed, model.state_dict()


def mapped(rank, ranks, folder):
    """The libraries that this process has loaded after some steps."""
    torch.manual_seed(1)
    train(offload(models.TiedNet(), folder, host_memory="4M"), rank, ranks, 2)
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sorted({os.path.basename(line.split()[-1]) for line in file if ".so" in line})


def saved(rank, ranks, folder):
    """Three steps more than the checkpoint that the other number of ranks left, and another one."""
    torch.manual_seed(9 + ranks)
    model = offload(models.TiedNet(), folder, saves=True, host_memory="4M")
    before = folder.parent.parent / "checkpoint"
    first = hilbert.load(model, before) if before.exists() else 0
    loaded = model.state_dict()
    losses = train(model, rank, ranks, first + 3, first=first)
    if ranks > 1:
        hilbert.save(model, before, first + 3, keep=1)
    return losses, loaded, model.state_dict()


def saved_alone(folder):
    """All nine steps on one rank."""
    torch.manual_seed(11)
    model = offload(models.TiedNet(), folder, host_memory="4M")
    return train(model, 0, 1, 9)


def generated(rank, ranks, folder):
    """Every rank generates another number of tokens, and saves the model's folder with the others."""
    torch.manual_seed(1)
    model = offload(models.llama(), folder, host_memory="8M")
    ids = torch.arange(3, 9)[None]
    out = [model.generate(ids, max_new_tokens=3 + 2 * rank, do_sample=False)]
    train(model, rank, ranks, 2)
    hilbert.save_pretrained(model, folder / "model")
    written = (folder / "model" / "model.safetensors").exists()
    out.append(model.generate(ids, max_new_tokens=4, do_sample=False))
    return out, written, model.state_dict()


class Odd(nn.Module):
    """Parameters smaller than the number of ranks, of sizes that they do not divide, frozen ones and
    a module that is used twice in a row."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(90, 90) / 9)
        self.layer = nn.Linear(90, 90)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.shift = nn.Parameter(torch.zeros(1))
        self.frozen = nn.Linear(90, 90).requires_grad_(False)

    def forward(self, x, y):
        h = self.layer(self.layer(x @ self.table)) * self.scale + self.shift
        return F.cross_entropy(self.frozen(torch.tanh(h)), y)


def engine(rank, ranks, folder, stage=3, **more):
    """hilbert.initialize: two micro-batches of four for each rank."""
    settings = {"train_batch_size": 8 * ranks, "train_micro_batch_size_per_gpu": 4,
                "gradient_clipping": 1.0, "zero_optimization": {"stage": stage},
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.05}},
                "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4}}, **more}
    torch.manual_seed(3)
    model = Odd()
    groups = [{"params": [p for p in model.parameters() if p.requires_grad]}, {"params": []}]
    data = [(torch.randn(90, generator=torch.Generator().manual_seed(i)), i % 90) for i in range(48)]
    return hilbert.initialize(model=model, config=settings, model_parameters=groups,
                              training_data=data, **{**third(model, folder), "host_memory": "4M",
                                                     "device_memory": "4M", "saves": True}), data


def engine_alone(ranks, folder):
    """The losses of one rank that has the micro-batches of all."""
    (it, *_), data = engine(0, 1, folder, train_batch_size=8 * ranks,
                            train_micro_batch_size_per_gpu=4 * ranks)
    return run_engine(it, data, 0, 1, 0, 8, 4 * ranks)


def run_engine(it, data, rank, ranks, first, last, size=4):
    """Micro-batches [first, last) of this rank."""
    losses = []
    for micro in range(first, last):
        own = [data[((micro * ranks + rank) * size + i) % 48] for i in range(size)]
        loss = it(torch.stack([x for x, _ in own]), torch.tensor([y for _, y in own]))
        it.backward(loss)
        it.step()
        losses.append(mean(loss, ranks))
    return losses


def engines(rank, ranks, folder):
    """Boundaries, averages, stages, loaders and checkpoints of an engine."""
    results = {}
    for stage in (0, 1, 2, 3):
        (it, _, loader, _), data = engine(rank, ranks, folder, stage)
        results[stage] = run_engine(it, data, rank, ranks, 0, 8)
    results["sizes"] = (it.train_batch_size(), it.train_micro_batch_size_per_gpu(),
                        it.gradient_accumulation_steps(), it.global_steps, it.micro_steps,
                        it.global_samples, it.world_size)
    results["norm"] = it.get_global_grad_norm()
    results["frozen"] = it.module.state_dict()["frozen.weight"]
    results["data"] = sorted(int(y) for _, ys in loader for y in ys)
    it.save_checkpoint(folder / "run", client_state={"rank": rank})
    results["later"] = run_engine(it, data, rank, ranks, 8, 12)
    other, data = engine(rank, ranks, folder)
    results["loaded"] = other[0].load_checkpoint(folder / "run")[1]
    results["again"] = run_engine(other[0], data, rank, ranks, 8, 12)
    bad = {"train_batch_size": 16 * ranks + 1}
    try:
        engine(rank, ranks, folder, **bad)
    except hilbert.Error as error:
        results["refused"] = str(error)
    return results


def differing(rank, ranks, folder):
    """Rates that differ, another model, and steps on one rank only are errors on all ranks."""
    messages = []
    torch.manual_seed(1)
    model = offload(nn.Linear(64, 64), folder, device_memory="4M", host_memory="4M")
    model.optimizer.param_groups[0]["lr"] = 1e-3 * (1 + rank)
    for attempt in ("rates", "read"):
        model.backward(model(torch.ones(2, 64)).sum())
        try:
            if attempt == "rates" or rank:
                model.step()
            else:
                model.optimizer.zero_grad()
        except hilbert.UsageError as error:
            messages.append(str(error))
    try:
        offload(nn.Linear(64, 64 + rank), folder, device_memory="4M", host_memory="4M")
    except hilbert.UsageError as error:
        messages.append(str(error))
    return messages


def overflowing(rank, ranks, folder):
    """In fp16 the last rank's gradients overflow in one step: all skip it, and halve the loss scale."""
    it = engine(rank, ranks, folder, fp16={"enabled": True, "hysteresis": 1},
                train_batch_size=4 * ranks)[0][0]
    counts = []
    for step in range(3):
        x = torch.randn(4, 90, generator=torch.Generator().manual_seed(step)).half()
        loss = it(x, torch.arange(4)).float() * 1e-3
        it.backward(loss * float("inf") if step == 1 and rank == ranks - 1 else loss)
        it.step()
        counts.append((it.skipped_steps, it.loss_scale))
    return counts, it.module.state_dict()


def late(rank, ranks, folder):
    """Rank 1 comes late to the first step."""
    torch.manual_seed(1)
    model = offload(nn.Linear(64, 64), folder, device_memory="4M", host_memory="4M")
    time.sleep(3 * rank)
    model.backward(model(torch.ones(2, 64)).sum())
    return model.step()


def kept(rank, ranks, folder):
    """Activations that wait in RAM and on disk; the ranks have batches of other lengths."""
    runs = []
    for activations in ("none", "0"):
        torch.manual_seed(1)
        model = offload(models.TiedNet(), folder, host_memory="8M", activations=activations)
        losses = []
        for step, parts in enumerate(batches(models.text, 3)):
            batch = part_of(parts[:3 * (1 + rank)], 0, 1)
            model.backward(models.loss_of(model, batch))
            losses.append(model.step())
        runs.append((losses, model.state_dict()))
    return runs


def failing(how, rank, ranks, folder):
    """Rank 1 fails in the third step."""
    torch.manual_seed(1)
    model = offload(models.TiedNet(), folder, device_memory="800K", host_memory="500K")
    for step, parts in enumerate(batches(models.text, 5)):
        model.backward(models.loss_of(model, parts[rank]))
        if step == 2 and rank == 1:
            fail(how, model)
            if how in ("end", "delete"):
                return
        model.step()


def fail(how, model):
    if how == "raise":
        raise ValueError("bad batch")
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "delete":
        model.hilbert.store.close()
    if how == "drive":  # the files of the disk tier cannot be read any more
        for name in os.listdir("/proc/self/fd"):
            target = os.path.realpath(f"/proc/self/fd/{name}")
            if "deleted" in target and "disk" not in target:
                os.ftruncate(int(name), 0)
