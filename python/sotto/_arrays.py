"""Arrays of any framework as the C library sees them: addresses, types, shapes and strides. Tensors of torch stay tensors; all others
(numpy, JAX, whatever has __dlpack__ or a buffer) are arrays of numpy here. Neither is imported before an argument needs it."""

from __future__ import annotations

import ctypes
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sotto import _library as c
from sotto._errors import ConfigError, FileError

if TYPE_CHECKING:
    import numpy

NAMES = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8")  # by the number of the type
Framework = Literal["torch", "numpy"]


def framework_of(array: Any) -> Framework:
    return "torch" if is_tensor(array) else "numpy"


def is_tensor(value: Any) -> bool:
    """Whether it is one of torch's."""
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def is_array(value: Any) -> bool:
    """Whether it is a tensor or an array, rather than something that holds some."""
    return is_tensor(value) or any(hasattr(value, name) for name in ("__array__", "__dlpack__", "__array_interface__"))


def on_host(value: Any, name: str = "tensor") -> Any:
    """A tensor on the CPU, or an array of numpy, with the same values: the argument's own memory where that is possible."""
    if is_tensor(value):
        from sotto import _tensors

        return _tensors.on_host(_tensors.checked(value, name))
    np = _numpy(name)
    try:
        if hasattr(value, "__array__"):
            array = np.asarray(value)
        elif hasattr(value, "__dlpack__"):
            array = np.from_dlpack(value)
        else:
            array = np.asarray(memoryview(value))
    except Exception as error:  # whatever the framework raises
        why = "" if isinstance(error, TypeError) and not is_array(value) else f": {error}"
        raise ConfigError(f"{name}: wants a tensor, or an array that numpy can read, not {type(value).__name__} {value!r:.80}"
                          f"{why}") from None
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    size = array.itemsize
    if any(stride < 0 or stride % size for stride in array.strides):
        array = np.ascontiguousarray(array)
    return array


def kind_of(array: Any) -> int:
    """The type of what on_host() returned; -1 if the library has none such."""
    if is_tensor(array):
        from sotto import _tensors

        return _tensors.TYPES.get(array.dtype, -1) if _tensors.is_plain(array) else -1
    return NAMES.index(array.dtype.name) if array.dtype.name in NAMES else -1


def form_of(array: Any) -> str:
    """For errors: "a tensor of float32 that is not dense"."""
    if is_tensor(array):
        from sotto import _tensors

        return _tensors.form_of(array)
    return f"an array of {array.dtype}"


def codec_type(array: Any) -> int:
    """The type of values that a codec takes: float32, float16 or bfloat16. ConfigError for all others."""
    kind = kind_of(array)
    if 0 <= kind <= c.BF16:
        return kind
    raise ConfigError(f"{form_of(array)} cannot be encoded; codecs take dense tensors of float32, float16 and bfloat16")


def described(array: Any) -> c.Tensor:
    """What on_host() returned, which must outlive the result."""
    if is_tensor(array):
        return c.Tensor(array.data_ptr(), kind_of(array), array.dim(), c.sizes(array.shape), c.sizes(array.stride()))
    strides = [stride // array.itemsize for stride in array.strides]
    return c.Tensor(array.ctypes.data, kind_of(array), array.ndim, c.sizes(array.shape), c.sizes(strides))


def address_of(array: Any) -> int:
    return array.data_ptr() if is_tensor(array) else array.ctypes.data


def owned(array: Any, original: Any) -> Any:
    """What on_host() made of the original as an array that nobody else has, the last dimension innermost."""
    if not is_tensor(array):
        return array.copy(order="C")
    if original.device.type == "cpu":
        return array.clone(memory_format=sys.modules["torch"].contiguous_format)
    return array.contiguous()


def dense(array: Any) -> Any:
    """The same with the last dimension innermost: the argument itself where it is so already."""
    if is_tensor(array):
        return array.contiguous()
    return array if array.flags.c_contiguous else array.copy(order="C")


def nbytes(array: Any) -> int:
    return array.numel() * array.element_size() if is_tensor(array) else array.nbytes


def empty(framework: Framework, kind: int, shape: Sequence[int]) -> Any:
    if framework == "torch":
        import torch

        return torch.empty(list(shape), dtype=getattr(torch, NAMES[kind]))
    np = _numpy("like")
    if kind != c.BF16:
        return np.empty(shape, NAMES[kind])
    try:
        import ml_dtypes  # as JAX has it
    except ImportError:
        raise ConfigError("numpy has no bfloat16: pip install ml_dtypes, or say like=\"torch\"") from None
    return np.empty(shape, ml_dtypes.bfloat16)


def like(result: Any, original: Any) -> Any:
    """What on_host() or owned() made, in the framework and on the device of the original."""
    if is_tensor(original):
        return result.to(original.device)
    space = getattr(original, "__array_namespace__", None)
    if type(original).__module__.split(".")[0] == "numpy" or space is None:
        return result
    return space().asarray(result, device=getattr(original, "device", None))


# --- what is changed in place ------------------------------------------------------------------------------------------


def is_writable(value: Any) -> bool:
    """Whether write() can change it: a tensor, an array of numpy's or a buffer. JAX's arrays never change."""
    if is_tensor(value):
        return True
    if hasattr(value, "__array__"):
        return isinstance(value, _numpy("tensor").ndarray) and value.flags.writeable
    try:
        return not memoryview(value).readonly
    except TypeError:
        return False


def dense_floats(array: Any) -> Any:
    """The values of what on_host() returned as float32 without gaps, in any order of dimensions: that array itself, if it is so."""
    if is_tensor(array):
        from sotto import _tensors

        own = kind_of(array) == c.F32 and _tensors.is_dense(array)
        return array if own else array.float().clone(memory_format=sys.modules["torch"].contiguous_format)
    own = kind_of(array) == c.F32 and array.flags.forc and array.flags.writeable
    return array if own else array.astype("float32", order="C")


def layout_of(array: Any) -> str:
    """Arrays with the same text have the same element at each place in memory."""
    strides = array.stride() if is_tensor(array) else [stride // array.itemsize for stride in array.strides]
    return " ".join(f"{size}:{stride if size > 1 else 0}" for size, stride in zip(array.shape, strides))


def overlaps(array: Any) -> bool:
    strides = array.stride() if is_tensor(array) else array.strides
    return any(size > 1 and stride == 0 for size, stride in zip(array.shape, strides))


def write(values: Any, into: Any) -> None:
    """Values of one shape; `into` may be where they are already."""
    if is_tensor(into):
        if into.data_ptr() != values.data_ptr():
            into.detach().copy_(values)
    elif address_of(target := _target(into)) != address_of(values):
        target[...] = values.reshape(target.shape)


def divide(into: Any, by: float) -> None:
    if by == 1.0:
        return
    if is_tensor(into):
        into.detach().div_(by)
    else:
        target = _target(into)
        target /= target.dtype.type(by)


def _target(value: Any) -> Any:
    np = _numpy("tensor")
    return value if isinstance(value, np.ndarray) else np.asarray(memoryview(value))


# --- states --------------------------------------------------------------------------------------------------------------


def value_of(kind: int, address: int, count: int) -> numpy.ndarray[Any, Any] | int:
    """A value of a state, as a copy."""
    if kind == c.NUMBER:
        return ctypes.c_uint64.from_address(address).value
    np = _numpy("state")
    size, dtype = (4, np.float32) if kind == c.FLOATS else (1, np.uint8)
    return np.frombuffer(bytearray(ctypes.string_at(address, size * count)), dtype)


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
        if is_array(value) and kind_of(array := on_host(value, name)) in (c.F32, c.U8):
            kind = c.FLOATS if kind_of(array) == c.F32 else c.BYTES
            values = dense(array)
            self._kept.append(values)
            return c.Value(name.encode(), kind, address_of(values), nbytes(values) // (4 if kind == c.FLOATS else 1))
        raise FileError(f"`{name}` in the state is neither a number nor a tensor of floats or bytes")


def formers(states: Sequence[tuple[int, int, Mapping[str, Any]]]) -> tuple[Any, list[Values]]:
    """(rank, ranks, state) of each; the second part of the result must outlive the first."""
    values = [Values(state) for _, _, state in states]
    array = [c.Former(rank, ranks, one.array, len(one.array)) for (rank, ranks, _), one in zip(states, values)]
    return (c.Former * len(array))(*array), values


def packed(state: Mapping[str, Any]) -> bytes:
    """A state whose values are numbers and arrays of numpy, as bytes."""
    values = state["values"]
    file = io.BytesIO()
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    rest = {key: value for key, value in state.items() if key != "values"}
    header = json.dumps({"state": rest, "numbers": numbers, "order": list(values)}).encode()
    arrays = {f"{i}": value for i, value in enumerate(values.values()) if not isinstance(value, int)}
    _numpy("state").savez(file, header=_numpy("state").frombuffer(header, "uint8"), **arrays)
    return file.getvalue()


def unpacked(data: bytes) -> dict[str, Any]:
    with _numpy("state").load(io.BytesIO(data), allow_pickle=False) as file:
        header = json.loads(file["header"].tobytes())
        numbers = header["numbers"]
        values = {name: numbers[name] if name in numbers else file[f"{i}"] for i, name in enumerate(header["order"])}
    return header["state"] | {"values": values}


def _numpy(name: str) -> Any:
    try:
        import numpy
    except ImportError:
        raise ConfigError(f"{name}: numpy, through which sotto takes what is no tensor of torch's, is not installed: pip install "
                          "numpy") from None
    return numpy
