#!/usr/bin/env python3
"""paper.py - the tables and figures of ZeRO-Infinity (arXiv 2104.07857) beside hilbert's plans.

    tools/paper.py write HILBERT [BLOCK...]   rewrites blocks of docs/scale.md and their plots: all
                                              in minutes, or memory, strategies, own, ...
    tools/paper.py check HILBERT [BLOCK...]   compares blocks with the paper, and with the document:
                                              without names, those that take seconds

Everything is planned by `hilbert plan --cluster`; only the paper's numbers are written here.
"""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import paper_plot as plot

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
DOCUMENT, PLOTS = os.path.join(ROOT, "docs", "scale.md"), os.path.join(ROOT, "docs", "scale")
K, GIB, TIB = 1024, 2.0 ** 30, 2.0 ** 40
PEAK, SEQ, GPUS = 70e12, 1024, 16  # the paper: operations per second of a V100; GPUs of a DGX-2

# Table 2a: parameters (T), layers, hidden (K), heads; TiB of states, activations and checkpoints of
# a node; GiB of working memory for states and activations.
TABLE_2A = [
    (0.10, 80, 10, 128, 1.83, 2.03, 0.05, 1.56, 1.63),
    (0.50, 100, 20, 160, 9.16, 3.91, 0.12, 6.25, 2.50),
    (1.01, 128, 25, 256, 18.31, 7.13, 0.20, 9.77, 3.56),
    (10.05, 195, 64, 512, 182.81, 24.38, 0.76, 64, 8),
    (101.47, 315, 160, 1024, 1845.70, 88.59, 3.08, 400, 18),
]
# Sizes that the paper names: name, hidden, layers. Shapes of 1.4B, 13B, 20B and 70B are not in it.
SIZES = [("1.4B", 2 * K, 28), ("10B", 4 * K, 50), ("13B", 4 * K, 65), ("20B", 8 * K, 25),
         ("50B", 8 * K, 62), ("70B", 8 * K, 87), ("100B", 8 * K, 125), ("0.5T", 18 * K, 124),
         ("1T", 25 * K, 128), ("5T", 48 * K, 174)]
SIZES_ORDER = ["none", *(size[0] for size in SIZES)]
# Largest model on one DGX-2: strategy, its layout, the paper's size.
STRATEGIES = [
    ("data parallel", {"replicated": "all", "weights": "gpu", "optimizer": "gpu"}, "1.4B"),
    ("ZeRO-Offload", {"replicated": "weights", "weights": "gpu", "optimizer": "ram"}, "13B"),
    ("ZeRO-3", {"weights": "gpu", "optimizer": "gpu"}, "20B"),
    ("ZeRO-Infinity, RAM", {"weights": "ram", "optimizer": "ram"}, "70B"),
    ("ZeRO-Infinity, NVMe", {"weights": "drives", "optimizer": "drives"}, "1T"),
]
# The same machine for hilbert's own layout: what may hold states, changes of the description, the paper's size.
OWN_STRATEGIES = [("GPUs and 48 GiB of RAM", {"drives": None, "ram_gib": 48}, "20B"),
                  ("GPUs and all RAM", {"drives": None}, "70B"),
                  ("GPUs, RAM and NVMe", {}, "1T")]
# 512 GPUs: name, hidden, layers, batch per GPU, model parallel, tier, TFLOP/s per GPU.
SCALE = [("0.5T", 18 * K, 124, 7, 4, "gpu", 46.3), ("1T", 25 * K, 128, 5, 4, "gpu", 48.9),
         ("5T", 48 * K, 174, 3, 4, "drives", 44.0), ("10T", 64 * K, 200, 2, 4, "drives", 42.8),
         ("20T", 88 * K, 205, 1.25, 8, "drives", 37.2)]
SUPERLINEAR = [(4, 2.8), (8, 6.2), (16, 11.75), (32, 25.0)]  # nodes, PFLOP/s of 1T
PREFETCH = {2: 1.29, 16: 1.02}  # batch per GPU: speed-up, 8B on 64 GPUs
OFFLOAD = {2 * K: 1.21, 64 * K: 1.02}  # hidden: cost of activations in RAM
# Part of the GPU's speed that the layers of the paper's software reach: one number, from one of its
# runs, 1T on 512 GPUs, where nothing waits for a slow tier.
EFFICIENCY = 0.75


def gpt(hidden, layers, heads=None, vocabulary=512):
    """The config.json of a model with 12 x layers x hidden^2 parameters, but for little more."""
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": hidden,
            "n_layer": layers, "n_head": heads or hidden // 128, "n_positions": SEQ, "n_ctx": SEQ,
            "vocab_size": vocabulary, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}


def llama(hidden, inner, layers, heads, kv_heads):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "vocab_size": 128256,
            "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "tie_word_embeddings": False}


class Planner:
    """Plans for changed copies of the descriptions in clusters/."""

    def __init__(self, program, plots):
        self.program, self.plots, self.known = program, plots, {}

    def plan(self, model, batch, cluster="dgx-2", options=(), **changes):
        """The plan's object; `fits` says whether it does. None as a change removes a key."""
        key = json.dumps([model, batch, cluster, options, changes], sort_keys=True)
        if key not in self.known:
            self.known[key] = self.make(model, batch, cluster, options, changes)
        return self.known[key]

    def make(self, model, batch, cluster, options, changes):
        with open(os.path.join(ROOT, "clusters", cluster + ".json")) as file:
            description = {**json.load(file), **changes}
        description = {k: v for k, v in description.items() if v is not None}
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("config.json", "cluster.json")]
            for path, content in zip(paths, (model, description)):
                with open(path, "w") as file:
                    json.dump(content, file)
            done = subprocess.run(
                [self.program, "plan", "--quiet", "--json", "--model", paths[0], "--cluster",
                 paths[1], "--seq", str(SEQ), "--batch", str(int(batch)), *options],
                capture_output=True, text=True)
        if not done.stdout:
            sys.exit(f"hilbert plan: {done.stderr}")
        found = json.loads(done.stdout)
        found.setdefault("fits", True)
        return found

    def layout(self, model, per_gpu, nodes=1, options=(), **layout):
        return self.plan(model, per_gpu * GPUS * nodes, options=options, nodes=nodes, layout=layout)


def operations(hidden, layers, per_gpu):
    """Of one GPU in a step, with recompute, as the paper counts: 8 for each parameter and token."""
    return 8 * 12 * layers * hidden ** 2 * per_gpu * SEQ


def table(head, rows):
    lines = ["| " + " | ".join(row) + " |" for row in [head] + rows]
    return "\n".join(lines[:1] + ["|" + "---|" * len(head)] + lines[1:])


def near(what, value, paper, part):
    if not abs(value / paper - 1) <= part:
        sys.exit(f"{what}: {value:.4g}, in the paper {paper:.4g}: not within {part:.0%}")


def memory(planner):
    rows = []
    for parameters, layers, hidden, heads, *paper in TABLE_2A:
        model = gpt(hidden * K, layers, heads)
        four = planner.layout(model, 4)["analysis"]
        ours = [four["states"] / TIB, GPUS * four["activations"] / TIB,
                GPUS * four["checkpoints"] / 2 / TIB, four["working_states"] / GIB,
                four["working_activations"] / GIB]
        # checkpoints: of 32 sequences of a node, not 64
        for name, value, printed in zip(("states", "activations", "checkpoints", "work"), ours,
                                        paper):
            # the paper prints two digits after the point
            near(f"table 2a, {parameters}T, {name}", value, printed, max(0.02, 0.0051 / printed))
        rows.append([f"{parameters:.2f}"] + [f"{a:.2f} / {b:.2f}" for a, b in zip(paper, ours)])
    return table(["parameters (T)", "states (TiB)", "activations/node (TiB)",
                  "checkpoints/node (TiB)", "work: states (GiB)", "work: activations (GiB)"], rows)


def efficiency(intensity, bandwidth):
    return intensity * bandwidth / (intensity * bandwidth + PEAK)


def bandwidth(planner):
    """Figure 3: three panels of efficiency by bandwidth, and what the paper says about them."""
    batches, hiddens = (1, 2, 4, 8, 16), (2 * K, 8 * K, 16 * K, 32 * K, 64 * K)
    ait = {b: planner.layout(gpt(8 * K, 10), b)["analysis"] for b in batches}
    kept = {h: planner.layout(gpt(h, 10), 1)["analysis"]["flop_per_byte_checkpoints"]
            for h in hiddens}
    panels = []
    for name, key, top in (("weights and gradients", "weights", 1000),
                           ("optimizer states", "optimizer", 10000)):
        grid = [10 ** (n / 12) for n in range(0, int(12 * (3 if top == 1000 else 4)) + 1)]
        series = [(f"batch {b}", [(x, 100 * efficiency(ait[b]["flop_per_byte_" + key], x * 1e9))
                                  for x in grid]) for b in batches]
        panels.append(plot.lines(len(panels), name, "GB/s", "efficiency, %", series, (1, top),
                                 (0, 100), True))
    grid = [10 ** (n / 12 - 1) for n in range(0, 37)]
    series = [(f"hidden {h // K}K", [(x, 100 * efficiency(kept[h], x * 1e9)) for x in grid])
              for h in hiddens]
    panels.append(plot.lines(2, "activation checkpoints", "GB/s", "efficiency, %", series,
                             (0.1, 100), (0, 100), True))
    for b in batches:
        near("figure 3, weights", ait[b]["flop_per_byte_weights"], SEQ * b, 0.02)
        near("figure 3, optimizer", ait[b]["flop_per_byte_optimizer"], SEQ * b / 4, 0.02)
    for h in hiddens:
        near("figure 3, activations", kept[h], 24 * h, 0.02)
    rows = [["weights and gradients, batch 1", "70 GB/s", "more than 50%",
             f"{efficiency(ait[1]['flop_per_byte_weights'], 70e9):.1%}"],
            ["optimizer states, batch 2", "1.5 TB/s", "90%",
             f"{efficiency(ait[2]['flop_per_byte_optimizer'], 1.5e12):.1%}"],
            ["activations, hidden 2K", "2 GB/s", "more than 50%",
             f"{efficiency(kept[2 * K], 2e9):.1%}"],
            ["activations, hidden 8K", "1 GB/s", "more than 50%",
             f"{efficiency(kept[8 * K], 1e9):.1%}"]]
    return table(["what", "bandwidth", "paper", "hilbert"], rows), panels


def largest(planner, cluster_changes, layout, options=()):
    """The largest of the sizes that fits, and whether the next one was tried and does not."""
    found = "none"
    for name, hidden, layers in SIZES:
        model = gpt(hidden, layers)
        plan = (planner.layout(model, 1, **layout) if layout else
                planner.plan(model, GPUS, options=options, **cluster_changes))
        if not plan["fits"]:
            break
        found = name
    return found


def strategies(planner):
    rows = []
    for name, layout, paper in STRATEGIES:
        ours = largest(planner, {}, layout)
        if ours != paper:
            sys.exit(f"largest model with {name}: {ours}, in the paper {paper}")
        rows.append([name, paper, ours])
    return rows


def throughput(planner, **changes):
    """TFLOP/s of each point of 512 GPUs, as the paper counts them."""
    found = []
    for _, hidden, layers, batch, parallel, tier, _ in SCALE:
        plan = planner.layout(gpt(hidden, layers), batch, 32, weights=tier, optimizer=tier,
                              activations="ram", model_parallel=parallel, **changes)
        found.append((operations(hidden, layers, batch) / plan["step_seconds"] * 1e-12, plan))
    return found


def scale_rows(planner):
    ours, full = throughput(planner, efficiency=EFFICIENCY), throughput(planner)
    rows = []
    for point, (speed, plan), (most, _) in zip(SCALE, ours, full):
        name, paper = point[0], point[-1]
        near(f"{name} on 512 GPUs", speed, paper, 0.15)
        rows.append([name, f"{paper:.1f}", f"{speed:.1f} ({speed / paper - 1:+.0%})",
                     f"{most:.1f} ({most / paper - 1:+.0%})", plan["limit"]])
    return rows, [o[0] for o in ours], [f[0] for f in full]


def superlinear(planner):
    """The batch of a node is the same; the fastest placement that fits is taken."""
    hidden, layers, batch = 25 * K, 128, 5
    rows, points = [], []
    for nodes, paper in SUPERLINEAR:
        plan = planner.layout(gpt(hidden, layers), batch, nodes, activations="ram",
                              model_parallel=4, efficiency=EFFICIENCY)
        speed = operations(hidden, layers, batch) * nodes * GPUS / plan["step_seconds"] * 1e-15
        points.append((nodes, paper, speed))
        rows.append([str(nodes * GPUS), f"{paper:g}", f"{paper / SUPERLINEAR[0][1]:.1f}",
                     f"{speed:.1f} ({speed / paper - 1:+.0%})", f"{speed / points[0][2]:.1f}",
                     plan["layout"]["weights"], plan["layout"]["optimizer"]])
    for (nodes, _, speed), (more, _, faster) in zip(points, points[1:]):
        if not faster / speed > more / nodes:
            sys.exit(f"1T from {nodes} to {more} nodes is not superlinear")
    return rows, points


def prefetch(planner):
    """Batch of a GPU, the paper's speed-up or None, and the plan's."""
    rows = []
    for batch in (2, 4, 8, 16):
        on, off = (planner.layout(gpt(8 * K, 10), batch, 4, activations="gpu", weights="gpu",
                                  optimizer="gpu", overlap=way,
                                  efficiency=EFFICIENCY)["step_seconds"] for way in (True, False))
        rows.append((batch, PREFETCH.get(batch), off / on))
        if batch in PREFETCH:
            near(f"prefetch at batch {batch}", off / on, PREFETCH[batch], 0.1)
    return rows


def offload(planner):
    """Hidden size, the paper's cost or None, and the plan's."""
    rows = []
    for hidden in (2 * K, 4 * K, 8 * K, 16 * K, 32 * K, 64 * K):
        kept, moved = (planner.layout(gpt(hidden, 5), 4, 2, activations=tier, weights="gpu",
                                      optimizer="gpu", efficiency=EFFICIENCY)["step_seconds"]
                       for tier in ("gpu", "ram"))
        rows.append((hidden, OFFLOAD.get(hidden), moved / kept))
        if hidden in OFFLOAD:
            near(f"activations in RAM at hidden {hidden}", moved / kept, OFFLOAD[hidden], 0.1)
    return rows


def tiling(planner):
    """Working memory of the largest operator, and whether hilbert's own tiles let one GPU do it."""
    rows = []
    for hidden in (8 * K, 16 * K, 32 * K, 64 * K):
        work = planner.layout(gpt(hidden, 1), 1)["analysis"]["working_states"] / GIB
        plan = planner.plan(gpt(hidden, 1), 1, nodes=1, gpus=1, network=None)
        rows.append([f"{hidden // K}K", f"{work:.0f} GiB", f"{work / 16:.2f} GiB",
                     "fits" if plan["fits"] else "does not fit"])
    return rows


def bandwidth_block(planner):
    text, panels = bandwidth(planner)
    plot.write(os.path.join(planner.plots, "bandwidth.svg"), panels,
               "Efficiency by bandwidth, as in figure 3 of ZeRO-Infinity")
    return text


def strategies_block(planner):
    return table(["strategy", "paper", "planned"], strategies(planner))


def scale_block(planner):
    rows, ours, full = scale_rows(planner)
    groups = [(p[0], [p[-1], v, most]) for p, v, most in zip(SCALE, ours, full)]
    points = superlinear(planner)[1]
    series = [("paper", [(n, a / points[0][1]) for n, a, _ in points]),
              ("planned", [(n, b / points[0][2]) for n, _, b in points]),
              ("linear", [(n, n / points[0][0]) for n, _, _ in points])]
    plot.write(os.path.join(planner.plots, "scale.svg"), [
        plot.bars(0, "512 GPUs, with recompute", "TFLOP/s per GPU", groups,
                  ["paper", "planned", "at efficiency 1"], (0, 80)),
        plot.lines(1, "1T, speed beside 4 nodes", "nodes", "times", series, (0, 34), (0, 13),
                   corner="upper left")], "Throughput on 512 GPUs, and of 1T on 4 to 32 nodes")
    return table(["model", "paper", "planned", "at efficiency 1", "limited by"], rows)


def superlinear_block(planner):
    return table(["GPUs", "paper, PFLOP/s", "times 64 GPUs", "planned, PFLOP/s", "times 64 GPUs",
                  "weights", "optimizer"], superlinear(planner)[0])


def or_dash(value):
    return f"{value:.2f}" if value else "-"


def prefetch_block(planner):
    rows = prefetch(planner)
    moved = offload(planner)
    plot.write(os.path.join(planner.plots, "overlap.svg"), [
        plot.lines(0, "prefetch and overlap, 8B on 64 GPUs", "batch of a GPU", "speed-up",
                   [("planned", [(b, v) for b, _, v in rows]),
                    ("paper", [(b, p) for b, p, _ in rows if p])], (0, 17), (1, 1.5),
                   corner="upper right"),
        plot.lines(1, "activations in RAM", "hidden size, K", "cost",
                   [("planned", [(h / K, v) for h, _, v in moved]),
                    ("paper", [(h / K, p) for h, p, _ in moved if p])], (1, 100), (0.95, 1.4),
                   True, "upper right")],
               "Prefetch by batch, and activation offload by hidden size")
    return table(["batch per GPU", "paper", "planned"],
                 [[str(b), or_dash(p), f"{v:.2f}"] for b, p, v in rows])


def offload_block(planner):
    return table(["hidden", "paper", "planned"],
                 [[f"{h // K}K", or_dash(p), f"{v:.2f}"] for h, p, v in offload(planner)])


def largest_block(planner):
    rows = []
    for name, changes, paper in OWN_STRATEGIES:
        ours = largest(planner, changes, None, FP16)
        if SIZES_ORDER.index(ours) < SIZES_ORDER.index(paper):
            sys.exit(f"largest model in {name}: {ours}, in the paper {paper}")
        rows.append([name, paper, ours])
    return table(["states in", "paper", "hilbert"], rows)


def tiling_block(planner):
    return table(["hidden", "working memory", "in 16 tiles", "hilbert on one V100"],
                 tiling(planner))


FP16 = ("--dtype", "fp16")  # a V100 has no bf16
QLORA = ("--adapter", "lora", "--base-dtype", "nf4")
B175, B405 = gpt(12 * K, 96, 96), llama(16384, 53248, 126, 128, 8)
OWN = [
    ("20B, one DGX-2, GPUs and 48 GiB of RAM", gpt(8 * K, 25), 128, "dgx-2", {"drives": None, "ram_gib": 48},
     FP16),
    ("100B, one DGX-2, no drives", gpt(8 * K, 125), 128, "dgx-2", {"drives": None}, FP16),
    ("1T, one DGX-2", gpt(25 * K, 128), 112, "dgx-2", {}, FP16 + ("--micro-batch", "7")),
    ("1T, one DGX H200", gpt(25 * K, 128), 256, "dgx-h200", {}, ()),
    ("175B, one RTX 4090", B175, 64, "rtx-4090", {}, ()),
    ("175B, one RTX 4090, QLoRA", B175, 16, "rtx-4090", {}, QLORA),
    ("405B, one RTX 4090", B405, 64, "rtx-4090", {}, ()),
    ("405B, one RTX 4090, QLoRA", B405, 16, "rtx-4090", {}, QLORA),
]


# Beyond the paper: name, layers, hidden, nodes, cluster, GB/s of the network, speed of products.
HUGE = [("32T, 512 V100", 240, 105472, 32, "dgx-2", 70e9, 70e12),
        ("100T, 2,048 H200", 310, 163840, 256, "dgx-h200", 320e9, 0.7 * 989.4e12)]


def own_point(name, hidden, layers, batch, *_):
    """A point of the paper's on 512 GPUs, with all sequences of a GPU in one micro-batch."""
    return (f"{name}, 512 V100", gpt(hidden, layers), int(batch) * 512, "dgx-2", {"nodes": 32},
            FP16 + ("--micro-batch", str(int(batch))))


def own_huge(name, layers, hidden, nodes, cluster, *_):
    """1024 tokens for each GPU."""
    ranks = nodes * (GPUS if cluster == "dgx-2" else 8)
    return name, gpt(hidden, layers, None, 50257), ranks, cluster, {"nodes": nodes}, FP16


def own_row(planner, name, model, batch, cluster, changes, options):
    plan = planner.plan(model, batch, cluster, options, **changes)
    if not plan["fits"]:
        return [name, str(batch), "does not fit", "-", "-", "-", "-", "-"]
    peak, found = plan["peak"], plan["cluster"]
    return [name, str(batch), f"{peak['device'] / GIB:.1f}", f"{peak['host'] / GIB:,.0f}",
            f"{peak['disk'] / GIB:,.0f}", f"{plan['step_seconds']:,.0f}",
            f"{found['tflops_per_gpu']:.1f}", plan["limit"]]


def own_table(planner, jobs):
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda job: own_row(planner, *job), jobs))
    return table(["model, machine", "batch", "GPU (GiB)", "RAM (GiB)", "drives (GiB)", "step (s)",
                  "TFLOP/s per GPU", "limited by"], rows)


def own_block(planner):
    return own_table(planner, OWN + [own_point(*point) for point in SCALE] +
                     [own_huge(*point) for point in HUGE])


def amount(value, digits=1):
    """Bytes in GiB or TiB."""
    return f"{value / GIB:,.{digits}f} GiB" if value < TIB else f"{value / TIB:,.{digits}f} TiB"


def beside(name, hand, planned, show, part):
    """A cell: the sum by hand, and the plan's number: up to `part` more, or a hundredth less."""
    if not 0.99 <= planned / hand <= 1 + part:
        sys.exit(f"{name}: {show(planned)} planned, {show(hand)} by hand")
    return f"{show(hand)}; plan {show(planned)}"


def sums_column(planner, name, layers, hidden, nodes, cluster, network, speed):
    """The numbers of a plan beside the same, summed here from the model's shape alone."""
    _, model, ranks, *rest = own_huge(name, layers, hidden, nodes, cluster)
    plan = planner.plan(model, ranks, rest[0], rest[2], **rest[1])
    rows = {r["name"]: sum(r[t] for t in ("device", "host", "disk")) for r in plan["memory"]}
    states = ("weights", "master weights (fp32)", "first moments", "second moments", "gradients")
    parameters = 12 * layers * hidden ** 2 + 50257 * hidden
    others, moved, busy = (ranks - 1) / ranks, plan["bytes_per_step"], plan["busy_seconds"]
    tiers = [s["activations"] for s in plan["segments"]]
    tier = max(set(tiers), key=tiers.count)

    def held(names, each):
        return beside(f"{name}, {names[0]}", each * parameters / ranks,
                      sum(rows[n] for n in names), amount, 0.01)

    def minutes(value):
        return f"{value / 60:.0f} min"

    return [f"`{cluster}` with {nodes} nodes: " + ", ".join(
                f"{amount(plan['budget'][t])} of {part}" for t, part in
                (("device", "GPU"), ("host", "RAM"), ("disk", "drives"))),
            f"{parameters * 1e-12:.2f}T",
            held(states[:1], 2), held(states[1:4], 12), held(states[4:], 2), held(states, 16),
            f"{amount(layers * SEQ * hidden * 2)}, " +
            {"device": "on the GPU", "host": "in RAM", "disk": "on drives"}[tier],
            f"{amount(12 * hidden ** 2 * 4, 1)} on each rank",
            beside(f"{name}, reduced", 2 * parameters * others, moved["reduced"], amount, 0.02),
            beside(f"{name}, gathered", 16 / 3 * parameters * others, moved["gathered"], amount,
                   0.02),
            beside(f"{name}, network", 22 / 3 * parameters * others / network,
                   busy["gather"] + busy["reduce"], minutes, 0.2),
            beside(f"{name}, computing", 22 / 3 * parameters * SEQ / speed,
                   plan["compute_seconds"], minutes, 0.35),
            minutes(plan["step_seconds"])]


def sums_block(planner):
    names = ["machine; a rank has", "parameters: 12 x layers x hidden^2, and 50,257 x hidden",
             "weights, 2 bytes / ranks", "master and two moments, 3 x 4 bytes / ranks",
             "gradients, 2 bytes / ranks", "states of a rank, 16 bytes / ranks",
             "outputs of layers: layers x 1024 x hidden x 2 bytes",
             "sums of a layer that gradients that leave by tile need not keep: 12 x hidden^2 x 4 bytes",
             "reduced: 2 bytes x (ranks - 1) / ranks", "gathered: 2 2/3 times as much",
             "network: both at 70 and at 320 GB/s",
             "computing: 7 1/3 operations for each parameter and token at 70 and 693 TFLOP/s",
             "a step"]
    columns = [sums_column(planner, *point) for point in HUGE]
    return table([""] + [f"{p[0].split(',')[0]}: {p[1]} layers of {p[2]:,}" for p in HUGE],
                 [list(row) for row in zip(names, *columns)])


# Blocks of the document; the first ones take seconds.
CHEAP = {"memory": memory, "bandwidth": bandwidth_block, "strategies": strategies_block,
         "scale": scale_block, "superlinear": superlinear_block, "prefetch": prefetch_block,
         "offload": offload_block}
BLOCKS = {**CHEAP, "largest": largest_block, "tiling": tiling_block, "own": own_block, "sums": sums_block}


def place(document, name):
    """Where the block's text begins and ends."""
    mark = f"<!-- tools/paper.py: {name} -->\n"
    if mark not in document:
        sys.exit(f"{DOCUMENT}: there is no line {mark.strip()}")
    first = document.index(mark) + len(mark)
    return first, document.index("<!-- end -->", first)


def write(planner, names):
    for name in names:
        text = BLOCKS[name](planner)
        with open(DOCUMENT) as file:
            document = file.read()
        first, last = place(document, name)
        with open(DOCUMENT, "w") as file:
            file.write(f"{document[:first]}{text}\n{document[last:]}")


def check(planner, names):
    with open(DOCUMENT) as file:
        document = file.read()
    for name in names:
        text = BLOCKS[name](planner)
        first, last = place(document, name)
        if document[first:last].strip() != text:
            sys.exit(f"docs/scale.md, {name}: write it anew with make paper; it should be\n{text}")


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    if sys.argv[1] == "write":
        return write(Planner(sys.argv[2], PLOTS), sys.argv[3:] or BLOCKS)
    with tempfile.TemporaryDirectory() as folder:
        return check(Planner(sys.argv[2], folder), sys.argv[3:] or CHEAP)


if __name__ == "__main__":
    main()
