"""Ranks that train a model each, and mix them after the optimizer's steps."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from sotto import _C, _check, _state
from sotto._errors import ConfigError
from sotto._meeting import group_of, meeting, start_alike
from sotto._state import remember
from sotto._topology import Topology, sentence_of


_all: weakref.WeakSet[Steps] = weakref.WeakSet()
_without_hooks: weakref.WeakKeyDictionary[Steps, None] = weakref.WeakKeyDictionary()  # unlike a set, in one order
_REPLACED = "the module was wrapped anew after this had failed, or after its parameters were replaced; train the newer wrapper"
GIVEN_UP = "this was made in another group of ranks; make it within the function of sotto.elastic, anew for each group"


class Steps:
    """Runs an algorithm of `sotto train` after each step of an optimizer of torch: the given one, or the first one that
    takes a step of the module's parameters."""

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
    ) -> None:
        if _state.on_remember is not None and node_size != 1:
            raise ConfigError(f"node_size={node_size!r}: nodes have one size, and within sotto.elastic the number of ranks "
                              "changes; leave it out")
        self._group = wanted = group_of(what, process_group)
        with meeting(wanted) as (group, place):
            self._node_size = _check.node_size(node_size)
            _check.plain_module(module)
            optimizer = _inner(optimizer)
            if not isinstance(optimizer, torch.optim.Optimizer) and not (on_graphs and optimizer is None):
                raise ConfigError(f"optimizer: wants a torch.optim.Optimizer, not {type(optimizer).__name__}")
            parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
            self._own = {id(p): name for name, p in parameters}
            if optimizer is not None and not self._moves(optimizer):
                raise ConfigError("the optimizer has no parameter of the module")
            if optimizer is not None:
                self._require_alone(optimizer)
            sentence = _check.text("algorithm", algorithm() if callable(algorithm) else algorithm,
                                   'a sentence, such as "push_sum(overlap=true)"')
            if on_graphs and not _C.gossips(sentence):
                raise ConfigError(f"algorithm {sentence}: does not gossip; take push_sum, d_psgd, ad_psgd or choco, and for sync "
                                  "sotto.AllReduceDataParallel, for local steps sotto.LocalSGD or sotto.DiLoCo")
            self.stepper = _C.Stepper(
                group, place, parameters, sentence, _check.sentence("codec", codec), _check.aggregator(aggregator),
                sentence_of(topology), _check.peers(peers_per_step),
                _check.text("mixing", mixing, 'a name, such as "uniform"'), self._node_size, _check.whole("seed", seed),
                _check.bucket_bytes(bucket_mb), _check.threads(threads), _check.seconds(timeout))
        self._places = [(part._parameters, key, p, self._own[id(p)]) for part in module.modules()
                        for key, p in part._parameters.items() if id(p) in self._own]
        self.module = module
        self._owner = weakref.ref(owner)
        self._optimizer = None if optimizer is None else weakref.ref(optimizer)
        self._averaged = False
        self._over = ""  # why it is never used again
        self._hooks: list[Any] = []
        self._stepping: FrameType | None = None  # the outermost running call of optimizer.step()
        if not remember(owner, self.stepper, user=self):
            start_alike(module, wanted)
        self._take_over()
        self._follow(optimizer)
        _all.add(self)

    def node_group(self) -> dist.ProcessGroup | None:
        """The group of ranks that share this rank's model; None: it has a model of its own. Collective."""
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
            optimizer = None if self._optimizer is None else self._optimizer()
            self._begin(optimizer)

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

    def _follow(self, optimizer: torch.optim.Optimizer | None) -> None:
        if optimizer is None:
            _without_hooks[self] = None
            return
        self._hooks = [  # they keep this alive: a LocalSGD that the script does not keep goes on
            optimizer.register_step_pre_hook(lambda stepping, *_: self._enter(stepping, sys._getframe(1))),
            optimizer.register_step_post_hook(lambda stepping, *_: self._leave(stepping, sys._getframe(1)))]

    def give_up(self, why: str) -> None:
        """Fails for good, and tells the other ranks why. The optimizer is free for another. Until there is one, steps of somebody
        who keeps this are errors: otherwise each rank would train alone, and nobody would notice."""
        self._unfollow()
        self._over = GIVEN_UP
        self._optimizer = None
        self.stepper.refuse(why)
        self._follow(None)

    def _require_in_use(self) -> None:
        if self._over:
            raise ConfigError(self._over)

    def _unfollow(self) -> None:
        _without_hooks.pop(self, None)
        for handle in self._hooks:
            handle.remove()

    def _others(self) -> list[Steps]:
        """Other objects that mix parameters of the module."""
        return [other for other in _all if other is not self and not other._own.keys().isdisjoint(self._own)]

    def _is_over(self) -> bool:
        """Whether another object may take its place."""
        return (self._owner() is None or self.stepper.failed()
                or any(place.get(key) is not p for place, key, p, _ in self._places))

    def _require_alone(self, optimizer: torch.optim.Optimizer) -> None:
        for other in self._others():
            if other._optimizer is not None and other._optimizer() is optimizer and not other._is_over():
                raise ConfigError(f"models are mixed after the steps of this {type(optimizer).__name__} already; make a new "
                                  "optimizer, or drop what wraps the module now")

    def _take_over(self) -> None:
        """Takes the place of others that are over. Until then their steps are errors, so that no rank trains alone unnoticed."""
        for other in self._others():
            if other._is_over():
                other._unfollow()
                other._over = other._over or _REPLACED

    # torch runs the hooks in every class of the optimizer that has a step() of its own, so once more where one calls
    # that of its base: the outermost call is the step. One that raised never came to its post hooks, so calls are not
    # counted: it is over when it is no longer on the stack.

    def _enter(self, optimizer: torch.optim.Optimizer, call: FrameType) -> None:
        if self._is_followed(optimizer) and not self._is_within_step(call):
            self._begin(optimizer)
            self._stepping = call

    def _leave(self, optimizer: torch.optim.Optimizer, call: FrameType) -> None:
        if self._is_followed(optimizer) and not self._is_within_step(call):
            self._stepping = None
            self.stepper.end()

    def _is_within_step(self, call: FrameType) -> bool:
        outer = call.f_back if self._stepping is not None else None
        while outer is not None and outer is not self._stepping:
            outer = outer.f_back
        return outer is not None

    def _moves(self, optimizer: torch.optim.Optimizer) -> bool:
        return any(id(p) in self._own for group in optimizer.param_groups for p in group["params"])

    def _is_followed(self, optimizer: torch.optim.Optimizer) -> bool:
        followed = None if self._optimizer is None else self._optimizer()
        if followed is optimizer:
            return True
        if not self._moves(optimizer):
            return False
        self._require_in_use()
        if followed is not None:
            raise ConfigError(
                f"two optimizers, {type(followed).__name__} and {type(optimizer).__name__}, take steps of the module's "
                "parameters; say after which one models are to be mixed: optimizer=")
        self._require_alone(optimizer)
        self._take_over()
        self._optimizer = weakref.ref(optimizer)
        return True

    def _begin(self, optimizer: torch.optim.Optimizer | None) -> None:
        self._require_own_parameters()
        self.stepper.begin(float(optimizer.param_groups[0].get("lr", 0.0)) if optimizer is not None else 0.0)

    def _require_own_parameters(self) -> None:
        for place, key, parameter, name in self._places:
            if place.get(key) is not parameter:
                raise ConfigError(f"parameter {name} is no longer the one that was wrapped; wrap the module anew")
        _check.wrapped_parameters(self.module, self._own)

    def _statistics(self) -> list[tuple[str, torch.Tensor]]:
        """Float buffers that checkpoints have, such as those of batch norm. Others are caches, as long as this rank's inputs."""
        return [(f"{place}.{name}".lstrip("."), buffer) for place, part in self.module.named_modules()
                for name, buffer in part.named_buffers(recurse=False)
                if name not in part._non_persistent_buffers_set and buffer.is_floating_point() and buffer.numel() > 0]

    def _mean_statistics(self) -> list[torch.Tensor]:
        means = [(name, buffer.detach().to("cpu", torch.float32, copy=True)) for name, buffer in self._statistics()]
        if means:
            self.stepper.average(means)
        return [mean for _, mean in means]

    def _show_statistics(self, means: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for (_, buffer), mean in zip(self._statistics(), means):
                buffer.copy_(mean)


def _inner(optimizer: Any) -> Any:
    """The optimizer whose hooks run: accelerate and Lightning wrap it in one that has none."""
    inner = getattr(optimizer, "optimizer", None)
    bare = isinstance(inner, torch.optim.Optimizer) and "_optimizer_step_pre_hooks" not in vars(optimizer)
    return _inner(inner) if bare else optimizer


# Hooks of all optimizers are common to the process. torch iterates over them in each step, and it is an error to remove
# one meanwhile, as a garbage collection may. So there is one pair, for good.

def _before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for steps in list(_without_hooks):
        steps._enter(optimizer, sys._getframe(1))


def _after_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for steps in list(_without_hooks):
        steps._leave(optimizer, sys._getframe(1))


register_optimizer_step_pre_hook(_before_step)
register_optimizer_step_post_hook(_after_step)
