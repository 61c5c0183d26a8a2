#!/usr/bin/env python3
"""A PyTorch model that trains from disk through `hilbert.offload`, without a GPU: its states are
--times as large as the memory it may use. How fast the drive is used, beside fio.

    bench/bridge_disk.py [--disk DIR] [--times 8] [--width 2048] [--layers 24] [--rounds 3]

The model is a stack of linear layers in fp32 with a small batch, so that the drive limits. fio reads
and writes a file in the same folder in the proportion of the steps, past the page cache, in turn with
them; the best round of each counts, so that a busy machine spoils none. Prints a table.
"""

import argparse
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

GOAL = 0.8


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--disk", default=".")
    p.add_argument("--times", type=float, default=8, help="states, over device and host memory")
    p.add_argument("--width", type=int, default=2048)
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--steps", type=int, default=2, help="of a round")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--fio-bytes", default="1G")
    return p.parse_args()


def fio(o, read_share):
    """Bytes per second of reads and writes together."""
    name = os.path.join(o.disk, "fio-of-bridge-disk")
    common = ["fio", "--name=mix", f"--filename={name}", "--bs=4M", "--iodepth=12", "--direct=1",
              "--ioengine=io_uring", "--thread", "--output-format=json", f"--size={o.fio_bytes}"]
    if not os.path.exists(name):  # blocks that were never written are read for nothing
        subprocess.run([*common, "--rw=write", "--end_fsync=1"], check=True, capture_output=True)
    done = subprocess.run([*common, "--rw=rw", f"--rwmixread={round(100 * read_share)}"],
                          capture_output=True, text=True, check=True)
    job = json.loads(done.stdout)["jobs"][0]
    moved = job["read"]["io_bytes"] + job["write"]["io_bytes"]
    return moved / (max(job["read"]["runtime"], job["write"]["runtime"]) * 1e-3)


def main():
    o = options()
    import hilbert
    import torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(o.width, o.width, bias=False)
                                  for _ in range(o.layers)))
    states = sum(p.numel() for p in model.parameters()) * 16  # weight, gradient, two moments
    memory = int(states / o.times)
    # two layers' weights and sums in use; the rest is buffers of the drive
    device = max(4 * 4 * o.width**2 + (1 << 20), memory // 2)
    model = hilbert.offload(model, lr=1e-4, device="cpu", device_memory=device,
                            host_memory=memory - device, disk=[o.disk], saves=False)
    x = torch.randn(o.batch, o.width)

    def steps(count):
        """Seconds, bytes read and written; the update included."""
        model.hilbert.store.account()
        start = time.time()
        for _ in range(count):
            model.backward(model(x).square().mean())
            model.step()
        model.hilbert.store.wait()
        seconds, account = time.time() - start, model.hilbert.store.account()
        return seconds, account.disk_read_bytes, account.disk_written_bytes

    steps(2)
    best = peak = 0.0
    for _ in range(o.rounds):
        seconds, read, written = steps(o.steps)
        best = max(best, (read + written) / seconds)
        peak = max(peak, fio(o, read / (read + written)))
    os.remove(os.path.join(o.disk, "fio-of-bridge-disk"))
    held = model.hilbert.memory()["held"]
    print("| states | device + host memory | held | a step moves | s per step | drive | fio | ratio | wanted |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(f"| {states / 2**30:.2f} GiB | {memory / 2**30:.3f} GiB | {(held['device'] + held['host']) / 2**30:.3f} GiB "
          f"| {(read + written) / o.steps / 2**30:.2f} GiB | {(read + written) / o.steps / best:.2f} | "
          f"{best / 1e9:.2f} GB/s | {peak / 1e9:.2f} GB/s | {best / peak:.2f} | "
          f"at least {GOAL}: {'yes' if best >= GOAL * peak else 'NO'} |")


if __name__ == "__main__":
    main()
