#!/usr/bin/env python3
"""gpu_account.py - where the time of a training step on a GPU goes, kernel by kernel, as a table.

    python3 bench/gpu_account.py [--hilbert PROGRAM] [--shapes 125m,1b,...] [--out FILE]

Runs hilbert with everything in GPU memory under CUPTI (kernel_trace.c, compiled here), takes whole
steps after a warm-up, and adds up kernels by what they are for. Beside them stand the same products
and attention through cuBLAS and cuDNN alone, from the same run (gpu_torch.py ceiling). `gaps` is
the time in which no kernel ran. Tracing itself costs a little: the step's time without it is shown.
"""
import argparse
import collections
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import gpu_shapes
from gpu import HERE, commit, find_hilbert, first_line
from gpu_hilbert import Failed, Hilbert, median_seconds, write_tokens

# The first pattern that a kernel's (mangled) name has decides what it is for.
KINDS = (("attention", r"cudnn|sdpa|fmha|flash|attention|back_queries|back_keys|go_back|"
          r"find_most|make_rows|finish_queries"),
         ("products", r"nvjet|gemm|cutlass|xmma|cublas|splitK|narrow_"),
         ("quantized weights expanded", r"expand_"),
         ("rounded to 8 bits", r"find_scale|encode"),
         ("norms", r"norm_job"),
         ("rotary", r"rotate|rope"),
         ("head's softmax", r"finish_"),
         ("activation functions", r"(for|back)ward_formula|swiglu_(for|back)ward"),
         ("embedding", r"copy_rows|count_positions|order_positions|add_rows"),
         ("bias gradients", r"sum_rows"),
         ("gradients rounded and squared", r"round_blocks|square|add_lanes|add_parts|add_all"),
         ("update", r"update_"),
         ("copies and zeros", r"copy_formula|gather"))
FIRST = "copy_rows"  # the embedding's lookup: a step begins with it
WARMUP, STEPS = 4, 4
Record = collections.namedtuple("Record", "kind start end name")


def build(folder):
    """The library that CUDA loads into the program."""
    out = os.path.join(folder, "kernel_trace.so")
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    places = [f"{home}/{part}" for part in ("lib64", "lib", "extras/CUPTI/lib64")]
    command = ["cc", "-shared", "-fPIC", "-O2", os.path.join(HERE, "kernel_trace.c"), "-o", out,
               f"-I{home}/include", f"-I{home}/extras/CUPTI/include",
               *(f"-L{place}" for place in places), *(f"-Wl,-rpath,{place}" for place in places),
               "-lcupti"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"kernel_trace.c: {(done.stderr.strip().splitlines() or ['?'])[0]}")
    return out


def read(path):
    records = []
    with open(path, errors="replace") as file:
        for line in file:
            words = line.split(maxsplit=5)
            if len(words) == 6 and line.endswith("\n"):
                records.append(Record(words[0], int(words[1]), int(words[2]), words[5].strip()))
    return sorted(records, key=lambda record: record.start)


def kind_of(record):
    if record.kind != "kernel":
        return "copies and zeros"
    return next((kind for kind, words in KINDS if re.search(words, record.name)), "others")


def whole_steps(records, steps):
    """The records of the last WARMUP + STEPS steps but the warm-up and the last, whose end nothing
    marks; the first and last instant of them, and their number."""
    begins = [r.start for r in records if r.kind == "kernel" and FIRST in r.name]
    each, rest = divmod(len(begins), steps)
    if rest or not each:
        raise Failed(f"{len(begins)} lookups in {steps} steps")
    begin, end = begins[WARMUP * each], begins[(steps - 1) * each]
    return [r for r in records if begin <= r.start < end], begin, end, steps - 1 - WARMUP


def account(records, begin, end, steps):
    """Milliseconds of a step by kind, the time without a kernel, and the names behind them."""
    total, names = collections.Counter(), collections.defaultdict(collections.Counter)
    busy_until, idle = begin, 0
    for record in records:
        kind = kind_of(record)
        total[kind] += record.end - record.start
        names[kind][record.name] += record.end - record.start
        idle += max(0, record.start - busy_until)
        busy_until = max(busy_until, record.end)
    idle += max(0, end - busy_until)
    scale = 1e-6 / steps
    return ({kind: value * scale for kind, value in total.items()}, idle * scale,
            {kind: [(name, value * scale) for name, value in counter.most_common(4)]
             for kind, counter in names.items()}, len(records) / steps, (end - begin) * scale)


class Account:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.hilbert = Hilbert(args.hilbert, work, args.device, work)
        self.library = build(work)
        write_tokens(os.path.join(work, "data.npy"), 1 << 15, 1 << 20)

    def run(self, shape, traced):
        config, batch, seq = gpu_shapes.SHAPES[shape]
        path = os.path.join(self.work, "kernels.txt")
        settings = {"CUDA_INJECTION64_PATH": self.library, "KERNEL_TRACE": path} if traced else {}
        os.environ.update(settings)
        steps = WARMUP + STEPS + 1
        try:
            micro = ["--micro-batch", gpu_shapes.MICRO.get(shape, batch)]
            run = self.hilbert.train(config, batch, seq, steps, 120,
                                     [*micro, *self.args.options.split()], ends=True)
        finally:
            for name in settings:
                del os.environ[name]
        return (read(path) if traced else None), median_seconds(run, WARMUP), steps

    def measure(self, shape, limit):
        config, batch, seq = gpu_shapes.SHAPES[shape]
        _, plain, _ = self.run(shape, False)
        records, _, steps = self.run(shape, True)
        by_kind, idle, names, launches, traced = account(*whole_steps(records, steps))
        flops = gpu_shapes.token_flops(config, seq) * batch * seq * 1e-9
        layers, c = gpu_shapes.sizes(config)
        attention = 6 * layers * c * seq * batch * seq * 1e-9
        return {"shape": shape, "tokens": batch * seq, "step": plain * 1e3, "traced": traced,
                "kinds": by_kind, "gaps": idle, "names": names, "launches": launches,
                "flops": flops, "attention_flops": attention, "limit": limit}

    def ceilings(self, shapes):
        command = [self.args.python, "-W", "ignore", os.path.join(HERE, "gpu_torch.py"), "ceiling",
                   ",".join(shapes)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {each["shape"]: each for each in found}


def rows(found):
    """What, milliseconds, share of the step, what the libraries alone take."""
    limit, total = found["limit"], found["traced"]
    alone = {}
    if limit:
        alone = {"attention": limit["attention"] * 1e3,
                 "products": (limit["forward"] + limit["backward"] - limit["attention"]) * 1e3}
    for kind, value in sorted(found["kinds"].items(), key=lambda item: -item[1]):
        yield kind, value, value / total, alone.get(kind)
    yield "gaps", found["gaps"], found["gaps"] / total, None


def markdown(results, machine):
    lines = [f"# The account of a step, {machine['date']}", "",
             f"`bench/gpu_account.py`, commit {machine['commit']}, {machine['gpu']}. Milliseconds of "
             "a step in memory, by what kernels are for; \"alone\" is the same work through cuBLAS "
             "and cuDNN, in the same run.", ""]
    for found in results:
        if "error" in found:
            lines += [f"{found['shape']}: {found['error']}", ""]
            continue
        rate = found["flops"] / found["step"]
        lines += [f"## {found['shape']}: {found['tokens']} tokens, {found['step']:.1f} ms "
                  f"({rate:.0f} TFLOP/s); {found['traced']:.1f} ms traced, "
                  f"{found['launches']:.0f} launches", "", "| what | ms | share | alone | ratio |",
                  "|---|---|---|---|---|"]
        for kind, value, share, alone in rows(found):
            beside = f"{alone:.1f} | {alone / value:.2f}" if alone else " | "
            lines.append(f"| {kind} | {value:.2f} | {share:.1%} | {beside} |")
        lines.append("")
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description="where a training step's time goes")
    parser.add_argument("--hilbert", default=find_hilbert())
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--shapes", default=",".join(gpu_shapes.SHAPES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--options", default="", help="more options of hilbert train")
    parser.add_argument("--out", help="the table's file (default: in bench/results)")
    parser.add_argument("--json", help="everything, names of kernels too")
    return parser.parse_args()


def main():
    args = parse()
    work = tempfile.mkdtemp(prefix="hilbert-account-")
    try:
        bench, results = Account(args, work), []
        shapes = args.shapes.split(",")
        limits = bench.ceilings(shapes)
        for shape in shapes:
            print(f"{shape} ...", file=sys.stderr, flush=True)
            try:
                results.append(bench.measure(shape, limits.get(shape)))
            except Failed as error:
                results.append({"shape": shape, "error": str(error)})
    except Failed as error:
        sys.exit(f"gpu_account.py: {error}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    gpu = first_line(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    machine = {"date": str(datetime.date.today()), "commit": commit(args.hilbert), "gpu": gpu}
    text = markdown(results, machine)
    name = re.sub("[^a-z0-9]+", "-", gpu.lower()).strip("-")
    path = args.out or os.path.join(HERE, "results", f"{machine['date']}-account-{name}.md")
    with open(path, "w") as file:
        file.write(text)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)
    print(text)


if __name__ == "__main__":
    main()
