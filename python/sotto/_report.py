"""A line now and then about what is sent."""

from __future__ import annotations

import logging
import sys
from typing import Any

import torch

from sotto import _check
from sotto._state import Stats, rank_of, total_stats

_log = logging.getLogger("sotto")


def report(module: Any, every: int = 100) -> torch.utils.hooks.RemovableHandle:
    """From now on rank 0 writes a line about every so many steps of a compressed or wrapped module: bytes, the ratio to
    dense gradients, and where the time went.

        sotto.report(ddp, every=100)

    Goes to the logger "sotto" (INFO), or, where logging has no handlers, to stderr. A line is written by the first
    forward after the last of its steps. `.remove()` of what is returned ends it.
    """
    _check.number("every", _check.whole("every", every), 0, 1 << 62)
    last, rank = total_stats(module), rank_of(module)

    def before_forward(*_: Any) -> None:
        nonlocal last
        now = total_stats(module)
        if now.steps - last.steps < every:
            return
        if rank == 0:
            _write(line(now, now.since(last)))
        last = now

    forwards = module if isinstance(module, torch.nn.Module) else module._steps.module
    return forwards.register_forward_pre_hook(before_forward)


def line(total: Stats, interval: Stats) -> str:
    """What is written of an interval of steps, the last of which ended the total."""
    def a_step(seconds: float) -> str:
        return f"{1e3 * seconds / interval.steps:.1f} ms"

    return (f"sotto: step {total.steps}: {interval.bytes_sent / interval.steps:,.0f} bytes a step, {interval.ratio:.1f} times "
            f"fewer than dense; encode {a_step(interval.encode_seconds)}, network {a_step(interval.wire_seconds)}, decode "
            f"{a_step(interval.decode_seconds)} a step; {'; '.join(total.methods.splitlines())}")


def _write(text: str) -> None:
    if _log.hasHandlers():
        _log.info(text)
    else:
        print(text, file=sys.stderr, flush=True)
