"""The parameter store of hilbert/store.h with PyTorch tensors in place of addresses.

[Note: leases] `Store.lease` acquires a parameter's weights and wraps them, without a copy, in a
tensor. They are released when nothing refers to the tensor's storage any more: no view, no graph,
no output of a module. So an address is never used after its release, whoever keeps a view of it;
a lease keeps the store, which may outlive its model.
The storage may die on any thread and inside the garbage collector; its lease then only notes
itself in `Store._dead`, and the next call of the store releases it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import warnings
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

import torch

from . import _c
from .errors import UsageError

PIECE = 1 << 24  # elements of a parameter that are converted to fp32 at once
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def parse_dtype(dtype: Union[None, str, torch.dtype]) -> Optional[torch.dtype]:
    """Of one of these names, or itself."""
    if dtype is None or dtype in NAMES:
        return dtype
    if dtype not in DTYPES:
        raise UsageError(f'dtype {dtype}: give "fp32", "bf16" or "fp16"')
    return DTYPES[dtype]


@dataclass
class Options:
    """What `hilbert.offload` was given, with sizes as bytes."""

    dtype: torch.dtype
    device: torch.device
    optimizer: str = "adamw"
    clip: float = 0.0
    device_memory: int = 0
    host_memory: int = 0
    disks: Sequence[Tuple[str, int]] = ()
    window: int = 0
    threads: int = 0
    saves: bool = True
    grows: bool = False  # whether `Store.grow` may be called
    steady: bool = True
    keep_window: int = 0  # for activations; 0: none are kept
    keep_host: int = 0
    loss_scale: Optional[Mapping[str, int]] = None
    casts: bool = True  # whether all parameters get this dtype


@dataclass(eq=False)
class Slot:
    """A parameter of the model and its place in the store."""

    name: str
    shape: torch.Size
    dtype: torch.dtype  # in which the model computes
    group: int  # the store's: parameters that are used together
    trainable: bool
    rates: int  # the optimizer's group
    handle: Optional[int] = None
    number: int = 0  # in the order in which they were added
    stored: torch.dtype = torch.float32  # in which the store hands it out
    leases: int = 0
    address: int = 0  # while there are leases
    gradients: int = 0  # in this step
    gradients_before: int = 0  # in the last one

    @property
    def elements(self) -> int:
        return self.shape.numel()


def pieces(values: torch.Tensor) -> Iterator[Tuple[int, torch.Tensor]]:
    """Positions and numbers of a tensor in fp32, in host memory, a piece at a time: each is valid
    until the next."""
    for _, first, piece in pieces_of([(None, values)], values.numel()):
        yield first, piece


def pieces_of(tensors: Iterable[Tuple[Any, torch.Tensor]],
              most: int) -> Iterator[Tuple[Any, int, torch.Tensor]]:
    """Pieces of several tensors of at most `most` elements, with the tensors' keys. A GPU copies the
    next one meanwhile, to pinned memory: ten times as fast as to other memory."""
    buffers: List[torch.Tensor] = []
    pageable: Optional[torch.Tensor] = None
    ahead: Deque[Tuple[Any, int, torch.Tensor, torch.cuda.Event]] = deque()

    def oldest() -> Tuple[Any, int, torch.Tensor]:
        key, first, piece, copied = ahead.popleft()
        copied.synchronize()
        return key, first, piece

    for key, values in tensors:
        values = values.detach().reshape(-1)
        for first in range(0, values.numel(), PIECE):
            piece = values[first:first + PIECE]
            if piece.device.type != "cuda" and piece.dtype == torch.float32:
                yield key, first, piece.contiguous()
                continue
            if piece.device.type != "cuda":  # into the same memory: fresh pages take longer than the numbers
                if pageable is None:
                    pageable = torch.empty(min(PIECE, most), dtype=torch.float32)
                yield key, first, pageable[:piece.numel()].copy_(piece)
                continue
            if len(buffers) < 2:
                buffers.append(torch.empty(min(PIECE, most), dtype=torch.float32, pin_memory=True))
            else:
                buffers.reverse()
            buffer = buffers[-1][:piece.numel()].copy_(piece.float(), non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(torch.cuda.current_stream(piece.device))
            ahead.append((key, first, buffer, copied))
            if len(ahead) == 2:
                yield oldest()
    while ahead:
        yield oldest()


def _probe_cache() -> Optional[bytes]:
    """The file in which the program keeps measured speeds."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if not cache.startswith("/"):
        cache = os.path.join(home, ".cache") if home.startswith("/") else ""
    return os.path.join(cache, "hilbert", "probe.json").encode() if cache else None


class _Memory:
    """Device memory of a lease, as torch.as_tensor takes it without a copy."""

    dead: Deque[Slot]
    slot: Slot
    store: "Store"

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "version": 2,
                                         "data": (address, False)}

    def __del__(self) -> None:
        self.dead.append(self.slot)


def _note_death(memory: Any) -> None:
    memory.dead.append(memory.slot)


def _host_memory(size: int) -> Type[Any]:
    """The type of a lease of `size` bytes of host memory, as torch.frombuffer takes it."""
    return type("Memory", (ctypes.c_char * size,), {"__del__": _note_death})


class Store:
    """Owns the C store. Its methods may be called from any thread; they take turns. On a GPU,
    everything is ordered on the stream that was current when the store was made."""

    def __init__(self, options: Options, comm: Optional[ctypes.c_void_p] = None) -> None:
        self.options = options
        self.device = options.device
        self.changes = 0  # grows whenever weights change
        self.live: Dict[int, Any] = {}  # by address: what is acquired
        self.slots: List[Slot] = []
        self._dead: Deque[Slot] = deque()
        self._dropped: Deque[int] = deque()
        self._types: Dict[int, Type[Any]] = {}
        self._summed = False  # whether this pass has a gradient
        self._missing: Dict[int, int] = {}  # parameters of each group that still get gradients
        self._lock: Any = threading.RLock()
        self._handle, self._address = ctypes.c_void_p(), ctypes.c_void_p()
        self._address_at = ctypes.byref(self._address)  # of what was acquired last
        c = _c.StoreOptions()
        _c.library.hil_param_store_defaults_sized(ctypes.byref(c), ctypes.sizeof(c))
        disks = (_c.DiskBudget * max(1, len(options.disks)))(
            *(_c.DiskBudget(path.encode(), size) for path, size in options.disks))
        c.memory.device, c.memory.host = options.device_memory, options.host_memory
        c.memory.disks, c.memory.disk_count = disks, len(options.disks)
        c.window = options.window
        c.dtype, c.optimizer = NAMES[options.dtype].encode(), options.optimizer.encode()
        c.clip = options.clip
        c.tile_size = 2**64 - 1  # a parameter is one tile
        c.threads, c.saves, c.grows = options.threads, options.saves, options.grows
        for name, value in (options.loss_scale or {}).items():
            if not hasattr(c.loss_scale, name):
                raise UsageError(f"loss_scale has no field {name}")
            setattr(c.loss_scale, name, value)
        c.keep_window, c.keep_host = options.keep_window, options.keep_host
        if comm is not None:
            c.comm, c.average = comm, True
        c.device.name = str(self.device).encode()
        if self.device.type == "cuda" or len(options.disks) > 1:  # else speeds decide nothing
            c.probe_cache = _probe_cache()
        if self.device.type == "cuda":
            c.stream = torch.cuda.current_stream(self.device).cuda_stream
        _c.library.hil_param_store_create(ctypes.byref(self._handle), ctypes.byref(c))
        _open.add(self)

    def close(self) -> None:
        """Frees the store. Nothing of it may be used afterwards."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        _c.library.hil_param_store_destroy(handle)

    def __del__(self) -> None:
        if hasattr(self, "_handle") and not sys.is_finalizing() and not isinstance(self._lock, Forked):
            self.close()  # else the process frees it

    def add(self, slot: Slot) -> None:
        """Registers a parameter; before `place`."""
        shape = tuple(slot.shape) if slot.dtype == self.options.dtype else (slot.elements,)
        ndim = len(shape)  # vectors are kept in fp32, and so are parameters of another dtype, as vectors
        slot.stored = torch.float32 if ndim < 2 else self.options.dtype
        form = _c.StoreForm(group=slot.group, frozen=not slot.trainable, rates=slot.rates,
                            shape=(ctypes.c_int64 * max(1, ndim))(*shape), ndim=ndim)
        handle = ctypes.c_void_p()
        _c.library.hil_param_store_add(self._handle, slot.name.encode(), ctypes.byref(form),
                                       ctypes.byref(handle))
        slot.handle, slot.number = handle.value, len(self.slots)
        self.slots.append(slot)

    def place(self) -> None:
        """Ends the registration; raises BudgetError if it does not fit."""
        _c.library.hil_param_store_place(self._handle)

    def grow(self, size: int) -> int:
        """Gives the store up to so many bytes of the device more; returns what it took. Once, between
        passes, on one rank."""
        taken = ctypes.c_uint64()
        with self._lock:
            self._settle()
            _c.library.hil_param_store_grow(self._handle, size, ctypes.byref(taken))
        return taken.value

    def estimate(self) -> _c.StoreEstimate:
        """Instead of `place`: what that would do."""
        estimate = _c.StoreEstimate()
        _c.library.hil_param_store_estimate_place(self._handle, ctypes.byref(estimate))
        return estimate

    def placed(self) -> Dict[str, int]:
        """Bytes of states in each tier."""
        at = _c.library.hil_param_store_placed(self._handle)
        return {"device": at.device, "host": at.host, "disk": at.disk}

    def _settle(self) -> None:
        """Releases what nothing refers to any more. The lock is held."""
        self._drop()
        while self._dead:
            slot = self._dead.popleft()
            self._release(slot)
            slot.leases -= 1
            if not slot.leases:
                del self.live[slot.address]

    def _acquire(self, slot: Slot) -> None:
        _c.library.hil_param_store_acquire(self._handle, slot.handle, 0, self._address_at)
        slot.address = self._address.value or 0

    def _release(self, slot: Slot) -> None:
        _c.library.hil_param_store_release(self._handle, slot.handle, 0)

    rank = 0  # of those that share the store
    shared = False  # whether there are several

    def meet(self) -> None:
        """Waits until no other rank reads or writes. Does nothing, unless there are several."""

    def prepare(self, slots: Sequence[Slot]) -> None:
        """Says that these will be leased next. Does nothing, unless there are several ranks."""

    def lease(self, slot: Slot) -> torch.Tensor:
        """The weights in `slot.stored`: see [Note: leases]. In a pass only."""
        with self._lock:
            if self._dead or self._dropped:
                self._settle()
            self._acquire(slot)
            slot.leases += 1
            self.live[slot.address] = slot
        if not torch.is_inference_mode_enabled():
            return self._wrap(slot)
        with torch.inference_mode(False):
            return self._wrap(slot)

    def _wrap(self, slot: Slot) -> torch.Tensor:
        """The tensor at a slot's address, whose death ends the lease."""
        memory: Any
        if self.device.type == "cpu":
            memory = self._type(slot.elements * slot.stored.itemsize).from_address(slot.address)
            memory.dead, memory.slot, memory.store = self._dead, slot, self
            tensor = torch.frombuffer(memory, dtype=slot.stored)
            return tensor if len(slot.shape) == 1 else tensor.view(slot.shape)
        memory = _Memory(slot.address, slot.elements * slot.stored.itemsize)
        memory.dead, memory.slot, memory.store = self._dead, slot, self
        return torch.as_tensor(memory, device=self.device).view(slot.stored).view(slot.shape)

    def _type(self, size: int) -> Type[Any]:
        if size not in self._types:
            self._types[size] = _host_memory(size)
        return self._types[size]

    def begin(self, kind: int) -> None:
        """Begins a pass: _c.TRAIN or _c.EVAL."""
        with self._lock:
            self._begin(kind)

    def _begin(self, kind: int) -> None:
        _c.library.hil_param_store_begin(self._handle, kind)
        self._summed = False

    def end(self) -> None:
        """Ends a pass. Every lease must be dead."""
        with self._lock:
            self._settle()
            self._refuse_leases()
            self._end()

    def _end(self) -> None:
        if self._summed:
            self._expect()
        self._summed = False
        _c.library.hil_param_store_end(self._handle)

    def referred(self) -> bool:
        """Whether something still refers to weights of the store."""
        with self._lock:
            self._settle()
        return bool(self.live)

    def _refuse_leases(self) -> None:
        if self.live:
            names = ", ".join(sorted(slot.name for slot in self.live.values()))
            raise UsageError(f"{names}: something still refers to these weights at the end of the "
                             "step; clone what is kept of them")

    def add_gradient(self, slot: Slot, gradient: torch.Tensor, last: bool = True) -> None:
        """Adds to the parameter's sum of this step; `last`: of a backward pass that no other one of
        this step follows."""
        if gradient.dtype not in NAMES:
            gradient = gradient.to(torch.float32)
        gradient = gradient.contiguous()
        with self._lock:
            self._settle()
            self._add(slot, gradient, last)

    def _add(self, slot: Slot, gradient: torch.Tensor, last: bool) -> None:
        _c.library.hil_param_store_add_gradient(self._handle, slot.handle, 0, gradient.data_ptr(),
                                                NAMES[gradient.dtype].encode())
        self._summed = True
        if self.options.steady and last:
            self._count(slot)

    def _count(self, slot: Slot) -> None:
        """Gives the gradients of a group when every parameter in it has got as many as in the last
        step. See hil_param_store_give_gradients for what comes later all the same."""
        slot.gradients += 1
        if slot.gradients != slot.gradients_before:
            return
        self._missing[slot.group] -= 1
        if not self._missing[slot.group]:
            _c.library.hil_param_store_give_gradients(self._handle, slot.group)

    def _expect(self) -> None:
        """At the end of a step: the next one should be like it."""
        self._missing.clear()
        for slot in self.slots:
            slot.gradients_before, slot.gradients = slot.gradients, 0
            if slot.gradients_before:
                self._missing[slot.group] = self._missing.get(slot.group, 0) + 1

    def set_rates(self, number: int, group: Mapping[str, Any]) -> None:
        """Rates of the parameters whose slots have this number, from a group of an optimizer."""
        rates = _c.StoreRates(float(group["lr"]), group["weight_decay"], *group["betas"], group["eps"])
        with self._lock:
            _c.library.hil_param_store_set_rates(self._handle, number, ctypes.byref(rates))

    def updates(self, slot: Slot) -> int:
        """How often the parameter was updated."""
        return int(_c.library.hil_param_store_updates(slot.handle))

    def set_updates(self, slot: Slot, updates: int) -> None:
        """Restores what `updates` said. Between passes."""
        with self._lock:
            _c.library.hil_param_store_set_updates(slot.handle, updates)

    def step(self) -> float:
        """Starts the update of every parameter that has a gradient; returns the norm of all."""
        with self._lock:
            self._settle()
            self._refuse_leases()
            return self._step()

    def _step(self) -> float:
        norm = ctypes.c_double()
        self.changes += 1
        _c.library.hil_param_store_step(self._handle, 1.0, ctypes.byref(norm))
        return norm.value

    def wait(self) -> None:
        """Waits for the update."""
        with self._lock:
            _c.library.hil_param_store_wait(self._handle)

    def has(self, slot: Slot, state: int) -> bool:
        """Whether the parameter has this moment: it depends on the optimizer."""
        return bool(_c.library.hil_param_store_has(self._handle, slot.handle, state))

    def read(self, slot: Slot, state: int = _c.WEIGHT) -> torch.Tensor:
        """A copy of the weights or a moment in fp32, in host memory. Between passes."""
        with self._lock:
            self._settle()
            return self._read(slot, state)

    def _read(self, slot: Slot, state: int) -> torch.Tensor:
        out = torch.empty(slot.shape, dtype=torch.float32)
        _c.library.hil_param_store_read(self._handle, slot.handle, state, 0, slot.elements,
                                        out.data_ptr())
        return out

    def write(self, slot: Slot, values: torch.Tensor, state: int = _c.WEIGHT) -> None:
        """Replaces the weights or a moment, a piece at a time. Between passes."""
        with self._lock:
            self._settle()
            for first, piece in pieces(values):
                self._write(slot, state, first, piece)

    def write_all(self, values: Iterable[Tuple[Slot, torch.Tensor]]) -> None:
        """Replaces the weights of several parameters. Between passes."""
        with self._lock:
            self._settle()
            for slot, first, piece in pieces_of(values, max((s.elements for s in self.slots), default=0)):
                self._write(slot, _c.WEIGHT, first, piece)

    def _write(self, slot: Slot, state: int, first: int, piece: torch.Tensor) -> None:
        self.changes += 1
        _c.library.hil_param_store_write(self._handle, slot.handle, state, first, piece.numel(),
                                         piece.data_ptr())

    def keep(self, address: int, size: int) -> int:
        """Copies bytes of the device to host memory or disk; returns what `fetch` takes."""
        kept = ctypes.c_void_p()
        with self._lock:
            self._drop()
            _c.library.hil_param_store_keep(self._handle, address, size, ctypes.byref(kept))
        return kept.value or 0

    def fetch(self, kept: int, address: int) -> None:
        """Copies them to the device."""
        with self._lock:
            _c.library.hil_param_store_fetch(self._handle, kept, address)

    def drop(self, kept: int) -> None:
        """Ends keeping them, at the next call. On any thread, also in the garbage collector."""
        self._dropped.append(kept)

    def _drop(self) -> None:
        while self._dropped:
            _c.library.hil_param_store_drop(self._handle, self._dropped.popleft())

    def save(self, folder: str, extra: str, keep: int) -> None:
        """Begins to write a checkpoint; waits for an earlier one. Between passes."""
        with self._lock:
            self._settle()
            _c.library.hil_param_store_save(self._handle, folder.encode(), extra.encode(), keep)

    def saved(self) -> None:
        """Waits for the checkpoint."""
        with self._lock:
            _c.library.hil_param_store_saved(self._handle)

    def load(self, folder: str) -> Optional[str]:
        """Reads the newest whole checkpoint; returns the text that was saved with it."""
        loaded = _c.StoreLoaded()
        with self._lock:
            self._settle()
            self.changes += 1
            _c.library.hil_param_store_load(self._handle, folder.encode(), ctypes.byref(loaded))
        if loaded.warning:
            warnings.warn(loaded.warning.decode(), stacklevel=3)
        return loaded.extra.decode() if loaded.extra is not None else None

    @property
    def progress(self) -> _c.StoreProgress:
        """Number of updates and loss scale."""
        return self._get_progress()

    @progress.setter
    def progress(self, progress: _c.StoreProgress) -> None:
        self._set_progress(progress)

    def _get_progress(self) -> _c.StoreProgress:
        progress: _c.StoreProgress = _c.library.hil_param_store_get_progress(self._handle)
        return progress

    def _set_progress(self, progress: _c.StoreProgress) -> None:
        _c.library.hil_param_store_set_progress(self._handle, ctypes.byref(progress))

    def account(self) -> _c.StepAccount:
        """Peaks of each tier; transfers and stalls since the last call."""
        account = _c.StepAccount()
        with self._lock:
            _c.library.hil_param_store_account(self._handle, ctypes.byref(account))
        return account


_open: "weakref.WeakSet[Store]" = weakref.WeakSet()


class Forked:
    """Instead of the lock of a store, in a process that was forked: the library's threads are not there."""

    def __enter__(self) -> None:
        raise UsageError("an offloaded model cannot be used in a forked process, such as a worker of a DataLoader")

    def __exit__(self, *error: Any) -> None:
        """Never called."""


def _leave_to_parent() -> None:
    """In a process that was forked: the stores are the parent's."""
    for store in list(_open):
        store._lock = Forked()
    _open.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@atexit.register
def _finish() -> None:
    """At the end of the program: checkpoints in the background are written to their end."""
    for store in list(_open):
        if store._handle:
            store.saved()
