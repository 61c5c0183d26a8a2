"""The store's optimizer as a torch.optim.Optimizer: groups, schedulers, state_dict by parts."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from torch import nn

from . import _c
from .errors import UsageError

Groups = List[Dict[str, Any]]


def groups_of(model: nn.Module, params: Optional[Iterable[Any]],
              defaults: Dict[str, Any]) -> Groups:
    """Groups as torch.optim takes them: parameters, or dictionaries whose "params" are parameters
    or their names. None: one group of all parameters that require gradients."""
    by_name = dict(model.named_parameters())
    given: List[Any] = list(params) if params is not None else [p for p in by_name.values() if p.requires_grad]
    if params is not None and not given:
        raise UsageError("params is empty: a generator that was used before?")
    if given and not isinstance(given[0], dict):
        given = [{"params": given}]
    groups = []
    for group in given or [{"params": []}]:
        members = group["params"]
        members = [members] if isinstance(members, (nn.Parameter, str)) else list(members)
        members = [m[1] if isinstance(m, tuple) else m for m in members]  # of named_parameters()
        unknown = [m for m in members if isinstance(m, str) and m not in by_name]
        if unknown:
            raise UsageError(f"the model has no parameter {unknown[0]}")
        groups.append({**defaults, **group,
                       "params": [by_name[m] if isinstance(m, str) else m for m in members]})
    return groups


def take_torch(optimizer: torch.optim.Optimizer) -> Tuple[str, Groups]:
    """Name and groups of PyTorch's AdamW, or of an Adam without weight decay."""
    kind = type(optimizer).__name__
    if not isinstance(optimizer, torch.optim.Optimizer) or kind not in ("AdamW", "Adam"):
        raise UsageError(f"optimizer {kind} is not supported: give AdamW, or one of hilbert's names")
    groups = []
    for group in optimizer.param_groups:
        if group.get("amsgrad") or group.get("maximize"):
            raise UsageError("amsgrad and maximize are not supported")
        if kind == "Adam" and group["weight_decay"] and not group.get("decoupled_weight_decay"):
            raise UsageError("Adam with weight decay in the gradient is not supported: use AdamW")
        groups.append(group)  # the same dictionary: a scheduler of the optimizer changes it
    return "adamw", groups


class Optimizer(torch.optim.Optimizer):
    """The optimizer of an offloaded model: `model.optimizer`.

    Its groups have "lr", "betas", "eps" and "weight_decay", which may be changed between steps, by
    schedulers too; "frozen": True stops the updates of a group and keeps its states. Moments are in
    the store; `state_dict` copies them to host memory, `state_parts` one parameter at a time.
    """

    _step_supports_amp_scaling = True  # so that a GradScaler calls `step`, which refuses it

    def __init__(self, offload: Any, groups: Groups, defaults: Dict[str, Any]) -> None:
        self._offload = offload
        super().__init__(groups, {**defaults, "frozen": False})  # some schedulers read the defaults

    def push_rates(self) -> None:
        """Hands the groups' rates to the store."""
        for number, group in enumerate(self.param_groups):
            self._offload.store.set_rates(number, group)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Updates every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if getattr(self, "grad_scale", None) is not None:
            raise UsageError('a GradScaler cannot be used: give dtype="fp16" to offload, and call model.backward')
        self.push_rates()
        self._offload.update()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Discards gradients since the last step; after a step there are none."""
        self._offload.discard()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Refused once the model is offloaded: the store's groups are fixed."""
        if getattr(self._offload, "optimizer", None) is not None:
            raise UsageError("groups cannot be added to an offloaded model: give them to offload()")
        super().add_param_group(param_group)

    def _members(self) -> Iterator[Tuple[int, Any]]:
        index = 0
        for group in self.param_groups:
            for param in group["params"]:
                yield index, self._offload.slot_of(param)
                index += 1

    def state_parts(self) -> Iterator[Tuple[int, Dict[str, torch.Tensor]]]:
        """Index and state of one parameter at a time, as in state_dict()["state"]. Between steps."""
        self._offload.idle()
        store = self._offload.store
        for index, slot in self._members():
            if slot is None or not slot.trainable or not store.updates(slot):
                continue
            state = {"step": torch.tensor(float(store.updates(slot))),
                     "exp_avg": store.read(slot, _c.MOMENT1)}
            if store.has(slot, _c.MOMENT2):
                state["exp_avg_sq"] = store.read(slot, _c.MOMENT2)
            yield index, state

    def load_part(self, index: int, state: Dict[str, torch.Tensor]) -> None:
        """Writes the state of one parameter. Between steps."""
        self._offload.idle()
        store, slot = self._offload.store, dict(self._members())[index]
        if slot is None or not slot.trainable:
            return
        store.write(slot, state["exp_avg"], _c.MOMENT1)
        if store.has(slot, _c.MOMENT2):
            store.write(slot, state["exp_avg_sq"], _c.MOMENT2)
        store.set_updates(slot, int(state["step"]))

    def take_states(self, states: Dict[Any, Dict[str, torch.Tensor]]) -> None:
        """Moves those of an optimizer of PyTorch with the same groups here."""
        params = [param for group in self.param_groups for param in group["params"]]
        for index, param in enumerate(params):
            state = states.pop(param, None)
            if state:
                self.load_part(index, state)

    def state_dict(self) -> Dict[str, Any]:
        """As that of torch.optim.AdamW, in host memory."""
        packed = super().state_dict()
        packed["state"] = dict(self.state_parts())
        return packed

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes the state_dict of this optimizer or of torch.optim.AdamW for the same groups."""
        groups = self.param_groups  # schedulers have these dictionaries: they stay
        super().load_state_dict({**state_dict, "state": {}})
        for group, loaded in zip(groups, self.param_groups):
            group.update(loaded)
        self.param_groups = groups
        for index, state in state_dict["state"].items():
            self.load_part(index, state)
