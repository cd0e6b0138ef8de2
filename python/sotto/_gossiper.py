"""Averages of single tensors with neighbours."""

from __future__ import annotations

from ctypes import byref, c_double, c_int64
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sotto import _arrays as arrays
from sotto import _check
from sotto import _library as c
from sotto._errors import ConfigError
from sotto._library import library
from sotto._meeting import meeting, ranks_of
from sotto._ranks import Ranks
from sotto._topology import Topology, expression_of

if TYPE_CHECKING:
    import torch.distributed as dist

Array = TypeVar("Array")


class Gossiper:
    """Averages tensors with neighbours, round by round. A rank waits only for its neighbours.

        gossiper = sotto.Gossiper(topology="ring")
        gossiper.average(tensor, rounds=4)  # in place: nearer to the mean of all ranks with every round

    Every rank makes one with the same arguments, and calls it in the same order with tensors of the same shape. It has
    its own connections. The sender keeps what a codec ("f16", "bf16") rounds off, so the sum over ranks does not change.
    One thread at a time. An argument that is refused is a ConfigError before anything was sent: the rank may call again, and
    the others wait for it. After any other error the object cannot be used.
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | Ranks | None = None,
        topology: Topology = "exponential",
        mixing: str = "",
        codec: str = "none",
        *,
        seed: int = 1,
        threads: int = 1,
        timeout: float | timedelta | None = None,
        encrypt: bool = True,
        interface: str | None = None,
    ) -> None:
        with meeting(ranks_of("sotto.Gossiper", process_group, "process_group")) as place:
            arguments = (c.text(expression_of(topology)), c.text(_check.text("mixing", mixing, 'a name, such as "uniform"')),
                         c.text(_check.codec("codec", codec)), _check.whole("seed", seed), _check.threads(threads))
            network = _check.seconds(timeout), *_check.network(encrypt, interface)
            self._group = place.connect(*network)
            self._gossiper = c.Handle("gossiper", library.gossiper_create, self._group.value, *arguments)

    @property
    def rounds(self) -> int:
        """The number of rounds so far, on which a topology that changes from round to round depends."""
        return library.gossiper_round(self._gossiper.value)

    @property
    def exact_after(self) -> int | None:
        """After this number of rounds, from the first one on, average() gives the exact mean; None: it only comes nearer."""
        rounds = c_int64()
        library.gossiper_exact_after(self._gossiper.value, byref(rounds))
        return rounds.value if rounds.value >= 0 else None

    def mix(self, tensor: Any, weight: float = 1.0) -> float:
        """One round, in place, of a tensor or array of float32, float16 or bfloat16; returns its new weight.

        tensor / weight approaches the mean of all ranks on any connected topology (push-sum). The sums over ranks of both
        do not change, and the weight stays 1 if each rank receives as much as it gives.
        """
        if not isinstance(weight, (int, float)) or isinstance(weight, bool):
            raise ConfigError(f"weight={weight!r}: wants a number above 0")
        values = _checked(tensor)
        if not arrays.is_writable(tensor):
            raise ConfigError(f"tensor: {type(tensor).__name__} cannot be written to; average() returns a new one")
        floats = arrays.dense_floats(values)
        weight = self._round(floats, weight)
        arrays.write(floats, tensor)
        return weight

    def average(self, tensor: Array, rounds: int = 1) -> Array:
        """Runs `rounds` rounds, divides the tensor by its weight, in place, and returns it. Of an array that cannot be written to,
        such as JAX's, a new one."""
        rounds, weight = _check.whole("rounds", rounds), 1.0
        if arrays.is_writable(tensor):
            for _ in range(rounds):
                weight = self.mix(tensor, weight)
            arrays.divide(tensor, weight)
            return tensor
        values = _checked(tensor)
        floats = arrays.dense_floats(values).copy()
        for _ in range(rounds):
            weight = self._round(floats, weight)
        return arrays.like((floats / weight).astype(values.dtype), tensor)

    def _round(self, floats: Any, weight: float) -> float:
        mixed = c_double(weight)
        library.gossiper_mix(self._gossiper.value, arrays.address_of(floats), arrays.nbytes(floats) // 4, c.text(arrays.layout_of(floats)),
                             byref(mixed))
        return mixed.value


def _checked(tensor: Any) -> Any:
    values = arrays.on_host(tensor)
    arrays.codec_type(values)
    if arrays.overlaps(values):
        raise ConfigError("several elements of the tensor are one place in memory, where a mean cannot be written; clone it")
    return values
