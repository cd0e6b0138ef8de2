"""Local steps: each rank takes steps by itself, and now and then they exchange model deltas, all-to-all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, overload

import torch
import torch.distributed as dist

from sotto import _check
from sotto._errors import ConfigError
from sotto._state import load_state_dict, state_dict
from sotto._steps import MixesModels, Steps


class _LocalSteps(MixesModels):
    @overload
    def state_dict(self, *, gather: Literal[False] = False) -> dict[str, Any]: ...
    @overload
    def state_dict(self, *, gather: Literal[True]) -> list[dict[str, Any]]: ...
    @overload
    def state_dict(self, *, gather: bool) -> dict[str, Any] | list[dict[str, Any]]: ...
    def state_dict(self, *, gather: bool = False) -> dict[str, Any] | list[dict[str, Any]]:
        """sotto.state_dict(self)."""
        return state_dict(self, gather=gather)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """sotto.load_state_dict(self, state)."""
        load_state_dict(self, state)


class LocalSGD(_LocalSteps):
    """Each rank takes steps by itself; after every `every` steps all take the mean of their models.

        local = sotto.LocalSGD(net, optimizer, every=8, codec="ef | int8")

    Nothing else changes: the exchange becomes part of optimizer.step(). Collective: every rank makes one with the same
    arguments, and takes the same number of steps. Parameters and buffers start as on rank 0; buffers are not
    exchanged, and the optimizer's own buffers stay as they are (Stich, ICLR 2019).

    optimizer: steps of any other that moves some of the same parameters count, too, as in a later phase of a script.
    after: the number of first steps with an exchange after each (post-local SGD: Lin et al., ICLR 2020).
    codec: for the differences that are exchanged; its memory can only be `ef`. aggregator, seed, bucket_mb, threads,
        timeout, encrypt, interface: as for sotto.compress.

    Parameters are of float32, on any device. Errors as with GossipDataParallel.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        every: int = 8,
        codec: str = "none",
        *,
        after: int = 0,
        process_group: dist.ProcessGroup | None = None,
        aggregator: str = "auto",
        seed: int = 1,
        bucket_mb: float = 4.0,
        threads: int = 1,
        timeout: float | timedelta | None = None,
        encrypt: bool = True,
        interface: str | None = None,
    ) -> None:
        self._steps = Steps(
            "sotto.LocalSGD", self, module, optimizer,
            lambda: f"local(h={_every(every)}, after={_check.whole('after', after)})", codec=codec,
            process_group=process_group, aggregator=aggregator, seed=seed, bucket_mb=bucket_mb, threads=threads,
            timeout=timeout, encrypt=encrypt, interface=interface)


class DiLoCo(_LocalSteps):
    """Like LocalSGD, but an outer optimiser takes a step, with the mean of the ranks' model deltas as its gradient.

        diloco = sotto.DiLoCo(net, optimizer, every=20, codec="ef | int8")

    The published inner optimizer is AdamW; the outer one is SGD with Nesterov's momentum (Douillard et al., 2023).

    outer_momentum: Nesterov's. None: 0.9, as published; but 0.5 with power, and where `ef` may send most of a difference
        later, as with `ef | topk(0.01)`: the outer step would go too far with 0.9.
    shards: the number of groups of parameters that are exchanged in turn, each once in `every` steps. A shard is a group
        of buckets, so there must be at least as many buckets: bucket_mb sets their size.
    overlap: the number of steps during which an exchange travels, below `every`. Its result is applied after them, and
        `alpha` is the share of a rank's own model that then stays (Streaming DiLoCo: Douillard et al., 2025).
    The other arguments are as for LocalSGD.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        every: int = 20,
        outer_lr: float = 0.7,
        outer_momentum: float | None = None,
        shards: int = 1,
        codec: str = "none",
        *,
        overlap: int = 0,
        alpha: float = 0.5,
        process_group: dist.ProcessGroup | None = None,
        aggregator: str = "auto",
        seed: int = 1,
        bucket_mb: float = 4.0,
        threads: int = 1,
        timeout: float | timedelta | None = None,
        encrypt: bool = True,
        interface: str | None = None,
    ) -> None:
        def algorithm() -> str:
            lr = _check.number("outer_lr", outer_lr, 0, 1e6)
            options = f"h={_every(every)}, lr={lr!r}, shards={_check.whole('shards', shards)}"
            if outer_momentum is not None:
                options += f", momentum={_check.share('outer_momentum', outer_momentum)!r}"
            if _check.whole("overlap", overlap) >= every:
                raise ConfigError(f"overlap={overlap}: must be below every={every}, so that what was exchanged is applied "
                                  "before the next exchange")
            share = _check.share("alpha", alpha)
            if overlap > 0:
                options += f", overlap={overlap}, alpha={share!r}"
            return f"diloco({options})"

        self._steps = Steps(
            "sotto.DiLoCo", self, module, optimizer, algorithm, codec=codec, process_group=process_group,
            aggregator=aggregator, seed=seed, bucket_mb=bucket_mb, threads=threads, timeout=timeout, encrypt=encrypt,
            interface=interface)


def _every(value: int) -> int:
    if not 1 <= _check.whole("every", value) <= 10**6:
        raise ConfigError(f"every={value!r}: wants a number of steps from 1 to 10**6")
    return value
