#!/usr/bin/env python3
"""golden_preferences.py - what TRL computes of pairs of answers, for the golden models.

    pip install torch transformers peft trl safetensors numpy
    python tools/golden_preferences.py [FOLDER [NAME ...]]      (default: tests/golden/preferences)

With a reference, adapters are trained, which are folders of tests/golden/adapters
(tools/golden_adapters.py); the reference is the base without the adapter. Those of WHOLE train all
of a golden model; the reference is the model before, its weights multiplied by a number. Without a
reference, all of a golden model is trained. One batch of pairs, cut from the base's golden tokens, as hilbert packs it: chosen
and rejected answer of a pair, each behind the prompt, are neighbours in a window. Each
FOLDER/<name>.safetensors has

  token, target, position, first  [2, 32] int32, the batch
  metrics          fp32: loss, rewards/chosen, rewards/rejected, rewards/margins,
                   rewards/accuracies, logps/chosen, logps/rejected, and of CPO nll_loss, of ORPO
                   also log_odds_ratio and log_odds_chosen; of KTO kl, and no accuracies
  grad.<name>      gradient of the loss, by the name in the folder
  loss             [20]  losses of twenty steps of AdamW on the batch, as in golden_adapters.py
"""
import os
import sys
import tempfile

import torch
from datasets import Dataset
from golden_adapters import GOLDEN, STEPS, load, optimizer_of, saved_name
from peft import LoraConfig, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

SEQ, BETA = 32, 0.1
# Per window the lengths of prompt, chosen and rejected answer.
WINDOWS = (((4, 6, 5), (3, 2, 4)), ((6, 10, 6),))
METRICS = ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies",
           "logps/chosen", "logps/rejected")
NLL, ODDS = ("nll_loss",), ("log_odds_ratio", "log_odds_chosen")
# Folders of adapters, and what DPOConfig says. TRL 1.16 has no label smoothing of "sigmoid" any
# more; "aot" is the same where a batch is one pair, as nothing is sorted then.
REFERRING = {name: (name, {}) for name in ("gpt2_lora", "llama_lora", "qwen2_rslora", "qwen3_lora")}
REFERRING |= {
    "cdpo": ("llama_lora", dict(loss_type="aot", label_smoothing=0.2)),
    "robust": ("llama_lora", dict(loss_type="robust", label_smoothing=0.2)),
    "ipo": ("llama_lora", dict(loss_type="ipo", beta=0.3)),
    "hinge": ("llama_lora", dict(loss_type="hinge", beta=0.5)),
    "apo_zero": ("llama_lora", dict(loss_type="apo_zero")),
    "apo_down": ("llama_lora", dict(loss_type="apo_down")),
    "nll": ("llama_lora", dict(loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.3])),
}
# Of single answers per window the lengths of prompt and answer, and the label; what KTOConfig says.
SINGLE = (((4, 6, True), (3, 4, False), (2, 3, True)), ((6, 8, False), (4, 5, True)))
JUDGED = {
    "kto": ("llama_lora", dict(beta=0.3, desirable_weight=1.3, undesirable_weight=0.7)),
    "kto_kl": ("qwen3_lora", dict(beta=0.3)),
}
# Models, what their weights are multiplied by for the reference, and what DPOConfig or KTOConfig say.
WHOLE = {
    "whole_dpo": ("llama_bias", 1.0, dict(loss_type="sigmoid")),
    "whole_ipo": ("gemma", 0.9, dict(loss_type="ipo", beta=0.3)),
    "whole_kto": ("cohere", 1.1, dict(beta=0.3, desirable_weight=1.3, undesirable_weight=0.7)),
}
# Models, and what CPOConfig or ORPOConfig say.
ALONE = {
    "cpo": ("llama_bias", CPOTrainer, CPOConfig, dict(label_smoothing=0.1, cpo_alpha=0.7)),
    "simpo": ("cohere", CPOTrainer, CPOConfig,
              dict(loss_type="simpo", beta=2.0, simpo_gamma=0.8, cpo_alpha=0.0)),
    "orpo": ("phi", ORPOTrainer, ORPOConfig, dict(beta=0.4)),
}


def cut_pairs(tokens):
    """The pairs of each window; answers of a pair differ from their first token on."""
    at, out = 0, []
    for window in WINDOWS:
        out.append([])
        for prompt, chosen, rejected in window:
            part = tokens[at:at + prompt + chosen + rejected].tolist()
            at += len(part)
            out[-1].append(dict(prompt_ids=part[:prompt], chosen_ids=part[prompt:prompt + chosen],
                                rejected_ids=part[prompt + chosen:]))
    return out


def cut_single(tokens):
    """Each example also has the answer of the one before it in its window, for the KL term."""
    at, out = 0, []
    for window in SINGLE:
        out.append([])
        for prompt, answer, label in window:
            part = tokens[at:at + prompt + answer].tolist()
            at += len(part)
            out[-1].append(dict(prompt_ids=part[:prompt], completion_ids=part[prompt:], label=label))
        for i, example in enumerate(out[-1]):
            example["KL_completion_ids"] = out[-1][i - 1]["completion_ids"]
    return out


def sides(example):
    """The two documents of a pair; that of a single answer has one token on its other side."""
    if "label" not in example:
        return [(example["prompt_ids"], example[side + "_ids"]) for side in ("chosen", "rejected")]
    own, none = (example["prompt_ids"], example["completion_ids"]), ([0], [])
    return [own, none] if example["label"] else [none, own]


def pack(windows):
    names = ("token", "target", "position", "first")
    arrays = {name: torch.zeros(len(windows), SEQ, dtype=torch.int32) for name in names}
    arrays["target"].fill_(-1)
    for w, pairs in enumerate(windows):
        at = 0
        for pair in pairs:
            for prompt, answer in sides(pair):
                ids, begin = prompt + answer, at
                for i, token in enumerate(ids):
                    arrays["token"][w, at] = token
                    arrays["position"][w, at] = i
                    arrays["first"][w, at] = begin
                    if i >= len(prompt):
                        arrays["target"][w, at - 1] = token
                    at += 1
        for i in range(at, SEQ):
            arrays["position"][w, i] = i - at
            arrays["first"][w, i] = at
    return arrays


def tokenizer_of(base):
    vocab = {f"t{i}": i for i in range(base.config.vocab_size)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(vocab, "t0")),
                                   eos_token="t0", pad_token="t0", unk_token="t0")


def settings(out, more):
    return dict(dict(output_dir=out, beta=BETA, max_length=None, gradient_checkpointing=False,
                     bf16=False, use_cpu=True, report_to=[]), **more)


DATA = dict(prompt="t1", chosen="t2", rejected="t3")


def whole_trainer_of(name, kind, config, data):
    base, factor, _ = WHOLE[name]
    reference = load(base)
    with torch.no_grad():
        for p in reference.parameters():
            p.mul_(factor)
    trainer = kind(model=load(base), ref_model=reference, args=config, train_dataset=Dataset.from_list(data),
                   processing_class=tokenizer_of(reference))
    trainer.model.requires_grad_(True)
    return trainer


def trainer_of(folder, base, kind, config, data):
    """A trainer for its loss alone: it gets the pairs as ids, not from its own data."""
    if base is None:
        return whole_trainer_of(folder, kind, config, data)
    trainer = kind(model=base, args=config, processing_class=tokenizer_of(base),
                   train_dataset=Dataset.from_list(data),
                   peft_config=LoraConfig.from_pretrained(folder))
    tensors = load_file(os.path.join(folder, "adapter_model.safetensors"))
    set_peft_model_state_dict(trainer.model, tensors)
    trainer.model.requires_grad_(False)
    for name, p in trainer.model.named_parameters():
        if "lora_" in name:
            p.requires_grad_(True)
            p.data = p.data.float()
    return trainer


class Referring:
    """The loss of DPOTrainer; that of "aot" pair by pair."""

    def __init__(self, folder, base, scratch, more):
        config = DPOConfig(**settings(scratch, dict(dict(loss_type="sigmoid"), **more)))
        self.trainer = trainer_of(folder, base, DPOTrainer, config, [DATA])
        self.model = self.trainer.model.eval()
        self.each = more.get("loss_type") == "aot"

    def one(self, pairs):
        batch = self.trainer.data_collator([dict(pair) for pair in pairs])
        loss = self.trainer._compute_loss(self.model, batch, return_outputs=False)
        noted = self.trainer._metrics["eval"]
        return loss, torch.tensor([noted[m][-1] for m in METRICS])

    def loss(self, pairs):
        parts = [self.one([pair]) for pair in pairs] if self.each else [self.one(pairs)]
        return [sum(part) / len(parts) for part in zip(*parts)]


class Judged:
    """The loss of KTOTrainer."""
    names = METRICS[:3] + METRICS[4:] + ("kl",)

    def __init__(self, folder, base, scratch, more):
        config = KTOConfig(**settings(scratch, dict(per_device_train_batch_size=2, **more)))
        data = [dict(prompt="t1", completion="t2", label=good) for good in (True, False)]
        self.trainer = trainer_of(folder, base, KTOTrainer, config, data)
        self.model = self.trainer.model.eval()

    def loss(self, examples):
        batch = self.trainer.data_collator([dict(example) for example in examples])
        loss = self.trainer._compute_loss(self.model, batch, return_outputs=False)
        noted = self.trainer._metrics["eval"]
        return loss, torch.tensor([noted[m][-1] for m in self.names])


class Alone:
    """The loss of CPOTrainer or ORPOTrainer."""

    def __init__(self, base, scratch, kind):
        _, trainer, config, more = kind
        self.trainer = trainer(model=base, args=config(**settings(scratch, more)),
                               processing_class=tokenizer_of(base),
                               train_dataset=Dataset.from_list([DATA]))
        self.model = self.trainer.model.eval()
        self.names = METRICS + (NLL if more.get("cpo_alpha", 1) else ())
        self.names += ODDS if trainer is ORPOTrainer else ()

    def loss(self, pairs):
        batch = {}
        for side in ("chosen", "rejected"):
            ids = [pair["prompt_ids"] + pair[side + "_ids"] for pair in pairs]
            length = max(len(each) for each in ids)
            begins = [len(pair["prompt_ids"]) for pair in pairs]
            pad = [length - len(each) for each in ids]
            batch[side + "_input_ids"] = torch.tensor([e + [0] * n for e, n in zip(ids, pad)])
            batch[side + "_attention_mask"] = torch.tensor(
                [[1] * len(e) + [0] * n for e, n in zip(ids, pad)])
            batch[side + "_labels"] = torch.tensor(
                [[-100] * b + e[b:] + [-100] * n for e, b, n in zip(ids, begins, pad)])
        loss, noted = self.trainer.get_batch_loss_metrics(self.model, batch, "train")
        return loss, torch.tensor([noted[m] for m in self.names])


def open_golden(name, scratch):
    if name in ALONE:
        base = ALONE[name][0]
        return base, Alone(load(base), scratch, ALONE[name])
    if name in WHOLE:
        base, _, more = WHOLE[name]
        return base, (Referring if "loss_type" in more else Judged)(name, None, scratch, more)
    adapter, more = (JUDGED if name in JUDGED else REFERRING)[name]
    folder = os.path.join(GOLDEN, "adapters", adapter)
    with open(os.path.join(folder, "base")) as file:
        base = file.read().strip()
    return base, (Judged if name in JUDGED else Referring)(folder, load(base), scratch, more)


def make(name, out):
    with tempfile.TemporaryDirectory() as scratch:
        base, golden = open_golden(name, scratch)
    tokens = load_file(os.path.join(GOLDEN, "models", base, "golden.safetensors"))["tokens"]
    windows = (cut_single if isinstance(golden, Judged) else cut_pairs)(tokens.flatten())
    pairs = [pair for window in windows for pair in window]
    result = pack(windows)
    named = [(n, p) for n, p in golden.model.named_parameters() if p.requires_grad]
    optimizer, losses = optimizer_of(named), []
    for step in range(STEPS):
        loss, metrics = golden.loss(pairs)
        golden.model.zero_grad()
        loss.backward()
        if step == 0:
            result["metrics"] = torch.cat([loss.detach().reshape(1), metrics])
            for n, p in named:
                result["grad." + saved_name(n)] = p.grad.clone()
        torch.nn.utils.clip_grad_norm_([p for _, p in named], 1.0)
        optimizer.step()
        losses.append(loss.item())
    result["loss"] = torch.tensor(losses)
    path = os.path.join(out, name + ".safetensors")
    save_file({k: v.contiguous() for k, v in result.items()}, path)
    os.chmod(path, 0o644)
    print(f"{name:14} {len(named):3} tensors, loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
          f"metrics {[round(x, 4) for x in result['metrics'].tolist()]}", flush=True)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(GOLDEN, "preferences")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.makedirs(out, exist_ok=True)
    for name in sys.argv[2:] or REFERRING | JUDGED | WHOLE | ALONE:
        make(name, out)


if __name__ == "__main__":
    main()
