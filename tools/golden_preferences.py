#!/usr/bin/env python3
"""golden_preferences.py - what TRL computes of pairs of answers, for adapters of the golden models.

    pip install torch transformers peft trl safetensors numpy
    python tools/golden_preferences.py [FOLDER]      (default: tests/golden/preferences)

The adapters are folders of tests/golden/adapters (tools/golden_adapters.py); the reference is the
base without the adapter. One batch of pairs, cut from the base's golden tokens, as hilbert packs
it: chosen and rejected answer of a pair, each behind the prompt, are neighbours in a window. Each
FOLDER/<adapter>.safetensors has

  token, target, position, first  [2, 32] int32, the batch
  metrics          [7] fp32: loss, rewards/chosen, rewards/rejected, rewards/margins,
                   rewards/accuracies, logps/chosen, logps/rejected
  grad.<name>      gradient of the loss, by the name in the adapter's folder
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
from trl import DPOConfig, DPOTrainer

SEQ, BETA = 32, 0.1
ADAPTERS = ("gpt2_lora", "llama_lora", "qwen2_rslora", "qwen3_lora")
# Per window the lengths of prompt, chosen and rejected answer.
WINDOWS = (((4, 6, 5), (3, 2, 4)), ((6, 10, 6),))
METRICS = ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies",
           "logps/chosen", "logps/rejected")


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


def pack(windows):
    names = ("token", "target", "position", "first")
    arrays = {name: torch.zeros(len(windows), SEQ, dtype=torch.int32) for name in names}
    arrays["target"].fill_(-1)
    for w, pairs in enumerate(windows):
        at = 0
        for pair in pairs:
            for answer in (pair["chosen_ids"], pair["rejected_ids"]):
                ids, begin = pair["prompt_ids"] + answer, at
                for i, token in enumerate(ids):
                    arrays["token"][w, at] = token
                    arrays["position"][w, at] = i
                    arrays["first"][w, at] = begin
                    if i >= len(pair["prompt_ids"]):
                        arrays["target"][w, at - 1] = token
                    at += 1
        for i in range(at, SEQ):
            arrays["position"][w, i] = i - at
            arrays["first"][w, i] = at
    return arrays


def trainer_of(folder, base, out):
    """A trainer for its loss alone: it gets the pairs as ids, not from its own data."""
    vocab = {f"t{i}": i for i in range(base.config.vocab_size)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(vocab, "t0")),
                                        eos_token="t0", pad_token="t0", unk_token="t0")
    config = DPOConfig(output_dir=out, beta=BETA, loss_type="sigmoid", max_length=None,
                       gradient_checkpointing=False, bf16=False, use_cpu=True, report_to=[])
    data = Dataset.from_list([dict(prompt="t1", chosen="t2", rejected="t3")])
    trainer = DPOTrainer(model=base, args=config, processing_class=tokenizer,
                         train_dataset=data, peft_config=LoraConfig.from_pretrained(folder))
    tensors = load_file(os.path.join(folder, "adapter_model.safetensors"))
    set_peft_model_state_dict(trainer.model, tensors)
    trainer.model.requires_grad_(False)
    for name, p in trainer.model.named_parameters():
        if "lora_" in name:
            p.requires_grad_(True)
            p.data = p.data.float()
    return trainer


def make(name, out):
    folder = os.path.join(GOLDEN, "adapters", name)
    with open(os.path.join(folder, "base")) as file:
        base = file.read().strip()
    golden = load_file(os.path.join(GOLDEN, "models", base, "golden.safetensors"))
    windows = cut_pairs(golden["tokens"].flatten())
    pairs = [pair for window in windows for pair in window]
    with tempfile.TemporaryDirectory() as scratch:
        trainer = trainer_of(folder, load(base), scratch)
    model = trainer.model.eval()
    batch = trainer.data_collator([dict(pair) for pair in pairs])
    result = pack(windows)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer, losses = optimizer_of(named), []
    for step in range(STEPS):
        loss = trainer._compute_loss(model, batch, return_outputs=False)
        model.zero_grad()
        loss.backward()
        if step == 0:
            noted = trainer._metrics["eval"]
            result["metrics"] = torch.tensor([loss.item()] + [noted[m][-1] for m in METRICS])
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
    for name in ADAPTERS:
        make(name, out)


if __name__ == "__main__":
    main()
