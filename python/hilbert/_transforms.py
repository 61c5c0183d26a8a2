"""Forwards below the transforms of torch.func, such as vmap and grad."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Iterator

import torch


def differentiates() -> bool:
    """Whether a transform of torch.func runs that is not vmap: what autograd saves has no memory of its own there."""
    functorch = torch._C._functorch
    return functorch.peek_interpreter_stack() is not None and any(
        level.key() != functorch.TransformType.Vmap for level in functorch.get_interpreter_stack())


@contextlib.contextmanager
def _cleared() -> Iterator[None]:
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
    with temporarily_clear_interpreter_stack():
        yield


_NOTHING = contextlib.nullcontext()


def outside_of_transforms() -> ContextManager[Any]:
    """Inside, tensors are made as if no transform of torch.func ran: it would wrap them, and they outlive it."""
    return _NOTHING if torch._C._functorch.peek_interpreter_stack() is None else _cleared()
