"""hilbert.plan: what an offloaded model would keep where, before it is offloaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import nn

from ._hooks import stages
from ._offload import complete, prepare, slots_of
from ._slots import ModelSlot
from ._store import Options, Store
from .errors import BudgetError

TIERS = ("device", "host", "disk")


@dataclass
class Plan:
    """Bytes before a run. `fits` is empty, or says what is missing: then there is nothing else."""

    parameters: int
    budgets: Dict[str, int]
    least_device_memory: int = 0  # weights and gradients in use; what the states need comes from any tier
    fits: str = ""
    states: Dict[str, int] = field(default_factory=dict)  # by tier: weights, gradients, moments
    taken: Dict[str, int] = field(default_factory=dict)  # by tier: all that hilbert takes
    window: int = 0  # of the device memory: what is in use and prefetched
    traffic: Dict[str, int] = field(default_factory=dict)  # of a step, at most
    activations: Optional[int] = None  # saved for backward, by PyTorch; None: not known
    untraced: str = ""  # why not

    def __str__(self) -> str:
        lines = [f"{self.parameters / 1e9:.3f}B parameters"]
        if self.fits:
            return "\n".join([*lines, f"does not fit: {self.fits}"])
        lines.append(f"{'':24}{'device':>12}{'host':>12}{'disk':>12}")
        for name, row in (("budget", self.budgets), ("states", self.states), ("taken", self.taken)):
            lines.append(f"{name:24}" + "".join(f"{_text(row[tier]):>12}" for tier in TIERS))
        lines.append(f"{'window':24}{_text(self.window):>12}")
        lines.append(f"{'least device_memory':24}{_text(self.least_device_memory):>12}")
        lines.append("a step moves at most " +
                     ", ".join(f"{_text(size)} {name}" for name, size in self.traffic.items()))
        if self.activations is not None:
            lines.append(f"PyTorch keeps {_text(self.activations)} for backward, beside the budgets")
        elif self.untraced:
            lines.append(f"what PyTorch keeps for backward is not known: {self.untraced}")
        return "\n".join(lines)


def _text(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def plan(model: nn.Module, batch: Any = None, **arguments: Any) -> Plan:
    """Says what `hilbert.offload(model, **arguments)` would keep where, and how much a step would
    move, without memory for it; the model is not changed.

    batch: an example of what a forward gets, as a mapping of keywords, a sequence, or one value. One forward is
    traced without computing: it counts how often each module is used and what is saved for
    backward. Where that fails, because values decide the path, each is counted once.
    """
    options, groups, _ = prepare(complete(model, arguments))
    slots = slots_of(model, options, groups)
    store = Store(options)
    for slot in slots.values():
        store.add(slot)
    made = Plan(sum(slot.elements for slot in slots.values()), {
        "device": options.device_memory, "host": options.host_memory,
        "disk": sum(size for _, size in options.disks)})
    try:
        estimate = store.estimate()
    except BudgetError as error:
        made.fits = str(error)
        return made
    finally:
        store.close()
    made.states = {tier: getattr(estimate.states, tier) for tier in TIERS}
    made.taken = {tier: getattr(estimate.taken, tier) for tier in TIERS}
    made.window, made.least_device_memory = estimate.window, estimate.least_window
    uses = {id(slot): 1 for slot in slots.values()}
    if batch is not None:
        cast = options.dtype if arguments.get("dtype") is not None else None
        try:
            made.activations = _trace(model, batch, slots, uses, options, cast)
        except Exception as error:  # whatever a model does with values that are not there
            made.untraced = f"{type(error).__name__}: {error}"
    made.traffic = _traffic(made, list(slots.values()), uses)
    return made


def _traffic(made: Plan, slots: Sequence[ModelSlot], uses: Dict[int, int]) -> Dict[str, int]:
    """Weights that are not on the device come for each use in forward and in backward, gradients
    leave once, and states on disk are read and written once. The device has weights first, then
    gradients."""
    size = {id(slot): slot.elements * slot.stored.itemsize for slot in slots}
    weights = sum(size.values())
    gradients = sum(size[id(slot)] for slot in slots if slot.trainable)
    device, disk = made.states["device"], made.states["disk"]
    away = max(0.0, 1 - device / weights) if weights else 0.0
    moved = sum(2 * uses[key] * bytes_ for key, bytes_ in size.items())
    return {"weights to the device": int(moved * away),
            "gradients from it": max(0, gradients - max(0, device - weights)),
            "read from disk": disk, "written to disk": disk}


def _trace(model: nn.Module, batch: Any, slots: Mapping[int, ModelSlot],
           uses: Dict[int, int], options: Options, cast: Optional[torch.dtype]) -> int:
    """Counts uses in a forward with tensors that have no data, on the device and in the dtype of the
    run; returns bytes saved for backward."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import tree_map_only
    counted: Dict[int, int] = {}
    saved: Dict[int, int] = {}
    handles: List[Any] = []

    def count(own: List[ModelSlot]) -> Any:
        def hook(module: nn.Module, args: Any) -> None:
            for slot in own:
                counted[id(slot)] = counted.get(id(slot), 0) + 1
        return hook

    for module, parameters in stages(model):
        own = [slots[id(param)] for _, param in parameters if id(param) in slots]
        handles.append(module.register_forward_pre_hook(count(own)))
    kept: List[Any] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in saved:
            saved[storage._cdata] = storage.nbytes()
            kept.append(storage)  # so that no other gets its number
        return tensor

    try:
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with mode:
            args, keywords = _arguments(tree_map_only(
                torch.Tensor, lambda tensor: mode.from_tensor(tensor).to(options.device), batch))
            tensors = _tensors(model, mode, slots, options.device, cast)
        for tensor in tensors.values():  # these are saved by nobody
            kept.append(tensor.untyped_storage())
            saved[kept[-1]._cdata] = 0
        with mode, torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            torch.func.functional_call(model, tensors, tuple(args), dict(keywords))
    finally:
        for handle in handles:
            handle.remove()
    uses.update(counted)
    return sum(saved.values())


def _tensors(model: nn.Module, mode: Any, slots: Mapping[int, ModelSlot], device: torch.device,
             cast: Optional[torch.dtype]) -> Dict[str, torch.Tensor]:
    """Parameters and buffers without data, as `offload` would give them to a forward."""
    tensors = {}
    for name, param in model.named_parameters():
        dtype = slots[id(param)].dtype if id(param) in slots else param.dtype
        tensors[name] = mode.from_tensor(param).detach().to(device, dtype).requires_grad_(param.requires_grad)
    persistent = set(model.state_dict(keep_vars=True))
    for name, buffer in model.named_buffers():
        lower = cast if buffer.is_floating_point() and name in persistent else None
        tensors[name] = mode.from_tensor(buffer).to(device, lower or buffer.dtype)
    return tensors


def _arguments(batch: Any) -> Tuple[Iterable[Any], Mapping[str, Any]]:
    if isinstance(batch, Mapping):
        return (), batch
    return (batch if isinstance(batch, (tuple, list)) else (batch,)), {}
