"""gpu_hilbert.py - hilbert's side of bench/gpu.py: runs, what they report, forced plans."""
import json
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

import gpu_shapes

GIB = 1 << 30
STATES = ("weight", "rest", "moment1", "moment2")


class Failed(Exception):
    """One line that says why there is no number."""


def collect(lines, failed):
    """All of the lines, printed as they come; a failure is the last one, `failed` with its words."""
    found = []
    try:
        for line in lines:
            found.append(line)
            print(json.dumps(line), file=sys.stderr, flush=True)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        found.append({**failed, "error": str(error)})
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def write_array(path, words):
    """A one-dimensional .npy array of uint16 ids, given as their bytes."""
    header = "{'descr': '<u2', 'fortran_order': False, 'shape': (%d,), }" % (len(words) // 2)
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(words)


def write_tokens(path, ids, count):
    """Random ids below `ids`, a power of two: nothing to learn, for speeds."""
    mask = int.from_bytes(struct.pack("<H", ids - 1) * count, "little")
    words = int.from_bytes(random.Random(1).randbytes(2 * count), "little") & mask
    write_array(path, words.to_bytes(2 * count, "little"))


def write_walk(path, ids, count):
    """Ids that can be learned: each allows four others after it."""
    at, walk = 1, []
    for step in random.Random(1).choices(range(4), k=count):
        at = (5 * at + 7 + step) % ids
        walk.append(at)
    write_array(path, struct.pack(f"<{count}H", *walk))


def gpu_memory():
    """Bytes that all processes hold on the GPU; None where nobody can tell."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used",
                               "--format=csv,noheader,nounits"], capture_output=True, text=True)
        return int(done.stdout.split()[0]) << 20
    except (OSError, ValueError, IndexError):
        return None


def free_memory():
    with open("/proc/meminfo") as file:
        return int(re.search(r"MemAvailable:\s+(\d+)", file.read()).group(1)) * 1024


class Watch(threading.Thread):
    """The most that the GPU held above what it held before."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before, self.most, self.over = gpu_memory(), 0, threading.Event()

    def run(self):
        while self.before is not None and not self.over.wait(1.0):
            self.most = max(self.most, (gpu_memory() or 0) - self.before)


class Child:
    """A process, its exit code, and the most RAM that it held."""

    def __init__(self, command, output):
        self.process = subprocess.Popen(command, stdout=output, stderr=output)
        self.code = self.resident = None

    def over(self, flags=os.WNOHANG):
        if self.code is None:
            pid, status, usage = os.wait4(self.process.pid, flags)
            if pid:
                self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
                self.resident = usage.ru_maxrss * 1024
        return self.code is not None

    def end(self):
        if not self.over():
            os.kill(self.process.pid, signal.SIGKILL)
            self.over(0)


class Hilbert:
    def __init__(self, program, folder, device, disk):
        self.program, self.folder, self.disk = program, folder, disk
        shown = subprocess.run([program, "train", "--help"], capture_output=True, text=True)
        self.device = ["--device", device] if re.search(r"--device\s", shown.stdout) else []
        if not self.device and device != "cpu":
            raise Failed(f"{program} has no --device: it cannot use a GPU")
        self.runs = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def config(self, config):
        path = self.path("config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        return path

    def last_words(self, log):
        with open(log, errors="replace") as file:
            lines = [line for line in file.read().splitlines() if line.strip()]
        return lines[-1] if lines else "no message"

    def train(self, config, batch, seq, steps, limit, options=(), device=None, ends=False,
              watch=False, data="data.npy", launcher=()):
        """Runs that many steps. With `ends` the program must end by itself and well; otherwise it
        is stopped when the last step is written. Nothing is saved. With `watch` the driver is asked
        each second what the GPU holds. `launcher` are the words before the command, as mpirun's."""
        out, log = self.path("out"), self.path("log")
        shutil.rmtree(out, ignore_errors=True)
        command = [self.program, "train", "--model", self.config(config), "--data",
                   self.path(data), "--out", out, "--keep", 0, "--no-shuffle", "--lr",
                   "1e-4", "--schedule", "constant", "--seq", seq, "--batch", batch, "--steps",
                   steps, *(["--device", device] if device and self.device else self.device),
                   *options]
        watch = Watch() if watch else None
        with open(log, "w") as file:
            began = time.monotonic()
            child = Child([*map(str, launcher), *map(str, command)], file)
            if watch:
                watch.start()
            try:
                first = self.follow(child, os.path.join(out, "metrics.jsonl"), steps,
                                    began + limit, ends)
            finally:
                if watch:
                    watch.over.set()
                child.end()
        self.runs += 1
        lines = self.metrics(out)
        if len(lines) < steps or (ends and child.code):
            words = self.last_words(log)
            late = time.monotonic() - began > limit
            raise Failed(f"{'time is over: ' if late else ''}{words}")
        return {"first_step": first - began, "lines": lines,
                "gpu_bytes": watch.most if watch else None,
                "resident": child.resident,
                "wall": time.monotonic() - began, "command": " ".join(map(str, command[1:]))}

    def metrics(self, out):
        try:
            with open(os.path.join(out, "metrics.jsonl")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def follow(self, child, path, steps, deadline, ends):
        """When the first line was there; returns when the last one is, or the child is over."""
        first = 0.0
        while time.monotonic() < deadline:
            over = child.over()
            try:
                with open(path) as file:
                    count = file.read().count("\n")
            except FileNotFoundError:
                count = 0
            first = first or (time.monotonic() if count else 0.0)
            if over or (count >= steps and not ends):
                break
            time.sleep(0.01)
        return first

    def plan(self, config, batch, seq, options):
        """The plan, or None where nothing fits; its message is kept."""
        command = [self.program, "plan", "--json", "--model", self.config(config), "--seq", seq,
                   "--batch", batch, *self.device, *options]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120)
        self.message = (done.stderr.strip().splitlines() or [""])[-1]
        try:
            plan = json.loads(done.stdout)
        except ValueError:
            return None
        self.message = plan.get("missing", self.message)
        return plan if plan.get("fits") else None

    def offloaded(self, config, batch, seq, micro, device, host):
        """The options of a run with all states in host memory and the rest of the device for
        activations: the fastest plan of those that fit, by hilbert's own rehearsals."""
        given = ["--micro-batch", micro, "--device-memory", device, "--host-memory", host]
        base = None
        for room in (device // 4, device):
            base = base or self.plan(config, batch, seq,
                                     [*given[:3], room, *given[4:], "--recompute", "all"])
        if not base:
            raise Failed(f"no plan: {self.message}")
        best, name, parts = None, self.path("plan.json"), {}
        for unit in base["units"]:
            layer = re.search(r"\.\d+\.", unit["name"])
            part = layer.group() if layer else unit["name"].split("[")[0]
            parts[part] = parts.get(part, 0) + unit["elements"]
            unit.update({state: "host" for state in STATES if state in unit})
        # Weights and fp32 sums of the head, and of two blocks ahead.
        table = max(parts.values())
        block = max(count for part, count in parts.items() if part[0] == ".")
        base["window"] = max(base["window"], 6 * table + 12 * block)
        base["group"] = batch // micro
        forced = Forced(self, base, (config, batch, seq, given), name)
        for tier in ("device", "host"):
            if not best or best["kept"] < 1:
                best = faster(best, forced.filled(tier))
        best = best or forced.filled("both")
        if best and best["kept"] < 1:
            best = forced.offloaded(best)
        if not best:
            raise Failed(f"no plan with all states in RAM: {self.message}")
        with open(name, "w") as file:
            json.dump(best, file)
        return [*given, "--plan", name], best["kept"]

    def states_on_disk(self, config, batch, seq, device, host):
        """The options of a run with the optimizer's state on disk and all else in memory. The plan
        comes from budgets that leave little choice; what it kept off the disk is put there."""
        given = ["--micro-batch", batch, "--host-memory", host, "--disk", self.disk]
        state, base = 10 * gpu_shapes.parameters(config), None
        for room in (device - state, device):
            base = base or self.plan(config, batch, seq, [*given, "--device-memory", room])
        if not base:
            raise Failed(f"no plan: {self.message}")
        for unit in base["units"]:
            unit.update({state: "disk" for state in STATES[1:] if state in unit})
            unit.update({"weight": "device", "gradient": "device"})
        for segment in base["segments"]:
            segment.update(keep=base["group"], activations="device")
        name = self.path("plan.json")
        with open(name, "w") as file:
            json.dump(base, file)
        given += ["--device-memory", device, "--plan", name]
        if not self.plan(config, batch, seq, given):
            raise Failed(f"no plan with the optimizer's state on disk: {self.message}")
        return given


def faster(best, plan):
    return plan if plan and (not best or plan["step_seconds"] < best["step_seconds"]) else best


class Forced:
    """Plans with the states of `base` where they are, and activations where they are told."""

    def __init__(self, hilbert, base, run, name):
        self.hilbert, self.base, self.name = hilbert, base, name
        self.config, self.batch, self.seq, self.given = run
        self.whole = base["group"] * len(base["segments"])
        self.device_updates = {key: base[key] for key in ("device_slots", "device_share") if key in base}

    def attempt(self, count, how, tier, away=0):
        """The last `count` visits of segments keep activations; of the others `away`, spread over
        all, let them wait in RAM. What leaves a segment waits in `tier`, or in both."""
        base, left = self.base, count
        for i, segment in enumerate(reversed(base["segments"])):
            segment.update(keep=0, lean=0, thin=False, tapes="device")
            segment[how] = min(left, base["group"])
            segment["activations"] = tier if tier != "both" else ("device", "host")[i % 2]
            left -= segment[how]
        rest = [s for s in base["segments"][:-1] if not s[how]]
        for i, segment in enumerate(rest):
            pairs = (i + 1) * away // len(rest) - i * away // len(rest)
            segment.update(lean=pairs, tapes="host" if pairs else "device")
        base.update(self.device_updates if not away else {key: 0 for key in self.device_updates})
        with open(self.name, "w") as file:
            json.dump(base, file)
        plan = self.hilbert.plan(self.config, self.batch, self.seq,
                                 [*self.given, "--plan", self.name])
        if plan:
            plan["kept"] = (count + away) / self.whole
        return plan

    def filled(self, tier):
        """As many activations kept as fit, all but what is cheap before any whole."""
        best = (self.attempt(self.whole, "keep", tier) or self.attempt(self.whole, "lean", tier) or
                self.attempt(0, "lean", tier))
        low, high = 0, self.whole
        while best and best["kept"] < 1 and high - low > max(1, self.whole // 32):
            middle = (low + high) // 2
            plan = self.attempt(middle, "lean", tier)
            low, high = (middle, high) if plan else (low, middle)
            best = plan or best
        return best

    def offloaded(self, best):
        """More and more wait in RAM, while that is faster; then as many are kept as still fit."""
        for tier in ("device", "host"):
            away, stride, found = 0, self.whole // 4, self.attempt(0, "lean", tier)
            while found and stride > self.whole // 32:
                plan = self.attempt(0, "lean", tier, away + stride)
                if faster(found, plan) is plan:
                    found, away = plan, away + stride
                else:
                    stride //= 2
            low, high = 0, self.whole - away
            while found and away and high - low > max(1, self.whole // 32):
                middle = (low + high) // 2
                plan = self.attempt(middle, "lean", tier, away)
                low, high = (middle, high) if plan else (low, middle)
                found = faster(found, plan)
            best = faster(best, found)
        return best


def median_seconds(run, warmup):
    """Of the steps after the warm-up."""
    return statistics.median(line["seconds"] for line in run["lines"][warmup:])


def summary(run, warmup, flops):
    """What the table needs of a run; `flops` are those of a step."""
    seconds, last = median_seconds(run, warmup), run["lines"][-1]
    waits = {}
    for key in last.get("wait_seconds", {}):
        waits[key] = statistics.median(line["wait_seconds"][key] for line in run["lines"][warmup:])
    return {"seconds": seconds, "tflops": flops / seconds * 1e-12,
            "all_seconds": [line["seconds"] for line in run["lines"]],
            "losses": [line["loss"] for line in run["lines"]], "first_step": run["first_step"],
            "wall": run["wall"], "resident": run["resident"], "gpu_bytes": run["gpu_bytes"],
            "waits": waits, "command": run["command"],
            **{key: last[key] for key in ("device_peak", "host_peak", "disk_peak",
                                          "disk_read_bytes", "disk_written_bytes",
                                          "to_device_bytes", "to_host_bytes",
                                          "exposed_update_seconds") if key in last}}
