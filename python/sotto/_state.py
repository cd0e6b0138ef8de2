"""The state of a communicating module for checkpoints, and statistics of what it has sent."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, Protocol, overload

from sotto._errors import ConfigError, FileError

FORMAT = 1


class Engine(Protocol):
    """What averages for a module: a GradientAverager or a Stepper."""

    def rank(self) -> int: ...
    def ranks(self) -> int: ...
    def step(self) -> int: ...
    def stats(self) -> dict[str, Any]: ...
    def identity(self) -> str: ...
    def state(self) -> dict[str, Any]: ...
    def load_state(self, state: Any) -> None: ...
    def gather(self, own: bytes) -> list[bytes]: ...
    @staticmethod
    def pack(state: Mapping[str, Any]) -> bytes: ...
    @staticmethod
    def unpack(data: bytes) -> dict[str, Any]: ...


_engines: weakref.WeakKeyDictionary[Any, Engine] = weakref.WeakKeyDictionary()


_within_node: weakref.WeakKeyDictionary[Any, Engine] = weakref.WeakKeyDictionary()  # the hook that averages gradients there
_counted_from: weakref.WeakKeyDictionary[Any, Stats] = weakref.WeakKeyDictionary()  # by stats(reset=True)


# While sotto.elastic follows which engines there are. The first argument lives as long as the engine is used.
on_remember: Callable[[Any, Engine], bool] | None = None


class Connected:
    """A wrapper: it belongs to this process, and the module that it wraps to the user."""

    _instead = "copy the module that it was made for, and save its state_dict(), and sotto.state_dict() of this wrapper"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ConfigError(f"{type(self).__name__} is connected to other ranks, and can be neither copied nor saved; {self._instead}")

    def stats(self, *, reset: bool = False) -> Stats:
        """sotto.stats(self)."""
        return stats(self, reset=reset)


def remember(owner: Any, engine: Engine, *, user: Any = None) -> bool:
    """`user` lives as long as the engine is used; None: the owner. Returns whether the engine continues in place of one of
    another group of ranks."""
    goes_on = on_remember is not None and on_remember(owner if user is None else user, engine)
    _engines[owner] = engine
    return goes_on


def remember_within_node(owner: Any, hook: Engine) -> None:
    _within_node[owner] = hook


def is_known(owner: Any) -> bool:
    return owner in _engines


def _engine(owner: Any) -> Engine:
    try:
        engine = _engines.get(owner)
    except TypeError:  # the object cannot be a key
        engine = None
    if engine is None:
        raise ConfigError("this module is not compressed; call sotto.compress first, or wrap it")
    return engine


@dataclass(frozen=True)
class Stats:
    """What a module has done on this rank since it was compressed or wrapped, or since the last reset.

        f"{sotto.stats(ddp).ratio:.1f} times fewer bytes than dense gradients"
    """

    steps: int
    """Averaged gradients, or steps of the optimizer."""
    bytes_sent: int
    """Handed to the transport, all headers included."""
    bytes_received: int
    dense_bytes: int
    """What a ring all-reduce of the gradients in their own type would have sent in each step."""
    encode_seconds: float
    wire_seconds: float
    """Network, and waiting for slower ranks."""
    decode_seconds: float
    methods: str
    """The codecs and aggregators in use, a line for each rule and one for the rest; or the algorithm's."""

    @property
    def ratio(self) -> float:
        """dense_bytes / bytes_sent; infinite when nothing was sent, but 1 when nothing had to be, as by a single rank."""
        if self.bytes_sent:
            return self.dense_bytes / self.bytes_sent
        return math.inf if self.dense_bytes else 1.0

    def since(self, earlier: Stats) -> Stats:
        """The difference of two Stats of one module, with the methods of the later."""
        return Stats(self.steps - earlier.steps, self.bytes_sent - earlier.bytes_sent,
                     self.bytes_received - earlier.bytes_received, self.dense_bytes - earlier.dense_bytes,
                     self.encode_seconds - earlier.encode_seconds, self.wire_seconds - earlier.wire_seconds,
                     self.decode_seconds - earlier.decode_seconds, self.methods)


def total_stats(module: Any) -> Stats:
    """Ignores resets."""
    total = Stats(**_engine(module).stats())
    if module not in _within_node:
        return total
    more = Stats(**_within_node[module].stats())
    return replace(total, bytes_sent=total.bytes_sent + more.bytes_sent,
                   bytes_received=total.bytes_received + more.bytes_received,
                   encode_seconds=total.encode_seconds + more.encode_seconds,
                   wire_seconds=total.wire_seconds + more.wire_seconds,
                   decode_seconds=total.decode_seconds + more.decode_seconds)


def rank_of(module: Any) -> int:
    return _engine(module).rank()


def stats(module: Any, *, reset: bool = False) -> Stats:
    """What the module has sent, and the time it took, since it was compressed or wrapped. Not during a backward.

        sent = sotto.stats(ddp).bytes_sent

    reset: counts from zero again, so that the next call tells what was sent since this one.
    """
    total = total_stats(module)
    counted_from = _counted_from.get(module)
    if reset:
        _counted_from[module] = total
    return total if counted_from is None else total.since(counted_from)


@overload
def state_dict(module: Any, *, gather: Literal[False] = False) -> dict[str, Any]: ...
@overload
def state_dict(module: Any, *, gather: Literal[True]) -> list[dict[str, Any]]: ...
@overload
def state_dict(module: Any, *, gather: bool) -> dict[str, Any] | list[dict[str, Any]]: ...
def state_dict(module: Any, *, gather: bool = False) -> dict[str, Any] | list[dict[str, Any]]:
    """This rank's state of a compressed DistributedDataParallel module, a GossipDataParallel or AllReduceDataParallel, a
    LocalSGD or DiLoCo, or an Averager: memories and codec state, and this rank's model if models differ, as tensors (of an
    Averager, arrays of numpy) and plain values.

        torch.save({"model": ddp.state_dict(), "sotto": sotto.state_dict(ddp)}, f"checkpoint.{sotto.state_dict(ddp)['rank']}")

    Save it with the state of model and optimizer, one for each rank, because they differ. It loads with
    torch.load(..., weights_only=True). Call it between optimizer.step() and the next forward. With ad_psgd it is
    collective: ranks meet.

    gather: for a checkpoint in one file. Collective: rank 0 of the group gets the list of all ranks' states, which
    load_state_dict() takes on every rank; the others get an empty list. Uses the module's own connections.
    """
    engine = _engine(module)
    state = state_of(engine)
    if not gather:
        return state
    return [engine.unpack(data) for data in engine.gather(engine.pack(state))]


def state_of(engine: Engine) -> dict[str, Any]:
    values = engine.state()  # first: ranks at their own speed meet for it, and then know what all have done
    return {"sotto": FORMAT, "identity": engine.identity(), "rank": engine.rank(), "ranks": engine.ranks(),
            "step": engine.step(), "values": values}


def load_state_dict(module: Any, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Resumes from a state_dict().

        sotto.load_state_dict(ddp, sotto.state_dict(ddp))

    Bit-for-bit, except with ad_psgd, and while codec "auto" tries its candidates,
    since these depend on time.

    `state` is this rank's, from a job with the same parameters, options, seed and number of ranks, or the list of the
    states of all its ranks (`state_dict(gather=True)`); ConfigError says what differs. Every rank calls this function,
    between the same steps, with the state of the same step. A state that is refused changes nothing.

    If gradients are averaged (sotto.compress, AllReduceDataParallel), the next backward finds ranks that loaded different
    states: a CommError on all. Such a job may continue with another number of ranks: give the list of the old job's states
    to every rank of the new one. Each memory becomes the mean of the old ones, with what owners in scatter_reduce held
    back of the second encoding, so that the ranks together owe as much to the mean gradient as before. All else starts
    from scratch: warm starts, and choices of "auto".

    If models differ (GossipDataParallel, LocalSGD, DiLoCo), the call is collective, sets the module's parameters, too, and
    raises CommError at once if ranks load different states. For another number of ranks, start a new run from the mean model.
    """
    _engine(module).load_state(state)


def states_of_ranks(engine: Engine, state: Any) -> list[Mapping[str, Any]]:
    """The states in a list, which must be of all ranks of a job, in their order."""
    if not isinstance(state, Sequence):
        raise FileError(f"wanted is the result of sotto.state_dict, or a list of them; not {type(state).__name__}")
    for one in state:
        check_state(engine, one)
    states = sorted(state, key=lambda one: one["rank"])
    said = [(one["rank"], one["ranks"], one["step"]) for one in states]
    if not states or said != [(rank, len(states), states[0]["step"]) for rank in range(len(states))]:
        raise ConfigError(f"these are the states of ranks {[rank for rank, _, _ in said]}; wanted are the states of all "
                          "ranks of a job, of one step")
    return states


def check_rank(engine: Engine, state: Mapping[str, Any], otherwise: str) -> None:
    if state["ranks"] != engine.ranks():
        raise ConfigError(
            f"the state is of one of {state['ranks']} ranks, and there are {engine.ranks()} now; {otherwise}")
    if state["rank"] != engine.rank():
        raise ConfigError(f"the state is of rank {state['rank']}, and this is rank {engine.rank()}")


def check_state(engine: Engine, state: Any) -> None:
    check_form(state)
    check_identity(state["identity"], engine.identity())


def check_form(state: Any) -> None:
    wanted = {"sotto": int, "identity": str, "rank": int, "ranks": int, "step": int, "values": Mapping}
    if (not isinstance(state, Mapping)
            or any(not isinstance(state.get(key), kind) or isinstance(state[key], bool) for key, kind in wanted.items())
            or not all(isinstance(name, str) for name in state["values"]) or not 0 <= state["step"] < 1 << 32):
        raise FileError("this is not the result of sotto.state_dict, or it was damaged")
    if state["sotto"] != FORMAT:
        raise FileError(f"the state is of format {state['sotto']}; this version reads {FORMAT}")


def check_identity(there: str, here: str) -> None:
    if there != here:
        lines = zip(there.splitlines() + [""], here.splitlines() + [""])
        old, new = next(((a, b) for a, b in lines if a != b), ("", ""))
        raise ConfigError(f"the state belongs to another compression: `{old.strip()}` there, `{new.strip()}` here")
