"""Optimisers that torch lacks and a codec needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from sotto import _check
from sotto._errors import ConfigError


class DGCSGD(torch.optim.Optimizer):
    """The step of Deep Gradient Compression (Lin et al., ICLR 2018), for the codec `dgc` and others with the memory `momentum`.

        ddp = sotto.compress(DistributedDataParallel(net), "dgc")
        optimizer = sotto.optim.DGCSGD(ddp.parameters(), lr=0.1, weight_decay=1e-4)

    The memory gave the gradients their momentum before they were sent, so their mean g gets none here. Weight decay has
    its own momentum, and is never sent: w = weight_decay * p; d = decay_momentum * d + w; p -= lr * (g + d). With
    nesterov, for the memory `momentum(nesterov=true)`, p -= lr * (g + w + decay_momentum * d). Together they make
    the step of torch.optim.SGD. With weight_decay=0 this is torch.optim.SGD(momentum=0).

    ConfigError for bad options, also of single groups, for a sparse gradient with weight decay, and for the state of
    another optimizer.
    """

    def __init__(self, params: Iterable[Any], lr: float, weight_decay: float = 0.0, decay_momentum: float = 0.9,
                 nesterov: bool = False) -> None:
        options = {"lr": lr, "weight_decay": weight_decay, "decay_momentum": decay_momentum, "nesterov": nesterov}
        super().__init__(params, _checked(options))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group | _checked({**self.defaults, **param_group}))

    def __setstate__(self, state: dict[str, Any]) -> None:
        if any("decay_momentum" not in group for group in state["param_groups"]):
            raise ConfigError("state_dict: wants a DGCSGD's; other optimizers keep their momentum elsewhere, so start without a state")
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; the closure, if any, computes the loss and is called first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad if group["weight_decay"] == 0 else self._decayed(p, group), alpha=-float(group["lr"]))
        return loss

    def _decayed(self, p: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        if p.grad.layout != torch.strided:
            raise ConfigError(f"weight_decay={group['weight_decay']}: the gradient of a parameter of shape {tuple(p.shape)} is "
                              "sparse, and weight decay moves all of it; put it into a group with weight_decay=0")
        pull = self.state[p].setdefault("pull", torch.zeros_like(p))
        pull.mul_(group["decay_momentum"]).add_(p, alpha=group["weight_decay"])
        if not group["nesterov"]:
            return p.grad + pull
        return p.grad.add(p, alpha=group["weight_decay"]).add_(pull, alpha=group["decay_momentum"])


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a group, as plain values."""
    if not isinstance(options["nesterov"], bool):
        raise ConfigError(f"nesterov={options['nesterov']!r}: wants True or False")
    return {"lr": _check.not_negative("lr", _plain(options["lr"])),
            "weight_decay": _check.not_negative("weight_decay", _plain(options["weight_decay"])),
            "decay_momentum": _check.share("decay_momentum", _plain(options["decay_momentum"])),
            "nesterov": options["nesterov"]}


def _plain(value: Any) -> Any:
    """A number that is a tensor, or one of numpy, as a plain one."""
    return value.item() if getattr(value, "shape", None) == () or isinstance(value, torch.Tensor) and value.numel() == 1 else value
