"""Optimisers that torch lacks and a codec needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from sotto import _check


class DGCSGD(torch.optim.Optimizer):
    """The step of Deep Gradient Compression (Lin et al., ICLR 2018), for the codec `dgc` and others with the memory `momentum`.

        ddp = sotto.compress(DistributedDataParallel(net), "dgc")
        optimizer = sotto.optim.DGCSGD(ddp.parameters(), lr=0.1, weight_decay=1e-4)

    The memory gave the gradients their momentum before they were sent, so their mean g gets none here. Weight decay has
    a momentum of its own, and is never sent: d = decay_momentum * d + weight_decay * p; p -= lr * (g + d). With
    weight_decay=0 this is torch.optim.SGD(momentum=0).
    """

    def __init__(self, params: Iterable[Any], lr: float, weight_decay: float = 0.0, decay_momentum: float = 0.9) -> None:
        _check.not_negative("lr", lr)
        _check.not_negative("weight_decay", weight_decay)
        _check.share("decay_momentum", decay_momentum)
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "decay_momentum": decay_momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; the closure, if any, computes the loss and is called first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                move = p.grad
                if group["weight_decay"] != 0:
                    state = self.state[p]
                    if "pull" not in state:
                        state["pull"] = torch.zeros_like(p)
                    move = move + state["pull"].mul_(group["decay_momentum"]).add_(p, alpha=group["weight_decay"])
                p.add_(move, alpha=-group["lr"])
        return loss
