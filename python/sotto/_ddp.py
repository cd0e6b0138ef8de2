"""Compressed gradients for DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from sotto import _check
from sotto._averaging import averaging, trained_parameters
from sotto._errors import ConfigError
from sotto._meeting import meeting
from sotto._state import is_known, remember


def compress(
    ddp: DistributedDataParallel,
    codec: str | None = None,
    *,
    schedule: Sequence[tuple[int, str]] | None = None,
    start_after: int = 0,
    rules: Mapping[str, str] | None = None,
    aggregator: str = "auto",
    seed: int = 1,
    bucket_mb: float = 4.0,
    nonfinite: str = "raise",
    scaler: torch.amp.GradScaler | None = None,
    check_replicas: int = 0,
    threads: int = 1,
    timeout: float | timedelta | None = None,
) -> DistributedDataParallel:
    """Makes `ddp` compress the gradients that it averages; returns `ddp`.

    Collective: every rank calls it, with the same arguments, before the first backward. Nothing else changes. The
    averaging runs beside backward, on a thread of its own, without Python.

    codec: a sentence or a preset ("topk-ef"). In the trials of docs/results/sentences.md "qsgd(4) | rans" loses nothing, with
        SGD and AdamW; "ef | topk(0.01) | qsgd(4)" sends far less and starts slowly. You choose the optimiser. For presets
        that need a certain one a warning says so: sotto.optim.DGCSGD for dgc; torch.optim.SGD(momentum=0) for fetchsgd
        and for signsgd, whose rate should be near Adam's; for demo the same, with p.grad.sign_() after backward. signum
        and onebit-adam exchange momenta, which a hook does not see: here they are the codec alone, signs of gradients.
    schedule: replaces `codec`; says which sentence to use from which step on: ``[(0, "none"), (100, "ef | topk(0.1)"),
        (500, "ef | topk(0.01)")]``. Each phase takes over the memory of the one before; a phase that would drop its
        content is refused.
    start_after: the number of first steps without the codec; a memory that makes the momentum makes it in them, too.
    rules: other sentences for some parameters, by name, with wildcards: ``{"*.bias": "none"}``. The first pattern that
        matches counts; a pattern that matches nothing is an error. Schedule and start_after do not apply to them.
    aggregator: how messages become a mean: "auto", "all_reduce", "gather", "hierarchical(outer=gather, group=4)", ...;
        not for `rules`.
    seed: for stochastic codecs.
    bucket_mb: how much is exchanged at a time, counted in float32; at least one parameter. DDP's buckets are something
        else: they only carry gradients to and fro.
    nonfinite: "raise": NaN or infinity in a gradient is a NumericError that names the parameter. "propagate": all
        gradients of that step become NaN, on every rank, and it changes no memory.
    scaler: the torch.amp.GradScaler that scales the loss, the same on all ranks. Messages and memories hold gradients
        without that scale; the returned means have it. A step that overflows on any rank propagates, as above, so that
        the scaler skips it on all. Costs a copy of the memories in each step, and no mean is available before all are.
    check_replicas: compares the parameters of all ranks by hash every `check_replicas` steps; NumericError if they differ.
        Then forward() raises a ConfigError if a parameter is trained that was frozen, or another one, at this call.
    threads: the number of threads that encode and decode on this rank; no bit depends on it.
    timeout: of each exchange, and of the wait here for all ranks (30 minutes).

    Messages use separate Gloo connections between the ranks of ddp.process_group, made through its store and on its
    network devices; for MPI, which has no store, a new group. Inputs may be uneven: `with ddp.join():` works. A rank that
    has ended adds zeros to the mean of all (divide_by_initial_world_size=False changes nothing) and goes on sending what
    its memory holds. Its parameters are old until all have ended, so check_replicas cannot be used with it.

    Errors: ConfigError here; NumericError, CommError and WireError in backward(), on every rank, with rank and step.
    After such an error the module cannot go on. If one rank refuses here, the others get a CommError that names it; then
    all may call again. A rank whose argument is no DistributedDataParallel module can tell only the default group: ranks
    that call with another group wait for it until the timeout.
    """
    is_ddp = isinstance(ddp, DistributedDataParallel)
    with meeting(ddp.process_group if is_ddp else dist.group.WORLD) as (group, place):
        if not is_ddp:
            raise ConfigError(f"sotto.compress wants a DistributedDataParallel module, not {type(ddp).__name__}")
        if is_known(ddp):
            raise ConfigError("this module is compressed already")
        _require_plain(ddp)
        parameters = trained_parameters(ddp.module, getattr(ddp, "parameters_to_ignore", ()))
        connect = averaging(
            ddp.reducer, group, place, ddp.module, parameters, codec, schedule, start_after, rules, aggregator, seed,
            bucket_mb, nonfinite, scaler, check_replicas, threads, timeout)
        remember(ddp, connect())
    if check_replicas:
        ignored = getattr(ddp, "parameters_to_ignore", ())
        own = {id(p) for name, p in ddp.module.named_parameters() if p.requires_grad or name in ignored}
        ddp.register_forward_pre_hook(lambda module, _: _check.wrapped_parameters(module.module, own))
    return ddp


def _require_plain(ddp: DistributedDataParallel) -> None:
    """DDP takes one communication hook, and has one of its own for some of its features."""
    if getattr(ddp, "mixed_precision", None) is not None:
        raise ConfigError("this module was made with mixed_precision=, for which DDP reduces 16-bit copies of its parameters; "
                          "take torch.autocast, or a module of 16-bit parameters")
    hooks = getattr(ddp, "_comm_hooks", None) or []
    in_backward = [name for name, p in ddp.module.named_parameters() if hasattr(p, "_in_backward_optimizers")]
    if in_backward or any("optim" in getattr(hook, "__qualname__", "") for hook, _ in hooks):
        raise ConfigError("this module has an optimizer that takes its steps inside backward, in a communication hook of "
                          "DDP's; let optimizer.step() do it after backward")
    if hooks:
        raise ConfigError("this module has a communication hook already; DDP takes one only")
