#!/usr/bin/env python3
"""muon.py - Muon beside AdamW: a GPT-2 of 124M parameters, from random weights, on real text.

    python3 bench/muon.py --data FILE --tokenizer FOLDER [--steps 500] [--batch 2] [--seq 256]
        [--rates 3e-4,6e-4,1e-3] [--muon-rates 1e-3] [--device auto] [--work DIR]

Every run sees the same windows in the same order. AdamW has the best of several learning rates, so
that Muon is not compared with a rate that suits AdamW badly. A twentieth of the text is held out.
Results of runs that have ended are kept in WORK, so that the same command continues. The table is
written to bench/results/<date>-muon-<machine>.md.
"""
import argparse
import datetime
import json
import os
import shutil
import statistics

import gpu
import losses
import report
import shapes

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


class Bench:
    def __init__(self, args):
        self.args = args
        self.folder = os.path.join(args.work, "model")
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "config.json"), "w") as file:
            json.dump({**shapes.SHAPES["gpt2-124m"], "dtype": "bfloat16"}, file)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(args.tokenizer, name), self.folder)

    def train(self, optimizer, rate):
        """The steps' losses and seconds, and the loss on the text that is held out."""
        a = self.args
        text = os.path.basename(a.data)
        out = os.path.join(a.work, f"{text}-{optimizer}-{rate}-{a.steps}x{a.batch}x{a.seq}")
        options = ["--eval-fraction", "0.05", "--optimizer", optimizer, "--lr", rate, "--warmup", a.steps // 10,
                   "--steps", a.steps, "--batch", a.batch, "--seq", a.seq, "--device", a.device]
        run = losses.train(a.hilbert, os.path.join(self.folder, "config.json"), a.data, out, options)
        return {"optimizer": optimizer, "rate": rate, **run}


def markdown(runs, args):
    width = max(1, args.steps // 10)
    ends = range(2 * width, args.steps + 1, 2 * width)
    text = (f"# Muon beside AdamW, {datetime.date.today()}\n\n`bench/muon.py`; {report.machine()}; commit "
            f"{gpu.commit(args.hilbert)}.\nGPT-2 of 124M parameters from random weights in bf16 on "
            f"{os.path.basename(args.data)}, {args.steps} steps of {args.batch} x {args.seq} tokens, "
            f"warm-up of {args.steps // 10}, cosine. Loss: mean of the {width} steps before; held out: "
            f"of 5% of the text, at the end.\n\n"
            "| optimizer | rate | " + " | ".join(f"at {end}" for end in ends) +
            " | held out | a step |\n|---" + "|---" * (len(ends) + 3) + "|\n")
    for run in runs:
        means = [statistics.mean(run["losses"][end - width:end]) for end in ends]
        text += (f"| {run['optimizer']} | {run['rate']} | " + " | ".join(f"{x:.3f}" for x in means) +
                 f" | {run['held_out']:.3f} | {run['seconds']:.2f} s |\n")
    best = {name: min((run for run in runs if run["optimizer"] == name),
                      key=lambda run: run["held_out"]) for name in ("adamw", "muon")}
    return text + (f"\nHeld out, Muon {best['muon']['held_out']:.3f}, AdamW at its best rate "
                   f"{best['adamw']['held_out']:.3f}; a step takes "
                   f"{best['muon']['seconds'] / best['adamw']['seconds']:.2f} times as long.\n")


def parse():
    parser = argparse.ArgumentParser(description="Muon beside AdamW on real text")
    parser.add_argument("--data", required=True, help="a text of a million tokens or so")
    parser.add_argument("--tokenizer", required=True, help="the folder of GPT-2's tokenizer.json")
    parser.add_argument("--hilbert", default=gpu.find_hilbert(), help="the program")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--rates", default="3e-4,6e-4,1e-3", help="learning rates of AdamW")
    parser.add_argument("--muon-rates", default="1e-3", help="learning rates of Muon")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "muon"))
    return parser.parse_args()


def main():
    args = parse()
    bench = Bench(args)
    runs = [bench.train("adamw", rate) for rate in args.rates.split(",")]
    runs += [bench.train("muon", rate) for rate in args.muon_rates.split(",")]
    text = markdown(runs, args)
    print(text)
    report.write(f"muon {report.machine()}", "md", text)


if __name__ == "__main__":
    main()
