"""parts.py - what finetune.py and mixture.py share: benchmarks in parts, of hilbert and of peers in
processes of their own."""
import argparse
import json
import os
import subprocess
import sys

from gpu_hilbert import Failed, Hilbert, collect, write_tokens

HERE = os.path.dirname(os.path.abspath(__file__))


def parser(name, description, parts):
    """The options that both have; `parts` are run unless --only names some."""
    build = os.path.join(os.path.dirname(HERE), "build")
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--hilbert", default=os.path.join(build, "hilbert"))
    p.add_argument("--python", default=sys.executable, help="the Python that has the peers")
    p.add_argument("--only", default=",".join(parts), help="parts, with commas")
    p.add_argument("--work", default=os.path.join(build, name))
    p.add_argument("--disk", help="a folder on the drive to use (default: WORK)")
    p.add_argument("--tiny", action="store_true", help="tests the script, on any processor")
    return p


def peer_lines(python, script, words, timeout):
    """The JSON lines that a script of this folder prints, also if it is stopped then."""
    command = [python, "-W", "ignore", os.path.join(HERE, script), *words]
    try:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True,
                              timeout=timeout)
        text, reason = done.stdout, (done.stderr.strip().splitlines() or ["no message"])[-1]
    except subprocess.TimeoutExpired as late:
        text, reason = (late.stdout or b"").decode(), "time is over"
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise Failed(reason)
    return lines


class Bench:
    """A part NAME is the method part_NAME, which yields its lines."""

    def __init__(self, args):
        self.args, self.tiny = args, args.tiny
        args.disk = args.disk or args.work
        os.makedirs(args.work, exist_ok=True)
        self.hilbert = Hilbert(args.hilbert, args.work, "cpu" if args.tiny else "cuda", args.disk)
        write_tokens(self.hilbert.path("data.npy"), 256 if args.tiny else 1 << 15,
                     1 << (14 if args.tiny else 20))

    def run(self, file, failed):
        """The lines of all parts, appended to a file in WORK; `failed(part)` begins the line of a
        failure."""
        lines = [line for part in self.args.only.split(",")
                 for line in collect(getattr(self, f"part_{part}")(), failed(part))]
        with open(os.path.join(self.args.work, file), "a") as kept:
            kept.writelines(json.dumps(line) + "\n" for line in lines)
        return lines
