"""The program `hilbert` of the wheel."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn


def program() -> str:
    """The path of the program: the one of the wheel, or of the source tree's build folder."""
    here = Path(__file__).resolve().parent
    for path in (here / "hilbert", here.parent.parent / "build" / "hilbert"):
        if path.is_file():
            return str(path)
    raise FileNotFoundError("the program hilbert is neither in the package nor in build/: install the wheel, or run make")


def main() -> NoReturn:
    """Replaces this process by the program, which finds NVIDIA's libraries in this environment."""
    os.environ.setdefault("VIRTUAL_ENV", sys.prefix)
    found = shutil.which("hilbert")  # what it says about itself can be typed
    typed = found and os.path.exists(sys.argv[0]) and os.path.samefile(found, sys.argv[0])
    name = "hilbert" if typed else sys.argv[0]
    os.execv(program(), [name, *sys.argv[1:]])
