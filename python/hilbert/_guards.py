"""What PyTorch offers beside hilbert and would be wrong for an offloaded model: refused by one line."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, List, Optional

import torch
from torch import nn
from torch.nn.utils import clip_grad
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .errors import UsageError
from .optimizer import Optimizer

_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")


def check_model(model: Any) -> None:
    """Refuses, before anything is changed, what cannot be offloaded."""
    if not isinstance(model, nn.Module):
        raise UsageError(f"{type(model).__name__} is not an nn.Module")
    if "hilbert" in model.__dict__:
        raise UsageError(f"{type(model).__name__} was given to hilbert.offload already")
    for module in model.modules():
        kind = type(module).__name__
        if isinstance(module, torch.jit.ScriptModule):
            raise UsageError(f"{kind} is compiled by torch.jit, which cannot be offloaded: give the module it was made from")
        if kind in _WRAPPERS or isinstance(module, nn.parallel.DistributedDataParallel):
            raise UsageError(f"give hilbert.offload the module inside of {kind}: it divides the states over the ranks itself")
    for name, param in model.named_parameters():
        if isinstance(param, nn.parameter.UninitializedParameter):
            raise UsageError(f"{name} has no shape yet: run one batch through the model before")


def guard(owner_of: Callable[[List[nn.Parameter]], Optional[Any]]) -> None:
    """Installs what refuses; `owner_of` says whether one of these parameters is in a store."""

    def refuse_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not isinstance(optimizer, Optimizer) and owner_of(
                [param for group in optimizer.param_groups for param in group["params"]]) is not None:
            raise UsageError(f"{type(optimizer).__name__} has parameters of an offloaded model, which only model.step() "
                             "and model.optimizer.step() update")

    def refuse_clipping(name: str, instead: str) -> Callable[..., None]:
        def check(parameters: Any, *args: Any, **kwargs: Any) -> None:
            if owner_of(parameters) is not None:
                raise UsageError(f"{name} finds no gradients: those of an offloaded model are in hilbert's store; {instead}")
        return check

    def refuse_wrapper(name: str) -> Callable[..., None]:
        def check(module: Any, *args: Any, **kwargs: Any) -> None:
            if owner_of(list(module.parameters())) is not None:
                raise UsageError(f"an offloaded model needs no {name}: start ranks with torchrun, which hilbert.offload finds")
        return check

    register_optimizer_step_pre_hook(refuse_step)
    _check_before("clip_grad_norm_", refuse_clipping("clip_grad_norm_", "give clip=MAX_NORM to hilbert.offload"))
    _check_before("_clip_grads_with_norm_", refuse_clipping("clip_grads_with_norm_", "give clip=MAX_NORM to hilbert.offload"))
    _check_before("clip_grad_value_", refuse_clipping("clip_grad_value_", "clipping by value is not supported"))
    for kind in (nn.parallel.DistributedDataParallel, nn.DataParallel):
        _check_creation(kind, refuse_wrapper(kind.__name__))


def _check_before(name: str, check: Callable[..., None]) -> None:
    """Calls `check` before the function of this name in torch.nn.utils, also where a program has imported
    that before: PyTorch's is a wrapper, which refers to what it wraps."""
    outer = getattr(clip_grad, name, None)
    if outer is None:
        return

    def guarded_by(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(parameters: Iterable[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
            given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            check(given)
            return function(given, *args, **kwargs)
        return guarded

    for cell in outer.__closure__ or ():
        if callable(cell.cell_contents):
            cell.cell_contents = guarded_by(cell.cell_contents)
            return
    for module in (clip_grad, nn.utils):
        setattr(module, name, guarded_by(outer))


def _check_creation(kind: Any, check: Callable[..., None]) -> None:
    create = kind.__init__

    @functools.wraps(create)
    def guarded(self: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        check(module)
        create(self, module, *args, **kwargs)

    kind.__init__ = guarded
