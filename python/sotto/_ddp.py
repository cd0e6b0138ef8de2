"""Compressed gradients for DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

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
    check_replicas: int = 0,
    threads: int = 1,
    timeout: float | timedelta | None = None,
) -> DistributedDataParallel:
    """From now on `ddp` averages its gradients compressed; returns `ddp`.

    Collective: every rank calls it, with the same arguments, before the first backward. Nothing else changes: the
    averaging runs beside backward, on a thread of its own, and no Python runs for it.

    codec: a sentence ("ef | topk(0.01) | qsgd(4)") or a preset ("topk"). The optimiser is yours, and a warning says so of
        presets that are tied to one. dgc, fetchsgd and signsgd are whole with torch.optim.SGD(momentum=0), signsgd at a rate
        near Adam's; demo too, once the gradients' signs have taken their place (p.grad.sign_() after backward). signum
        and onebit-adam exchange momenta, which a hook does not see: here they are the codec alone, signs of gradients.
    schedule: in place of `codec`, what to use from which step on: ``[(0, "none"), (100, "ef | topk(0.1)"), (500, "ef |
        topk(0.01)")]``. Memories go over into the next phase; one that would drop what a memory holds is refused.
    start_after: so many steps without the codec first; a memory that makes the momentum makes it in them, too.
    rules: other sentences for some parameters, by name, with wildcards: ``{"*.bias": "none"}``. The first pattern that
        matches counts; one that matches nothing is an error. Schedule and start_after do not apply to them.
    aggregator: how the mean is made of messages: "auto", "all_reduce", "gather", "hierarchical(outer=gather, group=4)",
        ...; not for `rules`.
    seed: of stochastic codecs.
    bucket_mb: what is exchanged at a time; at least one parameter, in float32. Not DDP's buckets, which only carry
        gradients to and fro.
    nonfinite: "raise": NaN or infinity in a gradient is a NumericError that names the parameter. "propagate": it becomes
        NaN on every rank, as in DDP, and changes no memory: for torch.amp.GradScaler.
    check_replicas: every so many steps compare the parameters of all ranks by hash; NumericError when they differ.
    threads: that encode and decode on this rank; no bit depends on them.
    timeout: of each exchange, and for all ranks to come here (30 minutes).

    Messages go over Gloo connections of their own between the ranks of ddp.process_group, made through its store and on its
    network devices; for MPI, which has no store, over a new group. Inputs may be uneven: `with ddp.join():` works, and a
    rank that has ended adds zeros to the mean of all (divide_by_initial_world_size=False changes nothing) and goes on
    sending what its memory holds. Its parameters are old until all have ended, so check_replicas does not go with it.

    Errors: ConfigError here; NumericError, CommError and WireError in backward(), on every rank, naming who and which
    step. After such an error the module cannot go on. What one rank refuses here is a CommError on the others, which names
    it; then all may call again. One that was given no DistributedDataParallel module tells it to the default group alone:
    ranks that call with another group wait for it until the timeout.
    """
    is_ddp = isinstance(ddp, DistributedDataParallel)
    with meeting(ddp.process_group if is_ddp else dist.group.WORLD) as (group, place):
        if not is_ddp:
            raise ConfigError(f"sotto.compress wants a DistributedDataParallel module, not {type(ddp).__name__}")
        if is_known(ddp):
            raise ConfigError("this module is compressed already")
        if getattr(ddp, "_comm_hooks", None):
            raise ConfigError("this module has a communication hook already; DDP takes one only")
        parameters = trained_parameters(ddp.module, getattr(ddp, "parameters_to_ignore", ()))
        remember(ddp, averaging(
            ddp.reducer, group, place, parameters, codec, schedule, start_after, rules, aggregator, seed, bucket_mb,
            nonfinite, check_replicas, threads, timeout))
    return ddp
