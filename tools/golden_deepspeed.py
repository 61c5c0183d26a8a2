#!/usr/bin/env python3
"""golden_deepspeed.py - trains small models with DeepSpeed on the CPU and keeps its checkpoints:
   tools/golden_deepspeed.py OUT [NAME...]     (needs torch, transformers, safetensors, deepspeed)
Each OUT/NAME is a checkpoint folder as DeepSpeed wrote it; OUT/NAME.safetensors is the oracle: the fp32 weights and both
moments of every parameter, gathered by DeepSpeed itself (zero_to_fp32 and safe_get_full_optimizer_state), and the losses of
the steps after the checkpoint. OUT/data.npy has the tokens of all steps: 2 windows of 12 for each rank and step."""
import json
import os
import shutil
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import torch

STEPS, MORE, ROWS, LENGTH = 3, 2, 2, 12
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 19, "hidden_size": 8, "intermediate_size": 11,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32",
}
# name: ranks, stage, settings of DeepSpeed, changes of the model
CASES = {
    "stage1-1": (1, 1, {}, {}),
    "stage1-3": (3, 1, {"bf16": {"enabled": True}}, {}),
    "stage2-2": (2, 2, {}, {"tied": True}),
    "stage2-3": (3, 2, {"round_robin_gradients": True}, {"groups": True}),
    "stage3-1": (1, 3, {}, {}),
    "stage3-2": (2, 3, {"bf16": {"enabled": True}}, {"frozen": True}),
    "stage3-3": (3, 3, {"sub_group_size": 100}, {"tied": True}),
}


def make_model(change):
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**{**CONFIG, "tie_word_embeddings": bool(change.get("tied"))}))
    if change.get("frozen"):
        model.model.embed_tokens.weight.requires_grad_(False)
        model.model.norm.weight.requires_grad_(False)
    return model


def make_groups(model, change):
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if not change.get("groups"):
        return [p for _, p in trained]
    return [{"params": [p for _, p in trained if p.ndim > 1]}, {"params": [p for _, p in trained if p.ndim <= 1], "eps": 1e-8}]


def gather(engine, model, rank):
    from deepspeed.utils import safe_get_full_optimizer_state
    found = {}
    for name, parameter in model.named_parameters():
        for key in ("exp_avg", "exp_avg_sq") if parameter.requires_grad else ():
            value = safe_get_full_optimizer_state(parameter, key)
            if rank == 0:
                found[f"{key}.{name}"] = value.detach().cpu().float().reshape(parameter.ds_shape if hasattr(parameter, "ds_shape") else parameter.shape).clone()
    return found


def step(engine, tokens):
    loss = engine(input_ids=tokens, labels=tokens).loss
    engine.backward(loss)
    engine.step()
    mean = loss.detach().float().clone()
    torch.distributed.all_reduce(mean)
    return mean.item() / torch.distributed.get_world_size()


def train(rank, name, out, port):
    import deepspeed
    from safetensors.torch import save_file
    ranks, stage, settings, change = CASES[name]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    deepspeed.init_distributed("gloo")
    settings = dict(settings)
    zero = {"stage": stage, "stage3_param_persistence_threshold": 0}
    for key in ("sub_group_size", "round_robin_gradients"):
        if key in settings:
            zero[key] = settings.pop(key)
    config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": zero, "zero_allow_untested_optimizer": True,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.0, "torch_adam": True}}, **settings}
    model = make_model(change)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=make_groups(model, change), config=config)
    data = torch.from_numpy(np.load(os.path.join(out, "data.npy"))).long().reshape(-1, ROWS, LENGTH)
    losses = [step(engine, data[s * ranks + rank]) for s in range(STEPS)]
    folder = os.path.join(out, name)
    engine.save_checkpoint(folder, tag=f"global_step{STEPS}")
    states = {} if change.get("groups") else gather(engine, engine.module, rank)  # DeepSpeed does not find those of a second group
    states["losses"] = torch.tensor([step(engine, data[s * ranks + rank]) for s in range(STEPS, STEPS + MORE)])
    print(name, losses, states["losses"])
    torch.distributed.barrier()
    if rank == 0:
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
        weights = get_fp32_state_dict_from_zero_checkpoint(folder)
        states.update({n: w.float().contiguous().clone() for n, w in weights.items()})
        save_file(states, os.path.join(out, f"{name}.safetensors"))
        for script in ("zero_to_fp32.py", "zero_to_torch.py"):
            if os.path.exists(os.path.join(folder, script)):
                os.remove(os.path.join(folder, script))
    torch.distributed.barrier()


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "config.json"), "w") as file:
        json.dump(CONFIG, file, indent=2)
    words = np.random.default_rng(5).integers(0, CONFIG["vocab_size"], 3 * (STEPS + MORE) * ROWS * LENGTH)
    np.save(os.path.join(out, "data.npy"), words.astype(np.int32))
    for i, (name, case) in enumerate(CASES.items()):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        shutil.rmtree(os.path.join(out, name), ignore_errors=True)
        torch.multiprocessing.spawn(train, (name, out, 29600 + i), nprocs=case[0])


if __name__ == "__main__":
    main()
