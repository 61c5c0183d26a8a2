"""hilbert trains models larger than memory: the states of any PyTorch module in device memory, RAM
and on drives, under hard budgets. See docs/pytorch.md.

PyTorch is imported when something that needs it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

from .errors import BudgetError, Error, InputError, NumericError, UsageError

if TYPE_CHECKING:
    from ._c import version
    from ._init import init
    from .accelerator import Accelerator
    from .checkpoint import load, save
    from . import zero
    from .engine import Engine, add_config_arguments, init_distributed, initialize
    from ._offload import gathered, offload
    from ._plan import Plan, plan
    from ._program import program
    from .optimizer import Optimizer
    from .pretrained import from_pretrained, save_pretrained
    from .sft import SFTTrainer
    from .trainer import Trainer, TrainerMixin

_HOME = {"version": "_c", "program": "_program", "plan": "_plan", "offload": "_offload", "gathered": "_offload", "Optimizer": "optimizer",
         "init": "_init", "from_pretrained": "pretrained", "save_pretrained": "pretrained",
         "initialize": "engine", "Engine": "engine", "init_distributed": "engine", "add_config_arguments": "engine", "save": "checkpoint", "load": "checkpoint",
         "Trainer": "trainer", "TrainerMixin": "trainer", "SFTTrainer": "sft", "Accelerator": "accelerator"}

__all__ = ["BudgetError", "Error", "InputError", "NumericError", "UsageError", "zero", *_HOME]


def __getattr__(name: str) -> Any:
    if name == "zero":
        return importlib.import_module(".zero", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'hilbert' has no attribute '{name}'")
    try:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(f"hilbert.{name} needs PyTorch, which is not installed here: pip install torch",
                                  name="torch") from None
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(__all__)
