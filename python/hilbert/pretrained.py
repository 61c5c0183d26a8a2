"""Folders of transformers: loaded into the store and written from it one tensor at a time."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple, Union

import torch
from torch import nn

from ._store import parse_dtype
from ._init import init
from ._offload import offload, state_of
from .sizes import available_memory, parse_size

_WAITING = ("host_memory", "disk")
_OFFLOAD = [name for name in inspect.signature(offload).parameters if name != "model"]


def from_pretrained(kind: Any, folder: Union[str, Path], **arguments: Any) -> Any:
    """`kind.from_pretrained(folder)` and `hilbert.offload`, without ever holding the whole model.

    kind: a class of transformers, such as AutoModelForCausalLM. Arguments of `hilbert.offload` go
    there, all others to `kind.from_pretrained`.
    """
    own = {key: arguments.pop(key) for key in _OFFLOAD if key in arguments}
    if own.get("dtype") is not None:
        arguments["dtype"] = parse_dtype(own["dtype"])
    waiting: Dict[str, Any] = {key: own[key] for key in _WAITING if key in own}
    free = available_memory()
    most = parse_size("host_memory", waiting.get("host_memory"), free)
    waiting["host_memory"] = free // 8 if most is None else most // 2
    with init(**waiting), _one_at_a_time():
        model = kind.from_pretrained(folder, **arguments)
    return offload(model, **own)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """transformers reads tensors when they are needed, instead of all at once on threads."""
    name = "HF_DEACTIVATE_ASYNC_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


_SAFETENSORS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16",
                torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32", torch.int16: "I16",
                torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}


def save_pretrained(model: nn.Module, folder: Union[str, Path], max_shard_size: str = "5GB") -> None:
    """Writes the folder that `model.save_pretrained` writes, one tensor at a time. Between steps. Of
    several ranks only rank 0 writes; it may call it alone, or all may: then the folder is whole on
    every rank afterwards.

    A model whose tensors have other names or shapes in its folder (transformers converts them) is
    written by `model.save_pretrained`, which needs RAM for all weights in the model's dtype.
    """
    state = state_of(model)
    state.idle()
    if state.store.rank == 0:
        write_folder(model, Path(folder), max_shard_size)
    state.store.meet()


def write_folder(model: Any, folder: Path, max_shard_size: str = "5GB") -> None:
    """`save_pretrained` on one rank, without waiting for the others."""
    if getattr(model, "_weight_conversions", None) or not hasattr(model, "config"):
        model.save_pretrained(folder, max_shard_size=max_shard_size)
        return
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.dtype = str(state_of(model).store.options.dtype).split(".")[1]
    model.config.save_pretrained(folder)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(folder)
    save_weights(model, folder, max_shard_size)


def save_weights(model: nn.Module, folder: Path, max_shard_size: str = "5GB") -> None:
    """Writes the state_dict as model.safetensors, or parts with an index, one tensor at a time. Between
    steps, and on one rank also between two backward calls."""
    state = state_of(model)
    state.pause()
    shards = _shards(model, parse_size("max_shard_size", max_shard_size) or 0)
    index: Dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = ("model.safetensors" if len(shards) == 1
                else f"model-{number:05}-of-{len(shards):05}.safetensors")
        _write_shard(state, folder / name, shard)
        index.update((key, name) for key, _ in shard)
    if len(shards) > 1:
        total = sum(t.numel() * t.element_size() for shard in shards for _, t in shard)
        with open(folder / "model.safetensors.index.json", "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": total}, "weight_map": index}, file, indent=2)


_Shard = List[Tuple[str, torch.Tensor]]


def _shards(model: nn.Module, most: int) -> List[_Shard]:
    """Names and tensors of each file; parameters are placeholders. A tensor with two names is
    written once."""
    shards: List[_Shard] = [[]]
    size, seen = 0, set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        bytes_ = tensor.numel() * tensor.element_size()
        if shards[-1] and size + bytes_ > most:
            shards.append([])
            size = 0
        shards[-1].append((name, tensor))
        size += bytes_
    return shards


def _write_shard(state: Any, path: Path, shard: _Shard) -> None:
    header: Dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in shard:
        first, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _SAFETENSORS[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [first, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in shard:
            slot = state.slot_of(tensor)
            values = tensor.detach().cpu() if slot is None else state.uses.value(slot)
            file.write(values.contiguous().view(-1).view(torch.uint8).numpy().data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
