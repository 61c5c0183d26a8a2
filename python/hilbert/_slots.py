"""A parameter of an offloaded model: its object, and where its numbers are. See [Note: placeholders] in _hooks.py."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Optional

import torch
from torch import nn

from ._store import Slot


class ModelSlot(Slot):
    """A slot with its parameter object and the number of uses that run."""

    def __init__(self, param: nn.Parameter, **fields: Any) -> None:
        super().__init__(shape=param.shape, **fields)
        self.param = param
        self.users = 0
        self.holders = 0  # references to the parameter object that are ours or its modules'
        self.copy: Optional[torch.Tensor] = None  # while it is read outside of any forward
        self.original: Optional[torch.Tensor] = None  # numbers of which the copy was made
        self.exact = False  # whether those are the masters, in fp32
        self.frozen = not self.param.requires_grad  # at offload: it has no states
        self.version = 0  # of the parameter when its present use began, or since it is a placeholder

    def is_named(self) -> bool:
        """Whether a variable of the program may refer to the parameter."""
        return sys.getrefcount(self.param) > self.holders + 1

    def make_placeholder(self, device: torch.device) -> None:
        """Drops the data: see [Note: placeholders]."""
        nan = torch.full((), float("nan"), dtype=self.dtype, device=device)
        self.placeholder = nan.expand(self.shape)
        self._address = nan.data_ptr()
        bits = ctypes.c_uint16 if self.dtype.itemsize == 2 else ctypes.c_uint32
        self._bits = bits.from_address(self._address) if device.type == "cpu" else None
        self._nan = self._bits.value if self._bits is not None else 0
        self.put_back()

    def put_back(self) -> None:
        """Ends a use: the parameter has its placeholder again."""
        self.param.data = self.placeholder
        self.version = self.param._version

    def was_written(self) -> bool:
        """Of one that was given other data: whether the placeholder itself was written to, and nobody knows where."""
        return self.param.data_ptr() == self._address and self.elements > 1

    def was_given(self) -> bool:
        """Whether the program gave the parameter other data while it was not in use, or wrote to it."""
        if self.users or self.copy is not None:
            return False
        return (self.param._version != self.version or self.param.data_ptr() != self._address or
                (self._bits is not None and self._bits.value != self._nan))
