"""The C library through ctypes: structures and functions of hilbert/store.h, declared once."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_bool, c_char_p, c_double, c_float, c_int, c_int64, c_size_t
from ctypes import c_uint64, c_void_p
from pathlib import Path
from typing import Any, Iterator

from .errors import BY_STATUS, Error

VERSION = (0, 1)  # libhilbert.so.MAJOR.MINOR that these declarations belong to


class DiskBudget(Structure):
    _fields_ = [("path", c_char_p), ("bytes", c_uint64)]


class MemoryOptions(Structure):
    _fields_ = [("device", c_uint64), ("host", c_uint64), ("disks", POINTER(DiskBudget)),
                ("disk_count", c_size_t), ("io", c_int)]


class DeviceChoice(Structure):
    _fields_ = [("name", c_char_p), ("prefixes", c_char_p)]


class LossScale(Structure):
    _fields_ = [("start", c_int64), ("window", c_int64), ("least", c_int64),
                ("hysteresis", c_int64), ("refill", c_bool), ("fixed", c_bool)]


class StoreOptions(Structure):
    _fields_ = [("size", c_size_t), ("memory", MemoryOptions), ("disk_speeds", POINTER(c_double)),
                ("window", c_uint64), ("dtype", c_char_p), ("optimizer", c_char_p),
                ("weight_decay", c_double), ("beta1", c_double), ("eps", c_double),
                ("beta2", c_double), ("clip", c_double), ("tile_size", c_uint64),
                ("threads", c_int), ("device", DeviceChoice), ("stream", c_void_p),
                ("saves", c_bool), ("comm", c_void_p), ("keep_window", c_uint64),
                ("keep_host", c_uint64), ("probe_cache", c_char_p), ("average", c_bool),
                ("loss_scale", LossScale), ("grows", c_bool)]


class StoreForm(Structure):
    _fields_ = [("rows", c_int64), ("cols", c_int64), ("group", c_int), ("frozen", c_bool),
                ("no_decay", c_bool), ("rates", c_int), ("shape", POINTER(c_int64)),
                ("ndim", c_int)]


class StoreRates(Structure):
    _fields_ = [("lr", c_double), ("weight_decay", c_double), ("beta1", c_double),
                ("beta2", c_double), ("eps", c_double), ("frozen", c_bool)]


class StoreBytes(Structure):
    _fields_ = [("device", c_uint64), ("host", c_uint64), ("disk", c_uint64)]


class StoreEstimate(Structure):
    _fields_ = [("states", StoreBytes), ("taken", StoreBytes), ("window", c_uint64),
                ("least_window", c_uint64)]


class StoreProgress(Structure):
    _fields_ = [("updates", c_int64), ("loss_scale", c_int64), ("since", c_int64)]


class StoreLoaded(Structure):
    _fields_ = [("step", c_int64), ("extra", c_char_p), ("warning", c_char_p)]


class WaitSeconds(Structure):
    _fields_ = [(name, c_double)
                for name in ("weights", "update", "activations", "gradients", "memory")]


class StepAccount(Structure):
    _fields_ = ([(name, c_uint64) for name in
                 ("device_peak", "host_peak", "disk_peak", "disk_read_bytes", "disk_written_bytes",
                  "to_device_bytes", "to_host_bytes", "gathered_bytes", "reduced_bytes")] +
                [("wait_seconds", WaitSeconds), ("exposed_update_seconds", c_double),
                 ("skipped_bytes", c_uint64)])


TRAIN, EVAL = 0, 1  # hil_param_store_pass
WEIGHT, MOMENT1, MOMENT2 = 0, 1, 2  # hil_param_store_state

_store, _param, _floats = c_void_p, c_void_p, POINTER(c_float)
# name: (returns a status, argument types)
_FUNCTIONS = {
    "hil_param_store_create": (True, [POINTER(c_void_p), POINTER(StoreOptions)]),
    "hil_param_store_destroy": (False, [_store]),
    "hil_param_store_add": (True, [_store, c_char_p, POINTER(StoreForm), POINTER(c_void_p)]),
    "hil_param_store_place": (True, [_store]),
    "hil_param_store_estimate_place": (True, [_store, POINTER(StoreEstimate)]),
    "hil_param_store_grow": (True, [_store, c_uint64, POINTER(c_uint64)]),
    "hil_param_store_read": (True, [_store, _param, c_int, c_int64, c_int64, c_void_p]),
    "hil_param_store_write": (True, [_store, _param, c_int, c_int64, c_int64, c_void_p]),
    "hil_param_store_begin": (True, [_store, c_int]),
    "hil_param_store_acquire": (True, [_store, _param, c_int64, POINTER(c_void_p)]),
    "hil_param_store_release": (False, [_store, _param, c_int64]),
    "hil_param_store_add_gradient": (True, [_store, _param, c_int64, c_void_p, c_char_p]),
    "hil_param_store_give_gradients": (True, [_store, c_int]),
    "hil_param_store_set_rates": (True, [_store, c_int, POINTER(StoreRates)]),
    "hil_param_store_set_updates": (True, [_param, c_int64]),
    "hil_param_store_step": (True, [_store, c_double, POINTER(c_double)]),
    "hil_param_store_end": (True, [_store]),
    "hil_param_store_wait": (True, [_store]),
    "hil_param_store_set_progress": (True, [_store, POINTER(StoreProgress)]),
    "hil_param_store_save": (True, [_store, c_char_p, c_char_p, c_int64]),
    "hil_param_store_saved": (True, [_store]),
    "hil_param_store_load": (True, [_store, c_char_p, POINTER(StoreLoaded)]),
    "hil_param_store_keep": (True, [_store, c_void_p, c_uint64, POINTER(c_void_p)]),
    "hil_param_store_fetch": (True, [_store, c_void_p, c_void_p]),
    "hil_param_store_drop": (False, [_store, c_void_p]),
    "hil_param_store_account": (False, [_store, POINTER(StepAccount)]),
    "hil_comm_open_functions": (True, [POINTER(c_void_p), c_void_p]),
    "hil_comm_close": (False, [c_void_p]),
}


def _candidates() -> Iterator[str]:
    """Where the library may be: in the package, where HILBERT_LIBRARY says, in the source tree's
    build folder, where the system looks."""
    name = f"libhilbert.so.{VERSION[0]}.{VERSION[1]}"
    here = Path(__file__).resolve().parent
    yield str(here / name)
    if "HILBERT_LIBRARY" in os.environ:
        path = os.environ["HILBERT_LIBRARY"]
        if "/" in path and not os.path.exists(path):
            raise ImportError(f"HILBERT_LIBRARY names {path}, which does not exist")
        yield path
    yield str(here.parent.parent / "build" / name)
    yield name


def _load() -> ctypes.CDLL:
    for path in _candidates():
        if "/" not in path or os.path.exists(path):
            try:
                library = ctypes.CDLL(path)
                break
            except OSError as error:
                why = f"cannot load {path}: {error}"
    else:
        raise ImportError(f"{why}; install the wheel, or build hilbert and set HILBERT_LIBRARY")
    library.hil_version.restype = c_char_p
    library.hil_status_message.restype = c_char_p
    version = library.hil_version().decode()
    if tuple(int(part) for part in version.split(".")[:2]) != VERSION:
        raise ImportError(f"{path} is hilbert {version}; this package needs {VERSION[0]}.{VERSION[1]}")
    for name, (status, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int if status else None
        if status:
            function.errcheck = check_status
    library.hil_param_store_placed.argtypes = [_store]
    library.hil_param_store_placed.restype = StoreBytes
    library.hil_param_store_get_progress.argtypes = [_store]
    library.hil_param_store_get_progress.restype = StoreProgress
    library.hil_param_store_updates.argtypes = [_param]
    library.hil_param_store_updates.restype = c_int64
    library.hil_param_store_has.argtypes = [_store, _param, c_int]
    library.hil_param_store_has.restype = c_bool
    library.hil_param_store_defaults_sized.argtypes = [POINTER(StoreOptions), c_size_t]
    library.hil_param_store_defaults_sized.restype = None
    return library


def check_status(status: Any, function: Any, arguments: Any) -> Any:
    """The errcheck of functions that return a hil_status."""
    if status:
        raise BY_STATUS.get(status, Error)(library.hil_status_message().decode())
    return status


library = _load()


def version() -> str:
    """Of the library that was loaded: "0.1.0"."""
    text: bytes = library.hil_version()
    return text.decode()
