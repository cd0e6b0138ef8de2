"""What only torch's tensors have: layouts, devices, memory formats."""

from __future__ import annotations

import ctypes
import io
import sys
from collections.abc import Mapping
from typing import Any

import torch

from sotto import _library as c
from sotto._arrays import NAMES
from sotto._errors import ConfigError

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
    raise ImportError(f"sotto needs torch 2.6 or later, and this is {torch.__version__}")

TYPES = {getattr(torch, name): kind for kind, name in enumerate(NAMES)}


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether it has a place in memory for each element."""
    return tensor.layout == torch.strided and not tensor.is_nested


def form_of(tensor: torch.Tensor) -> str:
    """For errors: "a tensor of float32 that is not dense"."""
    return f"a tensor of {name_of(tensor.dtype)}{'' if is_plain(tensor) else ' that is not dense'}"


def checked(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """ConfigError for a tensor whose values are not here."""
    if tensor.is_meta:
        raise ConfigError(f"{name}: wants a tensor that has values, not a tensor without data (on the device meta)")
    if is_dtensor(tensor):
        raise ConfigError(f"{name}: is a DTensor, whose values are spread over ranks; give a plain one: tensor.to_local() is "
                          "this rank's part, tensor.full_tensor() the whole")
    return tensor


def is_dtensor(value: torch.Tensor) -> bool:
    module = sys.modules.get("torch.distributed.tensor")  # its import takes long; if nobody imported it, there is no such tensor
    return module is not None and isinstance(value, module.DTensor)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in the memory of the host, as they are stored: the tensor itself where it is so already."""
    return tensor.detach().cpu().resolve_neg().resolve_conj()


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


def packed(state: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def unpacked(data: bytes) -> dict[str, Any]:
    return torch.load(io.BytesIO(data), weights_only=True)
