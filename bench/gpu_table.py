"""gpu_table.py - from what bench/gpu.py measured to its table."""
import gpu_shapes

NAMES = {"125m": "125M", "1b": "1B", "3b": "3B", "8b": "8B", "qwen-1.5b": "Qwen2.5-1.5B",
         "qwen-7b": "Qwen2.5-7B"}


def failed(value):
    return value is None or (isinstance(value, dict) and "error" in value)


class Table:
    def __init__(self, values):
        self.values, self.rows, self.notes = values, [], []
        self.ceilings = values.get("ceiling", {})
        if failed(self.ceilings):
            self.ceilings = {}

    def row(self, name, hilbert, peer, ratio=None, least=None, most=None, aim=None):
        wanted = ""
        if least is not None:
            wanted = f"at least {least:g}"
        elif most is not None:
            wanted = f"at most {most:g}"
        if ratio is not None and wanted:
            met = ratio >= least if least is not None else ratio <= most
            wanted += ": yes" if met else ": NO"
        if aim is not None:
            wanted += f"{', ' if wanted else ''}aim {aim}"
        self.rows.append((name, hilbert, peer, "" if ratio is None else f"{ratio:.2f}", wanted))

    def missing(self, name, why):
        self.rows.append((name, "no number", why.replace("|", "/")[:160], "", "NO"))

    def ceiling(self, shape, recompute=False):
        found = self.ceilings.get(shape)
        return found["tflops_recompute" if recompute else "tflops"] if found else None

    def best_torch(self, part):
        """TFLOP/s and mode of PyTorch's best, or None and why."""
        runs = self.values.get(part, {}).get("torch", [])
        if failed(runs):
            return None, runs["error"]
        good = [run for run in runs if "tflops" in run]
        if not good:
            return None, "; ".join(run.get("error", "") for run in runs) or "not measured"
        for run in runs:
            if "error" in run:
                self.notes.append(f"PyTorch {run['mode']} of {part}: {run['error']}")
        best = max(good, key=lambda run: run["tflops"])
        others = ", ".join(f"{run['mode']} {run['tflops']:.0f}" for run in good if run is not best)
        return best["tflops"], best["mode"] + (f"; {others}" if others else "")

    def memory(self, shape):
        part = f"memory-{shape}"
        if part not in self.values:
            return
        config, batch, seq = gpu_shapes.SHAPES[shape]
        name = f"in memory: {NAMES[shape]}, {batch} x {seq}"
        value = self.values[part]
        ours = value.get("hilbert") if not failed(value) else value
        peer, mode = self.best_torch(part)
        if failed(ours):
            self.missing(name, (ours or {}).get("error", "not measured"))
            if peer:
                self.row(f"(PyTorch: {NAMES[shape]})", "", f"{peer:.0f} TFLOP/s ({mode})")
        elif peer is None:
            self.row(name, f"{ours['tflops']:.0f} TFLOP/s", f"PyTorch: {mode}", None, 1.0, aim=1.3)
        else:
            self.row(name, f"{ours['tflops']:.0f} TFLOP/s", f"{peer:.0f} PyTorch ({mode})",
                     ours["tflops"] / peer, 1.0, aim=1.3)
        top = self.ceiling(shape)
        if top and not failed(ours):
            self.row(f"{name}, of the ceiling", f"{ours['tflops']:.0f} TFLOP/s",
                     f"{top:.0f} library kernels alone", ours["tflops"] / top, aim=0.85)

    def fp8(self, shape):
        part, value = f"fp8-{shape}", self.values.get(f"fp8-{shape}")
        if value is None:
            return
        name = f"fp8: {NAMES[shape]}, 64k tokens"
        runs = [value, *([] if failed(value) else [value.get("fp8"), value.get("bf16")])]
        wrong = [run for run in runs if failed(run)]
        if wrong:
            return self.missing(name, (wrong[0] or {}).get("error", "not measured"))
        ours, half = runs[1]["tflops"], runs[2]["tflops"]
        self.row(name, f"{ours:.0f} TFLOP/s", f"{half:.0f} hilbert in bf16", ours / half, 1.30,
                 aim=1.45)
        apart = abs(runs[1]["losses"][0] / runs[2]["losses"][0] - 1)
        self.notes.append(f"{name}: the first loss is {100 * apart:.3f}% from bf16's")
        if "torch" in value:
            peer, mode = self.best_torch(part)
            self.row(f"{name}, against PyTorch", f"{ours:.0f} TFLOP/s",
                     f"{peer:.0f} PyTorch float8 ({mode})" if peer else f"PyTorch: {mode}",
                     ours / peer if peer else None, 1.0)

    def reference(self, shape):
        """TFLOP/s that offloading is compared with: hilbert's own in memory; of 8B, which does not
        fit, as much of its ceiling as the 3B shape reaches of its own."""
        own = self.values.get("memory-3b", {})
        own = None if failed(own) or failed(own.get("hilbert")) else own["hilbert"]["tflops"]
        if own is None or shape == "3b":
            return own, "in memory"
        top, top_3b = self.ceiling(shape), self.ceiling("3b")
        if not top or not top_3b:
            return None, ""
        return own / top_3b * top, f"{own / top_3b:.2f} of its ceiling, as 3B in memory"

    def offload(self, shape):
        value = self.values.get(f"offload-{shape}")
        if value is None:
            return
        if failed(value):
            return self.missing(f"states in RAM: {NAMES[shape]}", value["error"])
        peer, what = self.reference(shape)
        for key, run in value.items():
            budget, batch = key.split()
            tokens = "64k" if batch == "16" else "16k"
            name = f"states in RAM: {NAMES[shape]}, {tokens} tokens, " + (
                "whole GPU" if budget == "whole" else "24 GiB of it")
            least, aim = (0.90, None) if tokens == "64k" else (0.55, 0.70)
            if failed(run):
                self.missing(name, run["error"])
                continue
            ours = run["tflops"]
            self.row(name, f"{ours:.0f} TFLOP/s", f"{peer:.0f} {what}" if peer else "not measured",
                     ours / peer if peer else None, least, aim=aim)
            waited, kept = sum(run["waits"].values()) / run["seconds"], run["activations_kept"]
            note = (f"{name}: {100 * kept:.0f}% of activations kept, {100 * waited:.0f}% waiting, "
                    f"{run['seconds']:.2f} s per step")
            if kept < 1 and shape in self.ceilings:
                top = self.ceilings[shape]
                limit = 1 / (kept / top["tflops"] + (1 - kept) / top["tflops_recompute"])
                note += f"; library kernels alone that compute the rest again {limit:.0f} TFLOP/s"
            self.notes.append(note)
        if shape == "8b" and "whole 16" in value and not failed(value["whole 16"]):
            peer, mode = self.best_torch("torch-8b")
            if peer is not None:
                ours = value["whole 16"]["tflops"]
                self.row("8B, states in RAM, 64k tokens, against PyTorch in memory",
                         f"{ours:.0f} TFLOP/s",
                         f"{peer:.0f} PyTorch, recompute, pure bf16, 4 x 4096 ({mode})",
                         ours / peer, 1.0)

    def disk(self):
        value, name = self.values.get("disk-3b"), "optimizer state on disk: 3B"
        if value is None:
            return
        if failed(value):
            return self.missing(name, value["error"])
        memory = self.values.get("memory-3b", {}).get("hilbert")
        kernels = self.ceilings.get("3b")
        if failed(memory) or not kernels:
            return self.missing(name, f"{value['seconds']:.2f} s per step; its limit needs "
                                      "memory-3b and ceiling")
        forward = memory["seconds"] * kernels["forward"] / (kernels["forward"]
                                                            + kernels["backward"])
        moved = value["disk_read_bytes"] + value["disk_written_bytes"]
        rate = max(value["disk_rates"])
        limit = memory["seconds"] - forward + max(forward, moved / rate)
        self.row(name, f"{value['seconds']:.2f} s per step",
                 f"{limit:.2f} s: {moved * 1e-9:.1f} GB at {rate * 1e-9:.2f} GB/s",
                 value["seconds"] / limit, most=1.10)

    def capacity(self):
        for part, name, aim in (("capacity-fp32", "largest model, fp32 AdamW", 18e9),
                                ("capacity-8bit", "largest model, 8-bit moments", 30e9)):
            value = self.values.get(part)
            if value is None:
                continue
            if failed(value):
                self.missing(name, value["error"])
                continue
            count = value["parameters"]
            self.row(name, f"{count * 1e-9:.1f}B, {value['layers']} layers", f"{aim * 1e-9:.0f}B",
                     count / aim, aim=1)
            self.notes.append(f"{name}: {gib(value['device_peak'])} of the GPU, "
                              f"{gib(value['host_peak'])} of RAM, {gib(value['disk_peak'])} of "
                              f"disk held; steps of "
                              f"{', '.join(f'{s:.1f} s' for s in value['all_seconds'])}; "
                              f"losses {value['losses']}"
                              + "".join(f"; {line}" for line in value["failures"]))
        value, name = self.values.get("capacity-16g"), "8B in 16 GiB of the GPU"
        if value is not None and failed(value):
            self.missing(name, value["error"])
        elif value is not None:
            self.row(name, f"{value['seconds']:.2f} s per step", "trains", 1.0, 1.0)

    def budgets(self):
        """What the driver says that a run held, against its budget; the context is outside it."""
        runs = {"8B in 16 GiB": self.values.get("capacity-16g")}
        for shape in ("3b", "8b"):
            value = self.values.get(f"offload-{shape}")
            if value is not None and not failed(value):
                runs.update({f"{NAMES[shape]} {key}": run for key, run in value.items()})
        for name, run in runs.items():
            if failed(run) or "budget" not in run:
                continue
            if run["device_peak"] > run["budget"]:
                self.missing(f"budget of {name}", "exceeded by hilbert's own account")
            if run["gpu_bytes"]:
                self.notes.append(f"GPU memory, {name}: budget {gib(run['budget'])}, held by its "
                                  f"own account {gib(run['device_peak'])}, by the driver's with "
                                  f"the context {gib(run['gpu_bytes'])}")

    def start(self):
        runs = {"1b": (self.values.get("memory-1b", {}).get("hilbert"), "memory-1b", 4),
                "8b": (self.values.get("start-8b"), "torch-8b", 20)}
        for shape, (ours, part, aim) in runs.items():
            if ours is None:
                continue
            name = f"command to end of the first step: {NAMES[shape]}"
            if failed(ours):
                self.missing(name, ours["error"])
                continue
            eager = self.values.get(part, {}).get("torch", [])
            eager = [] if failed(eager) else [r for r in eager if r.get("mode") == "eager"
                                              and "first_step" in r]
            first = eager[0]["first_step"] if eager else None
            self.row(name, f"{ours['first_step']:.1f} s",
                     f"{first:.1f} s PyTorch eager" if first else "not measured",
                     ours["first_step"] / first if first else None, aim=f"{aim} s")

    def losses(self):
        value = self.values.get("losses")
        if value is None:
            return
        if failed(value):
            return self.missing("losses, GPU and CPU", value["error"])
        gpu, cpu, little = (value[key] for key in ("gpu", "cpu", "little"))
        for name, run in value.items():
            if failed(run):
                self.missing(f"losses: {name}", run["error"])
        if failed(gpu) or failed(cpu) or failed(little):
            return
        worst = max(abs(a - b) / abs(b) for a, b in zip(gpu["losses"], cpu["losses"]))
        self.row(f"losses of {len(gpu['losses'])} steps, GPU and CPU, largest difference",
                 f"{100 * worst:.3f}%", "1% (bf16 keeps 0.4%)", worst / 0.01, most=1)
        self.notes.append(f"losses: {gpu['losses'][0]:.3f} at first, {gpu['losses'][-1]:.3f} at "
                          f"last on the GPU, {cpu['losses'][-1]:.3f} on the CPU")
        same = gpu["losses"] == little["losses"] and gpu["norms"] == little["norms"]
        self.row("losses and norms of two placements", "the same bits" if same else "DIFFERENT",
                 "the same bits", float(same), 1)


def gib(count):
    return f"{(count or 0) / 2**30:.1f} GiB"


def markdown(values):
    table = Table(values)
    for shape in ("125m", "1b", "3b"):
        table.memory(shape)
    for shape in ("3b", "8b"):
        table.fp8(shape)
    for shape in ("3b", "8b"):
        table.offload(shape)
    table.disk()
    table.capacity()
    table.budgets()
    table.start()
    table.losses()
    machine = values["machine"]
    title = machine.get("gpu", machine["cpu"])
    lines = [f"# hilbert on one {title}, {machine['date']}", "",
             f"`bench/gpu.py`, commit {machine['commit'] or 'unknown'}, {machine['hilbert']}.",
             f"{machine['cpu']}, {gib(machine['ram'])} RAM, driver "
             f"{machine.get('driver', 'none')}, PyTorch {machine.get('torch', 'none')}, CUDA "
             f"{machine.get('cuda', 'none')}, cuDNN {machine.get('cudnn', 'none')}. "
             "Ratios of times are hilbert's over the limit.", "",
             "| what | hilbert | peer or limit | ratio | wanted |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    if table.ceilings:
        lines += ["", "Library kernels alone (cuBLAS, cuDNN attention), TFLOP/s without and with "
                  "recomputation: " + ", ".join(
                      f"{NAMES[s]} {c['tflops']:.0f} and {c['tflops_recompute']:.0f}"
                      for s, c in table.ceilings.items()) + "."]
    lines += ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    others = {}
    for part, known in values.get("commits", {}).items():
        if known != machine["commit"]:
            others.setdefault(known or "unknown", []).append(part)
    lines += [f"- measured with commit {known}: {', '.join(parts)}"
              for known, parts in others.items()]
    took = values.get("took", {})
    lines += ["", f"Took {sum(took.values()):.0f} s: " + ", ".join(
        f"{part} {t:.0f}" for part, t in took.items()) + "; probing the machine before "
        f"{machine.get('probe_seconds', 0):.0f} s.", ""]
    return "\n".join(lines)
