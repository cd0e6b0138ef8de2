"""Compressed gradients for DistributedDataParallel."""

from __future__ import annotations

import contextlib
import fnmatch
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from sotto import _C, _check
from sotto._errors import ConfigError, FileError

FORMAT = 1

_hooks: weakref.WeakKeyDictionary[DistributedDataParallel, _C.Hook] = weakref.WeakKeyDictionary()


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
    check_replicas: int = 0,
    threads: int = 1,
    timeout: float | timedelta | None = None,
) -> DistributedDataParallel:
    """From now on `ddp` averages its gradients compressed; returns `ddp`.

    Collective: every rank calls it, with the same arguments, before the first backward. Nothing else changes: the
    averaging runs beside backward, on a thread of its own, and no Python runs for it.

    codec: a sentence ("ef | topk(0.01) | qsgd(4)") or a preset ("topk"). The optimiser is yours, and a warning says so of
        presets that are tied to one. dgc, fetchsgd and signsgd are whole with torch.optim.SGD(momentum=0), signsgd at a rate
        near Adam's; demo too, once the gradients' signs have taken their place (p.grad.sign_() after backward). signum
        and onebit-adam exchange momenta, which a hook does not see: here they are the codec alone, signs of gradients.
    schedule: in place of `codec`, what to use from which step on: ``[(0, "none"), (100, "ef | topk(0.1)"), (500, "ef |
        topk(0.01)")]``. Memories go over into the next phase; one that would drop what a memory holds is refused.
    start_after: so many steps without the codec first; a memory that makes the momentum makes it in them, too.
    rules: other sentences for some parameters, by name, with wildcards: ``{"*.bias": "none"}``. The first pattern that
        matches counts; one that matches nothing is an error. Schedule and start_after do not apply to them.
    aggregator: how the mean is made of messages: "auto", "all_reduce", "gather", "hierarchical(outer=gather, group=4)",
        ...; not for `rules`.
    seed: of stochastic codecs.
    bucket_mb: what is exchanged at a time; at least one parameter, in float32. Not DDP's buckets, which only carry
        gradients to and fro.
    nonfinite: "raise": NaN or infinity in a gradient is a NumericError that names the parameter. "propagate": it becomes
        NaN on every rank, as in DDP, and changes no memory: for torch.amp.GradScaler.
    check_replicas: every so many steps compare the parameters of all ranks by hash; NumericError when they differ.
    threads: that encode and decode on this rank; no bit depends on them.
    timeout: of each exchange, and for all ranks to come here (30 minutes).

    Messages go over Gloo connections of their own between the ranks of ddp.process_group, made through its store and on its
    network devices; for MPI, which has no store, over a new group. Inputs may be uneven: `with ddp.join():` works, and a
    rank that has ended adds zeros to the mean of all (divide_by_initial_world_size=False changes nothing) and goes on
    sending what its memory holds. Its parameters are old until all have ended, so check_replicas does not go with it.

    Errors: ConfigError here; NumericError, CommError and WireError in backward(), on every rank, naming who and which
    step. After such an error the module cannot go on. What one rank refuses here is a CommError on the others, which names
    it; then all may call again. One that was given no DistributedDataParallel module tells it to the default group alone:
    ranks that call with another group wait for it until the timeout.
    """
    with _meeting(ddp) as (group, meeting):
        if not isinstance(ddp, DistributedDataParallel):
            raise ConfigError(f"sotto.compress wants a DistributedDataParallel module, not {type(ddp).__name__}")
        if ddp in _hooks:
            raise ConfigError("this module is compressed already")
        if getattr(ddp, "_comm_hooks", None):
            raise ConfigError("this module has a communication hook already; DDP takes one only")
        if nonfinite not in ("raise", "propagate"):
            raise ConfigError(f"nonfinite={nonfinite!r}: one of raise, propagate")
        bucket_bytes = max(4, int(_check.number("bucket_mb", bucket_mb, 0, 2048) * (1 << 20)))
        parameters = _parameters(ddp)
        phases = _phases(codec, schedule, _check.whole("start_after", start_after), _check.aggregator(aggregator))
        lanes = _lanes([name for name, _ in parameters], phases, _check.sentences({} if rules is None else rules))
        for sentence in dict.fromkeys(sentence for _, phases in lanes for _, sentence, _ in phases):
            if optimiser := _C.tied_optimiser(sentence):
                warnings.warn(f"{sentence} is tied to the optimiser {optimiser} of `sotto train`, and here the optimiser is "
                              "yours: help(sotto.compress) says what it must be", stacklevel=2)
        _hooks[ddp] = _C.attach(
            ddp.reducer, group, meeting, parameters, lanes, _check.whole("seed", seed), bucket_bytes,
            nonfinite == "propagate", _check.whole("check_replicas", check_replicas), _check.threads(threads),
            _check.seconds(timeout))
    return ddp


@contextlib.contextmanager
def _meeting(ddp: DistributedDataParallel) -> Iterator[tuple[dist.ProcessGroup | None, _C.Meeting | None]]:
    """The group whose ranks are to be connected, and where they meet for that, if not in a group of their own.

    Before any check, so that all ranks make their meetings in the same order; what one of them raises within ends the
    wait of the others.
    """
    group = ddp.process_group if isinstance(ddp, DistributedDataParallel) else dist.group.WORLD
    meeting = None
    if group is not None and dist.get_backend(group) == "mpi":
        group = dist.new_group(dist.get_process_group_ranks(group), backend="mpi")
    elif group is not None:
        meeting = _C.Meeting(group)
    try:
        yield group, meeting
    except Exception as error:
        if meeting is not None:
            meeting.give_up(str(error))
        raise


def _parameters(ddp: DistributedDataParallel) -> list[tuple[str, torch.Tensor]]:
    ignored = set(getattr(ddp, "parameters_to_ignore", ()))
    for name, module in ddp.module.named_modules():
        if getattr(module, "sparse", False) and isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            raise ConfigError(f"{name or 'the module'} makes sparse gradients, which cannot be compressed; give it sparse=False")
    parameters = [(name, p) for name, p in ddp.module.named_parameters() if p.requires_grad and name not in ignored]
    devices = sorted({str(p.device) for _, p in parameters})
    if len(devices) > 1:
        raise ConfigError(f"the parameters are on {', '.join(devices)}; all must be on one device")
    return parameters


def _phases(codec: str | None, schedule: Sequence[tuple[int, str]] | None, start_after: int,
            aggregator: str) -> list[tuple[int, str, str]]:
    if (codec is None) == (schedule is None):
        raise ConfigError("give either a codec or a schedule")
    if codec is not None:
        dense = (0, _C.without_codec(_check.sentence("codec", codec)), _C.dense_aggregator(aggregator))
        return [*([dense] if start_after > 0 else []), (start_after, _check.sentence("codec", codec), aggregator)]
    if start_after > 0:
        raise ConfigError("start_after goes with a codec; in a schedule, begin with (0, \"none\")")
    try:
        phases = [(step, sentence, aggregator) for step, sentence in schedule or ()]
        if not all(type(step) is int and step < 1 << 63 and isinstance(sentence, str) for step, sentence, _ in phases):
            raise TypeError
    except (TypeError, ValueError):
        raise ConfigError(f"schedule={schedule!r}: wants pairs (first step, sentence), the step a whole number") from None
    steps = [step for step, _, _ in phases]
    if not steps or steps[0] != 0 or any(b <= a for a, b in zip(steps, steps[1:])):
        raise ConfigError(f"schedule={schedule!r}: the first phase begins at step 0, each other later than the one before")
    return phases


def _lanes(names: list[str], phases: list[tuple[int, str, str]],
           rules: Mapping[str, str]) -> list[tuple[list[int], list[tuple[int, str, str]]]]:
    patterns = list(rules)
    members: list[list[int]] = [[] for _ in range(len(patterns) + 1)]
    for index, name in enumerate(names):
        rule = next((i for i, pattern in enumerate(patterns) if fnmatch.fnmatchcase(name, pattern)), len(patterns))
        members[rule].append(index)
    for pattern, found in zip(patterns, members):
        if not found:
            raise ConfigError(f"rules: {pattern!r} applies to no parameter; there are {', '.join(names[:8])}, ...")
    if not members[-1]:
        raise ConfigError("rules apply to all parameters, so that none is left for the codec")
    lanes = [(found, [(0, rules[pattern], "auto")]) for pattern, found in zip(patterns, members)]
    return [*lanes, (members[-1], phases)]


def _hook(ddp: DistributedDataParallel) -> _C.Hook:
    hook = _hooks.get(ddp) if isinstance(ddp, DistributedDataParallel) else None
    if hook is None:
        raise ConfigError("this module is not compressed; call sotto.compress first")
    return hook


@dataclass(frozen=True)
class Stats:
    """What a compressed module has done since compress(), on this rank."""

    steps: int
    """Averaged gradients."""
    bytes_sent: int
    """Handed to the transport, all headers included."""
    bytes_received: int
    dense_bytes: int
    """What a ring all-reduce of the gradients in their own type would have sent."""
    encode_seconds: float
    wire_seconds: float
    """Network, and waiting for slower ranks."""
    decode_seconds: float
    methods: str
    """The sentences and aggregators in use, a line for each rule and one for the rest."""

    @property
    def ratio(self) -> float:
        """dense_bytes / bytes_sent; 1 when nothing had to be sent."""
        return self.dense_bytes / self.bytes_sent if self.bytes_sent else 1.0


def stats(ddp: DistributedDataParallel) -> Stats:
    """What was sent, and what it took. Not during a backward."""
    return Stats(**_hook(ddp).stats())


def state_dict(ddp: DistributedDataParallel) -> dict[str, Any]:
    """What the compression of this rank remembers: memories and codec state, as tensors and plain values.

    For a checkpoint beside the state of model and optimiser, one for each rank: what was not sent yet is different on
    each. Loads with torch.load(..., weights_only=True). Not during a backward.
    """
    hook = _hook(ddp)
    return {"sotto": FORMAT, "identity": hook.identity(), "rank": hook.rank(), "ranks": hook.ranks(),
            "step": hook.step(), "values": hook.state()}


def load_state_dict(ddp: DistributedDataParallel, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Goes on from a state_dict(), bit by bit as if there had been no interruption.

    It must be this rank's of a job with the same parameters, codecs, seed and number of ranks; ConfigError says what
    differs. To go on with another number of ranks, give the states of all ranks of the old job, as a list, to every rank
    of the new one: each memory becomes the mean of the old ones, with what owners in scatter_reduce held back of the second
    encoding, so that what the ranks together still owe to the mean gradient is unchanged. All else begins anew: warm
    starts, and choices of "auto". Memories of "hierarchical" are of shards, and cannot be spread so.

    Every rank calls it, between the same steps, with the state of the same step: where they do not, the next backward is a
    CommError on all. A state that is refused changes nothing.
    """
    hook = _hook(ddp)
    if isinstance(state, Mapping):
        _check_state(hook, state)
        if state["ranks"] != hook.ranks():
            raise ConfigError(
                f"the state is that of one of {state['ranks']} ranks, and there are {hook.ranks()} now; to spread what "
                "the memories hold over them, give a list of the states of all old ranks")
        if state["rank"] != hook.rank():
            raise ConfigError(f"the state is that of rank {state['rank']}, and this is rank {hook.rank()}")
        hook.load(state["step"], dict(state["values"]))
        return
    if not isinstance(state, Sequence):
        raise FileError(f"wanted is the result of sotto.state_dict, or a list of them; not {type(state).__name__}")
    for one in state:
        _check_state(hook, one)
    states = sorted(state, key=lambda one: one["rank"])
    said = [(one["rank"], one["ranks"], one["step"]) for one in states]
    if not states or said != [(rank, len(states), states[0]["step"]) for rank in range(len(states))]:
        raise ConfigError(f"these are the states of ranks {[rank for rank, _, _ in said]}; wanted are those of all ranks of "
                          "a job, of one step")
    if len(states) == hook.ranks():
        hook.load(states[0]["step"], dict(states[hook.rank()]["values"]))
    else:
        hook.spread(states[0]["step"], [dict(one["values"]) for one in states])


def _check_state(hook: _C.Hook, state: Mapping[str, Any]) -> None:
    wanted = {"sotto": int, "identity": str, "rank": int, "ranks": int, "step": int, "values": Mapping}
    if (not isinstance(state, Mapping)
            or any(not isinstance(state.get(key), kind) or isinstance(state[key], bool) for key, kind in wanted.items())
            or not all(isinstance(name, str) for name in state["values"]) or not 0 <= state["step"] < 1 << 32):
        raise FileError("this is not the result of sotto.state_dict, or it was damaged")
    if state["sotto"] != FORMAT:
        raise FileError(f"the state is of format {state['sotto']}; this version reads {FORMAT}")
    if state["identity"] != hook.identity():
        lines = zip(state["identity"].splitlines() + [""], hook.identity().splitlines() + [""])
        old, new = next(((a, b) for a, b in lines if a != b), ("", ""))
        raise ConfigError(f"the state belongs to another compression: `{old.strip()}` there, `{new.strip()}` here")
