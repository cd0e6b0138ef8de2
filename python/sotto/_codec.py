"""Single tensors: to bytes and back, and over a process group."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import weakref
from collections.abc import Sequence
from ctypes import byref, c_int, c_int64, c_size_t
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Union, overload

from sotto import _arrays as arrays
from sotto import _check
from sotto import _library as c
from sotto._errors import ConfigError
from sotto._library import library
from sotto._meeting import Group, Meeting, ranks_of
from sotto._ranks import Ranks

if TYPE_CHECKING:
    import numpy
    import torch
    import torch.distributed as dist

Array = TypeVar("Array")
Buffer = Union[bytes, bytearray, memoryview]


class Contract(NamedTuple):
    """What a codec promises about C(x) = decode(encode(x)), for one shape.

        sotto.Codec("topk(0.01)").contract((100, 100)).delta  # 0.01
    """

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
    """Turns tensors into few bytes, with a codec that has no memory.

        codec = sotto.Codec("topk(0.01) | qsgd(4)")
        same = codec.decode(codec.encode(tensor))

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

    def encode(self, tensor: Any, *, seed: int = 0, step: int = 0) -> bytes:
        """The message of a dense tensor or array of float32, float16 or bfloat16: torch's, on any device, in any memory format; or
        whatever numpy can read, such as its own arrays and JAX's.

        Stochastic codecs draw from (seed, step) alone, so give each message another step. For a large matrix `svd`
        starts from its result for the last matrix of that shape, and `clusters` keeps its clusters for some messages, so
        messages depend on that, too. NumericError if a value is not finite, ConfigError for tensors of other types.
        """
        values = arrays.on_host(tensor)
        arrays.codec_type(values)
        return c.taken(library.codec_encode, self._codec.value, byref(arrays.described(values)), _check.whole("seed", seed),
                       _check.whole("step", step, 32))[0]

    @overload
    def decode(self, data: Buffer, *, limit: int = 1 << 28, like: Literal["torch"] | None = None) -> torch.Tensor: ...
    @overload
    def decode(self, data: Buffer, *, limit: int = 1 << 28, like: Literal["numpy"]) -> numpy.ndarray[Any, Any]: ...
    def decode(self, data: Buffer, *, limit: int = 1 << 28, like: arrays.Framework | None = None) -> Any:
        """The tensor of a message: of the type and shape that it was encoded from, contiguous, on the CPU.

        like: "torch" or "numpy". None: a tensor of torch's if this program has imported torch, otherwise an array of numpy's.

        WireError if no equal Codec made these bytes, or if they announce more than `limit` elements: a few
        bytes may stand for a huge tensor, and bytes from outside may say anything.
        """
        if like not in (None, "torch", "numpy"):
            raise ConfigError(f"like={like!r}: one of torch, numpy, or None")
        framework: arrays.Framework = like or ("torch" if "torch" in sys.modules else "numpy")
        bytes_, limit = _check.buffer(data), _check.whole("limit", limit)
        if not bytes_.c_contiguous:
            raise ConfigError("the bytes to decode do not lie one after the other; decode(bytes(data)) copies them")
        view = bytes_.cast("B") if bytes_.nbytes else memoryview(b"")
        # A buffer that cannot be written has no address in ctypes, but bytes have.
        source: Any = bytes(view) if view.readonly else (ctypes.c_char * view.nbytes).from_buffer(view)
        address = ctypes.cast(source, ctypes.c_void_p)
        kind, shape, dimensions = c_int(), (c_int64 * 64)(), c_size_t()
        library.codec_head(address, view.nbytes, limit, byref(kind), shape, byref(dimensions))
        tensor = arrays.empty(framework, kind.value, shape[: dimensions.value])
        library.codec_decode(self._codec.value, address, view.nbytes, byref(arrays.described(tensor)))
        return tensor

    def contract(self, shape: Sequence[int]) -> Contract:
        """What this codec promises for tensors of this shape."""
        sizes, made = c.sizes(_check.shape(shape)), c.Contract()
        text = c.taken_text(lambda *arguments: library.codec_contract(*arguments[:-1], byref(arguments[-1])),
                            self._codec.value, sizes, len(sizes), byref(made))
        return Contract(c.CONTRACTS[made.kind], made.omega, made.delta, bool(made.linear), text)

    def ratio(self, tensor: Any) -> float:
        """How many times smaller than the tensor its message is, all headers included."""
        values = arrays.on_host(tensor)
        return arrays.nbytes(values) / len(self.encode(values))


def aggregate(
    tensor: Array,
    op: str = "avg",
    group: dist.ProcessGroup | Ranks | None = None,
    codec: str = "none",
    *,
    aggregator: str = "auto",
    denominator: float | None = None,
    seed: int = 0,
    timeout: float | timedelta | None = None,
    encrypt: bool = True,
    interface: str | None = None,
) -> Array:
    """The "avg", "sum", "min" or "max" of a tensor over the ranks of `group`, as a new tensor of the same framework.

        mean = sotto.aggregate(tensor, "avg", codec="int8")

    tensor: torch's, or whatever numpy can read, such as its own arrays and JAX's.
    group: a process group, or what sotto.init() returned. None: the ranks of sotto.init(), or all of torch.distributed.

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
    group = ranks_of("sotto.aggregate", group)
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
        values = arrays.on_host(tensor)
        if (kind := arrays.kind_of(values)) < 0:
            raise ConfigError(f"{arrays.form_of(values)} cannot be aggregated")
        if op == "avg" and codec == "none" and aggregator == "auto" and kind in (c.I32, c.I64, c.U8):
            raise ConfigError(f"op=\"avg\" of a tensor of {arrays.NAMES[kind]}: means have fractions; give it as float64, or "
                              "op=\"sum\"")
    except Exception:
        _refuse(group, network)
        raise
    result = arrays.owned(values, tensor)
    library.aggregate(_connected(group, *network).value, byref(arrays.described(result)), byref(options))
    return arrays.like(result, tensor)


def _op(name: Any) -> int:
    if _check.text("op", name, "one of avg, sum, min, max") not in c.OPS:
        raise ConfigError(f"op is one of avg, sum, min, max; not {name}")
    return c.OPS.index(name)


# The connections of each process group, which the first call makes.
_groups: weakref.WeakKeyDictionary[Any, Group] = weakref.WeakKeyDictionary()


def _connected(group: Any, seconds: float, encrypt: bool, interface: str | None) -> Group:
    if group not in _groups:
        _groups[group] = Meeting(group).connect(seconds, encrypt, interface)
    return _groups[group]


def _refuse(group: Any, network: tuple[float, bool, str | None] | None) -> None:
    """This rank has nothing to aggregate: the others' calls end, too."""
    ranks = _groups.get(group) if network is None else _connected(group, *network)
    if ranks is None:
        return Meeting(group).give_up("one of timeout, encrypt and interface cannot be used there")
    with contextlib.suppress(ConfigError):  # the caller knows better why
        library.aggregate(ranks.value, None, None)
