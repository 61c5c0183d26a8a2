"""hilbert.Trainer: the Trainer of transformers, whose model is offloaded.

[Note: trainer] The Trainer leaves device placement, backward, clipping and the optimizer's step to its
accelerator, so hilbert.Accelerator does most of it. What is left for the mixin: no move of the
model to the device, precision as the dtype of the store, and checkpoints.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Tuple, Union

import torch
import transformers
from torch import nn
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .accelerator import Accelerator
from .checkpoint import load, save
from .errors import UsageError
from ._offload import state_of
from .pretrained import write_folder

STATE = "hilbert"  # the folder in checkpoint-N, beside the model
_SCHEDULER = "scheduler.pt"
_TRAINER_STATE = "trainer_state.json"

# Names of TrainingArguments.optim, and of hilbert's optimizers.
_OPTIMIZERS = {"adamw_torch": "adamw", "adamw_torch_fused": "adamw", "adamw_8bit": "adamw8bit",
               "adamw_bnb_8bit": "adamw8bit", "paged_adamw_8bit": "adamw8bit",
               "lion_32bit": "lion", "paged_lion_32bit": "lion"}


if TYPE_CHECKING:
    _Base = transformers.Trainer
else:
    _Base = object  # the class that is mixed in comes after it


class TrainerMixin(_Base):
    """Makes any Trainer one of hilbert's: class MyTrainer(hilbert.TrainerMixin, TheirTrainer).

    hilbert: arguments of `hilbert.offload`, such as {"device_memory": "20G", "disk": ["/nvme"]}. The
    optimizer's, `clip` and `dtype` are those of TrainingArguments. The model is offloaded when
    training or evaluation begins.
    """

    accelerator: Any
    lr_scheduler: Any
    model: Any
    optimizer: Any

    def __init__(self, *args: Any, hilbert: Optional[Mapping[str, Any]] = None, **kwargs: Any) -> None:
        self._hilbert = dict(hilbert or {})
        super().__init__(*args, **kwargs)

    # The accelerator.

    def _build_accelerator_args(self, **kwargs: Any) -> Dict[str, Any]:
        return {**super()._build_accelerator_args(**kwargs), "mixed_precision": "no"}

    def create_accelerator_and_postprocess(self) -> None:
        args = self.args
        for name in ("deepspeed", "fsdp", "torch_compile", "auto_find_batch_size", "sync_ref_model"):
            if getattr(args, name, None):
                raise UsageError(f"{name} of TrainingArguments cannot be combined with hilbert's Trainer")
        if args.n_gpu > 1:
            args._n_gpu = 1  # torchrun starts one process for each
        super().create_accelerator_and_postprocess()
        precision = "bf16" if args.bf16 else "fp16" if args.fp16 else None
        Accelerator.adopt(self.accelerator, {
            "device": args.device, "dtype": precision, "clip": args.max_grad_norm or 0.0,
            **self._hilbert})

    def _move_model_to_device(self, model: nn.Module, device: torch.device) -> None:
        """Offloading does it: the whole model may not fit there."""

    def _wrap_model(self, model: nn.Module, training: bool = True, dataloader: Any = None) -> nn.Module:
        if not training and "hilbert" not in self.model.__dict__:  # evaluation before training
            self.create_optimizer()
            self.model, self.optimizer = self.accelerator.prepare(self.model, self.optimizer)
        return model

    def _prepare_input(self, data: Any) -> Any:
        """Inputs of floating point get the dtype in which the model computes."""
        data = super()._prepare_input(data)
        state = self.model.__dict__.get("hilbert")
        if state is not None and isinstance(data, torch.Tensor) and data.is_floating_point():
            data = data.to(state.store.options.dtype)
        return data

    # The optimizer.

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        if self.optimizer is None and self.optimizer_cls_and_kwargs is None:
            name = getattr(self.args.optim, "value", self.args.optim)
            if name not in _OPTIMIZERS:
                raise UsageError(f"optim {name} is not supported: give one of {', '.join(_OPTIMIZERS)}")
            if _OPTIMIZERS[name] != "adamw":
                self.accelerator.hilbert["optimizer"] = _OPTIMIZERS[name]
        return super().create_optimizer(*args, **kwargs)

    @staticmethod
    def get_optimizer_cls_and_kwargs(args: Any, model: Optional[nn.Module] = None) -> Tuple[Any, Any]:
        """PyTorch's AdamW, of which only the groups are used."""
        return torch.optim.AdamW, {"lr": args.learning_rate, "eps": args.adam_epsilon,
                                   "betas": (args.adam_beta1, args.adam_beta2)}

    # Checkpoints: the model's folder as always; masters, moments and counts in STATE.

    def train(self, resume_from_checkpoint: Union[None, bool, str] = None, *args: Any,
              **kwargs: Any) -> Any:
        """As the Trainer's; True means the newest checkpoint that was written to its end."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_checkpoint(str(self.args.output_dir)) or True
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def save_model(self, output_dir: Optional[str] = None, _internal_call: bool = False) -> None:
        """As the Trainer's, on all ranks together: rank 0 writes, the others hand it their parts."""
        super().save_model(output_dir, _internal_call)
        if "hilbert" in self.model.__dict__:
            state_of(self.model).store.meet()

    def _save(self, output_dir: Optional[str] = None, state_dict: Optional[Dict[str, Any]] = None) -> None:
        """Writes weights one tensor at a time."""
        model = self.model
        in_parts = (state_dict is None and isinstance(model, transformers.PreTrainedModel)
                    and "hilbert" in model.__dict__)
        with _saving_in_parts(model) if in_parts else contextlib.nullcontext():
            super()._save(output_dir, state_dict=state_dict)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        save(self.model, os.path.join(output_dir, STATE), keep=1)
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), os.path.join(output_dir, _SCHEDULER))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Optional[nn.Module] = None) -> None:
        """Weights come with the optimizer's states, unless another Trainer wrote the checkpoint."""
        if not os.path.isdir(os.path.join(resume_from_checkpoint, STATE)):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: Optional[str]) -> None:
        if checkpoint is None or not os.path.isdir(os.path.join(checkpoint, STATE)):
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        load(self.model, os.path.join(checkpoint, STATE))
        self.lr_scheduler.load_state_dict(
            torch.load(os.path.join(checkpoint, _SCHEDULER), weights_only=True))

    def _load_best_model(self) -> None:
        state = os.path.join(str(self.state.best_model_checkpoint), STATE)
        if os.path.isdir(state):
            load(self.model, state)
        else:
            super()._load_best_model()


class Trainer(TrainerMixin, transformers.Trainer):
    """transformers.Trainer under budgets: see `TrainerMixin`."""


def last_checkpoint(folder: Union[str, Path]) -> Optional[str]:
    """The newest checkpoint of a Trainer's output_dir that was written to its end."""
    numbered = []
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        match = re.fullmatch(rf"{PREFIX_CHECKPOINT_DIR}-(\d+)", entry)
        if match:
            numbered.append((int(match[1]), os.path.join(folder, entry)))
    for _, path in sorted(numbered, reverse=True):
        try:
            with open(os.path.join(path, _TRAINER_STATE), encoding="utf-8") as file:
                json.load(file)  # it is written last
        except (OSError, ValueError):
            continue
        return path
    return None


@contextlib.contextmanager
def _saving_in_parts(model: Any) -> Iterator[None]:
    """Inside, `model.save_pretrained` is that of hilbert."""

    def write(folder: str, **arguments: Any) -> None:
        del model.save_pretrained  # what it calls is the model's own
        write_folder(model, Path(folder))

    model.save_pretrained = write
    try:
        yield
    finally:
        model.__dict__.pop("save_pretrained", None)
