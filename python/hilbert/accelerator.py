"""hilbert.Accelerator: an accelerate.Accelerator whose `prepare` offloads. The Trainer uses it too."""

from __future__ import annotations

import math
import os
from typing import Any, Dict, List, Mapping, Optional, cast

import torch
from accelerate import Accelerator as TheirAccelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import nn

from ._offload import Offload, offload, state_of
from .errors import UsageError
from .optimizer import Optimizer

_PRECISIONS = {"bf16": "bf16", "fp16": "fp16", "no": None}


class PreparedOptimizer(AcceleratedOptimizer):
    """What `prepare` returns: updates at the end of an accumulation, as accelerate counts it."""

    def __init__(self, model: nn.Module, given: torch.optim.Optimizer) -> None:
        super().__init__(model.optimizer, device_placement=False)
        self._state: Offload = state_of(model)
        self._given = given  # of the script: its schedulers change the same groups
        self._norms: List[torch.Tensor] = []

    def promise_norm(self) -> torch.Tensor:
        """A tensor that the next update fills with the norm of the gradients; NaN until then."""
        self._norms.append(torch.full((), math.nan))
        return self._norms[-1]

    def step(self, closure: Any = None) -> Any:
        if not self.gradient_state.sync_gradients:
            return
        before = self._state.store.progress.updates
        super().step(closure)
        self._is_overflow = self._state.store.progress.updates == before
        setattr(self._given, "_opt_called", True)  # a scheduler of PyTorch asks it
        for norm in self._norms:
            norm.fill_(self._state.last_norm)
        self._norms.clear()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._given.param_groups = self.optimizer.param_groups


class Accelerator(TheirAccelerator):
    """As accelerate.Accelerator; `hilbert=` takes the arguments of `hilbert.offload`.

    A model and its optimizer (torch.optim.AdamW) are given to one call of `prepare`, which offloads
    the model. `mixed_precision` is the dtype of `offload`: masters are fp32, and there is no
    autocast. The norm that `clip_grad_norm_` returns is NaN until the optimizer's step; its limit
    is `clip` of `hilbert`.
    """

    def __init__(self, *args: Any, hilbert: Optional[Mapping[str, Any]] = None,
                 mixed_precision: Optional[str] = None, **kwargs: Any) -> None:
        if mixed_precision is None:  # accelerate launch says it so
            mixed_precision = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
        if str(mixed_precision) not in _PRECISIONS:
            raise UsageError(f'mixed_precision {mixed_precision}: give "no", "bf16" or "fp16"')
        super().__init__(*args, **{**kwargs, "mixed_precision": "no"})
        self.set_options({"dtype": _PRECISIONS[str(mixed_precision)], **(hilbert or {})})

    @classmethod
    def adopt(cls, accelerator: TheirAccelerator, options: Mapping[str, Any]) -> "Accelerator":
        """Makes an accelerate.Accelerator without mixed precision one of hilbert's."""
        accelerator.__class__ = cls
        adopted = cast(Accelerator, accelerator)
        adopted.set_options(options)
        return adopted

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Arguments of `hilbert.offload`, before `prepare`."""
        if self.state.dynamo_plugin.backend.value != "NO":
            raise UsageError("compile blocks of the model (block.compile()) before it is prepared, "
                             "instead of the whole model")
        self.hilbert = {"device": self.device, "clip": 0.0, **options}

    def prepare(self, *args: Any, device_placement: Optional[List[bool]] = None) -> Any:
        """As accelerate's; a model together with its optimizer is offloaded."""
        models = [arg for arg in args if isinstance(arg, nn.Module)]
        given = [arg for arg in args if isinstance(arg, torch.optim.Optimizer)
                 and not isinstance(arg, PreparedOptimizer)]
        if not given:
            return super().prepare(*args, device_placement=device_placement)
        if len(models) != 1 or len(given) != 1:
            raise UsageError("prepare one model together with its optimizer")
        prepared = self._offload(models[0], given[0])
        args = tuple(prepared if arg is given[0] else arg for arg in args)
        return super().prepare(*args, device_placement=device_placement)

    def _offload(self, model: nn.Module, given: torch.optim.Optimizer) -> PreparedOptimizer:
        if "hilbert" in model.__dict__:
            raise UsageError("the model was given to hilbert.offload already: leave that to prepare; "
                             "a model larger than memory is made inside of hilbert.init")
        options = dict(self.hilbert)
        name = options.pop("optimizer", None)
        if name is None:
            offload(model, optimizer=given, **options)
        else:  # one of hilbert's own, with the groups of the one that was given
            rates = {key: given.defaults[key] for key in ("lr", "betas", "eps", "weight_decay")}
            offload(model, optimizer=name, params=given.param_groups, **{**rates, **options})
        prepared = PreparedOptimizer(model, given)
        for each in (prepared, model):
            setattr(each, "_is_accelerate_prepared", True)
        return prepared

    def prepare_model(self, model: nn.Module, device_placement: Optional[bool] = None,
                      evaluation_mode: bool = False) -> nn.Module:
        """A model that is not trained goes to the device as it is."""
        if "hilbert" not in model.__dict__ and not evaluation_mode:
            raise UsageError("prepare the model together with its optimizer")
        return cast(nn.Module, super().prepare_model(model, device_placement, evaluation_mode))

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        """Adds the gradients of loss / gradient_accumulation_steps, times the loss scale of fp16."""
        state = self._prepared()._state
        state.uses.more = not self.sync_gradients
        state.backward(loss / self.gradient_accumulation_steps, **kwargs)

    def _prepared(self) -> PreparedOptimizer:
        for optimizer in self._optimizers:
            if isinstance(optimizer, PreparedOptimizer):
                return optimizer
        raise UsageError("prepare a model and its optimizer first")

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Gradients are clipped in the optimizer's step, which fills in the norm returned here."""
        if max_norm != math.inf and max_norm != self.hilbert["clip"] or norm_type != 2:
            raise UsageError(f"gradients are clipped to the norm {self.hilbert['clip']}, not "
                             f"{max_norm}: give clip={max_norm} with hilbert's arguments")
        return self._prepared().promise_norm()

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Refused: only norms are clipped."""
        raise UsageError("clip_grad_value_ is not supported: use clip_grad_norm_")
