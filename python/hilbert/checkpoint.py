"""hilbert.save and hilbert.load: the whole state of an offloaded model, in hilbert's format."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple, Union

import torch
from torch import nn

from ._offload import Offload, state_of
from .errors import InputError, UsageError


def save(model: nn.Module, folder: Union[str, Path], extra: Any = None, *, keep: int = 0,
         wait: bool = True) -> None:
    """Writes a checkpoint folder/step-N, which `hilbert verify` checks: masters, moments, counts,
    the optimizer's groups, buffers, and `extra`, which must be what JSON can hold. Between steps, and
    on one rank also between two backward calls: then without the gradients of that step.

    The checkpoint is whole or not there. Of all in the folder only the `keep` newest stay (0: all
    stay). Without `wait`, training may go on while it is written; a failure is then raised by the
    next save.
    """
    state = state_of(model)
    state.pause()
    groups = [{key: value for key, value in group.items() if key != "params"}
              for group in state.optimizer.param_groups]
    text = json.dumps({"hilbert": 1, "groups": groups, "extra": extra,
                       "buffers": {name: _encode(buffer) for name, buffer in _buffers(model)}},
                      default=_number)
    state.store.save(str(folder), text, keep)
    if wait:
        state.store.saved()


def load(model: nn.Module, folder: Union[str, Path]) -> Any:
    """Reads the newest whole checkpoint of a folder into a model with the same parameters, under
    any budgets; returns `extra`. Training continues with the same bits. Between steps."""
    state = state_of(model)
    state.idle()
    state.uses.drop_copies(stale=True)
    text = state.store.load(str(folder))
    try:
        kept = json.loads(text or "")
        groups, buffers, extra = kept["groups"], kept["buffers"], kept["extra"]
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{folder} was not written by hilbert.save") from None
    _restore(state, model, groups, buffers, str(folder))
    return extra


def _restore(state: Offload, model: nn.Module, groups: Any, buffers: Any, folder: str) -> None:
    if len(groups) != len(state.optimizer.param_groups):
        raise InputError(f"{folder} has {len(groups)} groups of parameters, the model has "
                         f"{len(state.optimizer.param_groups)}")
    for group, values in zip(state.optimizer.param_groups, groups):
        group.update((key, tuple(value) if isinstance(value, list) else value)
                     for key, value in values.items())
    for name, buffer in _buffers(model):
        if name not in buffers:
            raise InputError(f"{folder} has no buffer {name}")
        with torch.no_grad():
            buffer.copy_(_decode(buffers[name]).to(buffer.device))


def _buffers(model: nn.Module) -> Iterator[Tuple[str, torch.Tensor]]:
    """Those of the state_dict."""
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                yield (f"{prefix}.{name}" if prefix else name), buffer


def _number(value: Any) -> float:
    """Of a rate that is a tensor."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{type(value).__name__} cannot be saved: give what JSON can hold") from None


def _encode(buffer: torch.Tensor) -> Dict[str, Any]:
    data = buffer.detach().cpu().contiguous().view(-1)
    return {"dtype": str(buffer.dtype).split(".")[1], "shape": list(buffer.shape),
            "data": base64.b64encode(data.view(torch.uint8).numpy().data).decode()}


def _decode(entry: Dict[str, Any]) -> torch.Tensor:
    data = bytearray(base64.b64decode(entry["data"]))
    dtype = getattr(torch, entry["dtype"])
    tensor = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return tensor.view(entry["shape"])
