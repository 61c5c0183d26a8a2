"""report.py - which machine this is, and where results are kept."""
import datetime
import json
import os
import platform
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def machine():
    with open("/proc/cpuinfo") as file:
        name = re.search(r"model name\s*: (.*)", file.read())
    name = name.group(1) if name else platform.machine()
    return f"{re.sub(r'[(]R[)]|[(]TM[)]', '', name)}, {os.cpu_count()} cores"


def save(results, what=""):
    """Writes bench/results/<date>-<what>-<machine>.json, with machine, date and commit first."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True,
                            text=True).stdout.strip()
    name = re.sub("[^a-z0-9]+", "-", f"{what} {machine()}".lower()).strip("-")
    today = datetime.date.today()
    path = os.path.join(HERE, "results", f"{today}-{name}.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump({"machine": machine(), "date": str(today), "commit": commit, **results}, file,
                  indent=1)
        file.write("\n")
    print(f"\nsaved to {os.path.relpath(path, os.path.dirname(HERE))}")
