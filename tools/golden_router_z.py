#!/usr/bin/env python3
"""Writes tests/golden/router_z.json: losses, router z-losses and gradient norms of twenty steps of tiny
mixtures with a router z-loss, with the data and numbers of golden_models.py. The z-loss is computed from
what the routers get: transformers has none for decoders. Needs PyTorch, transformers, numpy."""
import json
import os

import numpy as np
import torch
from golden_models import BATCH, SEQ, STEPS, load, optimizer_of, trained

MODELS = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "models")
COEFFICIENT = 0.05


def routers_of(model):
    return [m for name, m in model.named_modules()
            if name.endswith(("mlp.gate", "mlp.router")) and getattr(m, "weight", None) is not None]


def train(name):
    folder = os.path.join(MODELS, name)
    model = load(folder, dtype=torch.float32)
    stream = np.load(os.path.join(folder, "tokens.npy")).astype(np.int64)
    windows = torch.from_numpy(stream[:STEPS * BATCH * SEQ].reshape(-1, SEQ))
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
    for batch in windows.split(BATCH):
        seen.clear()
        model.zero_grad()
        loss = model(input_ids=batch, labels=batch).loss
        assert len(seen) == len(routers)
        z = torch.cat(seen).mean()
        loss = loss + COEFFICIENT * z
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in trained(model)], 1.0)
        optimizer.step()
        for key, value in zip(result, (loss, z, norm)):
            result[key].append(value.item())
    return result


def main():
    golden = {name: train(name) for name in ("mixtral", "gpt_oss", "deepseek_v3")}
    with open(os.path.join(MODELS, "..", "router_z.json"), "w") as file:
        json.dump({"coefficient": COEFFICIENT, **golden}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
