"""ds_config.json, read by the library (hilbert/deepspeed.h), and its schedulers."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
from ctypes import POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Union

import torch

from ._c import LossScale, check_status, library


class _Number(Structure):
    _fields_ = [("value", c_double), ("origin", c_int)]

    def get(self, default: Any) -> Any:
        """The file's number, DeepSpeed's default, or `default` where there is neither."""
        return default if math.isnan(self.value) else self.value


class _Curve(Structure):
    _fields_ = [("kind", c_int), ("linear", c_bool), ("low", c_double), ("high", c_double),
                ("end", c_double), ("warmup", c_int64), ("total", c_int64)]


class _Config(Structure):
    _fields_ = [("size", c_size_t), ("owner", c_void_p), ("batch", _Number),
                ("micro_batch", _Number), ("accumulation", _Number), ("optimizer", c_char_p),
                ("lr", _Number), ("beta1", _Number), ("beta2", _Number), ("eps", _Number),
                ("weight_decay", _Number), ("scheduler", c_int), ("warmup_linear", c_bool),
                ("warmup_low", _Number), ("warmup_high", _Number), ("warmup", _Number),
                ("total", _Number), ("cosine_end", _Number), ("dtype", c_char_p),
                ("dtype_origin", c_int), ("loss_scale", LossScale), ("clip", _Number),
                ("stage", _Number), ("optimizer_device", c_char_p), ("weights_device", c_char_p),
                ("disk", c_char_p * 2), ("disks", c_size_t), ("notes", c_char_p)]


class _Batches(Structure):
    _fields_ = [("batch", c_int64), ("micro_batch", c_int64), ("accumulation", c_int64)]


library.hil_deepspeed_parse.argtypes = [c_char_p, c_size_t, c_char_p, POINTER(_Config)]
library.hil_deepspeed_complete.argtypes = [POINTER(_Config), c_int64, POINTER(_Batches)]
for _function in (library.hil_deepspeed_parse, library.hil_deepspeed_complete):
    _function.restype, _function.errcheck = c_int, check_status
library.hil_deepspeed_free.argtypes, library.hil_deepspeed_free.restype = [POINTER(_Config)], None
library.hil_deepspeed_curve.argtypes = [POINTER(_Config), c_double, c_int64]
library.hil_deepspeed_curve.restype = _Curve
library.hil_curve_rate.argtypes = [POINTER(_Curve), c_int64, c_int64]
library.hil_curve_rate.restype = c_double


@dataclass
class Config:
    """What a ds_config says, completed as DeepSpeed does."""

    batch: int
    micro_batch: int
    accumulation: int
    optimizer: Optional[str]
    rates: Dict[str, Any]
    curve: Optional[_Curve]
    dtype: str
    clip: float
    stage: int = 0
    disks: List[str] = field(default_factory=list)
    notes: str = ""
    loss_scale: Optional[Dict[str, int]] = None  # of fp16
    open: List[str] = field(default_factory=list)  # keys such as "optimizer.params.lr" that say "auto"


def _fill(config: Mapping[str, Any], auto: Mapping[str, Any], path: str, left: List[str]) -> Dict[str, Any]:
    """The config with values for keys that say "auto"; adds those that still do to `left`."""
    filled: Dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            value = _fill(value, auto, f"{path}{key}.", left)
        elif value == "auto":
            value = auto.get(path + key, value)
            if value == "auto":
                left.append(path + key)
        filled[key] = value
    return filled


def read_config(config: Union[str, "os.PathLike[str]", Mapping[str, Any]], ranks: int = 1,
                auto: Optional[Mapping[str, Any]] = None) -> Config:
    """A ds_config as a dictionary or a file, with `auto` for what it leaves open. Refuses, by the key's
    name, what would change the numbers and is not supported."""
    left: List[str] = []
    if isinstance(config, Mapping):
        name, text = "config", json.dumps(_fill(config, auto or {}, "", left)).encode()
    else:
        name = os.fspath(config)
        with open(name, "rb") as file:
            text = file.read()
        with contextlib.suppress(ValueError):  # the library says what is wrong with it
            text = json.dumps(_fill(json.loads(text), auto or {}, "", left)).encode()
    c = _Config(size=ctypes.sizeof(_Config))
    library.hil_deepspeed_parse(text, len(text), name.encode(), ctypes.byref(c))
    try:
        batches = _Batches()
        library.hil_deepspeed_complete(ctypes.byref(c), ranks, ctypes.byref(batches))
        lr = c.lr.get(1e-3)
        curve = None
        if c.scheduler:
            curve = library.hil_deepspeed_curve(ctypes.byref(c), lr, int(c.warmup.get(0)))
        rates = {"lr": lr, "eps": c.eps.get(1e-8), "weight_decay": c.weight_decay.get(0.0),
                 "betas": (c.beta1.get(0.9), c.beta2.get(0.999))}
        return Config(batch=batches.batch, micro_batch=batches.micro_batch,
                      accumulation=batches.accumulation or 1,
                      optimizer=c.optimizer.decode() if c.optimizer else None, rates=rates,
                      curve=curve, dtype=c.dtype.decode(), clip=c.clip.get(0.0), stage=int(c.stage.get(0)),
                      disks=[c.disk[d].decode() for d in range(c.disks)],
                      notes=(c.notes or b"").decode(), open=left,
                      loss_scale={field[0]: int(getattr(c.loss_scale, field[0])) for field in LossScale._fields_})
    finally:
        library.hil_deepspeed_free(ctypes.byref(c))


class CurveScheduler:
    """A scheduler of a ds_config, with the methods of DeepSpeed's."""

    def __init__(self, optimizer: torch.optim.Optimizer, curve: _Curve) -> None:
        self.optimizer = optimizer
        self._curve = curve
        self.last_batch_iteration = -1
        self._set()

    def _set(self) -> None:
        lr = library.hil_curve_rate(ctypes.byref(self._curve), 0, self.last_batch_iteration + 2)
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def step(self, last_batch_iteration: Optional[int] = None) -> None:
        """Sets the rate of the next update."""
        self.last_batch_iteration = (self.last_batch_iteration + 1 if last_batch_iteration is None
                                     else last_batch_iteration)
        self._set()

    def get_lr(self) -> List[float]:
        """Of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    get_last_lr = get_lr

    def state_dict(self) -> Dict[str, int]:
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.last_batch_iteration = state["last_batch_iteration"]
        self._set()
