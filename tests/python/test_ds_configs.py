"""ds_config.json files as people have them: accepted, or refused with the key that matters."""

import glob
import json
import os
import re

import hilbert
import pytest
import torch
from conftest import third
from test_engine import Simple, data

SHARED = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "data", "ds-configs")
AUTO = {"train_micro_batch_size_per_gpu": 2, "optimizer.params.lr": 1e-3, "gradient_clipping": 1.0,
        "scheduler.params.warmup_num_steps": 2, "scheduler.params.total_num_steps": 8}

ADAMW = {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}}
TRAINERS = {  # as the integrations of transformers and accelerate write them
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "steps_per_print": 2000,
    "zero_allow_untested_optimizer": True, "wall_clock_breakdown": False}
OWN = {
    "stage2": ({**TRAINERS, "optimizer": ADAMW, "bf16": {"enabled": "auto"},
                "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 5e8,
                                      "allgather_bucket_size": 5e8, "contiguous_gradients": True}}, None),
    "stage3 and offload": ({**TRAINERS, "optimizer": ADAMW, "fp16": {"enabled": False}, "scheduler": {
        "type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
                                            "warmup_num_steps": "auto", "total_num_steps": "auto"}},
        "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto", "sub_group_size": 1e9,
                              "offload_optimizer": {"device": "cpu", "pin_memory": True},
                              "offload_param": {"device": "cpu", "pin_memory": True}}}, None),
    "no optimizer": ({**TRAINERS, "zero_optimization": {"stage": 1}}, None),
    "numbers": ({"train_batch_size": 8, "gradient_accumulation_steps": 4,
                 "optimizer": {"type": "Adam", "params": {"lr": 1e-4, "adam_w_mode": True}}}, None),
    "lamb": ({**TRAINERS, "optimizer": {"type": "Lamb", "params": {"lr": 1e-3}}}, "optimizer.type"),
    "tensor parallel": ({**TRAINERS, "optimizer": ADAMW, "tensor_parallel": {"autotp_size": 4}},
                        "tensor_parallel.autotp_size"),
    "no bias correction": ({**TRAINERS, "optimizer": {"type": "Adam", "params": {
        "lr": 1e-3, "bias_correction": False}}}, "optimizer.params.bias_correction"),
}


def start(config, folder, content, auto=AUTO):
    torch.manual_seed(0)
    model = Simple(4)
    own = {} if "optimizer" in content else {"optimizer": torch.optim.AdamW(model.parameters())}
    return hilbert.initialize(model=model, config=config, auto=auto, **own,
                              **{**third(model, folder), "device_memory": "1M"})[0]


def train(engine):
    dtype = next(engine.module.parameters()).dtype
    for x, y in data(engine.gradient_accumulation_steps(), dtype=dtype):
        engine.backward(engine(x, y))
        engine.step()
    assert engine.global_steps == 1


@pytest.mark.parametrize("name", OWN)
def test_own(tmp_path, name):
    config, key = OWN[name]
    if key is None:
        train(start(config, tmp_path, config))
    else:
        with pytest.raises(hilbert.UsageError, match=re.escape(key)):
            start(config, tmp_path, config)


@pytest.mark.parametrize("key", AUTO)
def test_what_stays_open_is_named(tmp_path, key):
    config = OWN["stage3 and offload"][0]
    with pytest.raises(hilbert.UsageError, match=re.escape(f'{key} is "auto"')):
        start(config, tmp_path, config, {k: v for k, v in AUTO.items() if k != key})


def has(content, path):
    for key in path.split("."):
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True


@pytest.mark.skipif(not os.path.isdir(SHARED), reason="no folder of files")
def test_real_files(tmp_path):
    """Each is accepted and trains a step, or the message names a key that the file has."""
    accepted, refused = [], []
    for path in sorted(glob.glob(os.path.join(SHARED, "*.json"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            content = json.loads(text)
        except ValueError:  # a template
            with pytest.raises(hilbert.InputError, match="not valid JSON at line"):
                start(path, tmp_path, {})
            continue
        try:
            engine = start(path, tmp_path, content)
        except hilbert.UsageError as error:
            key = re.search(r"\.json: ([\w.]+) ", str(error))
            assert key and has(content, key[1]), (path, str(error))
            refused.append(key[1])
        else:
            if engine.gradient_accumulation_steps() <= 4:
                train(engine)
            accepted.append(path)
    assert len(accepted) >= 35 and len(refused) >= 20, (len(accepted), len(refused))
