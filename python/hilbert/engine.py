"""hilbert.initialize: an engine with the methods of DeepSpeed's, so that a script changes its
import."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, Iterable, List, Mapping, Optional, Tuple, Union

import torch
from torch import nn

from ._offload import offload, state_of
from .checkpoint import load, save
from .deepspeed import Config, CurveScheduler, read_config
from .errors import InputError, UsageError
from ._ranks import initialise, world_size


class Engine:
    """Wraps a model; attributes that it does not have are the model's."""

    def __init__(self, model: nn.Module, config: Config, scheduler: Optional[Any]) -> None:
        self.module: Any = model
        state = state_of(model)
        self.config = config
        self.optimizer = state.optimizer
        self.lr_scheduler = scheduler
        self.world_size, self.global_rank = world_size(), state.store.rank
        self.local_rank = int(os.environ.get("LOCAL_RANK", str(self.global_rank)))
        self.micro_steps = self.global_steps = self.global_samples = self.skipped_steps = 0
        self._boundary: Optional[bool] = None  # as the script says it
        self._applied = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    forward = __call__  # with the hooks of the model, as in DeepSpeed

    def __getattr__(self, name: str) -> Any:
        if name == "module":
            raise AttributeError(name)
        try:
            return getattr(self.module, name)
        except AttributeError:
            raise AttributeError(f"neither hilbert's engine nor {type(self.module).__name__} has {name}") from None

    # Training.

    def is_gradient_accumulation_boundary(self) -> bool:
        """Whether the next `step` updates."""
        if self._boundary is not None:
            return self._boundary
        return (self.micro_steps + 1) % self.config.accumulation == 0

    def set_gradient_accumulation_boundary(self, is_boundary: bool) -> None:
        """From now on the script says it, instead of gradient_accumulation_steps."""
        self._boundary = is_boundary

    def backward(self, loss: torch.Tensor, retain_graph: bool = False,
                 scale_wrt_gas: bool = True) -> torch.Tensor:
        """Adds the gradients of loss / gradient_accumulation_steps. Returns that loss."""
        if scale_wrt_gas and self.config.accumulation > 1:
            loss = loss / self.config.accumulation
        state_of(self.module).uses.more = not self.is_gradient_accumulation_boundary()
        self.module.backward(loss, retain_graph=retain_graph)
        return loss

    def step(self) -> None:
        """After each backward; updates at the boundary of accumulation. An overflow of fp16 skips
        the update."""
        self._applied = False
        if self.is_gradient_accumulation_boundary():
            store = state_of(self.module).store
            before = store.progress.updates
            self.module.step()
            self.global_steps += 1
            self.global_samples += self.config.batch
            self._applied = store.progress.updates != before
            if not self._applied:
                self.skipped_steps += 1
            elif self.lr_scheduler is not None:
                taken = getattr(self.lr_scheduler, "optimizer", None)
                if taken is not None:  # one that was taken over: PyTorch asks whether it stepped
                    taken._opt_called = True
                self.lr_scheduler.step()
        self.micro_steps += 1

    def train(self, mode: bool = True) -> "Engine":
        self.module.train(mode)
        return self

    def eval(self) -> "Engine":
        return self.train(False)

    def zero_grad(self) -> None:
        """Discards the gradients of this step."""
        self.optimizer.zero_grad()

    def no_sync(self) -> ContextManager[None]:
        """Has no effect: gradients are summed until `step`, which ends an accumulation."""
        return contextlib.nullcontext()

    # What it was configured with, and what happened.

    def was_step_applied(self) -> bool:
        """Whether the last `step` updated the weights."""
        return self._applied

    def zero_optimization_stage(self) -> int:
        """Of the config. The states are divided among the ranks whatever it says."""
        return self.config.stage

    def zero_optimization(self) -> bool:
        return self.config.stage > 0

    def fp16_enabled(self) -> bool:
        return self.config.dtype == "fp16"

    def bfloat16_enabled(self) -> bool:
        return self.config.dtype == "bf16"

    def get_batch_info(self) -> Tuple[int, int, int]:
        """Batch, micro-batch and steps of accumulation."""
        return self.config.batch, self.config.micro_batch, self.config.accumulation

    def train_batch_size(self) -> int:
        return self.config.batch

    def train_micro_batch_size_per_gpu(self) -> int:
        return self.config.micro_batch

    def gradient_accumulation_steps(self) -> int:
        return self.config.accumulation

    def gradient_clipping(self) -> float:
        return self.config.clip

    def get_lr(self) -> List[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_mom(self) -> List[Tuple[float, float]]:
        return [group["betas"] for group in self.optimizer.param_groups]

    def get_global_grad_norm(self) -> float:
        """Of the last update, before clipping."""
        return state_of(self.module).last_norm

    @property
    def device(self) -> torch.device:
        return state_of(self.module).store.device

    @property
    def loss_scale(self) -> int:
        return int(state_of(self.module).store.progress.loss_scale)

    # Weights.

    def module_state_dict(self, exclude_frozen_parameters: bool = False) -> Dict[str, Any]:
        """The model's state_dict, in RAM."""
        frozen = {name for name, param in self.module.named_parameters()
                  if exclude_frozen_parameters and not param.requires_grad}
        return {name: value for name, value in self.module.state_dict().items() if name not in frozen}

    def load_module_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        self.module.load_state_dict(state_dict, strict=strict)

    def save_16bit_model(self, save_dir: Union[str, Path], save_filename: str = "pytorch_model.bin",
                         exclude_frozen_parameters: bool = False) -> bool:
        """Writes the state_dict in the dtype of the computation, on all ranks together; needs RAM for it.
        `hilbert.save_pretrained` does not."""
        if self.global_rank == 0:
            os.makedirs(save_dir, exist_ok=True)
            torch.save(self.module_state_dict(exclude_frozen_parameters), Path(save_dir) / save_filename)
        state_of(self.module).store.meet()
        return True

    save_fp16_model = save_16bit_model  # its older name

    def _zero3_consolidated_16bit_state_dict(self, exclude_frozen_parameters: bool = False) -> Dict[str, Any]:
        """By which scripts get the weights of all ranks."""
        return self.module_state_dict(exclude_frozen_parameters)

    # Checkpoints.

    def save_checkpoint(self, save_dir: Union[str, Path], tag: Optional[str] = None,
                        client_state: Optional[Mapping[str, Any]] = None,
                        save_latest: bool = True) -> bool:
        """Writes save_dir/tag (by default global_step<N>), and its name to save_dir/latest; on all
        ranks together, with the counts and the client state of rank 0. In the middle of accumulation
        (on one rank) it is the state before: the gradients so far are not saved.
        `client_state` and the scheduler's state must be what JSON can hold."""
        tag = tag or f"global_step{self.global_steps}"
        scheduler = self.lr_scheduler
        begun = self.micro_steps % self.config.accumulation
        state = {"counts": [self.micro_steps - begun, self.global_steps, self.global_samples,
                            self.skipped_steps],
                 "scheduler": scheduler.state_dict() if scheduler is not None else None,
                 "client_state": dict(client_state or {})}
        folder = Path(save_dir)
        folder.mkdir(parents=True, exist_ok=True)
        save(self.module, folder / tag, state, keep=1)
        if save_latest and self.global_rank == 0:
            partial = folder / "latest.partial"
            partial.write_text(tag, encoding="utf-8")
            os.replace(partial, folder / "latest")
        state_of(self.module).store.meet()
        return True

    def load_checkpoint(self, load_dir: Union[str, Path], tag: Optional[str] = None,
                        load_optimizer_states: bool = True, load_lr_scheduler_states: bool = True,
                        load_module_only: bool = False) -> Tuple[Optional[str], Dict[str, Any]]:
        """Reads what `save_checkpoint` wrote. Returns its folder and the client state; (None, {})
        if there is no `latest`."""
        folder = Path(load_dir)
        if tag is None:
            if not (folder / "latest").exists():
                return None, {}
            tag = (folder / "latest").read_text(encoding="utf-8").strip()
        if load_optimizer_states and not load_module_only:
            state = load(self.module, folder / tag)
        else:
            state = self._load_weights(folder / tag)
        if not isinstance(state, dict) or "counts" not in state:
            raise InputError(f"{folder / tag} was not written by save_checkpoint")
        if load_module_only:
            return str(folder / tag), {}
        self.micro_steps, self.global_steps, self.global_samples, self.skipped_steps = state["counts"]
        if load_lr_scheduler_states and self.lr_scheduler is not None and state["scheduler"]:
            self.lr_scheduler.load_state_dict(state["scheduler"])
        return str(folder / tag), state["client_state"]

    def _load_weights(self, folder: Path) -> Any:
        """Loads a checkpoint and forgets its moments."""
        groups = [{key: value for key, value in group.items() if key != "params"}
                  for group in self.optimizer.param_groups]
        state = load(self.module, folder)
        for group, values in zip(self.optimizer.param_groups, groups):
            group.update(values)
        state_of(self.module).reset_moments()
        return state


def _refuse_open(settings: Config, rates: bool, schedule: bool) -> None:
    """"auto" is for whoever knows the value: hilbert does not guess."""
    needed = ["gradient_clipping"]
    if not settings.batch and not settings.micro_batch:
        needed.append("train_micro_batch_size_per_gpu")
    if rates:
        needed.append("optimizer.params.lr")
    if schedule:
        needed += ["scheduler.params.warmup_num_steps", "scheduler.params.total_num_steps"]
    for key in needed:
        if key in settings.open:
            raise UsageError(f'{key} is "auto": give auto={{"{key}": ...}}')


def initialize(args: Any = None, model: Optional[nn.Module] = None,
               optimizer: Union[None, torch.optim.Optimizer, Callable[..., torch.optim.Optimizer]] = None,
               model_parameters: Optional[Iterable[Any]] = None, training_data: Any = None,
               lr_scheduler: Union[None, Any, Callable[[torch.optim.Optimizer], Any]] = None,
               config: Union[None, str, "os.PathLike[str]", Mapping[str, Any]] = None,
               config_params: Union[None, Mapping[str, Any]] = None,
               collate_fn: Optional[Callable[..., Any]] = None,
               auto: Optional[Mapping[str, Any]] = None, **options: Any) -> Tuple[Engine, Any, Any, Any]:
    """As deepspeed.initialize: returns engine, optimizer, data loader and scheduler.

    config: a ds_config as a dictionary or a file. The optimizer is that of the config, or a
    torch.optim.AdamW, or a function of the parameters that makes one. auto: values for keys that say "auto", as in {"optimizer.params.lr": 1e-5}; where
    rates, clipping and batches stay open, the config is refused. Other arguments (device_memory, host_memory, disk ...) go to
    `hilbert.offload`; folders of the config's nvme are disks already.
    """
    if model is None:
        raise UsageError("initialize needs a model")
    if config is None:
        config = config_params if config_params is not None else getattr(args, "deepspeed_config", None)
    if config is None:
        raise UsageError("initialize needs a config: a dictionary or a ds_config.json")
    initialise()
    settings = read_config(config, world_size(), auto=auto)
    _refuse_open(settings, optimizer is None, lr_scheduler is None)
    if not settings.batch and not settings.micro_batch:
        raise UsageError("the config has no batch size: give train_batch_size or "
                         "train_micro_batch_size_per_gpu")
    if settings.notes and int(os.environ.get("RANK", "0")) == 0:
        print(settings.notes.rstrip("\n"), file=sys.stderr)
    if optimizer is not None:
        if callable(optimizer):
            optimizer = optimizer(list(model.parameters() if model_parameters is None else model_parameters))
        options["optimizer"] = optimizer
    elif settings.optimizer is None:
        raise UsageError("the config has no optimizer, and none was given")
    else:
        options.update(optimizer=settings.optimizer, params=model_parameters, **settings.rates)
    options.setdefault("disk", settings.disks)
    offload(model, clip=settings.clip, dtype=settings.dtype, loss_scale=settings.loss_scale, **options)
    taken = state_of(model).optimizer
    scheduler = lr_scheduler
    if callable(scheduler) and not hasattr(scheduler, "step"):
        scheduler = scheduler(taken)
    elif scheduler is None and settings.curve is not None:
        scheduler = CurveScheduler(taken, settings.curve)
    loader = None
    if training_data is not None:
        if not settings.micro_batch:
            raise UsageError("training_data needs train_micro_batch_size_per_gpu in the config")
        loader = _loader(training_data, settings.micro_batch, collate_fn)
    engine = Engine(model, settings, scheduler)
    return engine, taken, loader, scheduler


def _loader(data: Any, size: int, collate_fn: Optional[Callable[..., Any]]) -> Any:
    """Micro-batches in a random order; every rank has its own share of the data."""
    sampler: Optional[torch.utils.data.Sampler[Any]] = None
    if world_size() > 1:
        sampler = torch.utils.data.distributed.DistributedSampler(data)
    return torch.utils.data.DataLoader(data, batch_size=size, shuffle=sampler is None,
                                       sampler=sampler, collate_fn=collate_fn)


def init_distributed(*args: Any, **kwargs: Any) -> None:
    """As deepspeed.init_distributed: connects the ranks that a launcher started, unless the program
    has done so. `initialize` and `hilbert.offload` do it too. The arguments do not matter here."""
    initialise()


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """As DeepSpeed's: --deepspeed, and --deepspeed_config with the file that `initialize` reads."""
    group = parser.add_argument_group("DeepSpeed")
    group.add_argument("--deepspeed", action="store_true", help="has no effect: hilbert is used")
    group.add_argument("--deepspeed_config", help="a ds_config.json")
    return parser
