"""What autograd saves for backward: parameters as references, the rest as it is or among the activations that are
kept. See [Note: uses] in _hooks.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Tuple

import torch
from torch import nn

from ._activations import View
from ._slots import ModelSlot

if TYPE_CHECKING:
    from ._hooks import Uses


class _Reference(NamedTuple):
    """A saved tensor that is a view of a parameter."""

    slot: ModelSlot
    dtype: torch.dtype
    size: Tuple[int, ...]
    stride: Tuple[int, ...]
    offset: int
    changes: int  # of the store's weights until then


class _Saved(NamedTuple):
    """A saved tensor that is none, and how often it had been changed in place."""

    tensor: torch.Tensor
    version: int


class _Outer(NamedTuple):
    """A saved tensor that the hooks below ours packed."""

    unpack: Any
    packed: Any


class SavedTensors:
    """Hooks for saved tensors. Below other hooks, such as those of torch.utils.checkpoint, these
    get what is no parameter."""

    def __init__(self, uses: "Uses", outer: Optional[Tuple[Any, Any]]) -> None:
        self.uses = uses
        self.outer = outer
        self.activations = uses.activations

    def pack(self, tensor: torch.Tensor) -> Any:
        store = self.uses.store
        slot = store.live.get(tensor.untyped_storage().data_ptr())
        if slot is not None:
            return _Reference(slot, tensor.dtype, tensor.size(), tensor.stride(),
                              int(tensor.storage_offset()), store.changes)
        if self.outer is None:
            view = self.activations.pack(tensor) if self.activations is not None else None
            return view or _Saved(tensor.detach(), tensor._version)
        if isinstance(tensor, nn.Parameter):  # its data will be others when they look at it
            tensor = tensor.detach()
        return _Outer(self.outer[1], self.outer[0](tensor))

    def unpack(self, packed: Any) -> torch.Tensor:
        if isinstance(packed, _Saved):
            if packed.tensor._version != packed.version:
                raise RuntimeError("a tensor that backward needs was modified by an inplace operation: "
                                   f"shape {list(packed.tensor.shape)}, version "
                                   f"{packed.tensor._version} instead of {packed.version}")
            return packed.tensor
        if isinstance(packed, View):
            return packed.waiting.owner.unpack(packed)
        if isinstance(packed, _Outer):
            tensor: torch.Tensor = packed.unpack(packed.packed)
            return tensor
        weights = self.uses.take_again(packed.slot, packed.changes)
        if packed.dtype != weights.dtype:
            weights = weights.view(packed.dtype)
        return weights.as_strided(packed.size, packed.stride, packed.offset)
