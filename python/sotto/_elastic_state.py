"""What the ranks of a job continue from when their group changes."""

from __future__ import annotations

import contextlib
import copy
import io
import weakref
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol, TYPE_CHECKING

import torch
from torch.nn.parallel import DistributedDataParallel

from sotto._all_reduce import AllReduceDataParallel
from sotto._errors import ConfigError
from sotto._gossip import GossipDataParallel
from sotto._hook import Hook
from sotto._local import DiLoCo, LocalSGD
from sotto._state import check_form, check_identity, state_of
from sotto._stepper import Stepper
from sotto._steps import Steps


WRAPPERS = (DistributedDataParallel, AllReduceDataParallel, GossipDataParallel, LocalSGD, DiLoCo)


@dataclass
class Commit:
    """A copy of everything in memory."""

    number: int
    values: dict[str, Any]  # by name; of a part with state_dict(), that
    wrappers: list[dict[str, Any]]  # see kept(); rank -1: this rank was not there, and has what is the same on all ranks


class Group(Protocol):
    """The present group of ranks."""

    def agree_on_change(self) -> bool: ...
    def leave(self) -> None: ...
    def tell_wishes(self) -> None: ...


class ElasticState:
    """What a function of `sotto.elastic` continues from when the group of ranks has changed.

        state = sotto.ElasticState(model=net, optimizer=optimizer, step=0)

    Each argument becomes an attribute. Parts that have `state_dict()` and `load_state_dict()`, such as modules, optimizers
    and schedulers, keep their identity. All others are values (numbers, texts, tensors, lists, dicts) that the function
    may set: `state.step += 1`. What wrappers keep, such as what was held back, belongs to it without being named.
    """

    def __init__(self, **parts: Any) -> None:
        for name, part in parts.items():
            if name.startswith("_") or hasattr(type(self), name):
                raise ConfigError(f"{name}=: a part of ElasticState cannot have this name")
            if isinstance(part, WRAPPERS):
                raise ConfigError(f"{name}=: give the plain module; wrap it in the function, again for each group of ranks")
        self._names = tuple(parts)
        self._group: Group | None = None
        self._commits: list[Commit] = []  # the last two
        # The wrappers of this group, in their order; a reference is dead when its wrapper is not used any more.
        self._wrappers: list[tuple[weakref.ref[Any], Hook | Stepper]] = []
        self._owed: list[dict[str, Any]] = []  # the states of wrappers in the group before
        self.__dict__.update(dict.fromkeys(parts))
        for name, part in parts.items():
            setattr(self, name, part)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            self.__dict__[name] = value
            return
        if name not in self.__dict__:
            raise ConfigError(f"state.{name} would not be kept; give {name}= to ElasticState")
        if not _has_state(value) and not _is_plain(value):
            raise ConfigError(f"{name}={value!r:.80}: wants a number, text, tensor, list or dict of such, or an object with "
                              "state_dict() and load_state_dict()")
        self.__dict__[name] = value

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...  # the parts

    def commit(self) -> None:
        """Keeps a copy of everything in memory, to which the ranks go back when one is lost. Call it between steps: after each,
        or after every n-th, on all ranks alike. It costs a copy of the model, of the optimizer and of what wrappers keep, and
        a message of 8 bytes that nobody waits for before the next commit. It waits for models that are on their way. With
        ad_psgd it is a meeting of all ranks.

        It does not return if the group is to change, because others want to join or some rank was asked to end (SIGTERM):
        then the function is called again with the next group. A rank that was asked to end raises SystemExit here.
        """
        if self._group is None:
            raise ConfigError("commit() is for the inside of a function of sotto.elastic")
        changes = self._group.agree_on_change()  # first: so no rank is two commits ahead of another
        number = self._commits[-1].number + 1
        oldest = self._commits.pop(0) if len(self._commits) == 2 else None  # all ranks have made the one after it
        if oldest is not None:
            oldest.wrappers = []  # which are allocated each time
        self._commits.append(self._copy(number, oldest))
        if changes:
            self._group.leave()
        self._group.tell_wishes()

    def _copy(self, number: int, reuse: Commit | None = None) -> Commit:
        old = reuse.values if reuse is not None else {}
        values = {name: copied(_state_of(self.__dict__[name]), old.get(name)) for name in self._names}
        wrappers = [kept(engine) for user, engine in self._wrappers if user() is not None]
        return Commit(number, values, [*wrappers, *self._owed[len(self._wrappers):]])

    # For the job.

    def _go_back(self, number: int) -> None:
        """Everything becomes what it was at that commit."""
        self._commits = [commit for commit in self._commits if commit.number <= number]
        commit = self._commits[-1]
        if commit.number != number:
            raise RuntimeError(f"commit {number} is not kept; the last one is {commit.number}")
        for name, value in commit.values.items():
            part = self.__dict__[name]
            if not _has_state(part):
                self.__dict__[name] = copied(value)
                continue
            if isinstance(part, torch.amp.GradScaler) and part.is_enabled():
                with contextlib.suppress(AssertionError):  # it has not scaled yet
                    part.update(part.get_scale())  # forgets a step that was interrupted
            part.load_state_dict(copied(value))  # an optimizer takes over the tensors that it is given
            if isinstance(part, torch.nn.Module):
                part.zero_grad(set_to_none=True)
        self._owed = list(commit.wrappers)

    def _packed(self) -> memoryview:
        """The last commit, as others take it up: without wrappers' values that belong to this rank alone."""
        commit = self._commits[-1]
        wrappers = [dict(one, rank=-1, values={name: one["values"][name] for name in one["shared"]}) for one in commit.wrappers]
        file = io.BytesIO()
        torch.save({"number": commit.number, "values": commit.values, "wrappers": wrappers}, file)
        return file.getbuffer()

    def _take_up(self, data: bytearray) -> None:
        with torch.serialization.safe_globals(_numpy_types()):
            commit = Commit(**torch.load(io.BytesIO(data), map_location="cpu", weights_only=True))
        if commit.values.keys() != set(self._names):
            raise ConfigError(f"this rank's ElasticState has {', '.join(self._names)}, and the others have "
                              f"{', '.join(commit.values)}")
        self._commits = [commit]
        self._go_back(commit.number)

    def _wrapped(self, user: Any, engine: Hook | Stepper) -> bool:
        """A module was wrapped: the engine continues in place of the former group's. Returns whether there was one."""
        if "hierarchical(" in engine.identity():
            raise ConfigError("hierarchical has groups of one size, and here the number of ranks changes; take another aggregator")
        place = len(self._wrappers)
        self._wrappers.append((weakref.ref(user), engine))
        if place >= len(self._owed):
            return False
        try:
            _go_on(engine, self._owed[place])
        except Exception as error:
            self._wrappers.pop()  # the function may wrap again, and must then find the former state
            engine.refuse(str(error))
            raise
        self._owed[place] = {}  # not needed any more, and as large as several models
        return True

    def _give_up(self, why: str) -> None:
        """No wrapper of this group is used any more. Other ranks, which may wait for this one in an exchange, are told why."""
        for reference, engine in self._wrappers:
            user = reference()
            if isinstance(user, Steps):
                user.give_up(why)
            else:
                engine.refuse(why)
        self._wrappers = []


def kept(engine: Hook | Stepper) -> dict[str, Any]:
    """sotto.state_dict, and the names of those values that are the same on all ranks."""
    state = state_of(engine)
    if isinstance(engine, Stepper):  # which may continue on another graph
        state["identity"] = engine.identity(graph=False)
    return state | {"shared": engine.shared()}


def _go_on(engine: Hook | Stepper, state: dict[str, Any]) -> None:
    check_form(state)
    former = (state["rank"], state["ranks"], dict(state["values"]))
    if isinstance(engine, Stepper):
        check_identity(state["identity"], engine.identity(graph=False))
        engine.rejoin(state["step"], former)
    else:
        check_identity(state["identity"], engine.identity())
        engine.spread(state["step"], [former])


def _has_state(part: Any) -> bool:
    return hasattr(part, "state_dict") and hasattr(part, "load_state_dict")


def _state_of(part: Any) -> Any:
    return part.state_dict() if _has_state(part) else part


def _is_plain(value: Any) -> bool:
    """Whether a new rank can read it without running code of the rank that sent it."""
    if type(value) in (list, tuple):
        return all(_is_plain(one) for one in value)
    if type(value) is dict:
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, torch.Tensor):
        return not value.requires_grad  # an optimizer would still use the old tensor
    return value is None or type(value) in (bool, int, float, complex, str)


def copied(value: Any, reuse: Any = None) -> Any:
    """A copy that shares nothing; tensors of `reuse` that have the same place and shape become part of it."""
    if isinstance(value, torch.Tensor):
        if (isinstance(reuse, torch.Tensor) and reuse.shape == value.shape and reuse.dtype == value.dtype
                and reuse.device == value.device and reuse.is_contiguous() and value.is_contiguous()):
            return reuse.copy_(value.detach())
        return value.detach().clone()
    if isinstance(value, MutableMapping):
        old = reuse if isinstance(reuse, Mapping) else {}
        result = copy.copy(value)  # with the attributes that the state of a module has
        for key in value:
            result[key] = copied(value[key], old.get(key))
        return result
    if type(value) in (list, tuple):
        old_items = reuse if type(reuse) is type(value) and len(reuse) == len(value) else [None] * len(value)
        return type(value)(copied(one, old) for one, old in zip(value, old_items))
    return copy.deepcopy(value)


def _numpy_types() -> list[Any]:
    """What torch.load must know to read NumPy's numbers and arrays. A scheduler has them, if a learning rate is one."""
    try:
        import numpy
    except ImportError:
        return []
    core = numpy._core.multiarray if hasattr(numpy, "_core") else numpy.core.multiarray
    return [numpy.ndarray, numpy.dtype, core.scalar, core._reconstruct,
            *{type(numpy.dtype(kind)) for kind in "?bBhHiIlLqQefdFD"}]
