"""Gradients that `sotto train --capture` wrote."""

from __future__ import annotations

import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import torch

from sotto._errors import ConfigError, FileError

_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def read_gradient(path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """The tensors in a file of `sotto train --capture`, by name, on the CPU.

        tensors = sotto.read_gradient("gradients/gradient-000100.safetensors")

    Reads `.safetensors` and `.npy`; the latter has no names, and is one tensor called "values". FileError, which names
    the file, if it is missing or damaged.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigError(f"path={path!r}: wants a path, not {type(path).__name__}")
    path = Path(path)
    try:
        if path.suffix == ".npy":
            return _read_npy(path)
        if path.suffix == ".safetensors":
            return _read_safetensors(path)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    raise ConfigError(f"path={str(path)!r}: a captured gradient ends in .safetensors or .npy")


def _read_npy(path: Path) -> dict[str, torch.Tensor]:
    import numpy

    try:
        return {"values": torch.from_numpy(numpy.load(path, allow_pickle=False))}
    except (ValueError, EOFError, TypeError) as error:
        raise FileError(f"{path}: {error}") from error


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    file = bytearray(path.read_bytes())
    try:
        (length,) = struct.unpack_from("<Q", file)
        header, values = json.loads(file[8 : 8 + length]), memoryview(file)[8 + length :]
        header.pop("__metadata__", None)
        return {name: _tensor(name, entry, values) for name, entry in header.items()}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path}: no whole file of safetensors: {error}") from error


def _tensor(name: str, entry: dict[str, Any], values: memoryview) -> torch.Tensor:
    """The tensor of an entry of the header. ValueError for an entry that does not fit the values."""
    begin, end = entry["data_offsets"]
    kind, shape = _TYPES.get(entry["dtype"]), entry["shape"]
    if kind is None:
        raise ValueError(f"{name} is of type {entry['dtype']!r}; known are {', '.join(_TYPES)}")
    if not all(type(n) is int and n >= 0 for n in (begin, end, *shape)):
        raise ValueError(f"{name} has the shape {shape} and the bytes from {begin} to {end}")
    if end > len(values) or end - begin != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{name} has the bytes from {begin} to {end} of {len(values)}, which is not what {shape} takes")
    return torch.frombuffer(values[begin:end], dtype=kind).reshape(shape) if begin < end else torch.zeros(shape, dtype=kind)
