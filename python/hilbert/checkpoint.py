"""hilbert.save and hilbert.load: the whole state of an offloaded model in a folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Dict, Union

import torch
from torch import nn

from . import _c
from ._offload import state_of
from .errors import InputError

_STATES = {"weight": _c.WEIGHT, "exp_avg": _c.MOMENT1, "exp_avg_sq": _c.MOMENT2}


def save(model: nn.Module, folder: Union[str, Path], extra: Any = None) -> None:
    """Writes masters, moments, counts, rates and buffers, and `extra`, which JSON can hold. Between
    steps. The folder is complete or not there."""
    state = state_of(model)
    state.idle()
    folder = Path(folder)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    raise NotImplementedError


def load(model: nn.Module, folder: Union[str, Path], optimizer: bool = True) -> Any:
    """Reads what `save` wrote into a model of the same shapes; returns `extra`. Between steps."""
    raise NotImplementedError
