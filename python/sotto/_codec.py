"""Single tensors: to bytes and back, and over a process group."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Sequence
from ctypes import byref
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from sotto import _check
from sotto import _library as c
from sotto._errors import ConfigError
from sotto._library import library
from sotto._meeting import Group, Meeting
from sotto._tensors import TYPES, decoded, described, encoded, form_of, is_plain, name_of, on_host


class Contract(NamedTuple):
    """What a codec promises about C(x) = decode(encode(x)), for one shape."""

    kind: str
    """"exact"; "rounding" (exact but for the rounding of floats); "unbiased" (E C(x) = x, E |C(x)-x|^2 <= omega |x|^2);
    "contraction" (E |C(x)-x|^2 <= (1-delta) |x|^2); or "none": bounded, but wants a memory (`ef`) in front of it."""
    omega: float
    delta: float
    linear: bool
    """Whether messages can be summed over ranks without decoding them."""
    text: str
    """All of that in a line."""


class Codec:
    """Turns tensors into few bytes; a codec without memory: ``Codec("topk(0.01) | qsgd(4)")``.

    A message holds the shape and type of its tensor, and any equal Codec decodes it. Several threads may
    use one object; they take turns. `threads` is how many threads share the work of one message; its bits do not depend
    on that number. ConfigError for a bad `codec`.
    """

    def __init__(self, codec: str, *, threads: int = 1) -> None:
        text = c.text(_check.codec("codec", codec))
        self._codec = c.Handle("codec", library.codec_create, text, _check.threads(threads))
        self._threads = threads

    @property
    def text(self) -> str:
        """The codec as text, with every option named."""
        return library.codec_text(self._codec.value).decode()

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Codec, threads=self._threads), (self.text,)

    def __repr__(self) -> str:
        return f"sotto.Codec({self.text!r})"

    def encode(self, tensor: torch.Tensor, *, seed: int = 0, step: int = 0) -> bytes:
        """The message of a dense tensor of float32, float16 or bfloat16, on any device, in any memory format.

        Stochastic codecs draw from (seed, step) alone, so give each message another step. For a large matrix `svd`
        starts from its result for the last matrix of that shape, and `clusters` keeps its clusters for some messages, so
        messages depend on that, too. NumericError if a value is not finite, ConfigError for tensors of other types.
        """
        return encoded(self._codec.value, _check.tensor(tensor), _check.whole("seed", seed), _check.whole("step", step, 32))

    def decode(self, data: bytes | bytearray | memoryview, *, limit: int = 1 << 28) -> torch.Tensor:
        """The tensor of a message: of the type and shape that it was encoded from, contiguous, on the CPU.

        WireError if no equal Codec made these bytes, or if they announce more than `limit` elements: a few
        bytes may stand for a huge tensor, and bytes from outside may say anything.
        """
        return decoded(self._codec.value, _check.buffer(data), _check.whole("limit", limit))

    def contract(self, shape: Sequence[int]) -> Contract:
        """What this codec promises for tensors of this shape."""
        sizes, made = c.sizes(_check.shape(shape)), c.Contract()
        text = c.taken_text(lambda *arguments: library.codec_contract(*arguments[:-1], byref(arguments[-1])),
                            self._codec.value, sizes, len(sizes), byref(made))
        return Contract(c.CONTRACTS[made.kind], made.omega, made.delta, bool(made.linear), text)

    def ratio(self, tensor: torch.Tensor) -> float:
        """How many times smaller than the tensor its message is, all headers included."""
        return _check.tensor(tensor).numel() * tensor.element_size() / len(self.encode(tensor))


def aggregate(
    tensor: torch.Tensor,
    op: str = "avg",
    group: dist.ProcessGroup | None = None,
    codec: str = "none",
    *,
    aggregator: str = "auto",
    denominator: float | None = None,
    seed: int = 0,
    timeout: float | timedelta | None = None,
    encrypt: bool = True,
    interface: str | None = None,
) -> torch.Tensor:
    """The "avg", "sum", "min" or "max" of a tensor over the ranks of `group` (default: all), as a new tensor.

    Collective; every rank gets the same bits. With a codec, "avg" and "sum" use the decoded message of each rank's
    tensor. The tensor is of float32, float16 or bfloat16, and the codec has no memory, because a single call has
    nothing to remember. Codec "none" also takes float64 and, but for "avg", int32, int64 and uint8. "avg" divides
    the sum by `denominator`, the same on every rank, or by the number of ranks; give the number of examples of all ranks if
    these have sums over batches of different sizes. `seed` is for stochastic codecs: give each call another one.

    All values must be finite, with every op and codec, and so must the result: a sum that the type cannot hold is a
    NumericError, also before it is divided. "avg" of float16 and bfloat16 sums in float32.

    The first call connects the ranks of the group; later calls use these connections. One thread at a
    time may call it for a group. Tensors of a device are copied. If one rank refuses (an argument, a value that
    is not finite), all get an error. CommError after `timeout` (30 minutes), or when a rank is lost. encrypt and
    interface, of the first call, are as for sotto.compress.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise ConfigError("sotto.aggregate needs torch.distributed.init_process_group(...) first")
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, dist.ProcessGroup):
        raise ConfigError(f"group={group!r}: this rank is no member of it, or it is no process group")
    network = None
    try:
        network = _check.seconds(timeout), *_check.network(encrypt, interface)
        options = c.AggregateOptions(
            op=_op(op), codec=c.text(_check.codec("codec", codec)), aggregator=c.text(_check.aggregator(aggregator)),
            seed=_check.whole("seed", seed),
            denominator=0.0 if denominator is None else float(_check.number("denominator", denominator, 0, 1e300)),
            timeout=network[0])
        if denominator is not None and op != "avg":
            raise ConfigError(f"denominator={denominator!r}: goes with op=\"avg\" alone")
        values = _aggregable(_check.tensor(tensor))
        if op == "avg" and codec == "none" and aggregator == "auto" and not values.is_floating_point():
            raise ConfigError(f"op=\"avg\" of a tensor of {name_of(values.dtype)}: means have fractions; give tensor.double(), or "
                              "op=\"sum\"")
    except Exception:
        _refuse(group, network)
        raise
    return _combined(values, options, _connected(group, *network)).to(tensor.device)


def _op(name: Any) -> int:
    if _check.text("op", name, "one of avg, sum, min, max") not in c.OPS:
        raise ConfigError(f"op is one of avg, sum, min, max; not {name}")
    return c.OPS.index(name)


def _aggregable(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the host, of which the library makes the result."""
    if is_plain(tensor) and tensor.dtype in TYPES:
        values = on_host(tensor).contiguous()
        return values.clone() if tensor.device.type == "cpu" and values.data_ptr() == tensor.data_ptr() else values
    raise ConfigError(f"{form_of(tensor)} cannot be aggregated")


def _combined(values: torch.Tensor, options: c.AggregateOptions, ranks: Group) -> torch.Tensor:
    library.aggregate(ranks.value, byref(described(values)), byref(options))
    return values


# The connections of each process group, which the first call makes.
_groups: weakref.WeakKeyDictionary[dist.ProcessGroup, Group] = weakref.WeakKeyDictionary()


def _connected(group: dist.ProcessGroup, seconds: float, encrypt: bool, interface: str | None) -> Group:
    if group not in _groups:
        _groups[group] = Meeting(group).connect(seconds, encrypt, interface)
    return _groups[group]


def _refuse(group: dist.ProcessGroup, network: tuple[float, bool, str | None] | None) -> None:
    """This rank has nothing to aggregate: the others' calls end, too."""
    ranks = _groups.get(group) if network is None else _connected(group, *network)
    if ranks is None:
        return Meeting(group).give_up("one of timeout, encrypt and interface cannot be used there")
    with contextlib.suppress(ConfigError):  # the caller knows better why
        library.aggregate(ranks.value, None, None)
