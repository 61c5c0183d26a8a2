"""A strategy for Lightning: Trainer(strategy="hilbert") or Trainer(strategy=HilbertStrategy(device_memory=...)).

Importing this module registers the name, in `lightning` and in `pytorch_lightning`, whichever is installed.

[Note: lightning] The optimizer of configure_optimizers gives its groups to the store, and its schedulers
keep changing them. A checkpoint is a folder: what Lightning keeps, the store in hilbert's format, and
the weights for others to read. Ranks are those of torchrun or of Lightning's own launcher.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import shutil
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Type, Union

import torch
from torch import nn
from torch.distributed.constants import default_pg_timeout

from ._offload import complete, place, state_of
from ._ranks import world_size
from .checkpoint import load, save
from .errors import UsageError
from .pretrained import save_weights

_DTYPES = {"32-true": None, "32": None, "bf16-mixed": "bf16", "bf16-true": "bf16", "bf16": "bf16",
           "16-mixed": "fp16", "16-true": "fp16", "16": "fp16"}
_LIGHTNING = "lightning.pt"  # in a checkpoint
_STATE = "hilbert"
_OLD = ".old"  # a checkpoint that is being replaced where folders cannot be exchanged
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD

# What Lightning's DDPStrategy does between processes, which has nothing to do with its gradients.
_BETWEEN_RANKS = ("barrier", "broadcast", "determine_ddp_device_ids", "num_processes", "reduce", "set_world_ranks",
                  "setup_distributed", "_get_process_group_backend")


if TYPE_CHECKING:
    from lightning.pytorch.plugins import Precision as _PrecisionBase
    from lightning.pytorch.strategies import ParallelStrategy as _StrategyBase
else:
    _PrecisionBase = _StrategyBase = object  # `_register` makes classes with those of each package


class _Precision(_PrecisionBase):
    """Precision is the store's dtype; clipping is a part of the update."""

    def __init__(self, precision: str, dtype: Optional[str]) -> None:
        super().__init__()
        self.precision: Any = precision
        self.clip = 0.0
        self._dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, None: None}[dtype]

    def convert_input(self, data: Any) -> Any:
        """Tensors of floating point get the dtype in which the model computes."""
        from lightning_utilities.core.apply_func import apply_to_collection  # which Lightning needs
        return data if self._dtype is None else apply_to_collection(data, torch.Tensor, self._convert)

    def _convert(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def backward(self, tensor: torch.Tensor, model: Any, optimizer: Any = None, *args: Any, **kwargs: Any) -> None:
        """Multiplies by the loss scale of fp16."""
        state = state_of(model)
        state.uses.more = model.automatic_optimization and model.trainer.fit_loop._should_accumulate()
        state.backward(tensor, *args, **kwargs)

    def clip_gradients(self, optimizer: Any, clip_val: Union[None, int, float] = 0.0,
                       gradient_clip_algorithm: Any = "norm") -> None:
        """Refuses what the update does not do."""
        if (clip_val or 0.0) != self.clip:
            raise UsageError(f"gradients are clipped to the norm {self.clip}, not {clip_val}, in the update: give "
                             f"gradient_clip_val={clip_val} to the Trainer, or clip={clip_val} to HilbertStrategy")


class _Strategy(_StrategyBase):
    """One device for each rank; the model is offloaded when fit, validate, test or predict begins.

    Arguments are those of `hilbert.offload` (device_memory, host_memory, disk ...); the optimizer's are
    those of configure_optimizers, `clip` is the Trainer's gradient_clip_val if it has one, and `dtype` its precision.
    """

    strategy_name = "hilbert"
    precision_class: Type[_Precision]
    module_class: Any
    num_nodes = 1  # set by the Trainer
    if TYPE_CHECKING:  # of each package's own
        model: Any
        lightning_module: Any
        num_processes: int
        setup_distributed: Callable[[], None]
        start_ranks: Callable[[], None]

    def __init__(self, accelerator: Any = None, parallel_devices: Optional[List[torch.device]] = None,
                 cluster_environment: Any = None, checkpoint_io: Any = None, precision_plugin: Any = None,
                 process_group_backend: Optional[str] = None, timeout: timedelta = default_pg_timeout,
                 **options: Any) -> None:
        self._options = options
        self._given: Any = None  # the module's own optimizer
        self._restored: Optional[str] = None  # a checkpoint that is a folder
        self._process_group_backend, self._timeout = process_group_backend, timeout
        self._start_method = "popen"
        super().__init__(accelerator=accelerator, parallel_devices=parallel_devices,
                         cluster_environment=cluster_environment, checkpoint_io=checkpoint_io,
                         precision_plugin=precision_plugin)

    # Ranks, the device and the precision.

    @property
    def is_distributed(self) -> bool:
        """Whether the Trainer divides the data."""
        return self.world_size > 1

    @property
    def distributed_sampler_kwargs(self) -> Dict[str, int]:
        return {"num_replicas": self.world_size, "rank": self.global_rank}

    @property
    def root_device(self) -> torch.device:
        return self.parallel_devices[self.local_rank] if self.parallel_devices else torch.device("cpu")

    @property
    def precision_plugin(self) -> Any:
        return self._precision_plugin or self.precision_class("32-true", None)

    @precision_plugin.setter
    def precision_plugin(self, plugin: Any) -> None:
        precision = "32-true" if plugin is None else str(plugin.precision)
        if precision not in _DTYPES:
            raise UsageError(f"precision {precision} is not supported: give one of {', '.join(_DTYPES)}")
        self._precision_plugin = None if plugin is None else self.precision_class(precision, _DTYPES[precision])

    def _configure_launcher(self) -> None:
        """None for one rank: it would leave LOCAL_RANK in the environment, by which later launchers take
        themselves for started ranks."""
        if self.num_processes * self.num_nodes > 1:
            self.start_ranks()

    def setup_environment(self) -> None:
        super().setup_environment()
        if self.is_distributed:
            self.setup_distributed()
        if world_size() != self.world_size:
            raise UsageError(f"{world_size()} ranks were started, but the Trainer has {self.world_size}: "
                             "give it as many devices and num_nodes, or start one process")

    def model_to_device(self) -> None:
        """Offloading does it; later only buffers move."""
        if "hilbert" in self.model.__dict__:
            self.model.to(self.root_device)

    # Offloading.

    def setup(self, trainer: Any) -> None:
        if self._layer_sync:
            raise UsageError("sync_batchnorm is not supported: each rank normalises its own batch")
        super().setup(trainer)
        if "hilbert" not in self.model.__dict__:  # validate, test or predict: no states are needed
            self._offload(params=[{"params": []}])

    def setup_optimizers(self, trainer: Any) -> None:
        super().setup_optimizers(trainer)
        if len(self.optimizers) != 1:
            raise UsageError(f"configure_optimizers returned {len(self.optimizers)} optimizers: hilbert "
                             "takes one, a torch.optim.AdamW, which may have several groups")
        self._given = self.optimizers[0]
        self._given._opt_called = True  # a scheduler of PyTorch asks whether there was a step
        if str(getattr(trainer.gradient_clip_algorithm, "value", "norm")) != "norm":
            raise UsageError("gradient_clip_algorithm: only norms are clipped")
        clip = float(trainer.gradient_clip_val or self._options.get("clip") or 0.0)
        if "hilbert" in self.model.__dict__:
            self._take_again(clip)
        else:
            self._offload(optimizer=self._given, clip=clip)
        self.precision_plugin.clip = clip
        self.optimizers = [state_of(self.model).optimizer]

    def _offload(self, **more: Any) -> None:
        model = self.model
        if type(model).backward is not self.module_class.backward:
            raise UsageError(f"{type(model).__name__} overrides backward, which hilbert replaces")
        options = {"dtype": _DTYPES[self.precision_plugin.precision], **self._options, **more}
        if "optimizer" in self._options and self._given is not None:  # one of hilbert's own
            options.update(optimizer=self._options["optimizer"], params=self._given.param_groups)
        place(complete(model, {**options, "device": self.root_device}))  # the module may have its own `step`

    def _take_again(self, clip: float) -> None:
        """fit was called before: the optimizer begins anew with the weights as they are."""
        state = state_of(self.model)
        old, new = state.optimizer.param_groups, self._given.param_groups
        members = [[[id(param) for param in group["params"]] for group in groups] for groups in (old, new)]
        if members[0] != members[1] or clip != state.store.options.clip:
            raise UsageError("the module was offloaded without an optimizer, for other groups of "
                             "parameters or another gradient_clip_val: fit before validate and test, "
                             "or begin with a new module")
        state.optimizer.param_groups = new
        state.reset_moments()

    # Steps run as a forward of the module, so that its hooks see what they read; with manual
    # optimization the update is inside of the step.

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        if not self.lightning_module.automatic_optimization:
            return self.lightning_module.training_step(*args, **kwargs)
        return self._forward_redirection(self.model, self.lightning_module, "training_step", *args, **kwargs)

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward_redirection(self.model, self.lightning_module, "validation_step", *args, **kwargs)

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward_redirection(self.model, self.lightning_module, "test_step", *args, **kwargs)

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward_redirection(self.model, self.lightning_module, "predict_step", *args, **kwargs)

    # Checkpoints.

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        return True

    def lightning_module_state_dict(self) -> Dict[str, Any]:
        """Empty: `save_checkpoint` writes weights one at a time."""
        return {}

    def optimizer_state(self, optimizer: Any) -> Dict[str, Any]:
        return {}

    def save_checkpoint(self, checkpoint: Dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        """A folder, which is there as a whole or not at all; a file with weights only. Rank 0 writes
        what is not the store's, the others hand it their parts of the weights."""
        if "optimizer_states" not in checkpoint:
            if self.is_global_zero:
                checkpoint["state_dict"] = self.lightning_module.state_dict()
            self._meet()
            super().save_checkpoint(checkpoint, filepath, storage_options)
            return
        partial = f"{filepath}.partial"
        if self.is_global_zero:
            shutil.rmtree(partial, ignore_errors=True)
            os.makedirs(partial)
            torch.save(checkpoint, os.path.join(partial, _LIGHTNING))
        save(self.model, os.path.join(partial, _STATE), keep=1)
        if self.is_global_zero:
            save_weights(self.model, Path(partial))
        self._meet()
        if self.is_global_zero:
            _replace(partial, str(filepath))

    def _meet(self) -> None:
        """Returns when no other rank reads weights any more, so that all may wait in a barrier."""
        if self.is_distributed:
            state_of(self.model).store.meet()

    def load_checkpoint(self, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        self._restored = None
        path = _find(str(checkpoint_path))
        if not os.path.isdir(path):
            return super().load_checkpoint(checkpoint_path, *args, **kwargs)
        self._restored = path
        return super().load_checkpoint(os.path.join(path, _LIGHTNING), *args, **kwargs)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        if self._restored is None:
            super().load_model_state_dict(checkpoint, strict=strict)
        else:
            load(self.model, os.path.join(self._restored, _STATE))

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Of a folder, weights and moments came together."""
        if self._restored is None:
            super().load_optimizer_state_dict(checkpoint)
            self._given.param_groups = state_of(self.model).optimizer.param_groups


def _replace(new: str, path: str) -> None:
    """Puts a folder in the place of what is there: at any moment the one or the other is there as a
    whole, where folders cannot be exchanged perhaps as PATH.old."""
    old = path + _OLD
    if not os.path.isdir(path):
        os.replace(new, path)
    elif _exchange(new, path):
        shutil.rmtree(new, ignore_errors=True)
    else:
        shutil.rmtree(old, ignore_errors=True)
        os.replace(path, old)
        os.replace(new, path)
    shutil.rmtree(old, ignore_errors=True)


def _find(path: str) -> str:
    """Where a checkpoint is, also if it was being replaced when the program was killed."""
    return path + _OLD if not os.path.exists(path) and os.path.isdir(path + _OLD) else path


def _exchange(one: str, other: str) -> bool:
    """Lets two folders change their names at once; False: the system or the drive cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and not rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)


def _register(package: str) -> type:
    """The strategy for a package with the names of Lightning."""
    strategies = importlib.import_module(f"{package}.strategies")
    precision = type("HilbertPrecision", (_Precision, importlib.import_module(f"{package}.plugins").Precision), {})
    ddp = vars(strategies.DDPStrategy)
    shared = {"start_ranks": ddp["_configure_launcher"], **{name: ddp[name] for name in _BETWEEN_RANKS}}
    strategy = type("HilbertStrategy", (_Strategy, strategies.ParallelStrategy), {
        **shared, "__doc__": _Strategy.__doc__, "__module__": __name__, "precision_class": precision,
        "module_class": importlib.import_module(package).LightningModule})
    strategies.StrategyRegistry.register("hilbert", strategy, description="states in device memory, RAM and on drives")
    return strategy


# What the script has imported comes first.
_found = sorted((name for name in ("lightning.pytorch", "pytorch_lightning")
                 if importlib.util.find_spec(name.split(".")[0])), key=lambda name: name not in sys.modules)
if not _found:
    raise ImportError("hilbert.lightning needs the package lightning or pytorch_lightning")
HilbertStrategy = [_register(name) for name in _found][0]
