"""state_dict, load_state_dict and to() of an offloaded model."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, cast

import torch
from torch import nn

from ._hooks import Parameters, Uses
from ._slots import ModelSlot
from .errors import UsageError


def attach_state(model: nn.Module, uses: Uses, slots: Dict[int, ModelSlot]) -> None:
    """state_dict gets values in host memory instead of placeholders; a parameter under two names
    is one tensor. load_state_dict writes to the store, one module at a time."""
    made: "weakref.WeakValueDictionary[str, torch.Tensor]" = weakref.WeakValueDictionary()
    made_at = [0]
    loading: "weakref.WeakKeyDictionary[nn.Module, Dict[str, ModelSlot]]" = weakref.WeakKeyDictionary()

    def value(slot: ModelSlot) -> torch.Tensor:
        if made_at[0] != uses.store.changes:
            made.clear()
            made_at[0] = uses.store.changes
        tensor = made.get(slot.name)
        if tensor is None:
            tensor = made[slot.name] = uses.value(slot)
        return tensor

    def save(module: nn.Module, state: Dict[str, Any], prefix: str, metadata: Any) -> None:
        for name, slot in _slots_of(module).items():
            entry = state.get(prefix + name)
            if entry is not None and entry is not slot.param:  # it is with keep_vars
                state[prefix + name] = value(slot)

    def load(module: nn.Module, state: Dict[str, Any], prefix: str, *rest: Any) -> None:
        uses.idle()
        loading[module] = dict(_slots_of(module))
        for name, slot in loading[module].items():
            if prefix + name in state:
                uses.copy(slot)

    def loaded(module: nn.Module, incompatible: Any) -> None:
        for name, slot in loading.pop(module, {}).items():
            now = dict.__getitem__(module._parameters, name)
            if now is not slot.param:  # load_state_dict(assign=True)
                module._parameters[name] = slot.param
                uses.assign(slot, cast(torch.Tensor, now))
            elif slot.copy is not None:
                uses.drop_copies([slot])

    for module in _owners(model):
        module._register_state_dict_hook(save)
        module.register_load_state_dict_pre_hook(load)
        module.register_load_state_dict_post_hook(loaded)


def guard_apply(model: nn.Module) -> None:
    """to(), cuda() and such move buffers only; a change of the parameters' dtype is refused."""
    for module in _owners(model):
        setattr(module, "_apply", _apply_of(module))


def _slots_of(module: nn.Module) -> Dict[str, ModelSlot]:
    return cast(Parameters, module._parameters).slots


def _owners(model: nn.Module) -> List[nn.Module]:
    return [module for module in model.modules() if hasattr(module._parameters, "slots")]


def _apply_of(module: nn.Module) -> Callable[..., nn.Module]:
    reference = cast(Callable[[], nn.Module], weakref.ref(module))  # of the one that is called

    def apply(function: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> nn.Module:
        own = reference()
        parameters, slots = own._parameters, _slots_of(own)
        for slot in slots.values():
            if function(torch.empty(0, dtype=slot.dtype)).dtype != slot.dtype:
                raise UsageError("the dtype of an offloaded model is fixed: give dtype to "
                                 "hilbert.offload")
        for child in own.children() if recurse else ():
            child._apply(function)
        for name, buffer in own._buffers.items():
            if buffer is not None:
                own._buffers[name] = function(buffer)
        for name, param in parameters.items():
            if param is not None and name not in slots:
                param.data = function(param.data)
        return own

    return apply
