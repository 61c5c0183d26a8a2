"""hilbert.init: modules whose parameters leave memory as soon as they are made.

Inside `with hilbert.init(...)`, parameters that modules register stay in RAM up to a limit; beyond
it the oldest ones wait in a file without a name. A parameter that is read again, for instance by
another initialisation, comes back. `hilbert.offload` takes all of them into the store. The random
numbers are those of a model that is made in memory.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import weakref
from collections import OrderedDict
from typing import Any, Dict, Iterable, Iterator, List, Optional, Union

import torch
from torch import nn

from .errors import BudgetError, UsageError
from .sizes import Disk, Size, available_memory, list_disks, parse_disk, parse_size

_ATTRIBUTE = "_hilbert_waiting"


class _Waiting:
    """A parameter that may be in the file."""

    __slots__ = ("file", "param", "owners", "offset", "size", "shape", "dtype", "away")

    def __init__(self, file: "_File", param: nn.Parameter) -> None:
        self.file = file
        self.param = weakref.ref(param)
        self.owners = 0  # modules that refer to it
        self.offset: Optional[int] = None
        self.size = param.numel() * param.element_size()
        self.shape, self.dtype = param.shape, param.dtype
        self.away = False

    def __reduce__(self) -> Any:
        raise UsageError("a model of hilbert.init cannot be pickled: pickle a copy of it, or offload it and save its state_dict")


class _File:
    """Parameters in RAM and in a file, the least recently read ones in the file."""

    def __init__(self, folder: str, room: int, most: int) -> None:
        self._folder, self._room = folder, room
        self._file = tempfile.TemporaryFile(dir=folder)
        self._end = 0
        self._most = most
        self._here: "OrderedDict[int, _Waiting]" = OrderedDict()
        self._bytes = 0

    def keep(self, param: nn.Parameter) -> _Waiting:
        """Begins to keep a parameter; it is in RAM."""
        waiting = _Waiting(self, param)
        setattr(param, _ATTRIBUTE, waiting)
        self._add(waiting)
        return waiting

    def _add(self, waiting: _Waiting) -> None:
        self._here[id(waiting)] = waiting
        self._bytes += waiting.size
        for key, old in list(self._here.items()) if self._bytes > self._most else ():
            if self._bytes <= self._most:
                break
            self._send(key, old)

    def _send(self, key: int, waiting: _Waiting) -> None:
        """Writes a parameter to the file, unless a variable of the program may refer to it."""
        param = waiting.param()
        if param is not None and sys.getrefcount(param) > waiting.owners + 2:
            return
        if param is not None and param.device.type != "cpu":
            return
        held = waiting.size
        if param is not None and (param.dtype, param.shape) != (waiting.dtype, waiting.shape):  # the program changed them
            waiting.dtype, waiting.shape = param.dtype, param.shape
            waiting.size, waiting.offset = param.numel() * param.element_size(), None
        if param is not None and waiting.offset is None and self._end + waiting.size > self._room:
            raise BudgetError(f"the parameters need more than the {self._room} bytes that hilbert.init may "
                              f"use of disk {self._folder}: give it more, or more host_memory")
        del self._here[key]
        self._bytes -= held
        if param is None:
            return
        if waiting.offset is None:
            waiting.offset, self._end = self._end, self._end + waiting.size
        data = param.data.contiguous().view(-1).view(torch.uint8).numpy().data
        written = 0
        while written < waiting.size:
            written += os.pwrite(self._file.fileno(), data[written:written + (1 << 30)],
                                 waiting.offset + written)
        waiting.away = True
        param.data = torch.full((), float("nan"), dtype=waiting.dtype).expand(waiting.shape)

    def bring(self, waiting: _Waiting) -> None:
        """Reads a parameter from the file, unless the program gave it other data meanwhile."""
        param = waiting.param()
        if param is None:
            return
        if waiting.away:
            param.data = self.values(waiting, param)
            waiting.away = False
            self._add(waiting)
        elif id(waiting) in self._here:
            self._here.move_to_end(id(waiting))

    def values(self, waiting: _Waiting, param: nn.Parameter) -> torch.Tensor:
        """The numbers of a parameter that is away, where and in the dtype that Module.to gave it."""
        if _was_given(param):
            return param.data.contiguous()
        return self._read(waiting).to(param.device, param.dtype)

    def _read(self, waiting: _Waiting) -> torch.Tensor:
        data = bytearray(waiting.size)
        view, done, offset = memoryview(data), 0, waiting.offset or 0
        while done < waiting.size:
            got = os.preadv(self._file.fileno(), [view[done:done + (1 << 30)]],
                            offset + done)
            if not got:
                raise OSError("the file of parameters that wait is too short")
            done += got
        return torch.frombuffer(data, dtype=waiting.dtype).view(waiting.shape)

    def forget(self, waiting: _Waiting) -> None:
        """Ends keeping a parameter."""
        if self._here.pop(id(waiting), None) is not None:
            self._bytes -= waiting.size


def _was_given(param: nn.Parameter) -> bool:
    """Whether the program gave a parameter that is away other data than NaN. Refuses that it wrote to a
    placeholder: nobody knows where."""
    data = param.data
    if data.numel() == 1 or data.untyped_storage().nbytes() != data.element_size():
        return not bool(data.isnan().all())
    if not bool(data.as_strided((1,), (1,)).isnan()):
        raise UsageError(f"a parameter of shape {list(param.shape)} was written to while it was in the file of "
                         "hilbert.init: do that inside of hilbert.zero.GatheredParameters")
    return False


class _Parameters(Dict[str, Optional[nn.Parameter]]):
    """A module's `_parameters`: one that is in the file comes back when it is read."""

    def __getitem__(self, name: str) -> Optional[nn.Parameter]:
        param = dict.__getitem__(self, name)
        waiting = getattr(param, _ATTRIBUTE, None)
        if waiting is not None:
            waiting.file.bring(waiting)
        return param

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies have the numbers, in RAM."""
        return dict, ({name: self[name] for name in self},)


def take(param: nn.Parameter) -> torch.Tensor:
    """The numbers of a parameter, wherever they are; it does not wait any longer."""
    waiting = getattr(param, _ATTRIBUTE, None)
    if waiting is None:
        return param.data
    delattr(param, _ATTRIBUTE)
    waiting.file.forget(waiting)
    return waiting.file.values(waiting, param) if waiting.away else param.data


@contextlib.contextmanager
def present(params: List[nn.Parameter]) -> Iterator[None]:
    """Inside, these parameters are in RAM, and what is changed in place stays changed."""
    for param in params:
        waiting = getattr(param, _ATTRIBUTE, None)
        if waiting is not None:
            waiting.file.bring(waiting)
    yield


@contextlib.contextmanager
def init(host_memory: Size = None, disk: Union[None, Disk, Iterable[Disk]] = ()) -> Iterator[None]:
    """Inside, parameters of new modules take at most `host_memory` of RAM (an eighth of what is
    free), and wait in the first `disk` (the system's folder for temporary files) beyond it. Where that
    disk's size is too little, BudgetError is raised."""
    free = available_memory()
    most = parse_size("host_memory", host_memory, free)
    folder, room = parse_disk((list_disks(disk) or [tempfile.gettempdir()])[0])
    file = _File(folder, room, free // 8 if most is None else most)
    register = nn.Module.register_parameter

    def register_parameter(module: nn.Module, name: str, param: Optional[nn.Parameter]) -> None:
        register(module, name, param)
        if param is None or param.device.type != "cpu" or not param.is_floating_point():
            return
        if not param.numel():
            return
        if not isinstance(module._parameters, _Parameters):
            module._parameters = _Parameters(module._parameters)
        waiting = getattr(param, _ATTRIBUTE, None) or file.keep(param)
        waiting.owners += 1

    setattr(nn.Module, "register_parameter", register_parameter)
    try:
        yield
    finally:
        setattr(nn.Module, "register_parameter", register)
