"""torch's tensors as the C library sees them: addresses, types, shapes and strides, and values of states."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import byref, c_int, c_int64, c_size_t
from typing import Any

import torch

from sotto import _library as c
from sotto._errors import ConfigError, FileError
from sotto._library import library

TYPES = {torch.float32: c.F32, torch.float16: c.F16, torch.bfloat16: c.BF16, torch.float64: c.F64, torch.int32: c.I32,
         torch.int64: c.I64, torch.uint8: c.U8}
_OF = {number: dtype for dtype, number in TYPES.items()}


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether it has a place in memory for each element."""
    return tensor.layout == torch.strided and not tensor.is_nested


def form_of(tensor: torch.Tensor) -> str:
    """For errors: "a tensor of float32 that is not dense"."""
    return f"a tensor of {name_of(tensor.dtype)}{'' if is_plain(tensor) else ' that is not dense'}"


def codec_type(tensor: torch.Tensor) -> int:
    """The type of a dense tensor of float32, float16 or bfloat16. ConfigError for all others."""
    kind = TYPES.get(tensor.dtype, c.F64)
    if is_plain(tensor) and kind <= c.BF16:
        return kind
    raise ConfigError(f"{form_of(tensor)} cannot be encoded; codecs take dense tensors of float32, float16 and bfloat16")


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in the memory of the host, as they are stored: the tensor itself where it is so already."""
    return tensor.detach().cpu().resolve_neg().resolve_conj()


def described(tensor: torch.Tensor) -> c.Tensor:
    """A tensor on the host, which must outlive the result."""
    return c.Tensor(tensor.data_ptr(), TYPES[tensor.dtype], tensor.dim(), c.sizes(tensor.shape), c.sizes(tensor.stride()))


def memory_shape(tensor: torch.Tensor) -> list[int]:
    """The sizes of a dense tensor's dimensions in the order of its memory, which is the order of a bucket's values."""
    order = list(range(tensor.dim()))
    if is_dense(tensor):
        order.sort(key=lambda d: -tensor.stride(d))
    return [tensor.size(d) for d in order]


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether it fills its memory, in any order of dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def dense_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Those of a dense tensor of this shape whose dimensions are in the same order in memory."""
    return torch.empty_like(tensor, device="meta").stride()


def floats_at(address: int, count: int) -> torch.Tensor:
    """A view of floats in memory that outlives it."""
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def value_of(kind: int, address: int, count: int) -> torch.Tensor | int:
    """A value of a state, as a copy."""
    if kind == c.NUMBER:
        return ctypes.c_uint64.from_address(address).value
    if kind == c.FLOATS:
        return floats_at(address, count).clone()
    return torch.frombuffer(bytearray(ctypes.string_at(address, count)), dtype=torch.uint8) if count else torch.empty(0, dtype=torch.uint8)


class Values:
    """The values of a state as the library reads them. FileError for what is none."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._kept: list[Any] = []
        self.array = (c.Value * len(state))(*[self._value(name, value) for name, value in state.items()])

    def _value(self, name: str, value: Any) -> c.Value:
        if isinstance(value, int) and not isinstance(value, bool):
            if not 0 <= value < 1 << 64:
                raise FileError(f"`{name}` in the state is {value}; wanted is a count")
            number = ctypes.c_uint64(value)
            self._kept.append(number)
            return c.Value(name.encode(), c.NUMBER, ctypes.addressof(number), 1)
        if isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.uint8):
            tensor = on_host(value).contiguous()
            self._kept.append(tensor)
            kind = c.FLOATS if value.dtype == torch.float32 else c.BYTES
            return c.Value(name.encode(), kind, tensor.data_ptr(), tensor.numel())
        raise FileError(f"`{name}` in the state is neither a number nor a tensor of floats or bytes")


def formers(states: Sequence[tuple[int, int, Mapping[str, Any]]]) -> tuple[Any, list[Values]]:
    """(rank, ranks, state) of each; the second part of the result must outlive the first."""
    values = [Values(state) for _, _, state in states]
    array = [c.Former(rank, ranks, one.array, len(one.array)) for (rank, ranks, _), one in zip(states, values)]
    return (c.Former * len(array))(*array), values


def encoded(codec: int, tensor: torch.Tensor, seed: int, step: int) -> bytes:
    codec_type(tensor)
    values = on_host(tensor)
    return c.taken(library.codec_encode, codec, byref(described(values)), seed, step)[0]


def decoded(codec: int, data: memoryview, limit: int) -> torch.Tensor:
    if not data.c_contiguous:
        raise ConfigError("the bytes to decode do not lie one after the other; decode(bytes(data)) copies them")
    view = data.cast("B") if data.nbytes else memoryview(b"")
    # A buffer that cannot be written has no address in ctypes, but bytes have.
    source: Any = bytes(view) if view.readonly else (ctypes.c_char * view.nbytes).from_buffer(view)
    address = ctypes.cast(source, ctypes.c_void_p)
    kind, shape, dimensions = c_int(), (c_int64 * 64)(), c_size_t()
    library.codec_head(address, view.nbytes, limit, byref(kind), shape, byref(dimensions))
    tensor = torch.empty(shape[: dimensions.value], dtype=_OF[kind.value])
    library.codec_decode(codec, address, view.nbytes, byref(described(tensor)))
    return tensor
