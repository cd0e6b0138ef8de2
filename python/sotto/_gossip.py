"""Gossip: ranks mix their models with their neighbours' models."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from ctypes import byref, c_double, c_int64
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sotto import _check
from sotto import _library as c
from sotto._all_reduce import AllReduceDataParallel
from sotto._errors import ConfigError
from sotto._library import library
from sotto._meeting import group_of, meeting
from sotto._state import remember_within_node
from sotto._steps import MixesModels, Steps
from sotto._tensors import codec_type, is_dense
from sotto._topology import Topology, expression_of


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


class Gossiper:
    """Averages tensors with neighbours, round by round. A rank waits only for its neighbours.

        gossiper = sotto.Gossiper(topology="ring")
        gossiper.average(tensor, rounds=4)  # in place: nearer to the mean of all ranks with every round

    Every rank makes one with the same arguments, and calls it in the same order with tensors of the same shape. It has
    its own connections. The sender keeps what a codec ("f16", "bf16") rounds off, so the sum over ranks does not change.
    One thread at a time. An argument that is refused is a ConfigError before anything was sent: the rank may call again, and
    the others wait for it. After any other error the object cannot be used.
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
        encrypt: bool = True,
        interface: str | None = None,
    ) -> None:
        with meeting(group_of("sotto.Gossiper", process_group)) as place:
            arguments = (c.text(expression_of(topology)), c.text(_check.text("mixing", mixing, 'a name, such as "uniform"')),
                         c.text(_check.codec("codec", codec)), _check.whole("seed", seed), _check.threads(threads))
            network = _check.seconds(timeout), *_check.network(encrypt, interface)
            assert place is not None
            self._group = place.connect(*network)
            self._gossiper = c.Handle("gossiper", library.gossiper_create, self._group.value, *arguments)

    @property
    def rounds(self) -> int:
        """The number of rounds so far, on which a topology that changes from round to round depends."""
        return library.gossiper_round(self._gossiper.value)

    @property
    def exact_after(self) -> int | None:
        """After this number of rounds, from the first one on, average() gives the exact mean; None: it only comes nearer."""
        rounds = c_int64()
        library.gossiper_exact_after(self._gossiper.value, byref(rounds))
        return rounds.value if rounds.value >= 0 else None

    def mix(self, tensor: torch.Tensor, weight: float = 1.0) -> float:
        """One round, in place, of a tensor of float32, float16 or bfloat16; returns its new weight.

        tensor / weight approaches the mean of all ranks on any connected topology (push-sum). The sums over ranks of both
        do not change, and the weight stays 1 if each rank receives as much as it gives.
        """
        if not isinstance(weight, (int, float)) or isinstance(weight, bool):
            raise ConfigError(f"weight={weight!r}: wants a number above 0")
        codec_type(_check.tensor(tensor))
        if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
            raise ConfigError("several elements of the tensor are one place in memory, where a mean cannot be written; clone it")
        values = tensor.detach()
        own_memory = values.device.type == "cpu" and values.dtype == torch.float32 and not values.is_neg() and is_dense(values)
        if not own_memory:
            values = values.to("cpu", torch.float32, copy=True).contiguous().resolve_neg()
        # Tensors with the same text have the same element at each place in memory.
        form = " ".join(f"{size}:{stride if size > 1 else 0}" for size, stride in zip(values.shape, values.stride()))
        mixed = c_double(weight)
        library.gossiper_mix(self._gossiper.value, values.data_ptr(), values.numel(), c.text(form), byref(mixed))
        if not own_memory:
            tensor.detach().copy_(values)
        return mixed.value

    def average(self, tensor: torch.Tensor, rounds: int = 1) -> torch.Tensor:
        """Runs `rounds` rounds, divides the tensor by its weight, in place, and returns it."""
        weight = 1.0
        for _ in range(_check.whole("rounds", rounds)):
            weight = self.mix(tensor, weight)
        if weight != 1.0:
            with torch.no_grad():
                tensor.div_(weight)
        return tensor
