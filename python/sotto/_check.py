"""Checks of arguments. A ConfigError names the argument and says what is expected."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sotto._errors import ConfigError

default_timeout = 1800.0  # seconds, as torch.distributed has it; within sotto.elastic, the group's


def text(name: str, value: Any, wanted: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name}={value!r}: wants {wanted}")
    return value


def codec(name: str, value: Any) -> str:
    wanted = 'a codec, such as "topk(0.01) | qsgd(4)"'
    if text(name, value, wanted).strip():
        return value
    raise ConfigError(f"{name}={value!r}: wants {wanted}")


def aggregator(value: Any) -> str:
    return text("aggregator", value, 'a name, such as "auto" or "gather"')


def whole(name: str, value: Any, bits: int = 63) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise ConfigError(f"{name}={value!r}: wants a whole number, not negative and below 2**{bits}")
    return value


def threads(value: Any) -> int:
    if not 1 <= whole("threads", value) <= 256:
        raise ConfigError(f"threads={value!r}: wants a number from 1 to 256")
    return value


def node_size(value: Any) -> int:
    if whole("node_size", value, bits=16) > 0:
        return value
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    if not ranks.isdecimal() or int(ranks) == 0:
        raise ConfigError("node_size=0: torchrun says in LOCAL_WORLD_SIZE how many ranks a host has, and nobody did; say how many")
    return int(ranks)


def number(name: str, value: Any, above: float, most: float) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not above < value <= most:
        raise ConfigError(f"{name}={value!r}: wants a number above {above:g}, at most {most:g}")
    return value


def not_negative(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ConfigError(f"{name}={value!r}: wants a number from 0")
    return value


def share(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1:
        raise ConfigError(f"{name}={value!r}: wants a number from 0, below 1")
    return value


def bucket_bytes(bucket_mb: Any) -> int:
    return max(4, int(number("bucket_mb", bucket_mb, 0, 2048) * (1 << 20)))


def seconds(timeout: float | timedelta | None, name: str = "timeout") -> float:
    value = default_timeout if timeout is None else timeout
    value = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0.001 <= value <= 1e9:
        raise ConfigError(f"{name}={timeout!r}: wants seconds from 0.001 to 1e9, or a timedelta")
    return float(value)


def network(encrypt: Any, interface: Any) -> tuple[bool, str | None]:
    if not isinstance(encrypt, bool):
        raise ConfigError(f"encrypt={encrypt!r}: wants True or False")
    if interface is not None and (not isinstance(interface, str) or not interface):
        raise ConfigError(f"interface={interface!r}: wants a name, such as \"eth0\", or None")
    return encrypt, interface


def shape(value: Any) -> list[int]:
    sizes = list(value) if isinstance(value, Sequence) else None
    if sizes is None or not all(type(n) is int and n >= 0 for n in sizes) or math.prod(sizes) >= 1 << 48:
        raise ConfigError(f"shape={value!r}: wants sizes, as tensor.shape has them")
    return sizes


def buffer(data: Any) -> memoryview:
    try:
        return memoryview(data)
    except TypeError:
        raise ConfigError(f"data: wants bytes, a bytearray or a memoryview, not {type(data).__name__}") from None


def codecs(rules: Any) -> dict[str, str]:
    if not isinstance(rules, Mapping) or not all(isinstance(pattern, str) for pattern in rules):
        raise ConfigError(f"rules={rules!r}: wants a mapping of patterns to codecs, such as {{\"*.bias\": \"none\"}}")
    return {pattern: codec(f"rules[{pattern!r}]", rules[pattern]) for pattern in rules}


def peers(value: Any) -> str:
    """The phases as `sotto train --peers-per-step` writes them, in steps."""
    if value is None:
        return ""
    pairs = list(value) if isinstance(value, (list, tuple)) else []
    good = all(isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(n) is int and n >= 0 for n in pair)
               for pair in pairs)
    steps = [pair[0] for pair in pairs] if good else []
    if not steps or steps[0] != 0 or steps != sorted(set(steps)) or steps[-1] > 10**12 or not all(pair[1] > 0 for pair in pairs):
        raise ConfigError(f"peers_per_step={value!r}: wants pairs of a step, ascending from 0 to at most 10**12, and how "
                          "many peers a rank has from then on, such as [(0, 1), (1000, 2)]")
    return ",".join(f"{step}:{count}" for step, count in pairs)
