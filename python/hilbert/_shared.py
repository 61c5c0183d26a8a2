"""A store that several ranks share: each keeps a part of every state, and has batches of its own.

[Note: rounds] The library wants the same calls in the same order on all ranks, which programs do not
make: data choose paths, one rank evaluates longer, or saves alone. So before each call the ranks
meet in a round: each says what it wishes, all decide the same from all wishes, and all make the same
calls for those that are granted. A rank whose wish must wait takes part in the calls of the others.
- Weights that any rank wishes are acquired on all, and released when none refers to them any more.
- A gradient that any rank has is added on all, by the others as zeros.
- A training pass begins when all wish to train, and is updated when all wish to step. Before it
  begins, ranks may evaluate, read, write, save and load, alone or together.
- What one rank writes, saves or loads counts for all; of several, the lowest rank's counts.
- Wishes that can never be granted together are an error on all ranks, and so is the failure of one.
A round is a gather of a few numbers over gloo, one for each module that takes weights out.
"""

from __future__ import annotations

import atexit
import json
import sys
import weakref
import zlib
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, NoReturn, Optional, Sequence, Set, Tuple, cast

import torch
import torch.distributed as dist

from . import _c
from ._ranks import Ranks
from ._store import PIECE, Forked, Options, Slot, Store, pieces
from .errors import BudgetError, Error, InputError, NumericError, UsageError

ACQUIRE, STEP, DISCARD, READ, WRITE, CALL, MEET, DONE, CLOSED, FAILED = range(10)
_WORDS = 64  # of a wish that one gather carries
_PENDING = 1 << 26  # bytes of gradients that may wait for the next round
_LIKE = (UsageError, InputError, BudgetError, NumericError)  # the same on all ranks


class Wish(NamedTuple):
    """What a rank wishes in a round."""

    op: int
    kind: int  # of its pass; -1: none
    fresh: bool  # its pass has acquired nothing yet
    alive: Tuple[int, ...]  # weights that it refers to
    gradients: Tuple[int, ...]  # that it has not added yet; twice the number, odd: the last ones
    items: Tuple[int, ...]  # what the op is about

    def encode(self) -> List[int]:
        return [self.op, self.kind, self.fresh, len(self.alive), *self.alive, len(self.gradients),
                *self.gradients, *self.items]

    @staticmethod
    def decode(words: List[int]) -> "Wish":
        at = 4 + words[3]
        end = at + 1 + words[at]
        return Wish(words[0], words[1], bool(words[2]), tuple(words[4:at]),
                    tuple(words[at + 1:end]), tuple(words[end:]))


class SharedStore(Store):
    """A store on several ranks: see [Note: rounds]. Created, and given its parameters, on all."""

    shared = True

    def __init__(self, options: Options, ranks: Ranks) -> None:
        self.ranks, self.rank = ranks, ranks.rank
        self._pass: Optional[int] = None  # the library's, the same on all ranks
        self._used = False  # whether it acquired anything
        self._kind: Optional[int] = None  # of this rank's own pass
        self._fresh = self._added = False  # whether that one has not acquired; has gradients
        self._held: Dict[int, Slot] = {}  # acquired, on all ranks
        self._waiting: List[Tuple[int, torch.Tensor]] = []  # gradients for the next round
        self._waiting_bytes = 0
        self._rates: Dict[int, List[float]] = {}
        self._failure = ""
        self._broken: Optional[str] = None
        self._level(options)
        super().__init__(options, ranks.comm)
        _open[:] = [reference for reference in _open if reference() is not None]
        _open.append(weakref.ref(self))

    def _level(self, options: Options) -> None:
        """All ranks take the least budgets of any, so that they place alike."""
        names = ("device_memory", "host_memory", "keep_window", "keep_host")
        least = self.ranks.gather(torch.tensor([getattr(options, name) for name in names])).amin(0)
        for name, value in zip(names, least.tolist()):
            setattr(options, name, value)

    def place(self) -> None:
        names = json.dumps([(slot.name, list(slot.shape), str(slot.stored), slot.trainable, slot.group,
                             slot.rates) for slot in self.slots])
        digests = self.ranks.gather(torch.tensor([zlib.crc32(names.encode())]))
        for rank in range(self.ranks.size):
            if digests[rank] != digests[0]:
                raise UsageError(f"rank {rank} has other parameters than rank 0: give every rank the "
                                 "same model, groups and dtype")
        super().place()

    def close(self) -> None:
        """Tells the others, unless all have agreed to end."""
        if self._handle and self._broken is None and dist.is_initialized():
            words = torch.tensor(([0] + Wish(CLOSED, -1, False, (), (), ()).encode() +
                                  [0] * _WORDS)[:_WORDS])
            words[0] = 5
            out = torch.empty(self.ranks.size * _WORDS, dtype=words.dtype)
            _last.append((words, out, dist.all_gather_into_tensor(out, words, group=self.ranks.control,
                                                                  async_op=True)))
        super().close()
        if self.ranks.comm:
            self.ranks.close()

    def leave(self) -> None:
        """At the end of the program: helps the others until all have ended, or says why it fails."""
        if isinstance(self._lock, Forked):
            return
        error = getattr(sys, "last_value", None)
        try:
            if self._broken is None and dist.is_initialized():
                if error is not None:
                    self._fail(f"{type(error).__name__}: {error}")
                self._ask(DONE)
        except Error:
            pass  # the program has ended; those that wait for it say why
        self._broken = self._broken or "the program has ended"
        self.close()

    # Rounds.

    def _ask(self, op: int, items: Sequence[int] = (), payload: Any = None) -> Any:
        """Takes part in rounds until the wish is granted. The lock is held."""
        while True:
            if self._broken is not None:
                raise Error(self._broken)
            wishes = self._exchange(op, items)
            granted = self._take_part(wishes, payload)
            if granted is not None:
                return granted[0]

    def _exchange(self, op: int, items: Sequence[int] = ()) -> List[Wish]:
        alive = [number for number, slot in self._held.items() if slot.leases]
        kind = -1 if self._kind is None else self._kind
        own = Wish(op, kind, self._fresh, tuple(alive),
                   tuple(key for key, _ in self._waiting), tuple(items)).encode()
        try:
            rows = self._gather(own)
        except RuntimeError as error:
            first = str(error).split(". ")[0]
            self._broken = f"another rank has ended or cannot be reached: {first}"
            raise Error(self._broken) from None
        wishes = [Wish.decode(row) for row in rows]
        for rank, wish in enumerate(wishes):
            if wish.op == CLOSED and op != CLOSED:
                self._broken = f"rank {rank} has deleted its model"
                raise Error(self._broken)
        if any(wish.op == FAILED for wish in wishes):
            self._hear_failure(wishes)
        return wishes

    def _gather(self, words: List[int]) -> List[List[int]]:
        """The words of every rank: one gather, two if some rank has many."""
        row = [len(words), *words]
        rows = self.ranks.gather(torch.tensor((row + [0] * _WORDS)[:_WORDS])).tolist()
        most = max(r[0] for r in rows) + 1 - _WORDS
        if most > 0:
            rest = (row[_WORDS:] + [0] * most)[:most]
            more = self.ranks.gather(torch.tensor(rest)).tolist()
            rows = [a + b for a, b in zip(rows, more)]
        return [r[1:1 + r[0]] for r in rows]

    def _take_part(self, wishes: List[Wish], payload: Any) -> Optional[Tuple[Any]]:
        """Makes the calls of a round. Returns the result of this rank's wish; None: it must wait."""
        self._release_dead(wishes)
        if self._pass == _c.TRAIN:
            self._add_all(wishes)
        ops = {wish.op for wish in wishes}
        if self._pass is not None:
            inside = self._inside(wishes)
            if inside:
                return self._acquire_all(wishes, inside)
            if ops == {STEP} and self._pass == _c.TRAIN:
                return self._step_all(wishes)
            if MEET in ops and self._summed:
                return (None,) if wishes[self.ranks.rank].op == MEET else None
            if any(wish.alive for wish in wishes) or (self._summed and ops != {DISCARD}):
                raise self._stuck(wishes)
            self._close_pass()
        return self._take_idle_part(wishes, ops, payload)

    def _take_idle_part(self, wishes: List[Wish], ops: Set[int], payload: Any) -> Optional[Tuple[Any]]:
        """The same, between passes."""
        mine = wishes[self.ranks.rank].op
        if any(wish.op == ACQUIRE and wish.kind == _c.EVAL for wish in wishes):
            self._open(_c.EVAL)
            return self._acquire_all(wishes, self._inside(wishes))
        if ops & {READ, WRITE, CALL}:
            return self._serve(wishes, payload)
        if MEET in ops:
            return (None,) if mine == MEET else None
        if ops <= {ACQUIRE, STEP}:
            self._open(_c.TRAIN)
            self._add_all(wishes)
            inside = self._inside(wishes)
            return self._acquire_all(wishes, inside) if inside else self._step_all(wishes)
        if len(ops) > 1:
            raise self._stuck(wishes)
        return (None,)  # all discard, or all are done

    def _act(self, call: Any, *arguments: Any) -> Any:
        """A call of the library on all ranks. What fails on one only, such as a drive, ends all."""
        try:
            return call(*arguments)
        except _LIKE:
            raise
        except Error as error:
            self._fail(str(error))

    def _fail(self, why: str) -> NoReturn:
        """This rank cannot go on; tells the others."""
        lost = self.ranks.lost  # it was another rank that failed first
        self.ranks.report_failure()
        self._failure = why
        self._exchange(FAILED, [int(lost)])
        raise AssertionError("a failure was not heard")

    def _hear_failure(self, wishes: List[Wish]) -> NoReturn:
        failed = [rank for rank, wish in enumerate(wishes) if wish.op == FAILED]
        first = min(failed, key=lambda rank: (wishes[rank].items, rank))
        own = self._failure.encode() if self.ranks.rank == first else None
        text = self.ranks.broadcast_bytes(own, first).decode()
        self._broken = text if self.ranks.rank == first else f"rank {first} failed: {text}"
        raise Error(self._broken)

    def _stuck(self, wishes: List[Wish]) -> Error:
        names = ["take weights", "step", "discard gradients", "read weights", "write weights",
                 "save or load", "meet", "end"]
        says = ", ".join(f"rank {rank} wants to {names[wish.op]}" for rank, wish in enumerate(wishes))
        if any(wish.op == DONE for wish in wishes):
            self._broken = f"a rank has ended before the others: {says}"
            return Error(self._broken)
        return UsageError(f"the ranks cannot go on together: {says}; all must step equally often, and "
                          "read or write weights between steps only")

    # The calls of a round.

    def _inside(self, wishes: List[Wish]) -> List[int]:
        """Ranks that wish weights in the pass that is open. Evaluation may be in a training pass."""
        return [rank for rank, wish in enumerate(wishes)
                if wish.op == ACQUIRE and wish.kind in (self._pass, _c.EVAL)]

    def _open(self, kind: int) -> None:
        self._act(self._begin, kind)
        self._pass, self._used = kind, False

    def _close_pass(self) -> None:
        """No rank refers to weights."""
        while self._held:
            super()._release(self._held.popitem()[1])
        self._act(self._end)
        self._pass = None

    def _add_all(self, wishes: List[Wish]) -> None:
        """Adds the gradients that any rank has; one that another rank has more often as zeros."""
        most: Dict[int, int] = {}
        for wish in wishes:
            for key in dict.fromkeys(wish.gradients):
                most[key] = max(most.get(key, 0), wish.gradients.count(key))
        mine: Dict[int, List[torch.Tensor]] = {}
        for key, gradient in self._waiting:
            mine.setdefault(key, []).append(gradient)
        self._waiting, self._waiting_bytes = [], 0
        for key, times in most.items():
            slot, last, own = self.slots[key // 2], bool(key % 2), mine.get(key, [])
            for gradient in own:
                self._act(self._add, slot, gradient, last)
            for _ in range(times - len(own)):
                self._act(self._add, slot, torch.zeros(slot.shape, device=self.device), last)

    def _release_dead(self, wishes: List[Wish]) -> None:
        alive = {number for wish in wishes for number in wish.alive}
        alive.update(number for wish in wishes if wish.op == ACQUIRE for number in wish.items)
        for number in [number for number in self._held if number not in alive]:
            super()._release(self._held.pop(number))

    def _acquire_all(self, wishes: List[Wish], inside: List[int]) -> Optional[Tuple[Any]]:
        """Acquires what these ranks wish. One whose weights do not fit waits while others refer to
        weights that it does not need."""
        kind = self._pass
        if (self._used and not self._summed and not any(wish.alive for wish in wishes) and
                all(wishes[rank].fresh for rank in inside)):
            self._close_pass()  # they have begun another one since
            self._open(cast(int, kind))
        missing: Dict[int, BudgetError] = {}
        for number in dict.fromkeys(number for rank in inside for number in wishes[rank].items):
            if number in self._held:
                continue
            try:
                self._act(super()._acquire, self.slots[number])
                self._held[number] = self.slots[number]
                self._used = True
            except BudgetError as error:
                missing[number] = error
        me = self.ranks.rank
        if me not in inside:
            return None
        self._fresh = False
        blocked = [rank for rank in inside if any(n in missing for n in wishes[rank].items)]
        if me not in blocked:
            return (None,)
        own = wishes[me].alive + wishes[me].items
        if len(blocked) == len(inside) or all(number in own for number in self._held):
            raise next(missing[n] for n in wishes[me].items if n in missing)
        return None

    def _step_all(self, wishes: List[Wish]) -> Tuple[Any]:
        for rank, wish in enumerate(wishes):
            if wish.items != wishes[0].items:
                raise UsageError(f"rank {rank} has other learning rates, decay or betas than rank 0: "
                                 "change them, and step schedulers, on all ranks")
        try:
            return (self._act(super()._step),)
        finally:
            if self._broken is None:
                self._pass = None
                self._act(self._end)

    def _serve(self, wishes: List[Wish], payload: Any) -> Optional[Tuple[Any]]:
        """Reads, writes and calls, in the order of ranks; equal ones once."""
        asking: Dict[Tuple[int, ...], List[int]] = {}
        for rank, wish in enumerate(wishes):
            if wish.op in (READ, WRITE, CALL):
                asking.setdefault((wish.op, *wish.items[:2]), []).append(rank)
        granted: Optional[Tuple[Any]] = None
        failure: Optional[Error] = None
        for (op, first, second), ranks in asking.items():
            mine, value = self.ranks.rank in ranks, cast(Any, None)
            try:
                if op == READ:
                    value = self._act(self._read, self.slots[first], second)
                elif op == WRITE:
                    self._write_all(wishes, ranks, payload if mine else None)
                else:
                    value = self._call(first, payload if mine else None, ranks[0])
            except Error as error:
                if self._broken is not None:
                    raise
                failure = error if mine else failure
                continue
            if mine:
                granted = (value,)
        if failure is not None:
            raise failure
        return granted

    def _write_all(self, wishes: List[Wish], ranks: List[int], values: Optional[torch.Tensor]) -> None:
        """Writes the same numbers on all ranks, those of the lowest that wishes it."""
        number, state = wishes[ranks[0]].items[:2]
        slot = self.slots[number]
        same = len(ranks) == len(wishes) and len({wishes[rank].items for rank in ranks}) == 1
        if values is not None and (same or self.ranks.rank == ranks[0]):
            source = pieces(values)
        else:
            source = ((first, torch.empty(min(PIECE, slot.elements - first)))
                      for first in range(0, slot.elements, PIECE))
        for first, piece in source:
            if not same:
                self.ranks.broadcast(piece, ranks[0])
            self._act(self._write, slot, state, first, piece)

    def _call(self, which: int, payload: Optional[str], source: int) -> Any:
        """Another call of the store, with the arguments of rank `source`. Its failure is one of all
        ranks, unless they are no longer connected."""
        text = self.ranks.broadcast_bytes(payload.encode() if payload is not None else None, source)
        try:
            return _CALLS[which](self, *json.loads(text))
        except Error as error:
            if self.ranks.lost:
                self._fail(str(error))
            raise

    # What a program calls.

    def _acquire(self, slot: Slot) -> None:
        self._take([slot])

    def _release(self, slot: Slot) -> None:
        """In a round, when no rank refers to it."""

    def _take(self, slots: Sequence[Slot]) -> None:
        missing = [slot.number for slot in slots if self._fresh or slot.number not in self._held]
        if missing:
            self._ask(ACQUIRE, missing)

    def prepare(self, slots: Sequence[Slot]) -> None:
        with self._lock:
            self._settle()
            try:
                self._take(slots)
            except BudgetError:  # one at a time, then
                pass

    def begin(self, kind: int) -> None:
        self._kind, self._fresh, self._added = kind, True, False

    def end(self) -> None:
        with self._lock:
            self._settle()
            self._refuse_leases()
            discards, self._added = self._added, False
            if discards and self._broken is None:
                self._waiting, self._waiting_bytes = [], 0
                self._ask(DISCARD)
            self._kind = None

    def add_gradient(self, slot: Slot, gradient: torch.Tensor, last: bool = True) -> None:
        if gradient.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            gradient = gradient.to(torch.float32)
        with self._lock:
            self._settle()
            self._added = True
            self._waiting.append((2 * slot.number + last, gradient.contiguous()))
            self._waiting_bytes += gradient.nbytes
            if self._waiting_bytes > _PENDING:
                self._ask(ACQUIRE)

    def step(self) -> float:
        with self._lock:
            self._settle()
            self._refuse_leases()
            self._added = False
            return float(self._ask(STEP, [self._rates_digest()]))

    def set_rates(self, number: int, group: Any) -> None:
        super().set_rates(number, group)
        self._rates[number] = [float(group[key]) for key in ("lr", "weight_decay", "eps")] + \
            [float(beta) for beta in group["betas"]]

    def _rates_digest(self) -> int:
        return zlib.crc32(json.dumps(sorted(self._rates.items())).encode())

    def read(self, slot: Slot, state: int = _c.WEIGHT) -> torch.Tensor:
        with self._lock:
            self._settle()
            return cast(torch.Tensor, self._ask(READ, [slot.number, state]))

    def write(self, slot: Slot, values: torch.Tensor, state: int = _c.WEIGHT) -> None:
        digest = 0
        for _, piece in pieces(values):
            digest = zlib.crc32(piece.numpy().data, digest)
        with self._lock:
            self._settle()
            self._ask(WRITE, [slot.number, state, digest], values)

    def write_all(self, values: Iterable[Tuple[Slot, torch.Tensor]]) -> None:
        for slot, numbers in values:
            self.write(slot, numbers)

    def _ask_call(self, name: str, key: str, *arguments: Any) -> Any:
        which = list(_NAMES).index(name)
        with self._lock:
            self._settle()
            return self._ask(CALL, [which, zlib.crc32(key.encode())], json.dumps(arguments))

    def set_updates(self, slot: Slot, updates: int) -> None:
        self._ask_call("set_updates", f"{slot.number}", slot.number, updates)

    def save(self, folder: str, extra: str, keep: int) -> None:
        self._ask_call("save", folder, folder, extra, keep)

    def load(self, folder: str) -> Optional[str]:
        return cast(Optional[str], self._ask_call("load", folder, folder))

    @property
    def progress(self) -> _c.StoreProgress:
        return self._get_progress()

    @progress.setter
    def progress(self, progress: _c.StoreProgress) -> None:
        self._ask_call("progress", "", progress.updates, progress.loss_scale, progress.since)

    def meet(self) -> None:
        """Returns when the other ranks have nothing to read or write any more, and call something
        else."""
        with self._lock:
            self._settle()
            self._ask(MEET)


def _set_updates(store: SharedStore, number: int, updates: int) -> None:
    Store.set_updates(store, store.slots[number], updates)


def _set_progress(store: SharedStore, *numbers: int) -> None:
    Store._set_progress(store, _c.StoreProgress(*numbers))


_NAMES: Dict[str, Callable[..., Any]] = {"save": Store.save, "load": Store.load, "set_updates": _set_updates,
          "progress": _set_progress}
_CALLS: List[Callable[..., Any]] = list(_NAMES.values())

_open: List["weakref.ref[SharedStore]"] = []  # in the same order on all ranks
_last: List[Any] = []  # gathers that nobody waits for


@atexit.register
def _leave() -> None:
    for reference in _open:
        store = reference()
        if store is not None:
            store.leave()
