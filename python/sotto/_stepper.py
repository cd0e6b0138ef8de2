"""Drives an algorithm that mixes the models of ranks from the training loop of a user's module and optimiser."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_uint64
from dataclasses import dataclass
from typing import Any

import torch

from sotto import _library as c
from sotto._arrays import Values, formers
from sotto._errors import ConfigError
from sotto._library import library
from sotto._meeting import Group
from sotto._state import check_rank, check_state, states_of_ranks
from sotto._tensors import dense_strides, floats_at, memory_shape, name_of, packed, unpacked, value_of


@dataclass(frozen=True)
class StepperOptions:
    """As `sotto train` takes them; empty texts are left out."""

    required_same: list[tuple[str, str]]  # names and values
    algorithm: str
    codec: str
    aggregator: str
    topology: str
    peers_per_step: str
    mixing: str
    node_size: int
    seed: int
    bucket_bytes: int
    threads: int


class TensorModel:
    """The parameters of a user's module, copied to and from memory of the library."""

    def __init__(self, parameters: list[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in parameters:
            if tensor.layout != torch.strided or tensor.dtype != torch.float32:
                raise ConfigError(f"parameter {name} is of type {name_of(tensor.dtype)}; ranks mix models in float32, where small steps "
                                  "are not lost: keep the parameters in it, and compute in torch.autocast")
        if not any(tensor.numel() for _, tensor in parameters):
            raise ConfigError("the module has no parameter that is trained")
        self._named = parameters
        self._forms = [(tensor.shape, dense_strides(tensor)) for _, tensor in parameters]
        self._places: dict[tuple[int, int], list[torch.Tensor]] = {}  # by the addresses of the first and the last
        self.raised: Exception | None = None
        self.number = c.remember(self)
        weakref.finalize(self, c.forget, self.number)

    def described(self) -> Any:
        return c.parameter_array([(name, c.F32, _dense_shape(tensor)) for name, tensor in self._named])

    def copy(self, addresses: Any, *, write: bool) -> None:
        for (name, tensor), (shape, _) in zip(self._named, self._forms):
            if tensor.dtype != torch.float32 or tensor.shape != shape:
                raise ConfigError(f"parameter {name} is {name_of(tensor.dtype)} of shape {list(tensor.shape)} now, and was float32 of "
                                  f"shape {list(shape)} when the module was wrapped; wrap it again")
        own, places = [tensor.detach() for _, tensor in self._named], self._at(addresses)
        with torch.no_grad():
            torch._foreach_copy_(own if write else places, places if write else own)

    def _at(self, addresses: Any) -> list[torch.Tensor]:
        key = addresses[0], addresses[len(self._named) - 1]
        if key not in self._places:
            if len(self._places) >= 16:
                self._places.clear()
            self._places[key] = [floats_at(addresses[i], shape.numel()).as_strided(shape, strides)
                                 for i, (shape, strides) in enumerate(self._forms)]
        return self._places[key]


def _dense_shape(tensor: torch.Tensor) -> list[int]:
    return memory_shape(torch.empty_like(tensor, device="meta"))


def _move(number: int, addresses: Any, write: bool) -> int:
    with c.called_back(number) as model:
        try:
            model.copy(addresses, write=write)
            return 0
        except Exception as error:
            model.raised = error
            return 1


@c.Move
def _read(number: int, addresses: Any) -> int:
    return _move(number, addresses, False)


@c.Move
def _write(number: int, addresses: Any) -> int:
    return _move(number, addresses, True)


class Stepper(c.Handle):
    """The parameters must be the same on all ranks when the first step begins.

    Every change of them since the last step counts as this rank's step. The call that finds an error of the algorithm raises
    it, and so does every later step; other ranks fail through the closed connections.
    """

    pack, unpack = staticmethod(packed), staticmethod(unpacked)

    def __init__(self, group: Group, model: TensorModel, options: StepperOptions) -> None:
        self._group, self._model = group, model
        parameters, same = model.described(), c.term_array(options.required_same)
        given = c.StepsOptions(
            codec=c.text(options.codec), aggregator=c.text(options.aggregator), topology=c.text(options.topology),
            mixing=c.text(options.mixing), peers_per_step=c.text(options.peers_per_step), node_size=options.node_size,
            seed=options.seed, bucket_bytes=options.bucket_bytes, threads=options.threads, required_same=same,
            required_same_count=len(same))
        super().__init__("steps", library.steps_create, group.value, c.text(options.algorithm), parameters, len(parameters),
                         c.Model(_read, _write, model.number), byref(given))

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            function(self.value, *arguments)
        except Exception as error:
            raise self._model.raised or error from None

    def rank(self) -> int:
        return self._group.rank

    def ranks(self) -> int:
        return self._group.ranks

    def begin(self, learning_rate: float) -> None:
        """Before the optimiser's step; if starts_early(), also before the gradient is computed. Only the first of several counts."""
        self._call(library.steps_begin, learning_rate)

    def end(self) -> None:
        """After it: the parameters become the algorithm's result."""
        self._call(library.steps_end)

    def starts_early(self) -> bool:
        return bool(library.steps_start_early(self.value))

    def failed(self) -> bool:
        return bool(library.steps_failed(self.value))

    def refuse(self, why: str) -> None:
        """This rank fails for good, and the others are told why."""
        library.steps_fail(self.value, c.text(why.replace("\0", "")))

    # Between steps. Collective but for what only tells.

    def take_average(self) -> None:
        self._call(library.steps_take_average)

    def show_mean(self) -> None:
        self._call(library.steps_show_mean)

    def show_own(self) -> None:
        self._call(library.steps_show_own)

    def average(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Contiguous tensors of floats on the CPU become their means over all ranks."""
        doubles = [tensor.double() for _, tensor in tensors]
        statistics = [c.Statistic(c.text(name), c.text(f"({', '.join(map(str, tensor.shape))})"), c.text(name_of(tensor.dtype)),
                                  values.data_ptr(), values.numel())
                      for (name, tensor), values in zip(tensors, doubles)]
        self._call(library.steps_average, (c.Statistic * len(statistics))(*statistics), len(statistics))
        for (_, tensor), values in zip(tensors, doubles):
            tensor.copy_(values)

    def steps(self) -> list[int]:
        counts = (c_uint64 * self.ranks())()
        self._call(library.steps_progress, counts)
        return list(counts)

    def step(self) -> int:
        """The step of the last state(): of each rank or, if ranks go at their own speed, of all together."""
        return self._step

    def stats(self) -> dict[str, Any]:
        return c.statistics(library.steps_stats, library.steps_methods, self.value)

    def identity(self, graph: bool = True) -> str:
        return c.taken_text(library.steps_identity, self.value, graph)

    def state(self) -> dict[str, torch.Tensor | int]:
        step = c_uint64()
        values = c.visited(library.steps_state, self.value, byref(step), make=value_of)
        self._step = step.value
        return values

    def shared(self) -> list[str]:
        return list(c.visited(library.steps_shared, self.value))

    def gather(self, own: bytes) -> list[bytes]:
        return c.taken(library.steps_gather, self.value, own, len(own))

    def load_state(self, state: Any) -> None:
        """Of this rank, or of all ranks of a job."""
        try:
            if isinstance(state, Mapping):
                check_state(self, state)
            else:
                states = states_of_ranks(self, state)
                state = states[min(self.rank(), len(states) - 1)]
            check_rank(self, state, "start a new run from the mean model, which average() shows")
            values = Values(dict(state["values"]))
        except Exception:
            self._call(library.steps_refuse_load)
            raise
        self._call(library.steps_load, state["step"], values.array, len(values.array))

    def rejoin(self, step: int, former: tuple[int, int, Mapping[str, Any]]) -> None:
        """Continues in place of a Stepper of another group: rank, ranks and state there."""
        array, _kept = formers([former])
        self._call(library.steps_rejoin, step, array)
