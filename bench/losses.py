"""losses.py - a training run of hilbert as its losses, kept beside its folder."""
import json
import os
import shutil
import statistics
import subprocess


def train(hilbert, model, data, out, options):
    """The steps' losses, the loss on the text that is held out (an option says which), and the median
    seconds of a step. They are kept in OUT.json, and then OUT is removed: the same call reads them."""
    kept = out + ".json"
    if not os.path.exists(kept):
        subprocess.run([hilbert, "train", "--model", model, "--data", data, "--out", out, "--keep", "0",
                        "--overwrite", "--no-report", *map(str, options)], check=True)
        with open(os.path.join(out, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        steps = [line for line in lines if "grad_norm" in line]
        held = [line["eval_loss"] for line in lines if "eval_loss" in line]
        with open(kept, "w") as file:
            json.dump({"held_out": held[-1], "losses": [line["loss"] for line in steps],
                       "seconds": statistics.median(line["seconds"] for line in steps[1:])}, file)
        shutil.rmtree(out)
    with open(kept) as file:
        return json.load(file)
