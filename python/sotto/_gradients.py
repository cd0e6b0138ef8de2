"""Averages gradients step by step: the handle on which DDP's hook, AllReduceDataParallel and Averager stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import byref, c_size_t, c_uint64
from dataclasses import dataclass
from typing import Any

from sotto import _library as c
from sotto._arrays import Values, formers
from sotto._library import library
from sotto._meeting import Group
from sotto._rules import Lane
from sotto._state import check_rank, check_state, states_of_ranks


@dataclass(frozen=True)
class AveragerOptions:
    lanes: list[Lane]
    required_same: list[tuple[str, str]]  # names and values
    seed: int
    bucket_bytes: int
    propagate: bool
    threads: int


class GradientAverager(c.Handle):
    """A thread of the library copies gradients into its own buckets and exchanges those.

    An error ends the step: here as an exception of wait(), on the other ranks through the closed connections. Every later step
    then fails with it at once. `parameters`: name, type and shape, in the order of memory.
    """

    def __init__(self, group: Group, parameters: Sequence[tuple[str, int, Sequence[int]]], options: AveragerOptions) -> None:
        self._group = group
        self._step = 0
        described, same = c.parameter_array(parameters), c.term_array(options.required_same)
        rules = (c.Rule * len(options.lanes))(*[_rule(*lane) for lane in options.lanes])
        given = c.AveragerOptions(seed=options.seed, bucket_bytes=options.bucket_bytes, propagate=options.propagate,
                                  threads=options.threads, required_same=same, required_same_count=len(same))
        super().__init__("averager", library.averager_create, group.value, described, len(described), rules, len(rules), byref(given))

    def rank(self) -> int:
        return self._group.rank

    def ranks(self) -> int:
        return self._group.ranks

    def step(self) -> int:
        return self._step

    def fail(self, error: Exception) -> None:
        """Other ranks wait for this one."""
        library.averager_fail(self.value, c.text(str(error).replace("\0", "")))

    def idle(self) -> None:
        """Until no step is under way."""
        library.averager_stats(self.value, byref(c.Stats()))

    # Between steps.

    def stats(self) -> dict[str, Any]:
        return c.statistics(library.averager_stats, library.averager_methods, self.value)

    def identity(self) -> str:
        return c.taken_text(library.averager_identity, self.value)

    def values(self, make: Any) -> dict[str, Any]:
        step = c_uint64()
        return c.visited(library.averager_state, self.value, byref(step), make=make)

    def shared(self) -> list[str]:
        """The names of those values of the state that are the same on all ranks."""
        return list(c.visited(library.averager_shared, self.value))

    def gather(self, own: bytes) -> list[bytes]:
        """Collective: the bytes of all ranks on rank 0, nothing elsewhere."""
        self.idle()
        return self._group.gather(own)

    def load_state(self, state: Any) -> None:
        """Of this rank, or of all ranks of a job. The next step finds out whether all ranks loaded the same."""
        if isinstance(state, Mapping):
            check_state(self, state)
            check_rank(self, state, "to spread what the memories hold over them, give a list of the states of all old ranks")
            self._load(state["step"], dict(state["values"]))
            return
        states = states_of_ranks(self, state)
        if len(states) == self.ranks():
            self._load(states[0]["step"], dict(states[self.rank()]["values"]))
        else:
            self.spread(states[0]["step"], [(one["rank"], one["ranks"], dict(one["values"])) for one in states])

    def _load(self, step: int, state: Mapping[str, Any]) -> None:
        values = Values(state)
        library.averager_load(self.value, step, values.array, len(values.array))
        self._step = step

    def spread(self, step: int, states: Sequence[tuple[int, int, Mapping[str, Any]]]) -> None:
        """`states`: rank, ranks and state of each former rank."""
        array, _kept = formers(states)
        library.averager_spread(self.value, step, array, len(array))
        self._step = step


def _rule(name: str, parameters: list[int], phases: list[tuple[int, str, str]]) -> c.Rule:
    steps = (c.Phase * len(phases))(*[c.Phase(first, c.text(codec), c.text(aggregator)) for first, codec, aggregator in phases])
    return c.Rule(c.text(name), (c_size_t * len(parameters))(*parameters), len(parameters), steps, len(phases))
