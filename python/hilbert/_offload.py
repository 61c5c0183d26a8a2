"""hilbert.offload: puts the states of a module into hilbert's tiers."""

from __future__ import annotations

import contextlib
import inspect
import os
import resource
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union, cast

import torch
from torch import nn

from . import _c
from ._activations import Activations, allowance, reserve
from ._guards import check_model, guard, has_memory
from ._hooks import Uses, attach, refuse_copy, stages
from ._slots import ModelSlot
from ._state import attach_state, guard_apply
from ._store import NAMES, Options, Store, parse_dtype
from .errors import Error, UsageError
from ._init import take
from ._ranks import Ranks, initialise, local_size, world_size
from .optimizer import Groups, Optimizer, groups_of, take_torch
from .sizes import Disk, Size, available_memory, list_disks, parse_disk, parse_size


class Offload:
    """The state behind an offloaded model: `model.hilbert`."""

    optimizer: Optimizer

    def __init__(self, model: nn.Module, options: Options, groups: Groups, defaults: Dict[str, Any]) -> None:
        self.model = cast(Callable[[], nn.Module], weakref.ref(model))  # who calls this has it
        self._slots = slots_of(model, options, groups)
        self.store = _open_store(options)
        for slot in self.slots:
            self.store.add(slot)
        self.store.place()
        self.optimizer = Optimizer(self, groups, defaults)
        self.optimizer.push_rates()  # what is refused leaves the model as it was
        self.store.write_all((slot, self._take(slot)) for slot in self.slots)
        self.uses = Uses(self.store, model)
        attach(model, self.uses, self._slots)
        attach_state(model, self.uses, self._slots)
        guard_apply(model)
        model.to(self.store.device)  # buffers, and parameters that are not in the store
        self.uses.optimizer = self.optimizer
        for group in groups:
            for param in group["params"]:
                if id(param) in self._slots:
                    self._slots[id(param)].holders += 1
        self.last_norm = 0.0
        self._warned = False  # of parameters that are not trained
        _states.add(self)

    def _take(self, slot: ModelSlot) -> torch.Tensor:
        """The numbers of a parameter, which becomes a placeholder."""
        values = take(slot.param)
        slot.make_placeholder(self.store.device)
        return values

    @property
    def slots(self) -> Iterable[ModelSlot]:
        """Of every parameter in the store."""
        return self._slots.values()

    def slot_of(self, param: nn.Parameter) -> Optional[ModelSlot]:
        """None: it is not in the store."""
        return self._slots.get(id(param))

    def idle(self) -> None:
        """Makes sure that no training step runs, and that what was changed is in the store."""
        self.uses.idle()
        self.uses.drop_copies()

    def pause(self) -> None:
        """As `idle`, but on one rank a step that has gradients may go on afterwards."""
        if not self.uses.pause():
            self.idle()

    def discard(self) -> None:
        """Discards the gradients of this step."""
        self.uses.discard()

    def update(self) -> None:
        """The optimizer's step."""
        if not self._warned:
            self._warn_of_others()
        self.last_norm = self.uses.update()
        if self.store.options.grows:
            self._grow()

    def _warn_of_others(self) -> None:
        """Parameters that have come since offload, such as adapters, are not in the store."""
        for param in self.model().parameters():
            if id(param) in self._slots or param.grad is None or not param.numel():
                continue
            self._warned = True
            name = next(name for name, other in self.model().named_parameters() if other is param)
            warnings.warn(f"{name} was added after hilbert.offload, and is not trained by it: add adapters and "
                          "replace modules before", stacklevel=7)
            return

    def _grow(self) -> None:
        """After the first step: what PyTorch did not need of the device is the store's."""
        options = self.store.options
        options.grows = False
        spare = spare_memory(options.device)
        try:
            options.device_memory += self.store.grow(spare) if spare > 0 else 0
        except Error as error:  # such as another program that took it
            warnings.warn(f"device_memory stays as it is: {error}", stacklevel=4)

    def reset_moments(self) -> None:
        """Begins the optimizer anew with the weights as they are. Between steps."""
        self.idle()
        for slot in self.slots:
            if slot.trainable:
                for state in (_c.MOMENT1, _c.MOMENT2):
                    if self.store.has(slot, state):
                        self.store.write(slot, torch.zeros(slot.elements), state)
        progress = self.store.progress
        progress.updates = 0
        self.store.progress = progress

    def backward(self, loss: torch.Tensor, **arguments: Any) -> None:
        """loss.backward(); the gradients of several calls are summed until `step`."""
        scale = self.store.progress.loss_scale
        self.uses.scaling = True
        try:
            (loss if scale == 1 else loss * scale).backward(**arguments)
        finally:
            self.uses.scaling = False
        self.uses.drop_copies()

    def memory(self) -> Dict[str, Dict[str, int]]:
        """Bytes by tier: the budgets, the most that hilbert held of them, and the most that PyTorch
        allocated itself on the device (0 without a GPU) and this process has in RAM, with what
        hilbert holds there. Restarts the counters of `store.account()`."""
        options, account = self.store.options, self.store.account()
        gpu = options.device.type == "cuda"
        return {"budget": {"device": options.device_memory, "host": options.host_memory,
                           "disk": sum(size for _, size in options.disks)},
                "held": {"device": account.device_peak, "host": account.host_peak,
                         "disk": account.disk_peak},
                "pytorch": {"device": torch.cuda.max_memory_allocated(options.device) if gpu else 0},
                "process": {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}}

    def step(self) -> float:
        """Updates every parameter that has a gradient. Returns the norm of all gradients."""
        self.optimizer.step()
        return self.last_norm


def spare_memory(device: torch.device) -> int:
    """Bytes of a GPU that PyTorch has not needed so far, less as much as it has: later batches may
    be longer than the first."""
    if device.type != "cuda":
        return 0
    margin = max(1 << 30, torch.cuda.max_memory_reserved(device))
    return torch.cuda.mem_get_info(device)[0] - margin


def _open_store(options: Options) -> Store:
    """One that is shared, where several ranks were started."""
    if world_size() == 1:
        return Store(options)
    from ._shared import SharedStore
    return SharedStore(options, Ranks())


def slots_of(model: nn.Module, options: Options, groups: Groups) -> Dict[int, ModelSlot]:
    """A slot for each floating-point parameter, by its id; shared parameters have one."""
    rates = {id(param): number for number, group in enumerate(groups) for param in group["params"]}
    slots: Dict[int, ModelSlot] = {}
    for group, (_, parameters) in enumerate(stages(model)):
        for name, param in parameters:
            if id(param) in slots or not _is_storable(param) or not param.numel():
                continue
            slots[id(param)] = ModelSlot(
                param, name=name, dtype=options.dtype if options.casts else _own_dtype(name, param), group=group,
                trainable=param.requires_grad and id(param) in rates,
                rates=rates.get(id(param), 0))
    return slots


def _own_dtype(name: str, param: nn.Parameter) -> torch.dtype:
    if param.dtype not in NAMES:
        raise UsageError(f'{name} is {param.dtype}, which is not supported: give dtype="fp32", "bf16" or "fp16"')
    return param.dtype


def _is_storable(param: nn.Parameter) -> bool:
    """Others are those of quantized models, of which dtype and scales belong together."""
    return param.is_floating_point() and param.element_size() > 1 and has_memory(param)


def state_of(model: nn.Module) -> Offload:
    """The state behind an offloaded model."""
    state = model.__dict__.get("hilbert")
    if not isinstance(state, Offload):
        raise UsageError(f"{type(model).__name__} was not given to hilbert.offload")
    return state


_states: "weakref.WeakSet[Offload]" = weakref.WeakSet()


def find_state(params: List[nn.Parameter]) -> Optional[Offload]:
    """The state behind the offloaded model that has one of these."""
    for state in _states:
        if any(state.slot_of(param) is not None for param in params):
            return state
    return None


def _main_dtype(model: nn.Module) -> torch.dtype:
    """The dtype of most numbers."""
    sizes: Dict[torch.dtype, int] = {}
    for param in model.parameters():
        if _is_storable(param):
            sizes[param.dtype] = sizes.get(param.dtype, 0) + param.numel()
    dtype = max(sizes, key=lambda key: sizes[key], default=torch.float32)
    if dtype not in NAMES:
        raise UsageError(f'{dtype} is not supported: give dtype="fp32", "bf16" or "fp16"')
    return dtype


def offload(model: nn.Module, *, optimizer: Union[str, torch.optim.Optimizer] = "adamw",
            lr: float = 1e-3, betas: Optional[Tuple[float, float]] = None, eps: float = 1e-8,
            weight_decay: float = 0.01, clip: float = 0.0, params: Optional[Iterable[Any]] = None,
            dtype: Union[None, str, torch.dtype] = None, device_memory: Size = None, host_memory: Size = None,
            disk: Union[None, Disk, Iterable[Disk]] = (), device: Union[None, str, torch.device] = None,
            window: Size = None, threads: int = 0, saves: bool = True, steady: bool = True,
            activations: Size = "none",
            loss_scale: Optional[Mapping[str, int]] = None) -> Any:  # for checkers: the model, with more attributes
    """Puts weights, gradients and optimizer states of a model into hilbert's tiers.

    Returns the same object with two more methods, `backward(loss)` and `step()`, and the attributes
    `optimizer` and `hilbert`. Several `backward` calls before one `step` accumulate.

    optimizer: "adamw", "adamw8bit", "lion", "muon", or a torch.optim.AdamW, whose groups and moments are taken over.
    params: groups as torch.optim takes them; names instead of parameters are allowed too.
    clip: gradients are scaled down to this norm; 0: never.
    dtype: "fp32", "bf16" or "fp16", in which the model computes (masters are fp32), or PyTorch's name
        of it; None: each parameter's own.
    device_memory, host_memory, disk: hard budgets of what hilbert holds, as in "20G", "64G",
        ["/nvme:500G", "/other"]. Without a GPU both kinds of memory are RAM. Without device_memory, half
        of what the GPU has free, and from the second step on all that the first one did not need.
    device: "cuda", "cuda:1" or "cpu"; None: a GPU where there is one. The model computes there, on
        the stream that is current now.
    window: device memory for weights and gradients in use and prefetched; None: chosen.
    threads: of the update on the CPU; 0: all.
    steady: a gradient leaves the device when it has as many parts as in the last step; one that
        comes later is rounded on its own, and needs memory that may not be there. False: all leave
        at `step`.
    saves: False saves the buffer of host memory that `hilbert.save` needs.
    activations: "none" leaves tensors that wait for backward to PyTorch. With a size, as in "8G", the
        oldest ones beyond it wait in RAM or on disk, within the budgets; "auto": half of the GPU's
        memory that is free after the states were placed, without a GPU half of `device_memory`.
    loss_scale: of fp16, with the fields of hil_loss_scale: start, window, least, hysteresis, refill,
        fixed. None: begins at 65536, an overflow halves it, 2000 updates double it.
    """
    taken = [name for name in ("hilbert", "optimizer", "backward", "step") if hasattr(model, name)]
    if taken and "hilbert" not in model.__dict__:
        raise UsageError(f"{type(model).__name__} has an attribute '{taken[0]}', which hilbert.offload would "
                         "replace: rename it, or offload a module that contains this one")
    state = place(dict(locals()))
    for name in ("optimizer", "backward", "step"):
        setattr(model, name, getattr(state, name))
    return model


def place(arguments: Mapping[str, Any]) -> Offload:
    """`offload` without the attributes `optimizer`, `backward` and `step`, from all its arguments."""
    model, activations = arguments["model"], arguments["activations"]
    options, groups, defaults = prepare(arguments)
    for name, param in model.named_parameters():
        if param.is_meta:
            raise UsageError(f"{name} has no values, it is on the device meta: use hilbert.init, which needs no "
                             "more memory, or hilbert.from_pretrained")
    if arguments["dtype"] is not None:
        _cast_buffers(model, options.dtype)
    state = Offload(model, options, groups, defaults)
    if activations not in ("none", None):
        state.uses.activations = Activations(state.store, allowance(options, activations))
    own = model.zero_grad

    def zero_grad(set_to_none: bool = True) -> None:
        own(set_to_none)
        state.discard()

    model.hilbert, model.zero_grad, model.__reduce_ex__ = state, zero_grad, refuse_copy
    if isinstance(arguments["optimizer"], torch.optim.Optimizer):
        state.optimizer.take_states(arguments["optimizer"].state)
    return state


def complete(model: nn.Module, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """All arguments of `offload`, of which these are given."""
    given = inspect.signature(offload).bind(model, **arguments)
    given.apply_defaults()
    return given.arguments


def prepare(arguments: Mapping[str, Any]) -> Tuple[Options, Groups, Dict[str, Any]]:
    """Options of the store, groups of the optimizer and its defaults, from all arguments of `offload`."""
    model, optimizer = arguments["model"], arguments["optimizer"]
    dtype, disk = arguments["dtype"], arguments["disk"]
    check_model(model)
    if find_state(list(model.parameters())) is not None:
        raise UsageError(f"{type(model).__name__} shares parameters with a model that was given to hilbert.offload")
    initialise()
    if not isinstance(optimizer, str):
        defaults = getattr(optimizer, "defaults", {})
        optimizer, groups = take_torch(optimizer)
    else:
        betas = arguments["betas"] or ((0.9, 0.99) if optimizer == "lion" else (0.9, 0.999))
        defaults = {name: arguments[name] for name in ("lr", "eps", "weight_decay")}
        defaults["betas"] = betas
        groups = groups_of(model, arguments["params"], defaults)
    _check_groups(model, groups)
    clip = arguments["clip"] or 0.0
    if not 0 <= clip < float("inf"):
        raise UsageError(f"clip {clip}: give the largest norm of the gradients, or 0 to clip never")
    options = Options(
        dtype=parse_dtype(dtype) or _main_dtype(model), casts=dtype is not None, device=_device(arguments["device"]),
        optimizer=optimizer, clip=clip,
        disks=[parse_disk(entry) for entry in list_disks(disk)],
        window=parse_size("window", arguments["window"]) or 0, threads=arguments["threads"],
        saves=arguments["saves"], steady=arguments["steady"], loss_scale=arguments["loss_scale"])
    _set_budgets(options, arguments["device_memory"], arguments["host_memory"])
    if arguments["activations"] not in ("none", None):
        reserve(options, list(model.parameters()))
    return options, groups, defaults


def _check_groups(model: nn.Module, groups: Groups) -> None:
    """Refuses parameters that would not be trained."""
    names = {id(param): name for name, param in model.named_parameters()}
    for group in groups:
        if not isinstance(group["betas"], (tuple, list)) or len(group["betas"]) != 2:
            raise UsageError(f"betas {group['betas']}: give two numbers")
        for param in group["params"]:
            if id(param) not in names:
                raise UsageError(f"the optimizer has a parameter of shape {list(param.shape)} that is not one of "
                                 f"{type(model).__name__}")
            if param.requires_grad and not _is_storable(param):
                kind = param.dtype if has_memory(param) else type(param).__name__
                raise UsageError(f"{names[id(param)]} is {kind}, which is not trained: freeze it")


def _device(name: Union[None, str, torch.device]) -> torch.device:
    """A GPU where there is one; of several ranks each gets its own, unless the program chose."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f'device {name}: give "cpu", "cuda" or "cuda:N"')
    if device.type == "cuda" and device.index is None:
        index = torch.cuda.current_device()
        if not index and world_size() > 1:
            index = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
            torch.cuda.set_device(index)
        device = torch.device("cuda", index)
    return torch.device("cpu") if device.type == "cpu" else device  # "cpu:0" is a name of it too


def _set_budgets(options: Options, device_memory: Size, host_memory: Size) -> None:
    """Defaults: of a GPU half of what is free, and after the first step what that did not need
    (`Offload.update`); of RAM half as well, and without a GPU a quarter of
    it as device memory, which the ranks of the machine divide. PyTorch needs the rest for
    activations."""
    free = available_memory()
    gpu = options.device.type == "cuda"
    device_free = torch.cuda.mem_get_info(options.device)[0] if gpu else free
    device = parse_size("device_memory", device_memory, device_free)
    host = parse_size("host_memory", host_memory, free)
    sharers = -(-local_size() // (torch.cuda.device_count() if gpu else 1))
    options.grows = device is None and world_size() == 1
    options.device_memory = device_free // ((2 if gpu else 4) * sharers) if device is None else device
    options.host_memory = free // 2 if host is None else host


def _cast_buffers(model: nn.Module, dtype: torch.dtype) -> None:
    """As Module.to does, except for buffers that are no part of the state_dict: those are tables
    that a model computes in a precision of its own."""
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if (buffer is not None and buffer.is_floating_point() and
                    name not in module._non_persistent_buffers_set):
                module._buffers[name] = buffer.to(dtype)


@contextlib.contextmanager
def gathered(what: Union[nn.Module, nn.Parameter, Iterable[nn.Parameter]],
             model: Optional[nn.Module] = None) -> Iterator[None]:
    """Inside, these parameters of an offloaded model have their values, in memory of PyTorch;
    what is changed in place between steps is written back at the end.

    what: an offloaded model or a module in it, or parameters of one model; `model`: that one, found
    if it is not given.
    """
    params = what.parameters() if isinstance(what, nn.Module) else what
    params = [params] if isinstance(params, nn.Parameter) else list(params)
    state = state_of(model) if model is not None else find_state(params)
    if state is None:
        raise UsageError("none of these parameters is in a model that was given to hilbert.offload")
    slots = list(dict.fromkeys(slot for slot in map(state.slot_of, params) if slot is not None))
    if not state.uses.summing:
        state.idle()
    for slot in slots:
        state.uses.copy(slot)
    try:
        yield
    finally:
        state.uses.drop_copies([slot for slot in slots if slot.copy is not None])


guard(find_state, gathered)
