"""Regular lines about what a module sends."""

from __future__ import annotations

import logging
import sys
from typing import Any

import torch

from sotto import _check
from sotto._state import Stats, rank_of, total_stats

_log = logging.getLogger("sotto")


def report(module: Any, every: int = 100) -> torch.utils.hooks.RemovableHandle:
    """Makes rank 0 write a line after every `every` steps of a compressed or wrapped module: bytes, the ratio to dense
    gradients, and where the time went.

        sotto.report(ddp, every=100)

    Writes to the logger "sotto" (INFO) or, if logging has no handlers, to stderr. The first forward after these steps
    writes the line. Call `.remove()` of the returned object to end it.
    """
    _check.number("every", _check.whole("every", every), 0, 1 << 62)
    last, rank = total_stats(module), rank_of(module)

    def before_forward(*_: Any) -> None:
        nonlocal last
        now = total_stats(module)
        if now.steps - last.steps < every:
            return
        if rank == 0:
            write(line(now, now.since(last)))
        last = now

    forwards = module if isinstance(module, torch.nn.Module) else module._steps.module
    return forwards.register_forward_pre_hook(before_forward)


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
