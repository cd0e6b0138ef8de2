"""Regular lines about what a module sends."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import torch

from sotto import _check
from sotto._errors import ConfigError
from sotto._state import Stats, rank_of, total_stats

_log = logging.getLogger("sotto")


def report(module: Any, every: int = 100, to: Any = None) -> torch.utils.hooks.RemovableHandle:
    """Makes rank 0 tell after every `every` steps of a compressed or wrapped module: bytes, the ratio to dense gradients, and where
    the time went.

        sotto.report(ddp, every=100)
        sotto.report(ddp, to=lambda at, values: print(at, values["sotto/ratio"]))

    to: a run of wandb, a SummaryWriter, or a function that takes the step and a dict, such as {"sotto/ratio": 7.7}. None: a line
        to the logger "sotto" (INFO) or, if logging has no handlers, to stderr.

    The first forward after these steps tells. Call `.remove()` of the returned object to end it.
    """
    _check.number("every", _check.whole("every", every), 0, 1 << 62)
    tell = _teller(to)
    last, rank = total_stats(module), rank_of(module)

    def before_forward(*_: Any) -> None:
        nonlocal last
        now = total_stats(module)
        if now.steps - last.steps < every:
            return
        if rank == 0:
            tell(now, now.since(last))
        last = now

    forwards = module if isinstance(module, torch.nn.Module) else module._steps.module
    return forwards.register_forward_pre_hook(before_forward)


def _teller(to: Any) -> Callable[[Stats, Stats], None]:
    if to is None:
        return lambda total, interval: write(line(total, interval))
    if hasattr(to, "add_scalar"):
        def scalars(total: Stats, interval: Stats) -> None:
            for name, value in metrics(interval).items():
                to.add_scalar(name, value, total.steps)
        return scalars
    if hasattr(to, "log"):
        return lambda total, interval: to.log(metrics(interval), step=total.steps)
    if callable(to):
        return lambda total, interval: to(total.steps, metrics(interval))
    raise ConfigError(f"to={to!r:.80}: wants a run of wandb, a SummaryWriter or a function of the step and a dict")


def metrics(interval: Stats) -> dict[str, float]:
    """What a step of the interval sent, and the milliseconds that it took."""
    steps = max(1, interval.steps)
    return {"sotto/ratio": interval.ratio, "sotto/bytes_a_step": interval.bytes_sent / steps,
            "sotto/encode_ms": 1e3 * interval.encode_seconds / steps, "sotto/network_ms": 1e3 * interval.wire_seconds / steps,
            "sotto/decode_ms": 1e3 * interval.decode_seconds / steps}


def line(total: Stats, interval: Stats) -> str:
    """The line about an interval of steps; `total` is counted to its end."""
    def a_step(seconds: float) -> str:
        return f"{1e3 * seconds / interval.steps:.1f} ms"

    sent = "nothing was exchanged"  # as between two exchanges of LocalSGD
    if interval.bytes_sent:
        sent = f"{interval.bytes_sent / interval.steps:,.0f} bytes a step, {interval.ratio:.1f} times fewer than dense"
    return (f"sotto: step {total.steps}: {sent}; encode {a_step(interval.encode_seconds)}, network "
            f"{a_step(interval.wire_seconds)}, decode {a_step(interval.decode_seconds)} a step; "
            f"{'; '.join(total.methods.splitlines())}")


def write(text: str) -> None:
    """To the logger or, if logging has no handlers, to stderr."""
    if _log.hasHandlers():
        _log.info(text)
    else:
        print(text, file=sys.stderr, flush=True)
