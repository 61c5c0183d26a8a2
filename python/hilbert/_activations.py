"""Tensors that autograd saves for backward, kept in RAM or on disk while they wait.

Of the saved tensors that are no parameters, as many bytes as allowed stay where they are. Beyond that the
oldest go to the store, which backward needs last: their storages are copied to host memory, or to
disk where that is full, and come back as a whole when backward reads one of them. Several tensors
with one storage move once. Where the store has no room, they stay with PyTorch.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Deque, Dict, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ._ranks import local_size, world_size
from ._store import Options, Store
from .errors import BudgetError
from .sizes import Size, parse_size

LEAST = 16 << 10  # bytes: smaller storages stay
_WINDOW_LEAST, _WINDOW_MOST = 64 << 10, 256 << 20  # bytes of the device for copies under way


def reserve(options: Options, params: Sequence[torch.Tensor]) -> None:
    """Sets aside memory of the budgets. RAM: an eighth where there are disks, else what the states
    of these parameters leave, up to a half. Ranks divide states and RAM."""
    stored = options.dtype.itemsize
    states = sum(p.numel() * (2 * stored + 14 if p.requires_grad else stored) for p in params)
    host = options.host_memory // local_size()
    spare = options.device_memory + host - states // world_size()
    options.keep_window = min(max(options.device_memory // 16, _WINDOW_LEAST), _WINDOW_MOST)
    options.keep_host = max(host // 8 if options.disks else min(spare, host // 2), _WINDOW_LEAST)


def allowance(options: Options, activations: Size) -> int:
    """Bytes of activations that may stay on the device, after the states were placed."""
    if activations != "auto":
        return parse_size("activations", activations) or 0
    if options.device.type != "cuda":
        return options.device_memory // 2
    unused = torch.cuda.memory_reserved(options.device) - torch.cuda.memory_allocated(options.device)
    return (torch.cuda.mem_get_info(options.device)[0] + unused) // 2


class _Waiting:
    """A storage that nodes of the graph refer to: a tensor has it, or it is kept."""

    __slots__ = ("owner", "tensor", "version", "size", "kept", "address", "storage", "__weakref__")

    def __init__(self, owner: "Activations", tensor: torch.Tensor) -> None:
        self.owner = owner
        self.tensor: Optional[torch.Tensor] = tensor
        self.version = tensor._version
        self.kept = 0  # what `Store.keep` returned
        storage = tensor.untyped_storage()
        self.size, self.address = storage.nbytes(), storage.data_ptr()
        self.storage = StorageWeakRef(storage)  # which others may use while it is kept

    def changed(self) -> bool:
        """Whether something was written to it after it was saved."""
        return self.tensor is not None and self.tensor._version != self.version

    def __del__(self) -> None:
        self.owner.forget(self)


class View(NamedTuple):
    """A saved tensor."""

    waiting: _Waiting
    dtype: torch.dtype
    size: Tuple[int, ...]
    stride: Tuple[int, ...]
    offset: int


class Activations:
    """Packs saved tensors; `most` bytes of them stay where they are."""

    def __init__(self, store: Store, most: int) -> None:
        self.store = store
        self.most = most
        self.here = 0  # bytes of storages that are not kept
        self.moved = 0  # bytes that were kept so far
        self._by_address: Dict[int, weakref.ref[_Waiting]] = {}
        self._queue: Deque[weakref.ref[_Waiting]] = deque()  # the oldest first

    def pack(self, tensor: torch.Tensor) -> Optional[View]:
        """None: it stays."""
        if (type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided or
                tensor.device != self.store.device or tensor.is_conj() or tensor.is_neg()):
            return None
        size = tensor.untyped_storage().nbytes()
        if size < LEAST or 2 * tensor.numel() * tensor.element_size() < size:
            return None
        view = View(self._find(tensor) or self._add(tensor), tensor.dtype, tensor.size(),
                    tensor.stride(), int(tensor.storage_offset()))
        self._make_room()
        return view

    def _find(self, tensor: torch.Tensor) -> Optional[_Waiting]:
        """The storage, if another tensor of it waits and it was not changed since."""
        known = self._by_address.get(tensor.untyped_storage().data_ptr())
        waiting = known() if known is not None else None
        if waiting is None or waiting.version != tensor._version or waiting.storage.expired():
            return None
        return waiting

    def _add(self, tensor: torch.Tensor) -> _Waiting:
        waiting = _Waiting(self, tensor.detach())
        reference = weakref.ref(waiting)
        self._by_address[waiting.address] = reference
        self._queue.append(reference)
        self.here += waiting.size
        return waiting

    def _make_room(self) -> None:
        while self.here > self.most and self._queue:
            waiting = self._queue.popleft()()
            if waiting is None or waiting.tensor is None or waiting.changed():
                continue
            storage = waiting.tensor.untyped_storage()
            try:
                waiting.kept = self.store.keep(storage.data_ptr(), waiting.size)
            except BudgetError:
                self._queue.clear()  # what waits now stays
                return
            waiting.tensor = None
            self.here -= waiting.size
            self.moved += waiting.size

    def unpack(self, view: View) -> torch.Tensor:
        """The tensor that was packed."""
        waiting = view.waiting
        if waiting.tensor is None:
            waiting.tensor = torch.empty(waiting.size, dtype=torch.uint8, device=self.store.device)
            waiting.version = waiting.tensor._version
            self._unlist(waiting)  # this is another storage
            self.here += waiting.size
            self.store.fetch(waiting.kept, waiting.tensor.data_ptr())
            kept, waiting.kept = waiting.kept, 0
            self.store.drop(kept)
        elif waiting.changed():
            raise RuntimeError("a tensor that backward needs was modified by an inplace operation: "
                               f"shape {list(view.size)}, version {waiting.tensor._version} "
                               f"instead of {waiting.version}")
        with torch.inference_mode(False):
            empty = torch.empty(0, dtype=view.dtype, device=self.store.device)
            return empty.set_(waiting.tensor.untyped_storage(), view.offset, view.size, view.stride)

    def forget(self, waiting: _Waiting) -> None:
        """When the last node that refers to it is gone. On any thread."""
        if waiting.kept:
            self.store.drop(waiting.kept)
        if waiting.tensor is not None:
            self.here -= waiting.size
        self._unlist(waiting)

    def _unlist(self, waiting: _Waiting) -> None:
        known = self._by_address.get(waiting.address)
        if known is not None and known() in (waiting, None):
            del self._by_address[waiting.address]
