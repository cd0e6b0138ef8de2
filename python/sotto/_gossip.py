"""Gossip: ranks mix their models with their neighbours' models."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sotto._all_reduce import AllReduceDataParallel
from sotto._state import remember_within_node
from sotto._steps import MixesModels, Steps
from sotto._topology import Topology


class GossipDataParallel(MixesModels, torch.nn.Module):
    """Wraps a module. Each rank trains its own model, and mixes it with its neighbours' models after each step.

        model = sotto.GossipDataParallel(net, "push_sum", topology="exponential")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    The training loop stays as it is: when optimizer.step() returns, the module's parameters are the mixed ones (with
    push-sum z = x / w, at which gradients are taken). No step needs an all-to-all exchange. Collective: every
    rank wraps the same module with the same arguments, and takes the same number of steps. Parameters and buffers start
    as on rank 0; buffers, such as batch norm's, are not mixed.

    algorithm: "push_sum" (SGP), "push_sum(overlap=true)" (OSGP: a round travels while the next step computes), "d_psgd"
        (it travels while this step computes), "choco" (for codecs of any kind) or "ad_psgd", with the options of `sotto
        train --algorithm`. docs/algorithms has the steps of each.

    ad_psgd: each rank takes steps at its own speed, as many as its loop does. Meanwhile a thread averages its model with
    other ranks' models, two ranks at a time. A forward in training mode brings the parameters up to date, and the
    optimizer's step is added to the current model, so nothing is lost. A loop that should end when all ranks together
    have done enough asks ``while sum(model.steps()) < enough``. average(), take_average(), sotto.state_dict and
    sotto.load_state_dict are meetings: a rank waits there, still answering others, until all have come; end with
    one of them. A rank that ends without a meeting is left out by the others from then on.
    topology: who exchanges with whom in a round: "exponential", "ring", "torus", ...; see `sotto topology list`. Empty:
        the algorithm's default, which is ring for choco, bipartite_exponential for ad_psgd, and exponential for the
        others. A topology of your own is a list that has for each rank the ranks that it sends to,
        ``[[1, 2], [0], [0]]``; a list of such lists, for rounds that take turns; a matrix, as tensor or array, whose
        entry (i, j) is the share of rank j's model that rank i has after the round; or the path of a .toml file.
    mixing: the shares: "uniform", "metropolis", ... Empty: the matrix has them, or uniform without a matrix.
    codec: "none", "f16" or "bf16"; with choco any codec for differences.
    peers_per_step: how many peers a rank has in a round, from which step on: ``[(0, 1), (1000, 2)]`` (SGP's
        peers_per_itr_schedule), for push_sum on topologies that have `peers`. None: the number of the topology.
    node_size: the number of ranks that share a model, such as all ranks of a host. Their gradients are averaged in backward,
        as floats, and the first of them exchanges models with other nodes (SGP's nprocs_per_node). Ranks of a node are
        consecutive, and take the same steps. 0: the number of ranks that torchrun has on a host. Gradients may be
        accumulated under `no_sync()`. Not with ad_psgd.
    optimizer: models are mixed after its steps. None: after steps of the first optimizer that moves any of the module's
        parameters. In both cases also after steps of any other that moves some of the same ones. What an
        optimizer of other parameters does belongs to the next of these steps; without `optimizer` it is an error.
    seed: for stochastic codecs. threads: the number of threads that encode and decode on this rank; no bit depends on it.
    timeout: of each exchange, and of the wait here for all ranks (30 minutes). encrypt, interface: as for sotto.compress.

    Parameters are of float32, on any device (parameters on a device are copied to the host and back in each step). Every
    change of them since the last mixing counts as this rank's step, so weights may be clipped. With torch.amp.GradScaler
    all ranks must skip the same steps.

    Errors: ConfigError here; NumericError, CommError and WireError in optimizer.step() on every rank that waits for the
    one that failed, with rank and step; the module cannot be used then. `sotto.state_dict(model)`,
    `sotto.load_state_dict(model, state)` and `sotto.stats(model)` work as for a compressed module; `model.state_dict()`
    is the module's own.
    """

    _instead = "copy model.module, and save its state_dict(), and sotto.state_dict() of this wrapper"

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
        encrypt: bool = True,
        interface: str | None = None,
    ) -> None:
        super().__init__()
        self._steps = Steps(
            "sotto.GossipDataParallel", self, module, optimizer, algorithm, on_graphs=True, codec=codec, topology=topology,
            peers_per_step=peers_per_step, mixing=mixing, node_size=node_size, process_group=process_group, seed=seed,
            bucket_mb=2048,  # one bucket: there is no computing that single buckets could overlap with
            threads=threads, timeout=timeout, encrypt=encrypt, interface=interface)
        self.module = module
        node = self._steps.node_group()
        self.__dict__["_node"] = None  # no submodule: the module is one already
        if node is not None:
            self.__dict__["_node"] = AllReduceDataParallel(
                module, process_group=node, threads=threads, timeout=timeout, encrypt=encrypt, interface=interface)
            remember_within_node(self, self._node._hook)

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        if torch.is_grad_enabled() and self._node is not None:
            self._node._require_sound()
        if self.training and torch.is_grad_enabled():
            self._steps.before_forward()
        return self.module(*inputs, **keywords)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Backward passes within it add up gradients; the first one after it averages the sums over the ranks of a node."""
        return contextlib.nullcontext() if self._node is None else self._node.no_sync()

    def steps(self) -> list[int]:
        """The number of steps of each rank. With ad_psgd, as far as this rank has heard; exact after a meeting."""
        return self._steps.stepper.steps()
