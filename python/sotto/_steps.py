"""Ranks that train a model each, and mix them after the optimizer's steps."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from sotto import _check, _state
from sotto._errors import ConfigError
from sotto._library import gossips
from sotto._meeting import meeting
from sotto._modules import plain_module, wrapped_parameters
from sotto._process_group import group_of, sent_at_the_start, start_alike
from sotto._rules import outside
from sotto._state import Connected, remember
from sotto._stepper import Stepper, StepperOptions, TensorModel
from sotto._topology import Topology, expression_of


_all: weakref.WeakKeyDictionary[Steps, None] = weakref.WeakKeyDictionary()  # unlike a set, in one order
_left: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()  # by id: nothing mixes them any more
_REPLACED = "the module was wrapped again after this had failed, or after its parameters were replaced; train the newer wrapper"
GIVEN_UP = "this was made in another group of ranks; make it within the function of sotto.elastic, again for each group"


class Steps:
    """Runs an algorithm of `sotto train` after each step of the optimizers that it follows: the given one, or the first one
    that takes a step of the module's parameters; and any that moves the same ones, as in a later phase of a script."""

    def __init__(
        self,
        what: str,
        owner: Any,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        algorithm: str | Callable[[], str],
        *,
        on_graphs: bool = False,
        codec: str,
        aggregator: str = "auto",
        topology: Topology = "",
        peers_per_step: Sequence[tuple[int, int]] | None = None,
        mixing: str = "",
        node_size: int = 1,
        process_group: dist.ProcessGroup | None,
        seed: int,
        bucket_mb: float = 4.0,
        threads: int,
        timeout: float | timedelta | None,
        encrypt: bool,
        interface: str | None,
    ) -> None:
        if _state.on_remember is not None and node_size != 1:
            raise ConfigError(f"node_size={node_size!r}: nodes have one size, and within sotto.elastic the number of ranks "
                              "changes; leave it out")
        self._group = wanted = group_of(what, process_group)
        with meeting(wanted) as place:
            self._node_size = _check.node_size(node_size)
            plain_module(module)
            optimizer = _inner(optimizer)
            if not isinstance(optimizer, torch.optim.Optimizer) and not (on_graphs and optimizer is None):
                raise ConfigError(f"optimizer: wants a torch.optim.Optimizer, not {type(optimizer).__name__}")
            parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
            self._own = {id(p): name for name, p in parameters}
            if optimizer is not None and not self._moves(optimizer):
                raise ConfigError("the optimizer has no parameter of the module")
            if optimizer is not None:
                self._require_alone(optimizer)
            expression = _check.text("algorithm", algorithm() if callable(algorithm) else algorithm,
                                   'an algorithm, such as "push_sum(overlap=true)"')
            if on_graphs and not gossips(expression):
                raise ConfigError(f"algorithm {expression}: does not gossip; take push_sum, d_psgd, ad_psgd or choco, and for sync "
                                  "sotto.AllReduceDataParallel, for local steps sotto.LocalSGD or sotto.DiLoCo")
            options = StepperOptions(
                required_same=sent_at_the_start(module), algorithm=expression,
                codec=_check.codec("codec", codec), aggregator=_check.aggregator(aggregator), topology=expression_of(topology),
                peers_per_step=_check.peers(peers_per_step), mixing=_check.text("mixing", mixing, 'a name, such as "uniform"'),
                node_size=self._node_size, seed=_check.whole("seed", seed), bucket_bytes=_check.bucket_bytes(bucket_mb),
                threads=_check.threads(threads))
            model = TensorModel(parameters)
            network = _check.seconds(timeout), *_check.network(encrypt, interface)
            self.stepper = Stepper(place.connect(*network), model, options)
        self._places = [(part._parameters, key, p, self._own[id(p)]) for part in module.modules()
                        for key, p in part._parameters.items() if id(p) in self._own]
        self.module = module
        self._owner = weakref.ref(owner)
        self._is_given = optimizer is not None
        self._followed: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._last: Callable[[], torch.optim.Optimizer | None] = lambda: None  # the one of them that took the last step
        self._beside: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()  # others that took one since
        self._averaged = False
        self._over = ""  # why it is never used again
        self._handle: Any = None
        self._stepping: FrameType | None = None  # the outermost running call of optimizer.step()
        if not remember(owner, self.stepper, user=self):
            start_alike(module, wanted)
        self._take_over()
        if optimizer is not None:
            self._follow(optimizer)
            # So that the optimizer keeps this alive, even if the script keeps no reference to its LocalSGD.
            self._handle = optimizer.register_step_post_hook(functools.partial(_keep, self))
            weakref.finalize(self, _leave_alone, [weakref.ref(p) for _, p in parameters]).atexit = False
        _all[self] = None
        for parameter in self._own:
            _left.pop(parameter, None)

    def node_group(self) -> dist.ProcessGroup | None:
        """The group of ranks that share this rank's model; None: it shares its model with none. Collective."""
        if self._node_size == 1:
            return None
        all_ranks = dist.get_process_group_ranks(self._group)
        size = self._node_size
        first = self.stepper.rank() // size * size
        if len(all_ranks) < dist.get_world_size():  # new_group() would want a call of the others, too
            return dist.new_group(all_ranks[first:first + size], use_local_synchronization=True)
        # Local synchronization names a group by how many groups this rank is in. Where that differs within a node, its ranks
        # would wait for each other for ever.
        groups = [dist.new_group(all_ranks[begin:begin + size]) for begin in range(0, len(all_ranks), size)]
        return groups[first // size]

    def before_forward(self) -> None:
        """Sends the messages that travel while the gradient is computed."""
        self._require_in_use()
        self._require_own_parameters()
        if self.stepper.failed() or (self.stepper.starts_early() and not self._averaged):
            self._begin(self._last())

    @contextlib.contextmanager
    def average(self) -> Iterator[None]:
        self._require_in_use()
        tensors = [tensor for _, tensor in self._statistics()]
        own = [tensor.detach().clone() for tensor in tensors]
        within = self._averaged  # by another call, which ends it
        try:
            self.stepper.show_mean()  # Ctrl-C is raised after it
            self._averaged = True
            self._show_statistics(self._mean_statistics())
            yield
        finally:
            if not within:
                self._averaged = False
                self.stepper.show_own()
                with torch.no_grad():
                    for tensor, values in zip(tensors, own):
                        tensor.copy_(values)

    def take_average(self) -> None:
        self._require_in_use()
        means = self._mean_statistics()  # before models change: an error about them changes nothing
        self.stepper.take_average()
        self._show_statistics(means)

    def _follow(self, optimizer: torch.optim.Optimizer) -> None:
        self._followed.add(optimizer)
        self._last = weakref.ref(optimizer)

    def give_up(self, why: str) -> None:
        """Fails for good, and tells the other ranks why. The optimizer is free for another. Until there is one, steps of somebody
        who keeps this are errors: otherwise each rank would train alone, and nobody would notice."""
        self._unfollow()
        self._over = GIVEN_UP
        self.stepper.refuse(why)

    def _require_in_use(self) -> None:
        if self._over:
            raise ConfigError(self._over)

    def _unfollow(self) -> None:
        self._followed.clear()
        if self._handle is not None:
            self._handle.remove()

    def _others(self) -> list[Steps]:
        """Other objects that mix parameters of the module."""
        return [other for other in _all if other is not self and not other._own.keys().isdisjoint(self._own)]

    def _is_over(self) -> bool:
        """Whether another object may take its place."""
        return (self._owner() is None or self.stepper.failed()
                or any(place.get(key) is not p for place, key, p, _ in self._places))

    def _require_alone(self, optimizer: torch.optim.Optimizer) -> None:
        for other in self._others():
            if optimizer in other._followed and not other._is_over():
                raise ConfigError(f"models are mixed after the steps of this {type(optimizer).__name__} already; make a new "
                                  "optimizer, or drop what wraps the module now")

    def _take_over(self) -> None:
        """Takes the place of others that are over. Until then their steps are errors, so that no rank trains alone unnoticed."""
        for other in self._others():
            if other._is_over():
                other._unfollow()
                other._over = other._over or _REPLACED
                _all.pop(other, None)

    # torch runs the hooks in every class of the optimizer that defines step(), hence again if one calls step() of its
    # base, or of another optimizer that it wraps: the outermost call is the step. A call that raised never came to its
    # post hooks, so calls are not counted: a call is over when it is no longer on the stack.

    def _enter(self, optimizer: torch.optim.Optimizer, call: FrameType) -> None:
        if not self._is_within_step(call) and self._follows(optimizer):
            self._beside.clear()
            self._last = weakref.ref(optimizer)
            self._begin(optimizer)
            self._stepping = call

    def _leave(self, optimizer: torch.optim.Optimizer, call: FrameType) -> None:
        if not self._is_within_step(call) and optimizer in self._followed:
            self._stepping = None
            self.stepper.end()

    def _is_within_step(self, call: FrameType) -> bool:
        outer = call.f_back if self._stepping is not None else None
        while outer is not None and outer is not self._stepping:
            outer = outer.f_back
        return outer is not None

    def _moves(self, optimizer: torch.optim.Optimizer) -> set[int]:
        return {id(p) for group in optimizer.param_groups for p in group["params"]} & self._own.keys()

    def _follows(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the step that this optimizer begins is one of this rank's. ConfigError if it would go unnoticed."""
        if optimizer in self._followed:
            return True
        moves = self._moves(optimizer)
        if not moves:
            return False
        self._require_in_use()
        followed = list(self._followed)
        if followed and any(optimizer in other._followed and not other._is_over() for other in self._others()):
            return False  # another wrapper was made for this optimizer
        if followed and all(self._moves(one).isdisjoint(moves) for one in followed):
            self._require_taking_turns(followed[0], optimizer)
            return False
        self._require_alone(optimizer)
        self._take_over()
        self._follow(optimizer)
        return True

    def _require_taking_turns(self, followed: torch.optim.Optimizer, other: torch.optim.Optimizer) -> None:
        """The other optimizer moves other parameters, as one of two that share a module. What it does belongs to the next step."""
        names = f"{type(followed).__name__} and {type(other).__name__}"
        if not self._is_given:
            raise ConfigError(f"two optimizers, {names}, take steps of the module's parameters; say after which one models are to "
                              "be mixed: optimizer=")
        if other in self._beside:
            raise ConfigError(f"two optimizers, {names}, take steps of the module's parameters; models are mixed after steps of "
                              "the first, which took none between two of the second: give the one that takes more, or wrap the "
                              "module again with the second")
        self._beside.add(other)

    def _begin(self, optimizer: torch.optim.Optimizer | None) -> None:
        self._require_own_parameters()
        self.stepper.begin(float(optimizer.param_groups[0].get("lr", 0.0)) if optimizer is not None else 0.0)

    def _require_own_parameters(self) -> None:
        for place, key, parameter, name in self._places:
            if place.get(key) is not parameter:
                raise ConfigError(f"parameter {name} is no longer the one that was wrapped; wrap the module again")
        wrapped_parameters(self.module, self._own)

    def _statistics(self) -> list[tuple[str, torch.Tensor]]:
        """Float buffers that checkpoints have, such as batch norm's. Others are caches, as long as this rank's inputs."""
        return [(f"{place}.{name}".lstrip("."), buffer) for place, part in self.module.named_modules()
                for name, buffer in part.named_buffers(recurse=False)
                if name not in part._non_persistent_buffers_set and buffer.is_floating_point() and buffer.numel() > 0]

    def _mean_statistics(self) -> list[torch.Tensor]:
        means = [(name, buffer.detach().to("cpu", copy=True).contiguous()) for name, buffer in self._statistics()]
        self.stepper.average(means)  # without any, too: another rank may have some, by mistake
        return [mean for _, mean in means]

    def _show_statistics(self, means: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for (_, buffer), mean in zip(self._statistics(), means):
                buffer.copy_(mean)


class MixesModels(Connected):
    """A wrapper of a model that each rank trains by itself."""

    _steps: Steps

    def average(self) -> contextlib.AbstractContextManager[None]:
        """Within `with wrapper.average():` the parameters and float buffers are the mean over all ranks, the model to evaluate
        and to save; afterwards they are this rank's own again. Collective, between steps."""
        return self._steps.average()

    def take_average(self) -> None:
        """All ranks take the exact mean, which includes messages on their way, and continue from there. Collective, between steps.
        NumericError on all ranks, which changes nothing, if a model is not finite."""
        self._steps.take_average()


def _inner(optimizer: Any) -> Any:
    """The optimizer whose hooks run: accelerate and Lightning wrap it in one that has none."""
    inner = getattr(optimizer, "optimizer", None)
    bare = isinstance(inner, torch.optim.Optimizer) and "_optimizer_step_pre_hooks" not in vars(optimizer)
    return _inner(inner) if bare else optimizer


def _keep(*_: Any) -> None:
    """A hook that does nothing."""


def _leave_alone(parameters: list[weakref.ref[torch.Tensor]]) -> None:
    _left.update((id(p), p) for p in (reference() for reference in parameters) if p is not None)


def _warn_of_the_left(optimizer: torch.optim.Optimizer) -> None:
    moves = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if moves.isdisjoint(_left.keys()) or any(not moves.isdisjoint(steps._own) for steps in _all):
        return
    _left.clear()
    warnings.warn("each rank trains alone: what mixed these parameters is gone, because nobody held it, nor the optimizer that it was "
                  "given; keep it in a variable, or wrap the module again", stacklevel=outside())


# Hooks of all optimizers are common to the process. torch iterates over them in each step, and it is an error to remove
# one meanwhile, as a garbage collection may. Therefore one pair stays for good.

# The newest object comes first: it may take the place of an older one.

def _before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if _left:
        _warn_of_the_left(optimizer)
    for steps in reversed(list(_all)):
        if steps in _all:
            steps._enter(optimizer, sys._getframe(1))


def _after_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for steps in reversed(list(_all)):
        steps._leave(optimizer, sys._getframe(1))


register_optimizer_step_pre_hook(_before_step)
register_optimizer_step_post_hook(_after_step)
