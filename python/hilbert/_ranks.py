"""The ranks of torchrun, over torch.distributed: the comm of hilbert/comm.h on functions of ours.

[Note: channels] The library calls gather and exchange on threads of its own, one call at a time on
each channel; so every channel is a process group, over gloo because it moves host memory. Between
GPUs the library uses NCCL, which it connects through the first channel.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import time
from ctypes import CFUNCTYPE, Structure, c_int, c_size_t, c_void_p
from datetime import timedelta
from typing import Any, Callable, List, Optional, cast

import torch
import torch.distributed as dist

from . import _c
from .errors import Error, UsageError

_MOVE = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_void_p, c_size_t)
_CHANNELS = 4  # HIL_COMM_CHANNELS
_HINT = timedelta(seconds=60)  # of waiting for other ranks
_PATIENCE = 1.0  # seconds of waiting after which a rank asks whether another one failed


class _Functions(Structure):
    _fields_ = [("size", c_size_t), ("rank", c_int), ("ranks", c_int), ("local_rank", c_int),
                ("local_ranks", c_int), ("gather", _MOVE), ("exchange", _MOVE),
                ("context", c_void_p), ("nccl_id", c_void_p)]


def _bytes_at(address: int, size: int) -> torch.Tensor:
    return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)


def world_size() -> int:
    """Ranks that train together: those of torch.distributed if the program has initialised it, else
    those that torchrun (or DeepSpeed's launcher) started."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def local_size() -> int:
    """Ranks on this machine; all of them if the launcher does not say."""
    size = world_size()
    return min(size, int(os.environ.get("LOCAL_WORLD_SIZE", size)))


def initialise() -> None:
    """Initialises torch.distributed from the launcher's environment, unless the program did."""
    if world_size() == 1 or (dist.is_available() and dist.is_initialized()):
        return
    if not dist.is_available():
        raise UsageError("several ranks were started, but this PyTorch has no torch.distributed")
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise UsageError(f"{os.environ['WORLD_SIZE']} ranks were started, but {missing[0]} is not set: "
                         "start them with torchrun, or call torch.distributed.init_process_group")
    gpus = torch.cuda.is_available() and dist.is_nccl_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo")


class Ranks:
    """The ranks of one store. All of them create it together, and close it."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.control = cast("dist.ProcessGroup", dist.new_group(backend="gloo"))
        self._channels = [dist.new_group(backend="gloo") for _ in range(_CHANNELS)]
        hosts: List[Any] = [None] * self.size
        dist.all_gather_object(hosts, (socket.gethostname(), _boot()), group=self.control)
        here = [rank for rank in range(self.size) if hosts[rank] == hosts[self.rank]]
        self._failed_key = f"hilbert/failed/{self.control.group_name}"
        self._lost = False
        f = _Functions(size=ctypes.sizeof(_Functions), rank=self.rank, ranks=self.size,
                       local_rank=here.index(self.rank), local_ranks=len(here))
        f.gather, f.exchange = _MOVE(self._gather), _MOVE(self._exchange)
        self._functions = f  # the library calls them until `close`
        self.comm = c_void_p()
        _c.library.hil_comm_open_functions(ctypes.byref(self.comm), ctypes.byref(f))

    def close(self) -> None:
        """After the store was closed."""
        comm, self.comm = self.comm, c_void_p()
        _c.library.hil_comm_close(comm)

    def _gather(self, context: Any, channel: int, slice_: int, whole: int, size: int) -> int:
        return self._move(dist.all_gather_into_tensor, channel, slice_, size, whole,
                          size * self.size)

    def _exchange(self, context: Any, channel: int, out: int, into: int, size: int) -> int:
        return self._move(dist.all_to_all_single, channel, out, size * self.size, into,
                          size * self.size)

    def _move(self, call: Callable[..., Any], channel: int, source: int, source_size: int,
              into: int, into_size: int) -> int:
        """Runs on a thread of the library. Returns 0, or 1 if it failed."""
        if not source_size:
            return 0
        try:
            self._wait(call(_bytes_at(into, into_size), _bytes_at(source, source_size),
                            group=self._channels[channel], async_op=True))
            return 0
        except Exception:  # of any kind: the library must not see it
            self._lost = True
            return 1

    def _wait(self, work: Any) -> None:
        """Waits for a call on a channel, or until a rank has said that it failed."""
        began, pause = time.monotonic(), 2e-5
        while not work.is_completed():
            time.sleep(pause)
            pause = min(pause * 1.25, 1e-3)
            if time.monotonic() - began > _PATIENCE:
                began = time.monotonic()
                if self._store().check([self._failed_key]):
                    raise Error("another rank failed")
        work.wait()

    @staticmethod
    def _store() -> Any:
        return dist.distributed_c10d._get_default_store()

    @property
    def lost(self) -> bool:
        """Whether a call on a channel failed: then the failure is another rank's."""
        return self._lost

    def report_failure(self) -> None:
        """Ends the waits of other ranks on the channels: this one makes no further calls there."""
        self._store().set(self._failed_key, "1")

    # Calls of the thread that trains.

    def gather(self, numbers: torch.Tensor) -> torch.Tensor:
        """The same tensor of every rank, one row each."""
        out = torch.empty((self.size, numbers.numel()), dtype=numbers.dtype)
        work = cast("dist.Work", dist.all_gather_into_tensor(out.view(-1), numbers, group=self.control, async_op=True))
        try:
            work.wait(_HINT)
        except RuntimeError:
            if work.is_completed():
                raise
            print(f"hilbert: rank {self.rank} has waited for {_HINT.seconds} s until all ranks use the "
                  "model again; a rank that waits for this one elsewhere, as in a barrier, is a deadlock",
                  file=sys.stderr, flush=True)
            work.wait()
        return out

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Copies rank `source`'s tensor to all."""
        dist.broadcast(tensor, group_src=source, group=self.control)

    def broadcast_bytes(self, data: Optional[bytes], source: int) -> bytes:
        """Rank `source`'s bytes."""
        size = torch.tensor([len(data) if data is not None else 0])
        self.broadcast(size, source)
        buffer = torch.empty(int(size), dtype=torch.uint8)
        if self.rank == source and data:
            buffer.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        if int(size):
            self.broadcast(buffer, source)
        return bytes(buffer.numpy())


def _boot() -> str:
    """Tells machines with the same name apart."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
