#!/usr/bin/env python3
"""Writes tests/golden/tokens: rows of token ids, and the batch that TRL's SFTTrainer makes of them."""
import json
import os
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from tokenizers import Tokenizer, models
from trl import SFTConfig, SFTTrainer

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "tokens")
VOCAB = 64
SETS = {
    "plain": [{"input_ids": [5, 6, 7]}, {"input_ids": [9, 10, 11, 12, 13]}],
    "labels": [{"input_ids": [5, 6, 7, 8], "labels": [-100, -100, 7, 8], "attention_mask": [1, 1, 1, 1]},
               {"input_ids": [9, 10, 63], "labels": [9, -100, 63], "attention_mask": [1, 1, 1]}],
    "completion": [{"input_ids": [1, 2, 3, 4, 5], "completion_mask": [0, 0, 1, 1, 1]},
                   {"input_ids": [6, 7], "completion_mask": [0, 1]}],
    "assistant": [{"input_ids": list(range(20, 30)), "assistant_masks": [0, 0, 1, 1, 0, 0, 0, 1, 1, 1],
                   "completion_mask": [0, 1, 1, 1, 1, 1, 1, 1, 1, 0]}],
    "packed": [{"input_ids": list(range(30, 40)), "seq_lengths": [3, 1, 6]},
               {"input_ids": [40, 41, 42], "seq_lengths": [3]}],
    "both": [{"input_ids": [1, 2, 3], "labels": [1, -100, 3], "completion_mask": [0, 0, 0],
              "messages": [{"role": "user", "content": "ignored"}]}],
}


def trainer(rows, folder):
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=8, n_layer=1, n_head=1))
    words = Tokenizer(models.WordLevel({"w%d" % i: i for i in range(VOCAB)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w0", pad_token="w0")
    masked = any("completion_mask" in row for row in rows)
    options = SFTConfig(output_dir=folder, report_to="none", use_cpu=True, max_length=None, bf16=False,
                        completion_only_loss=True if masked else None)
    return SFTTrainer(model=model, args=options, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)


def batch(rows):
    """All rows in one: tokens, labels and positions. Without padding_free, which wants flash attention."""
    with tempfile.TemporaryDirectory() as folder:
        made = trainer(rows, folder)
    made.data_collator.padding_free = True
    out = made.data_collator([made.train_dataset[i] for i in range(len(rows))])
    return {key: out[key][0].tolist() for key in ("input_ids", "labels", "position_ids")}


def main():
    os.makedirs(ROOT, exist_ok=True)
    batches = {}
    for name, rows in SETS.items():
        with open(os.path.join(ROOT, name + ".jsonl"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
        kind = pa.list_(pa.int64() if name == "labels" else pa.int32())
        plain = {key: pa.array([row[key] for row in rows], kind) for key in rows[0] if key != "messages"}
        pq.write_table(pa.table(plain), os.path.join(ROOT, name + ".parquet"), store_schema=False)
        batches[name] = batch(rows)
    with open(os.path.join(ROOT, "batches.json"), "w", encoding="utf-8") as f:
        json.dump(batches, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
