"""report.py - which machine this is, and where results are kept."""
import datetime
import json
import os
import platform
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def machine():
    with open("/proc/cpuinfo") as file:
        name = re.search(r"model name\s*: (.*)", file.read())
    name = name.group(1) if name else platform.machine()
    return f"{re.sub(r'[(]R[)]|[(]TM[)]', '', name)}, {os.cpu_count()} cores"


def commit():
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True,
                          text=True).stdout.strip()


def write(name, ending, text, folder=os.path.join(HERE, "results")):
    """Writes bench/results/<date>-<name>.<ending>, the name in small letters and dashes."""
    name = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    path = os.path.join(folder, f"{datetime.date.today()}-{name}.{ending}")
    os.makedirs(folder, exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    print(f"\nsaved to {os.path.relpath(path, os.path.dirname(HERE))}")


def show(text, path):
    """Writes the text to the file, and prints it."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    print(text)
    print(f"saved to {path}", file=sys.stderr)


def save(results, what=""):
    """The results as JSON, with machine, date and commit first."""
    about = {"machine": machine(), "date": str(datetime.date.today()), "commit": commit()}
    write(f"{what} {machine()}", "json", json.dumps({**about, **results}, indent=1) + "\n")
