"""What PyTorch offers beside hilbert and would be wrong for an offloaded model: refused by one line."""

from __future__ import annotations

import contextlib
import functools
from itertools import chain
from typing import Any, Callable, ContextManager, Iterable, List, Optional, Tuple

import torch
from torch import nn
from torch.nn.utils import clip_grad
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.optim.swa_utils import AveragedModel

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
    _check_memory(model)


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether its numbers are at its address: those of sparse tensors and of classes that wrap others, such as
    DTensor and quantized weights, are elsewhere."""
    return tensor.layout == torch.strided and type(tensor).__torch_dispatch__ == torch.Tensor.__torch_dispatch__


def _check_memory(model: nn.Module) -> None:
    """Refuses memory with several owners, of which one is trained: each would get numbers of its own."""
    spans: List[Tuple[str, int, int, str, bool]] = []
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        if tensor.is_meta or not has_memory(tensor) or not tensor.numel():
            continue
        extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        if extent == tensor.numel():  # else it is expanded, or has gaps
            first, size = tensor.data_ptr(), extent * tensor.element_size()
            spans.append((str(tensor.device), first, first + size, name, tensor.requires_grad))
    longest: List[Optional[Tuple[str, int, int, str, bool]]] = [None, None]  # of all so far, of those that are trained
    for span in sorted(spans):
        device, first, end, name, trained = span
        other = longest[0 if trained else 1]
        if other is not None and other[0] == device and first < other[2]:
            raise UsageError(f"{name} and {other[3]} share memory, but are not one parameter: tie them as one object "
                             "(b.weight = a.weight), or give one of them its own memory (clone)")
        for kind in (0, 1) if trained else (0,):
            before = longest[kind]
            if before is None or before[0] != device or end > before[2]:
                longest[kind] = span


def guard(owner_of: Callable[[List[nn.Parameter]], Optional[Any]],
          gathered: Callable[[nn.Module], ContextManager[None]]) -> None:
    """Installs what refuses; `owner_of` says whether one of these parameters is in a store. An average of a model
    gets the weights by `gathered`."""

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
    average = AveragedModel.update_parameters

    @functools.wraps(average)
    def update_parameters(self: AveragedModel, model: nn.Module) -> None:
        with gathered(model) if owner_of(list(model.parameters())) is not None else contextlib.nullcontext():
            average(self, model)

    setattr(AveragedModel, "update_parameters", update_parameters)


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
