#!/usr/bin/env python3
"""fp8.py - what `--dtype fp8` costs in loss: the same runs in bf16 and in fp8, on real text.

    python3 bench/fp8.py --data FILE[,FILE...] [--model FOLDER] [--seeds 1,2,3] [--steps 300]
        [--batch 8] [--seq 256] [--lr 1e-3] [--device auto] [--threads N] [--work DIR]

With --model a real model is fine-tuned on each text; without it a Llama of 24M parameters is trained
from random weights, and the bytes of the text are its tokens. Both runs of a pair see the same windows
in the same order. A twentieth of each text is held out, and evaluated in the dtype of the run. Results
of runs that have ended are kept in WORK, so that the same command continues, and the table of all that
WORK has is written to bench/results/<date>-fp8-losses-<machine>.md.
"""
import argparse
import datetime
import json
import os
import statistics

import gpu
import gpu_shapes
import losses
import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
GOAL = 0.005
RANDOM = "Llama of 24M, random weights"


def model_of(args):
    """The model to start from, and its name in the table."""
    if args.model:
        folder = os.path.abspath(args.model)
        name = os.path.basename(folder)
        return folder, os.path.basename(os.path.dirname(folder)) if name == "hf" else name
    path = os.path.join(args.work, "config.json")
    with open(path, "w") as file:
        json.dump(gpu_shapes.llama(512, 1408, 8, 8, 4, True, 256), file)
    return path, RANDOM


def measure(args):
    """A row for each text and seed, added to those that WORK has."""
    kept = os.path.join(args.work, "fp8.json")
    rows = {}
    if os.path.exists(kept):
        with open(kept) as file:
            rows = json.load(file)
    model, name = model_of(args)
    program = f"-{args.device}-{gpu.commit(args.hilbert)[:12]}"
    warmup = 0 if args.model else args.steps // 10
    for data in args.data.split(","):
        for seed in args.seeds.split(","):
            text = os.path.basename(data)
            key = f"{name}-{text}-{seed}-{args.steps}x{args.batch}x{args.seq}-{args.lr}{program}".replace(" ", "-")
            pair = {}
            for dtype in ("bf16", "fp8"):
                options = ["--eval-fraction", "0.05", "--dtype", dtype, "--seed", seed, "--lr", args.lr,
                           "--warmup", warmup, "--steps", args.steps, "--batch", args.batch, "--seq",
                           args.seq, "--device", args.device]
                options += ["--threads", args.threads] if args.threads else []
                pair[dtype] = losses.train(args.hilbert, model, data,
                                           os.path.join(args.work, f"{key}-{dtype}"), options)
            rows[key] = {"model": name, "text": text, "seed": seed, "steps": args.steps,
                         "tokens": args.batch * args.seq, "lr": args.lr, **pair}
            with open(kept, "w") as file:
                json.dump(rows, file)
    return [row for key, row in rows.items() if key.endswith(program)]


def first_and_last(run):
    tenth = max(1, len(run["losses"]) // 10)
    return run["losses"][0], statistics.mean(run["losses"][-tenth:])


def percent(ratios):
    return f"{100 * (statistics.mean(ratios) - 1):+.2f}%"


def markdown(rows, args):
    held, last, lines = {}, {}, ""
    for row in rows:
        (first, half), (_, eight) = first_and_last(row["bf16"]), first_and_last(row["fp8"])
        ratio = row["fp8"]["held_out"] / row["bf16"]["held_out"]
        name = f"{row['model']} on {row['text']}"
        held.setdefault(name, []).append(ratio)
        last.setdefault(name, []).append(eight / half)
        lines += (f"| {row['model']} | {row['text']} | {row['steps']} x {row['tokens']} tokens | {row['lr']} | "
                  f"{row['seed']} | {first:.3f} | {half:.4f} | {eight:.4f} | {row['bf16']['held_out']:.4f} | "
                  f"{row['fp8']['held_out']:.4f} | {ratio:.4f} |\n")
    within = sum(ratio <= 1 + GOAL for ratios in held.values() for ratio in ratios)
    means = "".join(f"- {name}: held out {percent(held[name])}, last tenth of the steps {percent(last[name])}; "
                    f"held out from {min(held[name]) - 1:+.2%} to {max(held[name]) - 1:+.2%} over "
                    f"{len(held[name])} seeds\n" for name in held)
    return (f"# Losses in fp8 beside bf16, {datetime.date.today()}\n\n`bench/fp8.py`; {report.machine()}; "
            f"commit {gpu.commit(args.hilbert)}.\nCosine schedule; 5% of the text is held out, and evaluated "
            "at the end in the dtype of the run. Last: mean of the last tenth of the steps.\n\n"
            f"**Held out, {within} of {len(rows)} are at most {100 * GOAL:.1f}% above bf16's.** Means of fp8 / "
            f"bf16:\n{means}\n"
            "| model | text | steps | rate | seed | first | last, bf16 | last, fp8 | held out, bf16 | "
            "held out, fp8 | fp8 / bf16 |\n|---|---|---|---|---|---|---|---|---|---|---|\n" + lines)


def parse():
    parser = argparse.ArgumentParser(description="losses in fp8 beside bf16 on real text")
    parser.add_argument("--data", required=True, help="texts, with commas between them")
    parser.add_argument("--model", help="a model folder to fine-tune (default: random weights)")
    parser.add_argument("--hilbert", default=gpu.find_hilbert(), help="the program")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--lr", default="1e-3", help="the highest learning rate")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, help="of the CPU (default: all)")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "fp8"))
    return parser.parse_args()


def main():
    args = parse()
    os.makedirs(args.work, exist_ok=True)
    text = markdown(measure(args), args)
    print(text)
    report.write(f"fp8 losses {report.machine()}", "md", text)


if __name__ == "__main__":
    main()
