"""Sizes and disks as the program writes them: "64M", "24GB", "1.5 GiB", "50%", "/nvme:500G"."""

from __future__ import annotations

import os
import re
from typing import Iterable, List, Optional, Tuple, Union

from .errors import UsageError

Size = Union[int, float, str, None]
Disk = Union[str, "os.PathLike[str]"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?) *(?:([KMGTP]?)(i?)(B?)|(%))", re.IGNORECASE)


def parse_size(label: str, size: Size, whole: Optional[int] = None) -> Optional[int]:
    """Bytes of a size; None stays None. A percentage is of `whole`, where that is given."""
    if size is None:
        return None
    if not isinstance(size, str):
        whole_number = isinstance(size, int) or isinstance(size, float) and size.is_integer()
        if isinstance(size, bool) or not whole_number or size < 0:
            raise UsageError(f"{label}: {size} is not a size")
        return int(size)
    match = _SIZE.fullmatch(size.strip())
    if not match or (match[5] and whole is None) or (match[3] and not match[2]):
        raise UsageError(f"{label}: '{size}' is not a size; write bytes, or 64M, 1.5G or 2T (powers of "
                         f"1024), or 24GB (powers of 1000){'' if whole is None else ', or 50%'}")
    number = float(match[1])
    if match[5] and whole is not None:
        if not 1 <= number <= 100:
            raise UsageError(f"{label} must be from 1% to 100%, not {size}")
        return int(whole / 100 * number)
    power = " KMGTP".index(match[2].upper() or " ")
    base = 1000 if match[4] and not match[3] else 1024
    return int(number * base**power)


def list_disks(disk: Union[None, Disk, Iterable[Disk]]) -> List[Disk]:
    """One, several or none."""
    return [disk] if isinstance(disk, (str, os.PathLike)) else list(disk or ())


def parse_disk(disk: Disk) -> Tuple[str, int]:
    """Path and bytes of PATH or PATH:SIZE. Without a size: what is free there, less a twentieth."""
    entry = os.fspath(disk)
    path, colon, size = entry.rpartition(":")
    folder = os.path.isdir
    sized = colon and size[:1].isdigit() and (folder(path) or not folder(entry))
    if not sized:
        path = entry
    if not path:
        raise UsageError(f"disk: '{entry}' names no folder")
    try:
        info = os.statvfs(path)
    except OSError as error:
        raise UsageError(f"disk: cannot inspect {path}: {error.strerror}") from None
    free = info.f_bavail * info.f_frsize
    bytes_ = parse_size("disk", size, free) if sized else free - free // 20
    if not bytes_:
        raise UsageError(f"disk: no bytes of {path} may be used")
    return path, bytes_


def available_memory() -> int:
    """Bytes of RAM that can be used now: the system's, or less where a cgroup says so."""
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    free = int(fields["MemAvailable"].split()[0]) << 10
    for limit, used in (("memory.max", "memory.current"),
                        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            with open(f"/sys/fs/cgroup/{limit}", encoding="ascii") as file:
                most = int(file.read())
            with open(f"/sys/fs/cgroup/{used}", encoding="ascii") as file:
                free = min(free, max(0, most - int(file.read())))
        except (OSError, ValueError):  # no such limit
            continue
    return free
