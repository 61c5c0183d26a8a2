#!/usr/bin/env python3
"""Writes tests/golden/router_z.json: losses, router z-losses and gradient norms of twenty steps of tiny
mixtures with a router z-loss, with the data and numbers of golden_models.py. The z-loss is computed from
what the routers get: transformers has none for decoders. It is a mean over what is predicted, as the loss.
In the run "masked" window w predicts its tokens from FIRST[w % 4] on. Needs PyTorch, transformers, numpy."""
import json
import os

import numpy as np
import torch
from golden_models import BATCH, SEQ, STEPS, load, optimizer_of, trained

MODELS = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "models")
COEFFICIENT = 0.05
FIRST = (1, 10, 19, 28)


def routers_of(model):
    return [m for name, m in model.named_modules()
            if name.endswith(("mlp.gate", "mlp.router")) and getattr(m, "weight", None) is not None]


def train(name, first=(1,)):
    folder = os.path.join(MODELS, name)
    model = load(folder, dtype=torch.float32)
    stream = np.load(os.path.join(folder, "tokens.npy")).astype(np.int64)
    windows = torch.from_numpy(stream[:STEPS * BATCH * SEQ].reshape(-1, SEQ))
    labels = windows.clone()
    for w in range(len(labels)):
        labels[w, :first[w % len(first)]] = -100
    seen = []

    def note(router, inputs):
        x = inputs[0].reshape(-1, router.weight.shape[1])
        logits = torch.nn.functional.linear(x, router.weight, getattr(router, "bias", None))
        seen.append(torch.logsumexp(logits, dim=-1) ** 2)

    routers = routers_of(model)
    assert routers, name
    for router in routers:
        router.register_forward_pre_hook(note)
    optimizer = optimizer_of(trained(model))
    result = {"loss": [], "router_z_loss": [], "grad_norm": []}
    for batch, label in zip(windows.split(BATCH), labels.split(BATCH)):
        seen.clear()
        model.zero_grad()
        loss = model(input_ids=batch, labels=label).loss
        assert len(seen) == len(routers)
        predicts = torch.nn.functional.pad(label[:, 1:], (0, 1), value=-100).reshape(-1) != -100
        z = torch.stack(seen)[:, predicts].mean()
        loss = loss + COEFFICIENT * z
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in trained(model)], 1.0)
        optimizer.step()
        for key, value in zip(result, (loss, z, norm)):
            result[key].append(value.item())
    return result


def main():
    golden = {name: train(name) for name in ("mixtral", "gpt_oss", "deepseek_v3")}
    golden["masked"] = train("deepseek_v3", FIRST)
    with open(os.path.join(MODELS, "..", "router_z.json"), "w") as file:
        json.dump({"coefficient": COEFFICIENT, **golden}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
