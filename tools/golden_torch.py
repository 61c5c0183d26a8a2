#!/usr/bin/env python3
"""Writes tests/golden/torch: files of torch.save beside the same tensors as safetensors.

weights.bin has what state dicts hold, refused-*.bin what is refused; `model` is the model of
tests/golden/formats/sharded in shards, `adapter` the adapter of tests/golden/adapters/llama_lora."""
import json
import os
import shutil
from collections import OrderedDict

import torch
from safetensors.torch import load_file, save_file

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")
ROOT = os.path.join(TESTS, "torch")


def save(name, value, **options):
    torch.save(value, os.path.join(ROOT, name), **options)


def weights():
    """All dtypes, a scalar, an empty tensor, five dimensions, a part of a storage, and a tensor under two names."""
    ramp = torch.arange(24, dtype=torch.float32) / 8 - 1
    tensors = OrderedDict({
        "float": ramp.reshape(2, 3, 4),
        "brain": torch.nn.Parameter(ramp.to(torch.bfloat16).reshape(4, 6)),
        "half": ramp.to(torch.float16)[5:17].reshape(3, 4),
        "double": ramp.double()[:3],
        "mask": torch.tril(torch.ones(3, 3, dtype=torch.bool)).view(1, 1, 3, 3),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "count": torch.tensor(7),
        "number": torch.tensor(-2.5),
        "empty": torch.zeros(0, 5),
        "short": torch.tensor([1, -2], dtype=torch.int16),
        "int": torch.tensor([1, -2], dtype=torch.int32),
        "char": torch.tensor([1, -2], dtype=torch.int8),
        "five": ramp[:8].reshape(1, 2, 1, 2, 2),
        "row": torch.arange(5).expand(1, -1),
    })
    tensors["tied"] = tensors["float"]
    tensors["view"] = tensors["float"][1]
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, os.path.join(ROOT, "weights.safetensors"))
    tensors["version"] = {"none": [1, 2.5, "text"]}
    save("weights.bin", tensors)
    return tensors


class Call:
    """Loading it would call a function."""

    def __reduce__(self):
        return os.system, ("false",)


def refused():
    ramp = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    save("refused-legacy.bin", {"a": ramp}, _use_new_zipfile_serialization=False)
    save("refused-transposed.bin", {"fine": ramp, "turned": ramp.t()})
    save("refused-list.bin", [ramp])
    save("refused-call.bin", {"a": Call()})
    save("refused-complex.bin", {"a": torch.complex(ramp, ramp)})


def model():
    """Shards, each a state dict with the metadata that nn.Module gives it."""
    source, target = os.path.join(TESTS, "formats", "sharded"), os.path.join(ROOT, "model")
    os.makedirs(target)
    shutil.copy(os.path.join(source, "config.json"), target)
    with open(os.path.join(source, "model.safetensors.index.json"), encoding="utf-8") as f:
        index = json.load(f)
    names = {k: v.replace("model-", "pytorch_model-").replace(".safetensors", ".bin") for k, v in index["weight_map"].items()}
    for old in sorted(set(index["weight_map"].values())):
        state = OrderedDict(load_file(os.path.join(source, old)))
        state._metadata = {"": {"version": 1}}
        torch.save(state, os.path.join(target, old.replace("model-", "pytorch_model-").replace(".safetensors", ".bin")))
    with open(os.path.join(target, "pytorch_model.bin.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": index["metadata"], "weight_map": names}, f, indent=1)


def adapter():
    source, target = os.path.join(TESTS, "adapters", "llama_lora"), os.path.join(ROOT, "adapter")
    os.makedirs(target)
    shutil.copy(os.path.join(source, "adapter_config.json"), target)
    torch.save(load_file(os.path.join(source, "adapter_model.safetensors")), os.path.join(target, "adapter_model.bin"))


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    os.makedirs(ROOT)
    weights()
    refused()
    model()
    adapter()


if __name__ == "__main__":
    main()
