"""Models that are mixed with those of neighbours."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sotto import _C, _check
from sotto._all_reduce import AllReduceDataParallel
from sotto._errors import ConfigError
from sotto._meeting import group_of, meeting
from sotto._state import remember_within_node, Stats, stats
from sotto._steps import Steps
from sotto._topology import Topology, sentence_of


class GossipDataParallel(torch.nn.Module):
    """Wraps a module of which each rank trains a model of its own, which is mixed with neighbours' behind each step.

        model = sotto.GossipDataParallel(net, "push_sum", topology="exponential")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    The training loop stays as it is: when optimizer.step() returns, the module's parameters are the mixed ones (of
    push-sum z = x / w, at which gradients are taken). No step has an exchange of all ranks with all. Collective: every
    rank wraps the same module with the same arguments, and takes the same number of steps. Parameters and buffers begin as
    those of rank 0; buffers, such as batch norm's, are not mixed.

    algorithm: "push_sum" (SGP), "push_sum(overlap=true)" (OSGP: a round is on its way while the next step computes),
        "d_psgd" (on its way while this step computes), "choco" (for codecs of any kind) or "ad_psgd", with the options
        that `sotto train --algorithm` has. docs/algorithms has the steps of each.

    ad_psgd: each rank takes steps at its own speed, as many as its loop does. A thread averages its model with other
    ranks' meanwhile, two at a time; a forward in training mode brings the parameters up to date, and the optimizer's step
    is added to the model as it is by then, so nothing is lost. A loop that ends when all have done enough together asks
    ``while sum(model.steps()) < enough``. average(), take_average(), sotto.state_dict and sotto.load_state_dict are meetings: a
    rank waits there, and goes on answering others, until all have come; so end with one of them. A rank that ends
    without is left out by the others from then on.
    topology: who exchanges with whom in a round: "exponential", "ring", "torus", ...; `sotto topology list`. Empty: the
        algorithm's own, for choco a ring, for ad_psgd bipartite_exponential, else exponential. Your own: for each rank
        a list of the ranks that it sends to, ``[[1, 2], [0], [0]]``; a list of such lists, of rounds that take turns;
        or a matrix, as tensor or array, whose entry (i, j) is the share of rank j's model that rank i has after the
        round; or the path of a .toml file.
    mixing: with what shares: "uniform", "metropolis", ... Empty: those of the matrix, else uniform.
    codec: "none", "f16" or "bf16"; with choco any codec for differences.
    peers_per_step: how many peers a rank has in a round, from which step on: ``[(0, 1), (1000, 2)]`` (SGP's
        peers_per_itr_schedule), for push_sum on topologies that have `peers`. None: always as many as the topology says.
    node_size: ranks that share a model, such as those of a host: their gradients are averaged in backward, as floats, and the
        first of them exchanges models with those of other nodes (SGP's nprocs_per_node). They follow each other, and take
        the same steps. 0: as many as torchrun says that a host has. Gradients may be accumulated under `no_sync()`. Not
        with ad_psgd.
    optimizer: behind whose steps models are mixed. None: behind those of the first optimizer that takes a step of any of
        the module's parameters; then a second one is an error.
    seed: of stochastic codecs. threads: that encode and decode on this rank; no bit depends on them.
    timeout: of each exchange, and for all ranks to come here (30 minutes).

    Parameters are of float32, on any device (those of a device are copied to the host and back in each step). Whatever
    changed them since the last mixing counts as this rank's step, so weights may be clipped. With torch.amp.GradScaler all
    ranks must agree on which steps to skip.

    Errors: ConfigError here; NumericError, CommError and WireError in optimizer.step() on every rank that waits for the
    one that failed, naming who and which step; for good. `sotto.state_dict(model)`, `sotto.load_state_dict(model, state)`
    and `sotto.stats(model)` are those of a compressed module; `model.state_dict()` is that of any module.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        algorithm: str = "push_sum",
        topology: Topology = "",
        mixing: str = "",
        codec: str = "none",
        *,
        peers_per_step: Sequence[tuple[int, int]] | None = None,
        node_size: int = 1,
        process_group: dist.ProcessGroup | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        seed: int = 1,
        threads: int = 1,
        timeout: float | timedelta | None = None,
    ) -> None:
        super().__init__()
        self._steps = Steps(
            "sotto.GossipDataParallel", self, module, optimizer, algorithm, on_graphs=True, codec=codec, topology=topology,
            peers_per_step=peers_per_step, mixing=mixing, node_size=node_size, process_group=process_group, seed=seed,
            bucket_mb=2048,  # nothing is computed beside an exchange that bucket by bucket would hide behind
            threads=threads, timeout=timeout)
        self.module = module
        node = self._steps.node_group()
        self.__dict__["_node"] = None  # no submodule: the module is one already
        if node is not None:
            self.__dict__["_node"] = AllReduceDataParallel(module, process_group=node, threads=threads, timeout=timeout)
            remember_within_node(self, self._node._hook)

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        if self.training and torch.is_grad_enabled():
            self._steps.before_forward()
        return self.module(*inputs, **keywords)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Backward passes within add up gradients; the first one behind it averages the sums over the ranks of a node."""
        return contextlib.nullcontext() if self._node is None else self._node.no_sync()

    def average(self) -> contextlib.AbstractContextManager[None]:
        """`with model.average():` the parameters and float buffers are the mean of all ranks', the model to evaluate and
        to save; behind it they are this rank's own again. Collective, between steps."""
        return self._steps.average()

    def take_average(self) -> None:
        """All ranks get the exact mean, with what is on its way, and go on from there. Collective, between steps."""
        self._steps.take_average()

    def steps(self) -> list[int]:
        """The steps that each rank has taken; with ad_psgd as far as this one has heard, and exactly behind a meeting."""
        return self._steps.stepper.steps()

    def stats(self, *, reset: bool = False) -> Stats:
        """sotto.stats(self)."""
        return stats(self, reset=reset)


class Gossiper:
    """Averages tensors with neighbours, round by round, without any rank waiting for one that is not its neighbour.

        gossiper = sotto.Gossiper(topology="ring")
        gossiper.average(tensor, rounds=4)  # in place: nearer to the mean of all ranks with every round

    Every rank makes it with the same arguments, and calls it in the same order with tensors of the same shape; over
    connections of its own. What a codec ("f16", "bf16") rounds off stays with the sender, so the sum over ranks stays what
    it was. One thread at a time.
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | None = None,
        topology: Topology = "exponential",
        mixing: str = "",
        codec: str = "none",
        *,
        seed: int = 1,
        threads: int = 1,
        timeout: float | timedelta | None = None,
    ) -> None:
        with meeting(group_of("sotto.Gossiper", process_group)) as (group, place):
            self._gossiper = _C.Gossiper(
                group, place, sentence_of(topology),
                _check.text("mixing", mixing, 'a name, such as "uniform"'), _check.sentence("codec", codec),
                _check.whole("seed", seed), _check.threads(threads), _check.seconds(timeout))

    @property
    def rounds(self) -> int:
        """That were made so far: a topology that changes from round to round goes on where it was."""
        return self._gossiper.round()

    @property
    def exact_after(self) -> int | None:
        """Rounds from the first on after which average() gives the exact mean of all; None: it only comes nearer."""
        return self._gossiper.exact_after()

    def mix(self, tensor: torch.Tensor, weight: float = 1.0) -> float:
        """One round, in place, of a tensor of float32, float16 or bfloat16; returns its new weight.

        tensor / weight comes to the mean of all ranks on any connected topology (push-sum), the sums over ranks of both
        stay the same, and the weight stays 1 where each rank gets as much as it gives.
        """
        if not isinstance(weight, (int, float)) or isinstance(weight, bool):
            raise ConfigError(f"weight={weight!r}: wants a number above 0")
        return self._gossiper.mix(_check.tensor(tensor), float(weight))

    def average(self, tensor: torch.Tensor, rounds: int = 1) -> torch.Tensor:
        """So many rounds, and the tensor, in place, over its weight; returns it."""
        weight = 1.0
        for _ in range(_check.whole("rounds", rounds)):
            weight = self.mix(tensor, weight)
        if weight != 1.0:
            with torch.no_grad():
                tensor.div_(weight)
        return tensor
