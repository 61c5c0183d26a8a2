#!/usr/bin/env python3
"""gpu.py - hilbert on one GPU against PyTorch and against what the machine allows, as one table.

    python3 bench/gpu.py [--hilbert PROGRAM] [--only PART,PART...] [--append] [--disk DIR] [--tiny]

Every part measures its peer or its limit in the same run. Parts are named below (--list) and can
run one at a time: what was measured is kept in WORK/gpu.json, and --append adds to what is there,
so that several short commands make one table. The table is printed and written, with date, commit,
machine and versions, to bench/results/<date>-gpu-<machine>.md. Works in an unpacked bundle as well.

Model FLOPs per token: 6 for each parameter that is multiplied with, and 6 x layers x hidden x
sequence for causal attention; recomputation does not count. Medians of steps after a warm-up of
seconds: what a GPU does in its first moments it does not do for hours.
"""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time

import gpu_disk
import gpu_shapes
import gpu_table
import report
from gpu_hilbert import (GIB, Failed, Hilbert, free_memory, median_seconds, summary, write_tokens,
                         write_walk)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# Seconds that a part may take; about half of it is expected.
PARTS = {"ceiling": 60, "memory-125m": 150, "memory-1b": 180, "memory-3b": 210, "torch-8b": 180,
         "fp8-3b": 240, "fp8-8b": 240, "offload-3b": 240, "offload-8b": 360, "disk-3b": 240, "capacity-16g": 120,
         "capacity-fp32": 400, "capacity-8bit": 400, "start-8b": 120, "losses": 90}
MODES = {"125m": "eager,whole"}  # where compiling all at once is faster and does not take long
# Steps of warm-up and steps that count, alike for both sides: some seconds of each, since a GPU
# lowers its clocks when the load lasts.
STEPS = {"125m": (60, 60), "1b": (8, 8), "3b": (6, 8), "8b": (4, 4)}


class Bench:
    def __init__(self, args):
        self.args, self.tiny = args, args.tiny
        os.makedirs(args.work, exist_ok=True)
        self.unit = 1 << 20 if args.tiny else GIB
        self.device = "cpu" if args.tiny else args.device
        self.values, self.deadline, self.allowed = {}, 0.0, 0.0  # of the part under way
        self.kept = os.path.join(args.work, "gpu.json")
        if args.append and os.path.exists(self.kept):
            with open(self.kept) as file:
                self.values = json.load(file)
            before = self.values.get("machine", {}).get("commit")
            self.values.setdefault("commits", {part: before for part in self.values.get("took", {})})
        self.hilbert = Hilbert(args.hilbert, args.work, self.device, args.disk)
        write_tokens(self.hilbert.path("data.npy"), 256 if args.tiny else 1 << 15,
                     1 << (14 if args.tiny else 20))

    def left(self):
        return max(1.0, self.deadline - time.monotonic())

    def torch(self, *arguments):
        """The results that gpu_torch.py prints."""
        command = [self.args.python, "-W", "ignore", os.path.join(HERE, "gpu_torch.py"),
                   *map(str, arguments), *(["--tiny"] if self.tiny else [])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.left())
            text, words = done.stdout, (done.stderr.strip().splitlines() or ["no message"])[-1]
        except subprocess.TimeoutExpired as late:
            text, words = late.stdout or "", "time is over"
            text = text if isinstance(text, str) else text.decode()
        results = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        if not results:
            raise Failed(f"PyTorch: {words}")
        return results

    def steps(self, shape):
        return (1, 2) if self.tiny else STEPS[shape]

    def torch_train(self, shape, *options):
        steps = self.steps(shape)
        modes = "eager" if self.tiny else MODES.get(shape, "eager,compiled")
        return self.torch("train", shape, "--modes", modes, "--warmup", steps[0], "--steps",
                          steps[1], "--since", time.time(), *options)

    def train(self, config, batch, seq, warmup, steps, *options, **more):
        limit = max(1.0, min(self.left(), 0.6 * self.allowed))  # one that hangs leaves time
        run = self.hilbert.train(config, batch, seq, warmup + steps, limit, options, **more)
        return summary(run, warmup, gpu_shapes.token_flops(config, seq) * batch * seq)

    def host(self):
        return 64 * self.unit if self.tiny else free_memory() - 5 * GIB

    def whole_device(self):
        if self.tiny:
            return 64 * self.unit
        versions = self.values["machine"]
        return versions.get("gpu_bytes", 140 * GIB) - 6 * GIB

    # Parts.

    def measure_ceiling(self):
        return {r["shape"]: r for r in self.torch("ceiling", ",".join(gpu_shapes.SHAPES))}

    def memory(self, shape):
        """Everything on the GPU; PyTorch on the same GPU, fp32 masters on both sides."""
        config, batch, seq = gpu_shapes.shape_of(shape, self.tiny)
        found = {"parameters": gpu_shapes.parameters(config), "tokens": batch * seq}
        self.attempt(found, "hilbert", lambda: self.train(
            config, batch, seq, *self.steps(shape), "--micro-batch", batch))
        self.attempt(found, "torch", lambda: self.torch_train(shape))
        return found

    def measure_torch_8b(self):
        """The 8B shape fits PyTorch only with recomputation and without masters."""
        return {"torch": self.torch_train("8b", "--pure", "--recompute")}

    def fp8(self, shape):
        """64k tokens in bf16 and in fp8, where the plan puts everything; of 3B, PyTorch too, with as
        many tokens as fit it in memory."""
        config, _, seq = gpu_shapes.shape_of(shape, self.tiny)
        found = {"tokens": 16 * seq}
        for dtype in ("bf16", "fp8"):
            self.attempt(found, dtype, lambda: self.train(
                config, 16, seq, 1, 3, "--micro-batch", 4, "--dtype", dtype))
        if shape == "3b":
            self.attempt(found, "torch", lambda: self.torch_train(shape, "--float8"))
        return found

    def offload(self, shape):
        """All states in RAM; 64k and 16k tokens; the whole GPU or a part of it for the rest."""
        config, _, seq = gpu_shapes.shape_of(shape, self.tiny)
        found, part = {}, (4 if self.tiny else 24) * self.unit
        for budget, device, small in (("whole", self.whole_device(), 4), ("part", part, 2)):
            for batch, micro, warmup, steps in ((16, 4, 1, 3), (4, small, 2, 5)):
                name = f"{budget} {batch}"
                self.attempt(found, name, lambda: self.offloaded(
                    config, batch, seq, micro, device, warmup, steps))
        return found

    def offloaded(self, config, batch, seq, micro, device, warmup, steps):
        options, kept = self.hilbert.offloaded(config, batch, seq, micro, device, self.host())
        run = self.train(config, batch, seq, warmup, steps, *options,
                         watch=device < self.whole_device())
        return {**run, "budget": device,
                "activations_kept": kept, "tokens": batch * seq}

    def measure_disk(self):
        """The optimizer's state on disk; what the disk can do is measured before and after."""
        config, batch, seq = gpu_shapes.shape_of("3b", self.tiny)
        size, seconds = (16 << 20, 0.2) if self.tiny else (4 << 30, 4.0)
        rates = [gpu_disk.mixed_rate(self.args.disk, size, seconds)]
        options = self.hilbert.states_on_disk(config, batch, seq, self.whole_device(),
                                              8 * self.unit)
        found = self.train(config, batch, seq, 1, 2, *options)
        rates.append(gpu_disk.mixed_rate(self.args.disk, size, seconds))
        return {**found, "disk_rates": rates}

    def capacity(self, optimizer):
        """The most layers that have a plan, then two real steps of them: the second one has waited
        for all of the first one's update."""
        batch, seq = (2, 64) if self.tiny else (4, 2048)
        options = ["--optimizer", optimizer, "--micro-batch", 1, "--disk", self.args.disk]
        disk = os.statvfs(self.args.disk)
        room = self.whole_device() + self.host() + disk.f_bavail * disk.f_frsize
        if self.tiny:
            options[-1] += ":2M"
            options += ["--device-memory", "4M", "--host-memory", "2M"]
            room = 8 << 20

        def fits(layers):
            return self.hilbert.plan(gpu_shapes.capacity(layers, self.tiny), batch, seq, options)

        per_parameter = 14 if optimizer == "adamw" else 8.03
        layer, rest = (gpu_shapes.parameters(gpu_shapes.capacity(n, self.tiny)) for n in (1, 0))
        low, high = 0, int((room / per_parameter - rest) / (layer - rest)) + 1
        middle = high * 7 // 8
        while high - low > max(1, low // 32):
            low, high = (middle, high) if fits(middle) else (low, middle)
            middle = (low + high) // 2
        failures = []
        for layers in (low, low - max(1, low // 16)):
            config = gpu_shapes.capacity(layers, self.tiny)
            try:
                return {**self.train(config, batch, seq, 1, 1, *options, watch=True),
                        "layers": layers, "parameters": gpu_shapes.parameters(config),
                        "failures": failures}
            except Failed as error:
                failures.append(f"{layers} layers: {error}")
        raise Failed("; ".join(failures))

    def measure_capacity_16g(self):
        config, batch, seq = gpu_shapes.shape_of("8b", self.tiny)
        budget = (2 if self.tiny else 16) * self.unit
        found = self.train(config, batch, seq, 1, 1, "--micro-batch", 1, "--device-memory", budget,
                           "--disk", self.args.disk, ends=True, watch=True)
        return {**found, "budget": budget, "parameters": gpu_shapes.parameters(config)}

    def measure_start(self):
        """The 8B shape as it starts without any option; PyTorch's is in torch-8b."""
        config, batch, seq = gpu_shapes.shape_of("8b", self.tiny)
        return self.train(config, batch, seq, 0, 1, "--micro-batch", 1 if self.tiny else 2)

    def measure_losses(self):
        """50 steps of a small model: on the GPU, with little of it, and on the CPU."""
        config = gpu_shapes.llama(64, 128, 2, 4, 2, True, 512) if self.tiny else \
            gpu_shapes.llama(512, 1408, 6, 8, 4, True, 1024)
        batch, seq, steps = (2, 64, 5) if self.tiny else (8, 256, 50)
        write_walk(self.hilbert.path("walk.npy"), 256, batch * seq * steps)
        # Steady: where the loss leaps, as at 1e-3 here, any two roundings part.
        common = ["--micro-batch", 2, "--lr", "3e-4", "--warmup", 10]
        little = ["2M", "8M"] if self.tiny else ["192M", "1G"]
        places = {"gpu": common, "cpu": common, "little": [
            *common, "--device-memory", little[0], "--host-memory", little[1]]}
        found = {}

        def curve(name):
            run = self.hilbert.train(config, batch, seq, steps, self.left(), places[name],
                                     device="cpu" if name == "cpu" else None, data="walk.npy")
            return {"losses": [line["loss"] for line in run["lines"]],
                    "norms": [line["grad_norm"] for line in run["lines"]],
                    "seconds": median_seconds(run, 1)}

        for name in places:
            self.attempt(found, name, lambda: curve(name))
        return found

    # What runs them.

    def attempt(self, found, name, work):
        """Its result under that name, or the line that says why there is none."""
        try:
            found[name] = work()
        except (Failed, OSError, KeyError, subprocess.SubprocessError) as error:
            found[name] = {"error": str(error) or repr(error)}
            print(f"  {name}: {found[name]['error']}", file=sys.stderr, flush=True)

    def measure(self, part):
        kind, _, shape = part.partition("-")
        work = {"ceiling": self.measure_ceiling, "torch-8b": self.measure_torch_8b,
                "disk-3b": self.measure_disk, "capacity-16g": self.measure_capacity_16g,
                "capacity-fp32": lambda: self.capacity("adamw"),
                "capacity-8bit": lambda: self.capacity("adamw8bit"),
                "start-8b": self.measure_start, "losses": self.measure_losses}.get(part)
        if not work:
            work = {"memory": lambda: self.memory(shape), "fp8": lambda: self.fp8(shape),
                    "offload": lambda: self.offload(shape)}[kind]
        began = time.monotonic()
        self.allowed = PARTS[part] * self.args.patience
        self.deadline = began + self.allowed
        print(f"{part} ...", file=sys.stderr, flush=True)
        self.attempt(self.values, part, work)
        took = time.monotonic() - began
        self.values.setdefault("took", {})[part] = took
        self.values.setdefault("commits", {})[part] = self.values["machine"]["commit"]
        print(f"{part}: {took:.0f} s", file=sys.stderr, flush=True)
        self.keep()

    def keep(self):
        with open(self.kept + ".tmp", "w") as file:
            json.dump(self.values, file, indent=1)
        os.replace(self.kept + ".tmp", self.kept)

    def describe(self):
        """Machine and versions; PyTorch's libraries are read from the disk here, for both sides."""
        self.deadline = time.monotonic() + 120
        found = {"cpu": report.machine(), "date": str(datetime.date.today()),
                 "commit": commit(self.args.hilbert),
                 "hilbert": first_line([self.args.hilbert, "--version"])}
        driver = first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
        if driver:
            found["driver"] = driver
        with open("/proc/meminfo") as file:
            found["ram"] = int(file.readline().split()[1]) * 1024
        try:
            found.update(self.torch("versions")[0])
        except Failed as error:
            print(f"without PyTorch: {error}", file=sys.stderr, flush=True)
        self.values["machine"] = found
        probe = [self.args.hilbert, "probe", "--disk", self.args.disk, *self.hilbert.device]
        began = time.monotonic()
        subprocess.run(probe, capture_output=True, timeout=300)
        found["probe_seconds"] = time.monotonic() - began
        self.keep()


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return (done.stdout.splitlines() or [""])[0]
    except OSError:
        return ""


def commit(program):
    """Of the build that a bundle's program comes from, or of the checkout."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    built = os.path.join(folder, "share", "doc", "hilbert", "build.txt")
    if os.path.exists(built):
        with open(built) as file:
            return file.readline().strip().partition("commit ")[2]
    return first_line(["git", "-C", HERE, "describe", "--always", "--dirty", "--abbrev=40"])


def find_hilbert():
    for place in ("build/hilbert", "bin/hilbert"):
        path = os.path.join(ROOT, place)
        if os.path.exists(path):
            return path
    return None


def parse():
    parser = argparse.ArgumentParser(description="hilbert on one GPU, against PyTorch")
    parser.add_argument("--hilbert", default=find_hilbert(), help="the program")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    parser.add_argument("--list", action="store_true", help="show the parts and their time limits")
    parser.add_argument("--append", action="store_true", help="add to what WORK/gpu.json holds")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "gpu-bench"))
    parser.add_argument("--disk", help="a folder on the drive to use (default: WORK)")
    parser.add_argument("--device", default="cuda", help="hilbert's --device")
    parser.add_argument("--patience", type=float, default=1.0, help="times every time limit")
    parser.add_argument("--out", help="the table's file (default: in bench/results)")
    parser.add_argument("--tiny", action="store_true", help="tests the script, on any processor")
    return parser.parse_args()


def main():
    args = parse()
    parts = [part for part in args.only.split(",") if part]
    wrong = [part for part in parts if part not in PARTS]
    if args.list or wrong:
        print("\n".join(f"{part:15} {limit:4} s" for part, limit in PARTS.items()))
        sys.exit(f"no such part: {', '.join(wrong)}" if wrong else 0)
    if not args.hilbert:
        sys.exit("no program: run make first, or give --hilbert")
    args.disk = args.disk or args.work
    try:
        bench = Bench(args)
        if "machine" not in bench.values:
            bench.describe()
        bench.values["machine"]["commit"] = commit(args.hilbert)
    except Failed as error:
        sys.exit(f"gpu.py: {error}")
    for part in parts:
        bench.measure(part)
    name = bench.values["machine"].get("gpu", bench.values["machine"]["cpu"])
    name = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    folder = args.work if args.tiny else os.path.join(HERE, "results")
    path = args.out or os.path.join(folder, f"{bench.values['machine']['date']}-gpu-{name}.md")
    report.show(gpu_table.markdown(bench.values), path)


if __name__ == "__main__":
    main()
