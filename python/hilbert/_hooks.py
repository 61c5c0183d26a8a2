"""Takes parameters of a module out of the store for each use, and gives gradients to it.

[Note: placeholders] Every parameter stays the same object in the same module. While it is not in
use its data is one NaN, expanded to the parameter's shape: it takes no memory, autograd sees the
right shape, and reading one by mistake gives NaN.

[Note: uses] A parameter is taken out of the store
- by the forward pre-hook of the module that has it, until the forward hook; a compiled module takes
  all parameters below it at once, because hooks inside would cut its graph;
- when a module's attribute is read elsewhere (tied weights, functional use), until the forward of
  the module that reads it ends;
- when backward needs it: saved tensors that are parameters, or views of them, are packed as
  references, and live as long as the node of the graph that runs;
- when it is read outside of any forward: as a copy, which is written back if it was changed, and
  stays until the weights change while a graph refers to the parameter.
Data that the program gives a parameter while it is not in use (`p.data = values`) become its weights before the
next use; that it wrote to a placeholder is refused there.
Everything but the copies is a lease: see [Note: leases] in _store.py. Where leases of a forward do
not fit into the window together, parameters that no variable of the program names are put back (if
the module reads them again, they are taken out again), then others become copies.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, NoReturn, Optional, Sequence, Tuple, cast

import torch
from torch import nn

from . import _c
from ._activations import Activations
from ._saved import SavedTensors
from ._slots import ModelSlot
from ._store import Store
from ._transforms import differentiates, outside_of_transforms
from .errors import BudgetError, NumericError, UsageError

_push = torch._C._autograd._push_saved_tensors_default_hooks
_pop = torch._C._autograd._pop_saved_tensors_default_hooks
_top = torch._C._autograd._top_saved_tensors_default_hooks
_transform = torch._C._functorch.peek_interpreter_stack  # None: no transform of torch.func runs
_hooks_are_enabled = getattr(torch._C._autograd, "_saved_tensors_hooks_is_enabled")


class _Frame:
    """A module whose forward runs, and the parameters to be put back at its end."""

    __slots__ = ("module", "slots", "packing", "compiled", "thread")

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.thread = threading.get_ident()
        self.compiled = False  # whether its code reads parameters without asking
        self.slots: List[ModelSlot] = []
        self.packing = False  # whether hooks for saved tensors were pushed


class Parameters(Dict[str, Optional[nn.Parameter]]):
    """A module's `_parameters`: reading one takes it out of the store."""

    __slots__ = ("uses", "slots")
    uses: "Uses"
    slots: Dict[str, ModelSlot]

    def __getitem__(self, name: str) -> Optional[nn.Parameter]:
        slot = self.slots.get(name)
        if slot is not None and not slot.users and slot.copy is None:
            self.uses.reach(slot)
        return dict.__getitem__(self, name)

    def __setitem__(self, name: str, param: Optional[nn.Parameter]) -> None:
        dict.__setitem__(self, name, param)
        self._forget(name)
        slot = self.uses.slots.get(id(param))
        if slot is not None:  # tied to one that is in the store
            self.slots[name] = slot
            slot.holders += 1

    def __delitem__(self, name: str) -> None:
        dict.__delitem__(self, name)
        self._forget(name)

    def pop(self, name: str, *default: Any) -> Any:
        self._forget(name)
        return dict.pop(self, name, *default)

    def _forget(self, name: str) -> None:
        slot = self.slots.pop(name, None)
        if slot is not None:
            slot.holders -= 1

    def own(self) -> List[ModelSlot]:
        """Of the parameters that it has now."""
        return list(dict.fromkeys(self.slots.values()))

    def __reduce__(self) -> Any:
        refuse_copy()


def refuse_copy(*protocol: Any) -> NoReturn:
    """The model's `__reduce_ex__`."""
    raise UsageError("an offloaded model cannot be copied or pickled: use its state_dict, "
                     "hilbert.save or save_pretrained")


_OUTPUTS = (nn.Parameter, tuple, list, dict)


def _runs(module: nn.Module) -> bool:
    """Whether a function of the module is on the stack of any thread."""
    for frame in sys._current_frames().values():
        at: Any = frame
        while at is not None:
            if at.f_locals.get("self") is module:
                return True
            at = at.f_back
    return False


def _holds(output: Any, param: nn.Parameter) -> bool:
    if isinstance(output, nn.Parameter):
        return output is param
    return any(value is param for value in (output.values() if isinstance(output, dict) else output))


class Uses:
    """Passes over the store, and the uses of parameters in them. See [Note: uses]."""

    def __init__(self, store: Store, model: nn.Module) -> None:
        self.store = store
        self.root = weakref.ref(model)
        self.kind: Optional[int] = None  # of the open pass
        self.summing = False  # whether a gradient was added in it
        self.more = False  # whether other backward passes of this step follow: no sum is complete
        self.scaling = False  # whether the backward that runs has multiplied by the loss scale of fp16
        self.optimizer: Any = None  # whose groups may be frozen
        self.activations: Optional[Activations] = None  # None: PyTorch keeps them
        self.slots: Dict[int, ModelSlot] = {}  # by the id of their parameters
        self._stack: List[_Frame] = []
        self._copies: List[ModelSlot] = []

    # Passes.

    def open(self, kind: int) -> None:
        """Begins a pass unless one runs; a training pass ends one that only reads."""
        if self.kind == _c.EVAL and kind == _c.TRAIN:
            self._end()
        if self.kind is None:
            self.drop_copies()
            self.store.begin(kind)
            self.kind, self.summing = kind, False

    def _end(self) -> None:
        if self.store.referred():
            gc.collect()  # graphs in cycles
        self.store.end()  # if it is refused, the pass goes on
        self.kind, self.summing = None, False

    def idle(self) -> None:
        """Ends a pass without gradients; refuses to end one with them."""
        self._recover()
        if self.kind is not None:
            if self.summing or self._stack:
                raise UsageError("this must be done between training steps: call step() first")
            self._end()
        self._write_given()

    def pause(self) -> bool:
        """Whether a step with gradients is open, of one rank, and nothing is in use."""
        self._recover()
        if not self.summing or self._stack or self.store.shared:
            return False
        self.drop_copies()
        self._write_given()
        if self.store.referred():
            gc.collect()
        return True

    def discard(self) -> None:
        """Discards the gradients of this step."""
        for slot in self.slots.values():
            if slot.trainable:
                slot.param.grad = None
        if self.summing:
            self._end()

    def update(self) -> float:
        """Ends a training pass with an update. Returns the norm of all gradients."""
        self._recover()
        if self._stack:
            raise UsageError("step() was called inside of a forward")
        self._write_given()
        for slot in self.slots.values():
            if slot.trainable and slot.param.grad is not None:  # the program has set it
                self.take_gradient(slot)
            elif slot.frozen and slot.param.requires_grad:
                raise UsageError(f"{slot.name} was frozen when the model was given to hilbert.offload, so that it has no "
                                 "optimizer states: unfreeze it before, or freeze it again")
        self.open(_c.TRAIN)
        self.drop_copies(stale=True)
        if self.store.referred():
            gc.collect()
        try:
            return self.store.step()
        except NumericError as error:
            raise NumericError(f"{error}; a weight that is read otherwise than as an attribute of its module "
                               "is NaN, unless it is inside of hilbert.gathered") from None
        except BudgetError as error:
            if not any(slot.gradients > slot.gradients_before > 0 for slot in self.slots.values()):
                raise
            raise BudgetError(f"{error}; this step has more backward calls than the one before: where their number "
                              "varies, give steady=False to hilbert.offload") from None
        finally:
            self._end()

    def take_gradient(self, slot: ModelSlot) -> None:
        """After a gradient was accumulated."""
        gradient = cast(torch.Tensor, slot.param.grad)
        slot.param.grad = None
        if (self.store.options.dtype == torch.float16 and not self.scaling and
                self.store.progress.loss_scale != 1):
            raise UsageError("with fp16 call model.backward(loss) instead of loss.backward(): the update divides by "
                             "the loss scale")
        if self.optimizer.param_groups[slot.rates].get("frozen"):
            return
        if gradient.layout != torch.strided:
            gradient = gradient.to_dense()
        self.open(_c.TRAIN)
        self.summing = True
        self.store.add_gradient(slot, gradient, not self.more)

    # Uses in a forward.

    def enter(self, module: nn.Module, slots: Sequence[ModelSlot], compiled: bool) -> None:
        """Before the forward of a module."""
        if self._stack and threading.get_ident() != self._stack[-1].thread and torch._C._current_graph_task_id() == -1:
            self._recover()
            if self._stack:
                raise UsageError("another thread is in a forward of this model: use it on one thread at a time")
        if slots and torch.is_grad_enabled() and (not _hooks_are_enabled() or _transform() is not None and differentiates()):
            raise UsageError("torch.func.grad and its like cannot differentiate an offloaded model: use autograd, or give "
                             "values that were taken inside of hilbert.gathered to torch.func.functional_call")
        if _transform() is None:
            self._enter(module, slots, compiled)
            return
        with outside_of_transforms():
            self._enter(module, slots, compiled)

    def _enter(self, module: nn.Module, slots: Sequence[ModelSlot], compiled: bool) -> None:
        training = torch.is_grad_enabled()
        if self._stack and module in (self.root(), self._stack[0].module):
            self._recover()
        if not self._stack:
            self._write_edits()
            self._write_given()
            self.open(_c.TRAIN if training else _c.EVAL)
        frame = _Frame(module)
        frame.compiled = compiled
        self._stack.append(frame)
        if self.store.shared:
            self.store.prepare([slot for slot in slots if not slot.users and slot.copy is None])
        for slot in slots:
            self._use(slot, frame)
        if training and (slots or len(self._stack) == 1) and _hooks_are_enabled():
            self._push_packing(frame)

    def leave(self, module: nn.Module, output: Any = None) -> None:
        """After it, or after an exception in it."""
        if (not self._stack or self._stack[-1].module is not module or
                self._stack[-1].thread != threading.get_ident()):
            return  # the exception came before it was entered
        if _transform() is None:
            self._leave(output)
            return
        with outside_of_transforms():
            self._leave(output)

    def _leave(self, output: Any) -> None:
        frame = self._stack.pop()
        for slot in frame.slots if type(output) is not torch.Tensor and isinstance(output, _OUTPUTS) else ():
            if _holds(output, slot.param):  # the parameter itself: who called the module uses it
                self.reach(slot)
        self._end_frame(frame)
        if not self._stack and self.kind == _c.EVAL and not self.store.referred():
            self._end()

    def _end_frame(self, frame: _Frame) -> None:
        if frame.packing:
            _pop()
        changed = ""
        for slot in frame.slots:
            slot.users -= 1
            if not slot.users and slot.copy is None:
                changed = slot.name if slot.param._version != slot.version else changed
                slot.put_back()
        if changed:
            raise UsageError(f"{changed} was changed in place inside of a forward, which is not written back: change it "
                             "between steps")

    def _recover(self) -> None:
        """Ends forwards that no longer run: PyTorch calls no hook after a KeyboardInterrupt."""
        if self._stack and not _runs(self._stack[0].module):
            while self._stack:
                self._end_frame(self._stack.pop())

    def _use(self, slot: ModelSlot, frame: _Frame) -> None:
        if not slot.users and slot.copy is None:
            if slot.was_given():
                raise UsageError(f"{slot.name} was given other data inside of a forward: do that between steps")
            slot.param.data = self._take(slot)
            slot.version = slot.param._version
        slot.users += 1
        frame.slots.append(slot)

    def _take(self, slot: ModelSlot) -> torch.Tensor:
        for make_room in (self._put_back, self._make_copies):
            try:
                return self._fetch(slot)
            except BudgetError:
                make_room()
        return self._fetch(slot)

    def _put_back(self) -> None:
        for frame in self._stack:
            for slot in [] if frame.compiled else frame.slots:
                if slot.leases and slot.copy is None and not slot.is_named():
                    slot.users = 0
                    slot.put_back()
        for frame in self._stack:
            frame.slots = [slot for slot in frame.slots if slot.users]

    def _make_copies(self) -> None:
        for frame in self._stack:
            for slot in frame.slots:
                if slot.leases and slot.copy is None:
                    slot.param.data = slot.param.data.clone()

    def _fetch(self, slot: ModelSlot) -> torch.Tensor:
        weights = self.store.lease(slot)
        return weights if slot.stored == slot.dtype else weights.to(slot.dtype)

    def take_again(self, slot: ModelSlot, changes: int) -> torch.Tensor:
        """The weights for backward, which may come after the end of the pass of its forward:
        zero_grad() and `gathered` end it."""
        if changes != self.store.changes:
            raise RuntimeError(f"backward needs {slot.name} as it was in the forward, but since then weights were "
                               "modified by an inplace operation, such as step()")
        if self.kind is None:
            self.open(_c.TRAIN)
        return self.store.lease(slot)

    def _push_packing(self, frame: _Frame) -> None:
        outer = _top(True)
        top = getattr(outer[0], "__self__", None) if outer else None
        if not (isinstance(top, SavedTensors) and top.uses is self):
            saved = SavedTensors(self, outer)
            _push(saved.pack, saved.unpack)
            frame.packing = True

    # Uses elsewhere.

    def reach(self, slot: ModelSlot) -> None:
        """A module's attribute is read while that module does not run."""
        if self._stack:
            self._use(slot, self._stack[-1])
        else:
            self.copy(slot)

    def copy(self, slot: ModelSlot) -> None:
        """Gives the parameter its own memory until `drop_copies`."""
        if slot.copy is not None:
            return
        if slot.was_given():
            self._write_given()
        slot.exact = self.kind is None
        slot.original = self.store.read(slot) if slot.exact else self._fetch(slot).clone()
        slot.copy = slot.original.to(self.store.device, slot.dtype, copy=True)
        slot.param.data = slot.copy
        self._copies.append(slot)

    def drop_copies(self, slots: Optional[Iterable[ModelSlot]] = None, stale: bool = False) -> None:
        """Ends the reads of these, or all. What was changed between steps is written back. A copy
        that a graph refers to stays for backward, unless the weights change now: `stale`. Then
        that backward fails, as in PyTorch."""
        for slot in list(self._copies) if slots is None else slots:
            same, used = self._same(slot), slot.param._use_count() > 1
            unchanged = bool(same.all())
            if unchanged and used and not stale:
                continue
            self._copies.remove(slot)
            values, original = slot.param.data, slot.original
            slot.copy = slot.original = None
            if used:
                torch.autograd.graph.increment_version(slot.param)
            slot.put_back()
            if unchanged:
                continue
            if self.summing or self._stack:
                raise UsageError(f"{slot.name} was changed inside of a training step, which is not "
                                 "written back: call step() or zero_grad() first")
            self.idle()
            if not slot.exact:
                original = self.store.read(slot)
            self.store.write(slot, torch.where(same, cast(torch.Tensor, original), values.to("cpu").float()))

    def _write_edits(self) -> None:
        """Before a forward: what was changed after one whose gradients nobody took."""
        if not self.summing:
            self.drop_copies([slot for slot in self._copies if not bool(self._same(slot).all())])

    def _write_given(self) -> None:
        """What the program gave parameters that were not in use becomes their weights."""
        for slot in self.slots.values():
            if not slot.was_given():
                continue
            if slot.was_written():
                slot.make_placeholder(self.store.device)
                raise UsageError(f"{slot.name} was written to while it was not in use, which has no effect: do that inside "
                                 "of hilbert.gathered")
            values = slot.param.data
            if self.summing or self._stack:
                raise UsageError(f"{slot.name} was given other data inside of a training step: call step() or "
                                 "zero_grad() first")
            if values.shape != slot.shape:
                self._refuse_shape(slot)
            if self.kind is not None:
                self._end()
            slot.make_placeholder(self.store.device)
            self.store.write(slot, values)

    def _same(self, slot: ModelSlot) -> torch.Tensor:
        """Which numbers of a copy were not changed."""
        if slot.param.data.shape != slot.shape:
            self._refuse_shape(slot)
        now, before = slot.param.data.to("cpu"), cast(torch.Tensor, slot.original).to("cpu", slot.dtype)
        return (now == before) | (now.isnan() & before.isnan())

    def _refuse_shape(self, slot: ModelSlot) -> NoReturn:
        """The parameter keeps the weights that it had."""
        shape, slot.copy, slot.original = list(slot.param.data.shape), None, None
        if slot in self._copies:
            self._copies.remove(slot)
        slot.make_placeholder(self.store.device)
        raise UsageError(f"{slot.name} was given data of shape {shape} instead of {list(slot.shape)}: resize before "
                         "hilbert.offload")

    def value(self, slot: ModelSlot) -> torch.Tensor:
        """A copy in host memory, in the model's dtype."""
        if slot.was_given():
            self._write_given()
        if slot.copy is not None:
            return slot.copy.detach().to("cpu", copy=True)
        if self.kind is None:
            return self.store.read(slot).to(slot.dtype)
        return self._fetch(slot).to("cpu", copy=True)

    def assign(self, slot: ModelSlot, values: torch.Tensor) -> None:
        """Replaces the weights. Between steps."""
        self.idle()
        if slot.copy is not None:
            self.drop_copies([slot], stale=True)
        self.store.write(slot, values)


def _is_compiled(module: nn.Module) -> bool:
    return module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule"


def stages(model: nn.Module) -> Iterator[Tuple[nn.Module, List[Tuple[str, nn.Parameter]]]]:
    """Modules at which parameters are taken out, with these and their names: a module's own, or all
    below a compiled module."""
    compiled: List[str] = []
    for prefix, module in model.named_modules():
        if any(prefix.startswith(above) for above in compiled):
            continue
        inside = [(prefix, module)]
        if _is_compiled(module):
            compiled.append(prefix + "." if prefix else "")
            inside = list(module.named_modules(prefix=prefix))
        yield module, [(f"{at}.{name}" if at else name, param) for at, owner in inside
                       for name, param in owner._parameters.items() if param is not None]


def _gradient_hook(uses: "weakref.ref[Uses]", slot: "weakref.ref[ModelSlot]") -> Any:
    """By weak references: PyTorch's garbage collector does not see cycles through such hooks."""

    def hook(param: nn.Parameter) -> None:
        owner, taken = uses(), slot()
        if owner is not None and taken is not None:
            owner.take_gradient(taken)

    return hook


def attach(model: nn.Module, uses: Uses, slots: Dict[int, ModelSlot]) -> List[Any]:
    """Installs the hooks; slots by the id of their parameters. Returns what removes them."""
    handles: List[Any] = []
    uses.slots = slots
    for slot in slots.values():
        slot.holders = 1
        if slot.trainable:
            handles.append(slot.param.register_post_accumulate_grad_hook(
                _gradient_hook(weakref.ref(uses), weakref.ref(slot))))
    for module in model.modules():
        own_by_name = {name: slots[id(param)] for name, param in module._parameters.items()
                       if id(param) in slots}
        if own_by_name:
            module._parameters = reading = Parameters(module._parameters)
            reading.uses, reading.slots = uses, own_by_name
            for slot in own_by_name.values():
                slot.holders += 1
    for module, parameters in stages(model):
        own = list(dict.fromkeys(slots[id(param)] for _, param in parameters if id(param) in slots))
        if own or any(True for _ in module.children()):
            handles += _hook(module, uses, own)
    return handles


def _hook(module: nn.Module, uses: Uses, slots: Sequence[ModelSlot]) -> List[Any]:
    if module._compiled_call_impl is not None:  # by module.compile(), which compiles hooks too
        compiled = module._compiled_call_impl

        def call(*args: Any, **kwargs: Any) -> Any:
            uses.enter(module, slots, True)
            try:
                return compiled(*args, **kwargs)
            finally:
                uses.leave(module)

        module._compiled_call_impl = call
        return []

    disable: Callable[[Any], Any] = torch.compiler.disable
    is_compiled = _is_compiled(module)
    own = None if is_compiled else getattr(module._parameters, "own", None)

    def before(module: nn.Module, args: Any) -> None:
        uses.enter(module, slots if own is None else own(), is_compiled)

    def after(module: nn.Module, args: Any, output: Any) -> None:
        uses.leave(module, output)

    return [module.register_forward_pre_hook(disable(before), prepend=True),
            module.register_forward_hook(disable(after), always_call=True)]
