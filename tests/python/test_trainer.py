"""hilbert.Trainer does what the Trainer of transformers does, under budgets."""

import json
import os
import subprocess
import sys

import pytest
import torch
from compare import environment, kill_when, same
from conftest import third
from models import VOCABULARY, llama, t5

transformers = pytest.importorskip("transformers")
import hilbert

STEPS = 20


def texts(count=64, seed=5):
    """Sequences that can be learned: each token follows from the one before."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for first in torch.randint(0, VOCABULARY, (count,), generator=generator).tolist():
        row = [(first + 3 * i) % VOCABULARY for i in range(16)]
        rows.append({"input_ids": torch.tensor(row), "labels": torch.tensor(row)})
    return rows


def arguments(folder, **more):
    return transformers.TrainingArguments(**{
        "output_dir": str(folder), "per_device_train_batch_size": 4, "max_steps": STEPS,
        "learning_rate": 3e-3, "weight_decay": 0.1, "warmup_steps": 3, "max_grad_norm": 0.5,
        "lr_scheduler_type": "cosine", "logging_steps": 1, "save_strategy": "no", "report_to": [],
        "disable_tqdm": True, "use_cpu": True, "seed": 11, "adam_beta2": 0.95, **more})


def make(seed=1):
    torch.manual_seed(seed)
    return llama(2)


def budgets(folder, model, args):
    """Most of the state is on disk."""
    least = {**third(model, folder), "device_memory": "600K"}
    return least if args.save_strategy == "no" else {**least, "host_memory": "1M", "saves": True}


def mine(folder, args, model=None, more=None, **kwargs):
    model = model or make()
    return hilbert.Trainer(model=model, args=args, train_dataset=texts(), **kwargs,
                           hilbert={**budgets(folder, model, args), **(more or {})})


def theirs(args, model=None, **kwargs):
    return transformers.Trainer(model=model or make(), args=args, train_dataset=texts(), **kwargs)


def history(trainer, key="loss"):
    return [entry[key] for entry in trainer.state.log_history if key in entry]


def both(tmp_path, wrap=lambda model: model, kwargs=None, **more):
    """Trains both; returns mine and theirs."""
    kwargs = kwargs or {}
    a = mine(tmp_path, arguments(tmp_path / "a", **more), wrap(make()), **kwargs)
    a.train()
    b = theirs(arguments(tmp_path / "b", **more), wrap(make()), **kwargs)
    b.train()
    same(history(a), history(b))
    return a, b


def test_same_numbers(tmp_path):
    """Losses, norms and rates of every step; most of the state is on disk."""
    a, b = both(tmp_path)
    assert len(history(a)) == STEPS and history(a)[-1] < 0.8 * history(a)[0]
    same(history(a, "grad_norm"), history(b, "grad_norm"), 1e-4)
    assert history(a, "learning_rate") == history(b, "learning_rate")
    assert a.model.hilbert.store.placed()["disk"] > 0
    decays = [group["weight_decay"] for group in a.optimizer.param_groups]
    assert decays == [0.1, 0.0] and a.optimizer.param_groups[0]["betas"] == (0.9, 0.95)


@pytest.mark.parametrize("more", [
    {"gradient_accumulation_steps": 3, "max_steps": 6},
    {"gradient_checkpointing": True, "max_steps": 6},
    {"label_smoothing_factor": 0.1, "max_steps": 6, "max_grad_norm": 0.0},
    {"num_train_epochs": 1, "max_steps": -1, "lr_scheduler_type": "linear", "gradient_accumulation_steps": 5},
    {"neftune_noise_alpha": 5.0, "max_steps": 4}], ids=lambda more: next(iter(more)))
def test_arguments(tmp_path, more):
    a, b = both(tmp_path, **more)
    same(history(a, "grad_norm"), history(b, "grad_norm"), 1e-4)


def test_placements_give_the_same_bits(tmp_path):
    losses = []
    for more in ({}, {"device_memory": "64M", "host_memory": "64M", "disk": ()},
                 {"device_memory": "600K", "host_memory": "64M", "disk": ()}):
        a = mine(tmp_path, arguments(tmp_path / "a", max_steps=6), more=more)
        a.train()
        losses.append(history(a))
    assert losses[0] == losses[1] == losses[2]


def accuracy(prediction):
    hits = prediction.predictions[:, :-1].argmax(-1) == prediction.label_ids[:, 1:]
    return {"accuracy": float(hits.mean())}


def test_evaluation_between_steps_and_before(tmp_path):
    kwargs = {"eval_dataset": texts(8, 6), "compute_metrics": accuracy}
    more = {"eval_strategy": "steps", "eval_steps": 2, "max_steps": 6}
    a = mine(tmp_path, arguments(tmp_path / "a", **more), **kwargs)
    b = theirs(arguments(tmp_path / "b", **more), **kwargs)
    same([a.evaluate()["eval_loss"]], [b.evaluate()["eval_loss"]])
    a.train()
    b.train()
    for key in ("loss", "eval_loss", "eval_accuracy"):
        same(history(a, key), history(b, key))
    assert (a.predict(texts(2)).predictions.argmax(-1) ==
            b.predict(texts(2)).predictions.argmax(-1)).all()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision(tmp_path, precision):
    """The dtype of the store; fp16 has a loss scale, and skips a step that overflows."""
    args = arguments(tmp_path / "a", **{precision: True})
    a = mine(tmp_path, args)
    a.train()
    store = a.model.hilbert.store
    assert store.options.dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    assert history(a)[-1] < 0.8 * history(a)[0]
    if precision == "fp16":
        before = list(a.lr_scheduler.get_last_lr())
        a.accelerator.backward(a.model(**{k: v[None] for k, v in texts(1)[0].items()}).loss * 1e30)
        a.optimizer.step()
        assert a.accelerator.optimizer_step_was_skipped and a.lr_scheduler.get_last_lr() == before


def test_optimizers(tmp_path):
    """One that was given with its scheduler; hilbert's own by their names; others are refused."""
    def given(model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.3)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    a_model, b_model = make(), make()
    a = mine(tmp_path, arguments(tmp_path / "a", max_steps=6), a_model, optimizers=given(a_model))
    b = theirs(arguments(tmp_path / "b", max_steps=6), b_model, optimizers=given(b_model))
    a.train()
    b.train()
    same(history(a), history(b))
    assert history(a, "learning_rate") == history(b, "learning_rate")
    for name, own in (("adamw_8bit", "adamw8bit"), ("lion_32bit", "lion")):
        a = mine(tmp_path, arguments(tmp_path / "a", optim=name, learning_rate=1e-3))
        a.train()
        assert a.model.hilbert.store.options.optimizer == own
        assert history(a)[-1] < history(a)[0]
    with pytest.raises(hilbert.UsageError, match="adafactor"):
        mine(tmp_path, arguments(tmp_path / "a", optim="adafactor")).train()


@pytest.mark.parametrize("new", [True, False])
def test_a_second_call(tmp_path, new):
    """With a new model of model_init, or with the same model and optimizer."""
    runs = []
    args = arguments(tmp_path / "a", max_steps=3)
    for kind, more in ((hilbert.Trainer, {"hilbert": budgets(tmp_path, make(), args)}),
                       (transformers.Trainer, {})):
        model = {"model_init": lambda: make()} if new else {"model": make()}
        trainer = kind(args=args, train_dataset=texts(), **model, **more)
        losses = []
        for _ in range(2):
            trainer.train()
            losses += history(trainer)
        runs.append(losses)
    same(*runs)
    assert (runs[0][:3] == runs[0][3:]) == new


def lora(model):
    peft = pytest.importorskip("peft")
    return peft.get_peft_model(model, peft.LoraConfig(
        r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], init_lora_weights=False))


def test_adapters(tmp_path):
    more = {"save_strategy": "steps", "save_steps": 3, "max_steps": 6, "learning_rate": 1e-2}
    a, _ = both(tmp_path, lora, **more)
    assert os.path.exists(tmp_path / "a" / "checkpoint-6" / "adapter_model.safetensors")
    c = mine(tmp_path, arguments(tmp_path / "a", **more), lora(make()))
    c.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-3"))
    assert history(c)[3:] == history(a)[3:]


def test_model_that_is_never_whole(tmp_path):
    make().save_pretrained(tmp_path / "model")
    with hilbert.init(host_memory="100K", disk=[str(tmp_path)]):
        model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    a = mine(tmp_path, arguments(tmp_path / "a", max_steps=4), model)
    a.train()
    b = theirs(arguments(tmp_path / "b", max_steps=4))
    b.train()
    same(history(a), history(b))


def test_another_trainer_by_the_mixin(tmp_path):
    """Seq2SeqTrainer, which generates in its evaluation."""
    class Mine(hilbert.TrainerMixin, transformers.Seq2SeqTrainer):
        pass

    runs = []
    for kind in (Mine, transformers.Seq2SeqTrainer):
        torch.manual_seed(4)
        model = t5()[0]
        args = transformers.Seq2SeqTrainingArguments(
            output_dir=str(tmp_path), max_steps=4, learning_rate=1e-3, logging_steps=1, report_to=[],
            save_strategy="no", use_cpu=True, disable_tqdm=True, predict_with_generate=True,
            generation_max_length=6)
        more = {"hilbert": budgets(tmp_path, model, args)} if kind is Mine else {}
        seen = []
        trainer = kind(model=model, args=args, train_dataset=texts(16), eval_dataset=texts(4, 6),
                       compute_metrics=lambda p: seen.append(p.predictions) or {}, **more)
        trainer.train()
        trainer.evaluate()
        runs.append((history(trainer), seen[0].tolist()))
    same(runs[0][0], runs[1][0])
    assert runs[0][1] == runs[1][1]


SAVING = {"save_strategy": "steps", "save_steps": 4, "max_steps": 12}


def test_checkpoints(tmp_path):
    """Their names and files, how many stay, and that training continues with the same bits."""
    a = mine(tmp_path, arguments(tmp_path / "a", save_total_limit=2, **SAVING))
    a.train()
    assert sorted(os.listdir(tmp_path / "a")) == ["checkpoint-12", "checkpoint-8"]
    files = set(os.listdir(tmp_path / "a" / "checkpoint-8"))
    assert {"model.safetensors", "config.json", "hilbert", "scheduler.pt", "rng_state.pth",
            "trainer_state.json", "training_args.bin"} <= files
    assert "optimizer.pt" not in files
    config = json.loads((tmp_path / "a" / "checkpoint-8" / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"] and config["dtype"] == "float32"
    b = mine(tmp_path, arguments(tmp_path / "a", **SAVING), make(9),
             more={"device_memory": "64M", "host_memory": "64M", "disk": ()})
    b.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-8"))
    assert history(a)[8:] == history(b)[8:] and len(history(b)) == 12
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "a" / "checkpoint-12")
    for name, value in a.model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])


def test_checkpoint_that_was_cut_off(tmp_path):
    a = mine(tmp_path, arguments(tmp_path / "a", **SAVING))
    a.train()
    os.truncate(tmp_path / "a" / "checkpoint-12" / "trainer_state.json", 10)
    b = mine(tmp_path, arguments(tmp_path / "a", **SAVING), make(9))
    b.train(resume_from_checkpoint=True)
    assert history(a) == history(b)


def test_continues_a_run_of_transformers(tmp_path):
    b = theirs(arguments(tmp_path / "b", **SAVING))
    b.train()
    a = mine(tmp_path, arguments(tmp_path / "b", **SAVING), make(9))
    a.train(resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-4"))
    same(history(a), history(b))


def test_best_model(tmp_path):
    more = {**SAVING, "eval_strategy": "steps", "eval_steps": 4, "load_best_model_at_end": True,
            "learning_rate": 2e-2, "save_total_limit": 1}
    a, b = both(tmp_path, kwargs={"eval_dataset": texts(8, 6)}, **more)
    assert a.state.best_global_step == b.state.best_global_step
    same([a.evaluate()["eval_loss"]], [b.evaluate()["eval_loss"]])
    same([a.evaluate()["eval_loss"]], [min(history(a, "eval_loss"))], 1e-6)


def test_adapters_of_the_best_model_without_states(tmp_path):
    more = {**SAVING, "eval_strategy": "steps", "eval_steps": 4, "load_best_model_at_end": True,
            "learning_rate": 5e-2, "save_only_model": True}
    a, _ = both(tmp_path, lora, kwargs={"eval_dataset": texts(8, 6)}, **more)
    assert "hilbert" not in os.listdir(tmp_path / "a" / "checkpoint-4")
    same([a.evaluate()["eval_loss"]], [min(history(a, "eval_loss"))], 1e-6)


def test_refused(tmp_path):
    with pytest.raises(hilbert.UsageError, match="torch_compile"):
        mine(tmp_path, arguments(tmp_path / "a", torch_compile=True))
    model = hilbert.offload(make(), device_memory="64M", host_memory="64M")
    with pytest.raises(hilbert.UsageError, match="already"):
        mine(tmp_path, arguments(tmp_path / "a"), model).train()


EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "trainer.py")


def example(folder, out, *more):
    """The command line of examples/trainer.py under budgets; and its losses, once it has ended."""
    return [sys.executable, EXAMPLE, "--steps", "9", "--save", "3", "--log", "1", "--batch", "2", "--block", "32",
            "--output", str(folder / out), "--device-memory", "1M", "--host-memory", "2M",
            "--disk", f"{folder}:100M", *more]


def losses_of(folder):
    state = json.loads((folder / "checkpoint-9" / "trainer_state.json").read_text())
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


def run(command):
    subprocess.run(command, check=True, capture_output=True, env=environment())


def test_kill_and_resume(tmp_path):
    """kill -9 while the second checkpoint is written; the losses are those of a whole run."""
    run(example(tmp_path, "whole"))
    kill_when(example(tmp_path, "cut"), lambda: (tmp_path / "cut" / "checkpoint-6").exists())
    assert not (tmp_path / "cut" / "checkpoint-9").exists()
    run(example(tmp_path, "cut", "--resume"))
    assert losses_of(tmp_path / "cut") == losses_of(tmp_path / "whole") and len(losses_of(tmp_path / "cut")) == 9


def train_on_ranks(rank, ranks, folder):
    """Saves in the middle, and loads the best model at the end."""
    from accelerate.state import AcceleratorState, PartialState
    AcceleratorState._reset_state(True)  # of the process that was forked
    PartialState._reset_state()
    trainer = mine(folder, arguments(folder / "out", **RANKS, per_device_train_batch_size=2,
                                     load_best_model_at_end=True), eval_dataset=texts(8, 6))
    trainer.train()
    return history(trainer), history(trainer, "grad_norm"), history(trainer, "eval_loss"), trainer.evaluate()["eval_loss"]


RANKS = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "eval_strategy": "steps", "eval_steps": 3,
         "gradient_accumulation_steps": 2, "per_device_eval_batch_size": 4}


def test_ranks(tmp_path):
    """Two ranks of torchrun train as one does with batches twice as large; one rank continues."""
    from test_ranks import start
    codes, logs = start(2, train_on_ranks, tmp_path / "two")
    assert codes == [0, 0], logs
    one = theirs(arguments(tmp_path / "one", **RANKS), eval_dataset=texts(8, 6))
    one.train()
    losses, norms, checks, best = torch.load(tmp_path / "two" / "rank0.pt")
    same(losses, history(one))
    same(norms, history(one, "grad_norm"), 1e-4)
    same(checks, history(one, "eval_loss"))
    same([best], [min(checks)], 1e-6)
    again = mine(tmp_path, arguments(tmp_path / "again", **RANKS), make(9), eval_dataset=texts(8, 6))
    again.train(resume_from_checkpoint=str(tmp_path / "two" / "out" / "checkpoint-3"))
    same(history(again), losses)
