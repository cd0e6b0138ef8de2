"""Compressed gradients for DistributedDataParallel."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from sotto._averaging import averaging
from sotto._errors import ConfigError
from sotto._hook import Hook
from sotto._meeting import meeting
from sotto._modules import averaged_parameters, refuse_sparse_gradients, trains_others
from sotto._process_group import is_initialized
from sotto._rules import Options, outside
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
    encrypt: bool = True,
    interface: str | None = None,
) -> DistributedDataParallel:
    """Makes `ddp` compress the gradients that it averages; returns `ddp`.

        sotto.compress(torch.nn.parallel.DistributedDataParallel(net), "qsgd(4) | rans")

    Collective: every rank calls it, with the same arguments, before the first backward. Nothing else changes. Means are
    computed during backward, on a thread of the library. The hook of DDP's last bucket waits for them.

    codec: a chain of stages or a preset ("topk-ef"). In the trials of docs/results/codecs.md "qsgd(4) | rans" loses nothing, with
        SGD and AdamW; "ef | topk(0.01) | qsgd(4)" sends far less and starts slowly. You choose the optimiser. For presets
        that need a certain one a warning says so: sotto.optim.DGCSGD for dgc; torch.optim.SGD(momentum=0) for fetchsgd
        and for signsgd, whose rate should be near Adam's; for demo the same, with p.grad.sign_() after backward. signum
        and onebit-adam exchange momenta, which a hook does not see: here they are the codec alone, signs of gradients.
    schedule: replaces `codec`; says which codec to use from which step on: ``[(0, "none"), (100, "ef | topk(0.1)"),
        (500, "ef | topk(0.01)")]``. Each phase takes over the memory of the one before; a phase that would drop its
        content is refused.
    start_after: the number of first steps without the codec; a memory that makes the momentum makes it in them, too.
    rules: other codecs for some parameters, by name, with wildcards: ``{"*.bias": "none"}``. The first pattern that
        matches counts; a pattern that matches nothing is an error. Schedule and start_after do not apply to them.
    aggregator: how messages become a mean: "auto", "all_reduce", "gather", "hierarchical(outer=gather, group=4)", ...;
        not for `rules`.
    seed: for stochastic codecs.
    bucket_mb: how much is exchanged at a time, counted in float32; at least one parameter. DDP's buckets do not matter
        for this: they only carry gradients to sotto and back.
    nonfinite: "raise": NaN or infinity in a gradient is a NumericError that names the parameter. "propagate": all
        gradients of that step become NaN, on every rank, and it changes no memory.
    scaler: the torch.amp.GradScaler that scales the loss, the same on all ranks. Messages and memories hold gradients
        without that scale; the returned means have it. A step that overflows on any rank propagates, as above, so that
        the scaler skips it on all. Costs a copy of the memories in each step, and no mean is available before all are.
    check_replicas: compares the parameters of all ranks by hash every `check_replicas` steps; NumericError if they differ.
    threads: the number of threads that encode and decode on this rank; no bit depends on it.
    timeout: of each exchange, and of the wait here for all ranks (30 minutes).
    encrypt: False leaves connections between hosts plain, for a network that nobody else can reach. On one host they always are.
    interface: the network interface to use, such as "eth0". None: that of GLOO_SOCKET_IFNAME, or the one that leads to the
        store of the process group.

    What DDP reduces is averaged: the parameters that were not frozen when it was made, also if they are frozen now. One that
    it does not reduce, because it was frozen then or replaced another, cannot be trained: that is a ConfigError here, or in
    backward(). A copy (copy.deepcopy, torch.save) is not compressed: it warns if it is trained, until it is compressed, too.

    Messages use separate TCP connections between the ranks of ddp.process_group, which meet in its store; its backend does
    not matter. Between hosts messages are encrypted, with a secret that travels through the store (docs/security.md).

    Inputs may be uneven: `with ddp.join():` works. A rank that has ended adds zeros to the mean of all
    (divide_by_initial_world_size=False changes nothing) and still sends what its memory holds. Its parameters are old until
    all have ended, so check_replicas cannot be used with it.

    Errors: ConfigError here; NumericError, CommError and WireError in backward(), on every rank, with rank and step.
    After such an error the module cannot be used. If one rank refuses here, the others get a CommError that names it; then
    all may call again. A rank whose argument is no DistributedDataParallel module can tell only the default group: ranks
    that call with another group wait for it until the timeout.
    """
    is_ddp = isinstance(ddp, DistributedDataParallel)
    wrong = ConfigError(f"sotto.compress wants a DistributedDataParallel module, not {type(ddp).__name__}")
    if not is_ddp and not is_initialized():
        raise wrong
    with meeting(ddp.process_group if is_ddp else dist.group.WORLD) as place:
        if not is_ddp:
            raise wrong
        if is_known(ddp):
            raise ConfigError("this module is compressed already")
        _require_plain(ddp)
        left_alone = [id(p) for name, p in ddp.module.named_parameters() if name in getattr(ddp, "parameters_to_ignore", ())]
        parameters = _reduced_parameters(ddp, left_alone)
        problem = trains_others(ddp.module, {id(p) for _, p in parameters}.union(left_alone))
        options = Options(
            codec=codec, schedule=schedule, start_after=start_after, rules=rules, aggregator=aggregator, seed=seed, bucket_mb=bucket_mb,
            nonfinite=nonfinite, threads=threads, timeout=timeout, encrypt=encrypt, interface=interface)
        hook = averaging(ddp.reducer, place, ddp.module, parameters, problem, [], options, scaler, check_replicas)()
        remember(ddp, hook)
    _hooks[ddp] = hook, problem
    if _after_forward not in ddp._forward_hooks.values():  # a copy of a compressed module has it
        ddp.register_forward_hook(_after_forward)
    return ddp


_hooks: weakref.WeakKeyDictionary[DistributedDataParallel, tuple[Hook, Callable[[], str]]] = weakref.WeakKeyDictionary()


def _after_forward(ddp: DistributedDataParallel, *_: Any) -> None:
    """A function of this module, since copies and pickles of `ddp` have its hooks. After forward, within which DDP exchanges something
    with other ranks: they would wait for one that raised an error before."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return
    if ddp in _hooks:
        hook, problem = _hooks[ddp]
        if why := problem():  # before backward says it: DDP may wait there for a parameter that is not used any more
            hook.refuse(why)
            hook.wait()
    elif ddp.training:
        warnings.warn("this is a copy of a module that sotto.compress compressed, and not compressed itself: it sends dense gradients, "
                      "as DistributedDataParallel does. To train it, call sotto.compress on it, too; for a running average of weights "
                      "copy the plain module, ddp.module", stacklevel=outside())


def _reduced_parameters(ddp: DistributedDataParallel, left_alone: Collection[int]) -> list[tuple[str, torch.Tensor]]:
    """Names and parameters whose gradients DDP reduces: those that were trained when it was made, also if they are frozen now."""
    refuse_sparse_gradients(ddp.module)  # of which DDP cannot show its buckets
    reduced = [p for bucket in ddp.reducer._get_zeros_like_grad_buckets() for p in bucket.parameters()]
    ids = {id(p) for p in reduced}
    parameters = averaged_parameters(ddp.module, lambda p: id(p) in ids)
    missing = [name for name, p in ddp.module.named_parameters()
               if p.requires_grad and id(p) not in ids and id(p) not in left_alone]
    if missing:
        raise ConfigError(f"DDP does not reduce {', '.join(missing)}: frozen when DistributedDataParallel was made, or added since; "
                          "make it again, and call sotto.compress again")
    waited_for = [name for name, p in parameters if not p.requires_grad]
    if waited_for and not ddp.find_unused_parameters and not ddp.static_graph:
        raise ConfigError(f"{', '.join(waited_for)}: frozen after DistributedDataParallel was made, which waits for gradients of it; "
                          "freeze before, or say find_unused_parameters=True")
    if len(parameters) < len(ids):
        here = {id(p) for _, p in parameters}
        shape = next(tuple(p.shape) for p in reduced if id(p) not in here)
        raise ConfigError(f"DDP reduces a parameter of shape {shape} that its module no longer has; make DistributedDataParallel "
                          "again, and call sotto.compress again")
    return parameters


def _require_plain(ddp: DistributedDataParallel) -> None:
    """DDP takes one communication hook, and uses it itself for some of its features."""
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
    if getattr(ddp, "_delay_all_reduce_params", None):
        raise ConfigError("this module was made with delay_all_reduce_named_params=, which DDP averages itself, without "
                          "communication hooks, and without waiting for the result; leave it out")
    if getattr(ddp, "skip_all_reduce_unused_params", False):
        raise ConfigError("this module was made with skip_all_reduce_unused_params=, with which DDP leaves parameters out at any "
                          "step; say find_unused_parameters=True alone")
    if getattr(ddp, "_use_python_reducer", False):
        raise ConfigError("this module was made with torch._dynamo.config.optimize_ddp = \"python_reducer\", which leaves out what "
                          "takes communication hooks; leave it at its default")
