"""Averages arrays of any framework, such as gradients, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from ctypes import byref
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sotto import _arrays as arrays
from sotto import _check
from sotto import _library as c
from sotto._errors import ConfigError
from sotto._gradients import AveragerOptions, GradientAverager
from sotto._library import library
from sotto._meeting import Group, meeting, ranks_of
from sotto._ranks import Ranks
from sotto._rules import Options, doubts_about, lanes_of, outside
from sotto._state import Connected, remember
from sotto._tree import flatten

if TYPE_CHECKING:
    import torch.distributed as dist

Tree = TypeVar("Tree")


class Averager(Connected):
    """Averages gradients, or any other arrays, over all ranks, step by step, with numpy, JAX or any other framework.

        averager = sotto.Averager(parameters, "qsgd(4) | rans")
        gradients = averager.average(gradients)

    Collective: every rank makes one with the same arguments, and calls average() equally often. The result is the same on
    all ranks, to the last bit.

    example: an array, or arrays within dicts, lists and tuples (with JAX any pytree), of the types and shapes that average()
        will get: float32, float16 or bfloat16, torch's or whatever numpy can read. Its values do not matter.
    codec, schedule, start_after, rules, aggregator, seed, bucket_mb, threads, timeout, encrypt, interface: as for sotto.compress.
        `rules` are about the names of arrays: their keys and positions, such as "layers.0.bias".
    group: a process group, or what sotto.init() returned. None: the ranks of sotto.init(), or all of torch.distributed.
    nonfinite: "raise": NaN or infinity is a NumericError that names the array. "propagate": all results of that step are NaN, on
        every rank, and it changes no memory.

    sotto.state_dict, sotto.load_state_dict and sotto.stats take it as they take modules; its state holds arrays of numpy.
    After an error of average(), other than a ConfigError of the constructor, it cannot be used.
    """

    _instead = "save sotto.state_dict() of it"

    def __init__(
        self,
        example: Any,
        codec: str | None = "none",
        *,
        group: dist.ProcessGroup | Ranks | None = None,
        schedule: Sequence[tuple[int, str]] | None = None,
        start_after: int = 0,
        rules: Mapping[str, str] | None = None,
        aggregator: str = "auto",
        seed: int = 1,
        bucket_mb: float = 4.0,
        nonfinite: str = "raise",
        threads: int = 1,
        timeout: float | timedelta | None = None,
        encrypt: bool = True,
        interface: str | None = None,
    ) -> None:
        with meeting(ranks_of("sotto.Averager", group)) as place:
            forms = _forms(_on_host(flatten(example, "example")[0]))
            if not forms:
                raise ConfigError("example: has no array")
            options = Options(
                codec=None if schedule is not None else codec, schedule=schedule, start_after=start_after, rules=rules,
                aggregator=aggregator, seed=seed, bucket_mb=bucket_mb, nonfinite=nonfinite, threads=threads, timeout=timeout,
                encrypt=encrypt, interface=interface)
            lanes = lanes_of([name for name, _, _ in forms], options)
            for doubt in doubts_about(lanes, [shape for _, _, shape in forms]):
                warnings.warn(doubt, stacklevel=outside())
            given = AveragerOptions(
                lanes=lanes, required_same=[("nonfinite", nonfinite)], propagate=options.propagates(), seed=_check.whole("seed", seed),
                bucket_bytes=_check.bucket_bytes(bucket_mb), threads=_check.threads(threads))
            self._engine = _Engine(place.connect(*options.network()), forms, given)
        remember(self, self._engine)

    def average(self, gradients: Tree) -> Tree:
        """The means over all ranks, in the same form, as new arrays of the same framework. Collective.

        ConfigError if an array is another one than in the example; then it fails on all ranks. NumericError, CommError and
        WireError on every rank, with rank and step.
        """
        return self._engine.average(gradients)


class _Engine(GradientAverager):
    pack, unpack = staticmethod(arrays.packed), staticmethod(arrays.unpacked)

    def __init__(self, group: Group, forms: list[tuple[str, int, list[int]]], options: AveragerOptions) -> None:
        super().__init__(group, forms, options)
        self._forms = forms
        self._kept: Any = None  # what the library reads until a step ends, also one that failed

    def state(self) -> dict[str, Any]:
        return self.values(arrays.value_of)

    def average(self, tree: Any) -> Any:
        try:
            named, rebuild = flatten(tree, "gradients")
            hosts = _on_host(named)
            self._require(_forms(hosts))
            means = [arrays.owned(host, array) for (_, host), (_, array) in zip(hosts, named)]
        except Exception as error:
            self.fail(error)
            raise
        gradients = [(c.Gradient * 1)(c.Gradient(i, arrays.address_of(array))) for i, array in enumerate(means)]
        buckets = [c.Bucket(gradients=one, count=1) for one in gradients]
        library.averager_begin(self.value, 1.0, None)
        self._kept = means, gradients, buckets
        for bucket in reversed(buckets):  # the order in which they are exchanged
            library.averager_post(self.value, byref(bucket))
        library.averager_end(self.value)
        self._step += 1
        library.averager_wait(self.value)
        self._kept = None
        return rebuild([arrays.like(mean, array) for mean, (_, array) in zip(means, named)])

    def _require(self, forms: list[tuple[str, int, list[int]]]) -> None:
        if forms == self._forms:
            return
        for there, here in zip(self._forms, forms):
            if there != here:
                raise ConfigError(f"gradients: {_said(here)} is not {_said(there)}, which the example had")
        raise ConfigError(f"gradients: there are {len(forms)} arrays, and the example had {len(self._forms)}")


def _on_host(named: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name, arrays.on_host(array, name)) for name, array in named]


def _forms(named: Sequence[tuple[str, Any]]) -> list[tuple[str, int, list[int]]]:
    """Name, type and shape of arrays on the host."""
    forms = []
    for name, array in named:
        kind = arrays.kind_of(array)
        if not 0 <= kind <= c.BF16:
            raise ConfigError(f"{name}: {arrays.form_of(array)} cannot be averaged step by step; it takes float32, float16 and bfloat16")
        forms.append((name, kind, list(array.shape)))
    return forms


def _said(form: tuple[str, int, list[int]]) -> str:
    name, kind, shape = form
    return f"{name} of {arrays.NAMES[kind]} and shape {shape}"
