"""Averaged gradients without DistributedDataParallel."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from sotto._averaging import averaging
from sotto._errors import ConfigError
from sotto._meeting import meeting
from sotto._modules import trained_parameters, trains_others
from sotto._process_group import group_of, sent_at_the_start, start_alike
from sotto._rules import Options
from sotto._state import Connected, remember


_all: weakref.WeakSet[AllReduceDataParallel] = weakref.WeakSet()  # those that average


class AllReduceDataParallel(Connected, torch.nn.Module):
    """Wraps a module. After each backward() its gradients are the mean over all ranks.

        model = sotto.AllReduceDataParallel(net, "ef | topk(0.01)")

    Works like DistributedDataParallel with sotto.compress, and has the same arguments, but takes plain modules. Each
    gradient leaves as soon as backward has computed it, and backward() returns when all means are there. Collective:
    every rank wraps the same module with the same arguments, and takes the same number of backward passes. Parameters
    and buffers start as on rank 0. Buffers are not exchanged afterwards. To use a gradient inside backward, by
    register_post_accumulate_grad_hook, is a ConfigError: means are there when backward returns. Hooks by register_hook see
    this rank's own gradient.

    A parameter that a backward pass did not reach takes part with the gradient that it had, or with zeros: an optimizer's
    weight decay moves it. One that is frozen later is left alone; one that was frozen when the module was wrapped, or that
    replaced another, cannot be trained: that is a ConfigError in forward(). Gradients may be accumulated under
    `no_sync()`. Use DistributedDataParallel and sotto.compress instead if ranks have different numbers of inputs, or with
    torch.utils.checkpoint(use_reentrant=True), which runs backward passes within backward: a ConfigError here. After a
    backward pass that failed, wrap the module again: a newer wrapper of the same parameters takes the place of an older one.

    `sotto.state_dict(model)`, `sotto.load_state_dict(model, state)`, `sotto.stats(model)` and errors are the same as
    there. `model.state_dict()` is the module's own.
    """

    _instead = "copy model.module, and save its state_dict(), and sotto.state_dict() of this wrapper"

    def __init__(
        self,
        module: torch.nn.Module,
        codec: str | None = "none",
        *,
        process_group: dist.ProcessGroup | None = None,
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
    ) -> None:
        super().__init__()
        wanted = group_of("sotto.AllReduceDataParallel", process_group)
        with meeting(wanted) as place:
            self._parameters_of_ranks = trained_parameters(module)
            if not self._parameters_of_ranks:
                raise ConfigError("the module has no parameter that is trained")
            self._own = {id(parameter) for _, parameter in self._parameters_of_ranks}
            self._problem = trains_others(module, self._own)
            for name, parameter in self._parameters_of_ranks:
                if why := _other_hook(name, parameter):
                    raise ConfigError(why)
            options = Options(
                codec=None if schedule is not None else codec, schedule=schedule, start_after=start_after, rules=rules,
                aggregator=aggregator, seed=seed, bucket_mb=bucket_mb, nonfinite=nonfinite, threads=threads,
                timeout=timeout, encrypt=encrypt, interface=interface)
            connect = averaging(
                None, place, module, self._parameters_of_ranks, self._problem, sent_at_the_start(module), options, scaler,
                check_replicas)
            older = [other for other in _all if not other._own.isdisjoint(self._own)]
            for other in older:  # before ranks are connected: others may wait in its backward for this one, which left it
                other._make_way()
            self._hook = connect()
        self.module = module
        self._replaced = False
        self._synchronised = True
        self._missing: set[int] | None = None  # within a backward: parameters whose gradient has not come yet
        remember(self, self._hook)
        start_alike(module, wanted)
        for other in older:  # only now: if this one had failed, each backward should raise an error
            other._unhook()
        me = weakref.ref(self)
        handles = [parameter.register_post_accumulate_grad_hook(functools.partial(_arrived, me, index))
                   for index, (_, parameter) in enumerate(self._parameters_of_ranks)]
        self._handles = [weakref.finalize(self, handle.remove) for handle in handles]
        _all.add(self)

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        if torch.is_grad_enabled():
            self._require_sound()
        return self.module(*inputs, **keywords)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes within it add up gradients and exchange nothing; the first one after it exchanges the sums."""
        before, self._synchronised = self._synchronised, False
        try:
            yield
        finally:
            self._synchronised = before

    def _require_sound(self) -> None:
        """Raises an error if backward passes would not average, so that no rank computes in vain, or trains alone unnoticed."""
        if self._replaced:
            raise ConfigError("the module, or a part of it, was wrapped again: train the newer AllReduceDataParallel; modules that "
                              "share parameters are wrapped together, in one module")
        if torch.compiler.is_compiling():
            return  # backward says it
        if why := self._problem():  # before backward says it: that may reach no parameter of ours
            self._refuse(why)
        if self._missing is None:
            self._hook.wait()  # raises the error of a step that failed
        elif torch._C._current_graph_task_id() != self._backward:
            self._refuse("the last backward ended early, by an exception; wrap the module again")

    def _make_way(self) -> None:
        """For a newer wrapper: fails for good. Ranks that wait for this one are told."""
        self._replaced = True
        self._hook.refuse("the module was wrapped again")

    def _unhook(self) -> None:
        _all.discard(self)
        for unhook in self._handles:
            unhook()

    def _take(self, index: int, parameter: torch.Tensor) -> None:
        if not self._synchronised:
            return
        name = self._parameters_of_ranks[index][0]
        if why := _other_hook(name, parameter):
            self._refuse(why)
        backward = torch._C._current_graph_task_id()
        if backward < 0 or torch.compiler.is_compiling():
            self._refuse("a gradient came outside of autograd's backward, as with compiled autograd, in which nobody can wait "
                         "for the means; leave torch._dynamo.config.compiled_autograd off")
        nested = self._missing is None and _is_nested()
        if self._missing is None:
            self._missing, self._backward = set(range(len(self._parameters_of_ranks))), backward
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        if nested or backward != self._backward or index not in self._missing:
            self._refuse(f"a second gradient of {name}, or one of another backward, came before backward had all. Was it a "
                         "backward within backward? With torch.utils.checkpoint say use_reentrant=False; an autograd.Function "
                         "may take torch.autograd.grad in its backward, but trains elsewhere. After a backward that failed, "
                         "wrap the module again")
        self._missing.discard(index)
        self._hook.offer(index, parameter.grad)

    def _refuse(self, why: str) -> None:
        self._hook.refuse(why)
        self._hook.wait()  # raises it, or the error before it

    def _end_backward(self) -> None:
        """Offers this rank's gradients that backward did not reach, in the order of backward, and waits for all means."""
        missing, self._missing = self._missing, None
        for index in sorted(missing or (), reverse=True):
            parameter = self._parameters_of_ranks[index][1]
            if not parameter.requires_grad:  # frozen since: no optimizer is to move it
                self._hook.offer(index, torch.zeros_like(parameter))
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            self._hook.offer(index, parameter.grad)
        self._hook.wait()


def _other_hook(name: str, parameter: torch.Tensor) -> str:
    """What is wrong if another hook runs as soon as the gradient is there, so before it is the mean. What it does cannot be
    known beforehand, and not for certain afterwards: a change of `parameter.data` leaves no trace."""
    hooks = parameter._post_accumulate_grad_hooks or {}
    ours = all(isinstance(hook, functools.partial) and hook.func is _arrived for hook in hooks.values())
    if ours and not hasattr(parameter, "_in_backward_optimizers"):
        return ""
    return (f"parameter {name} has a hook (register_post_accumulate_grad_hook) or an optimizer that works inside backward, "
            "when its gradient is not the mean of all ranks yet; do that after backward(). A hook that looks at this "
            "rank's own gradient is registered by register_hook")


def _is_nested() -> bool:
    """Whether a Function calls this backward within its own, as a reentrant checkpoint does: then its end may not be the end."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not torch.autograd.function.BackwardCFunction.apply.__code__:
        frame = frame.f_back
    return frame is not None


def _arrived(me: weakref.ref[AllReduceDataParallel], index: int, parameter: torch.Tensor) -> None:
    this = me()
    if this is not None:
        this._take(index, parameter)
