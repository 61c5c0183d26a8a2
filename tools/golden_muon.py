#!/usr/bin/env python3
"""Writes tests/golden/muon.json: losses of twenty steps of the tiny models with torch.optim.Muon for
the matrices of the blocks and AdamW for all else, with the data and numbers of golden_models.py.
Needs PyTorch 2.9 or later, transformers, numpy."""
import json
import os

import numpy as np
import torch
from golden_models import BATCH, SEQ, STEPS, load, optimizer_of

MODELS = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "models")


def losses_of(name):
    folder = os.path.join(MODELS, name)
    model = load(folder, dtype=torch.float32)
    stream = np.load(os.path.join(folder, "tokens.npy")).astype(np.int64)
    windows = torch.from_numpy(stream[:STEPS * BATCH * SEQ].reshape(-1, SEQ))
    named = list(model.named_parameters())
    in_block = lambda n, p: p.ndim == 2 and any(part.isdigit() for part in n.split("."))
    muon = torch.optim.Muon([p for n, p in named if in_block(n, p)], lr=1e-3, weight_decay=0.1,
                            momentum=0.95, nesterov=True, adjust_lr_fn="match_rms_adamw")
    adamw = optimizer_of([(n, p) for n, p in named if not in_block(n, p)])
    losses = []
    for batch in windows.split(BATCH):
        model.zero_grad()
        losses.append(model(input_ids=batch, labels=batch).loss)
        losses[-1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in (muon, adamw):
            optimizer.step()
    return [loss.item() for loss in losses]


def main():
    golden = {name: losses_of(name) for name in ("llama", "gpt2")}
    with open(os.path.join(MODELS, "..", "muon.json"), "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
