"""hilbert trains models larger than memory: the states of any PyTorch module in device memory, RAM
and on drives, under hard budgets. See docs/pytorch.md.

PyTorch is imported when something that needs it is used."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, List

from .errors import BudgetError, Error, InputError, NumericError, UsageError

_TORCH = ("torch",)
_TRAINER = ("torch", "accelerate", "transformers")
_HOMES = {  # modules: packages that they need, and names that are theirs
    "_c": ((), ("version",)),
    "_program": ((), ("program",)),
    "_plan": (_TORCH, ("plan", "Plan")),
    "_offload": (_TORCH, ("offload", "gathered")),
    "_init": (_TORCH, ("init",)),
    "optimizer": (_TORCH, ("Optimizer",)),
    "pretrained": (_TORCH, ("from_pretrained", "save_pretrained")),
    "checkpoint": (_TORCH, ("save", "load")),
    "engine": (_TORCH, ("initialize", "Engine", "init_distributed", "add_config_arguments")),
    "zero": (_TORCH, ("zero",)),
    "accelerator": (("torch", "accelerate"), ("Accelerator",)),
    "trainer": (_TRAINER, ("Trainer", "TrainerMixin")),
    "sft": ((*_TRAINER, "trl"), ("SFTTrainer",)),
}
_HOME = {name: home for home, (_, names) in _HOMES.items() for name in names}
_ERRORS = ["BudgetError", "Error", "InputError", "NumericError", "UsageError"]

__all__ = [*_ERRORS, *_HOME]

if TYPE_CHECKING:  # "as" says that the name is this module's too
    from . import zero as zero
    from ._c import version as version
    from ._init import init as init
    from ._offload import gathered as gathered, offload as offload
    from ._plan import Plan as Plan, plan as plan
    from ._program import program as program
    from .accelerator import Accelerator as Accelerator
    from .checkpoint import load as load, save as save
    from .engine import Engine as Engine, add_config_arguments as add_config_arguments
    from .engine import init_distributed as init_distributed, initialize as initialize
    from .errors import BudgetError as BudgetError, Error as Error, InputError as InputError
    from .errors import NumericError as NumericError, UsageError as UsageError
    from .optimizer import Optimizer as Optimizer
    from .pretrained import from_pretrained as from_pretrained, save_pretrained as save_pretrained
    from .sft import SFTTrainer as SFTTrainer
    from .trainer import Trainer as Trainer, TrainerMixin as TrainerMixin
else:
    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'hilbert' has no attribute '{name}'")
        home = _HOME[name]
        try:
            module = importlib.import_module(f".{home}", __name__)
        except ModuleNotFoundError as error:
            if error.name not in _HOMES[home][0]:
                raise
            package = "PyTorch" if error.name == "torch" else error.name
            raise ModuleNotFoundError(f"hilbert.{name} needs {package}, which is not installed here: "
                                      f"pip install {error.name}", name=error.name) from None
        value = module if name == home else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> List[str]:
    """What can be used with the packages that are installed, so that help(hilbert) works."""
    return sorted(_ERRORS + [name for name, home in _HOME.items() if all(map(find_spec, _HOMES[home][0]))])
