#!/usr/bin/env python3
"""finetune_table.py - the tables of docs/finetune.md, from hilbert's own plans.

    tools/finetune_table.py HILBERT speeds     full, LoRA and QLoRA, 1B to 405B, on GPUs of 8 to 80 GB
    tools/finetune_table.py HILBERT smallest   the least --device-memory for QLoRA

Speeds of GPUs are those of their data sheets (`hilbert plan --gpu`), those of processor and drive
are measured on the machine that runs this.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import gpu_shapes

SHAPES = {
    "1B": gpu_shapes.SHAPES["1b"][0], "3B": gpu_shapes.SHAPES["3b"][0],
    "8B": gpu_shapes.SHAPES["8b"][0], "70B": gpu_shapes.llama(8192, 28672, 80, 64, 8, False),
    "405B": gpu_shapes.llama(16384, 53248, 126, 128, 8, False),
}
# GB, whose speeds, what is left of them for hilbert.
GPUS = [(8, "RTX 4080", "7G"), (16, "RTX 4080", "15G"), (24, "RTX 4090", "23G"),
        (48, "RTX 6000 Ada", "46G"), (80, "H100", "78G")]
METHODS = {"full": [], "LoRA": ["--adapter", "lora"],
           "QLoRA": ["--adapter", "lora", "--base-dtype", "nf4"]}


def plan(program, folder, shape, options):
    """The plan as JSON, or None where nothing fits."""
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump(SHAPES[shape], file)
    done = subprocess.run([program, "plan", "--json", "--model", path, "--disk", f"{folder}:8T",
                           "--host-memory", "128G", *options], capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return None
    return found if found.get("fits") else None


def cell(program, folder, shape, method, gpu):
    found = plan(program, folder, shape, [
        "--seq", "2048", "--batch", "16", "--gpu", gpu[1], "--device-memory", gpu[2],
        *METHODS[method]])
    if not found:
        return "does not fit"
    rate = 16 * 2048 / found["step_seconds"]
    where = "disk" if found["peak"]["disk"] else "RAM" if found["peak"]["host"] > 2 << 30 else ""
    return (f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}") + (f" ({where})" if where else "")


def speeds(program, folder):
    print("| model | method | " + " | ".join(f"{gpu[0]} GB" for gpu in GPUS) + " |")
    print("|---|---|" + "---|" * len(GPUS))
    for shape in SHAPES:
        for method in METHODS:
            cells = (cell(program, folder, shape, method, gpu) for gpu in GPUS)
            print(f"| {shape} | {method} | {' | '.join(cells)} |", flush=True)


def smallest(program, folder):
    print("| model | least `--device-memory`, QLoRA of 1 x 2048 tokens |\n|---|---|")
    for shape in list(SHAPES)[:-1]:
        low, high = 0, 64 << 10  # MiB: does not fit, fits
        while high - low > max(1, high // 100):
            middle = (low + high) // 2
            fits = plan(program, folder, shape, [
                "--seq", "2048", "--batch", "1", "--micro-batch", "1", "--gpu", "RTX 4090",
                "--device-memory", f"{middle}M", *METHODS["QLoRA"]])
            low, high = (low, middle) if fits else (middle, high)
        print(f"| {shape} | {high / 1024:.2f} GiB |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in ("speeds", "smallest"):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as here:
        {"speeds": speeds, "smallest": smallest}[sys.argv[2]](sys.argv[1], here)
