"""Connects the averaging of a module's gradients with DDP or with a wrapper of our own."""

from __future__ import annotations

import fnmatch
import gc
import sys
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch

from sotto import _check
from sotto._errors import ConfigError
from sotto._hook import Hook, HookOptions, Lane, gradient_type
from sotto._library import facts
from sotto._meeting import Meeting


@dataclass(frozen=True)
class Options:
    """The arguments that sotto.compress and AllReduceDataParallel share, as the user gave them. averaging() checks them."""

    codec: str | None
    schedule: Sequence[tuple[int, str]] | None
    start_after: int
    rules: Mapping[str, str] | None
    aggregator: str
    seed: int
    bucket_mb: float
    nonfinite: str
    scaler: torch.amp.GradScaler | None
    check_replicas: int
    threads: int
    timeout: float | timedelta | None
    encrypt: bool
    interface: str | None


def averaging(reducer: Any, place: Meeting, module: torch.nn.Module, parameters: list[tuple[str, torch.Tensor]],
              problem: Callable[[], str], required_same: list[tuple[str, str]], options: Options) -> Callable[[], Hook]:
    """Checks the options. The result connects the ranks, and registers the hook with DDP's reducer, if any.

    problem: says in each backward why it must not continue, or nothing. There torch.compile changes nothing.
    """
    if options.nonfinite not in ("raise", "propagate"):
        raise ConfigError(f"nonfinite={options.nonfinite!r}: one of raise, propagate")
    lanes = _lanes(module, [name for name, _ in parameters], _phases(options), options)
    scale = _check.scaler(options.scaler)
    said = [(option, expression, members) for option, members, phases in lanes
            for _, expression, _ in (phases if option == "schedule" else phases[-1:])]  # without what start_after begins with
    doubts = [_about_the_optimiser(option, expression) for option, expression, _ in said]
    doubts += _about_other_momenta([(option, expression) for option, expression, _ in said])
    doubts += [facts(option, expression, shapes=[parameters[i][1].shape for i in members])["warning"]
               for option, expression, members in said]
    for doubt in dict.fromkeys(filter(None, doubts)):
        warnings.warn(doubt, stacklevel=outside())
    for name, parameter in parameters:
        gradient_type(name, parameter)
    of_hook = HookOptions(
        lanes=lanes, required_same=required_same, seed=_check.whole("seed", options.seed),
        bucket_bytes=_check.bucket_bytes(options.bucket_mb), propagate=options.nonfinite == "propagate" or scale is not None,
        threads=_check.threads(options.threads), check_replicas=_check.whole("check_replicas", options.check_replicas), scale=scale,
        advice=_advice, problem=problem)
    network = _check.seconds(options.timeout), *_check.network(options.encrypt, options.interface)

    def connect() -> Hook:
        hook = Hook(place.connect(*network), parameters, of_hook)
        if reducer is not None:
            hook.attach(reducer)
        return hook

    return connect


# Instead of an optimiser of `sotto train`.
_IN_TORCH = {
    "dgc": "take sotto.optim.DGCSGD, or torch.optim.SGD(momentum=0, weight_decay=0)",
    "sgd(momentum=0)": "take torch.optim.SGD(momentum=0)",
    "signum(momentum=0)": "take torch.optim.SGD(momentum=0), at a rate near Adam's",
    "sign": "take torch.optim.SGD(momentum=0), at a rate near Adam's, and p.grad.sign_() before its step",
    "signum": "what is exchanged here are signs of gradients, not of momenta; take the preset signsgd and "
              "torch.optim.SGD(momentum=0)",
    "onebit-adam": "what is exchanged here are gradients, not momenta, and no optimiser of torch makes Adam of them; take "
                   "`int8` and torch.optim.Adam, or the preset efsignsgd and torch.optim.SGD",
}


def _about_the_optimiser(option: str, expression: str) -> str:
    """A warning about what the codec wants of the user's optimiser; empty if it wants nothing."""
    about = facts(option, expression)
    if optimiser := about["optimiser"]:
        return (f"{expression} is tied to the optimiser {optimiser} of `sotto train`, and here the optimiser is yours: "
                f"{_IN_TORCH[optimiser]}")
    if made := about["momentum"]:
        return (f"{expression}: `{made}` makes the momentum, and here the optimiser is yours: it must make none, as "
                "sotto.optim.DGCSGD or torch.optim.SGD(momentum=0)")
    return ""


def _about_other_momenta(said: list[tuple[str, str]]) -> list[str]:
    """Warnings about codecs that leave momentum to the optimiser, if for another one the optimiser must have none."""
    about = [(option, expression, facts(option, expression)) for option, expression in said]
    maker = next(((expression, known) for _, expression, known in about if known["momentum"]), None)
    if maker is None:
        return []
    memory = maker[1]["memory"] or "momentum"
    return [f"{option}={expression!r} makes no momentum, and {maker[0]!r} wants an optimiser without: write "
            f"{memory + ' | ' + known['without memory']!r}, or let the optimiser make it for these parameters alone"
            for option, expression, known in about if not known["momentum"]]


def trains_others(module: torch.nn.Module, own: Collection[int]) -> Callable[[], str]:
    """A function that says what is wrong if the module trains a parameter that is none of these, by id. It does not keep the module."""
    reference = weakref.ref(module)

    def problem() -> str:
        there = reference()
        return "" if there is None else _check.other_parameter(there, own)

    return problem


def _advice() -> str:
    """Advice that follows an error about a gradient that is not finite."""
    kinds = (type(one) for one in gc.get_objects())  # finds every scaler: the collector tracks all objects of such classes
    if not any(issubclass(kind, torch.amp.GradScaler) for kind in kinds):
        return ""
    return "; with a GradScaler say scaler=, so that this step is skipped"


def outside() -> int:
    """For the calling function: the stacklevel of the first caller outside this package and torch."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("sotto", "torch"):
        level, frame = level + 1, frame.f_back
    return level


def trained_parameters(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Names and parameters whose gradients are to be averaged: those that are not frozen."""
    return averaged_parameters(module, lambda p: p.requires_grad)


def refuse_sparse_gradients(module: torch.nn.Module) -> None:
    for name, part in module.named_modules():
        if getattr(part, "sparse", False) and isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            raise ConfigError(f"{name or 'the module'} makes sparse gradients, which cannot be compressed; give it sparse=False")


def averaged_parameters(module: torch.nn.Module,
                        wanted: Callable[[torch.nn.Parameter], bool]) -> list[tuple[str, torch.Tensor]]:
    """Names and parameters that are wanted. ConfigError if their gradients cannot be averaged."""
    refuse_sparse_gradients(_check.plain_module(module))
    parameters: list[tuple[str, torch.Tensor]] = [(name, p) for name, p in module.named_parameters() if wanted(p)]
    devices = sorted({str(p.device) for _, p in parameters})
    if len(devices) > 1:
        raise ConfigError(f"the parameters are on {', '.join(devices)}; all must be on one device")
    return parameters


def _phases(options: Options) -> list[tuple[int, str, str]]:
    codec, schedule = options.codec, options.schedule
    start_after, aggregator = _check.whole("start_after", options.start_after), _check.aggregator(options.aggregator)
    if (codec is None) == (schedule is None):
        raise ConfigError("give either a codec or a schedule")
    if codec is not None:
        known = facts("codec", _check.codec("codec", codec), aggregator)
        dense = (0, known["dense codec"], known["dense aggregator"])
        return [*([dense] if start_after > 0 else []), (start_after, codec, aggregator)]
    if start_after > 0:
        raise ConfigError("start_after goes with a codec; in a schedule, begin with (0, \"none\")")
    try:
        phases = [(step, expression, aggregator) for step, expression in schedule or ()]
        if not all(type(step) is int and step < 1 << 63 and isinstance(expression, str) and expression.strip()
                   for step, expression, _ in phases):
            raise TypeError
    except (TypeError, ValueError):
        raise ConfigError(f"schedule={schedule!r}: wants pairs (first step, codec), the step a whole number") from None
    steps = [step for step, _, _ in phases]
    if not steps or steps[0] != 0 or any(b <= a for a, b in zip(steps, steps[1:])):
        raise ConfigError(f"schedule={schedule!r}: the first phase begins at step 0, each other later than the one before")
    return phases


def _lanes(module: torch.nn.Module, names: list[str], phases: list[tuple[int, str, str]],
           options: Options) -> list[Lane]:
    rules = _check.codecs({} if options.rules is None else options.rules)
    patterns = list(rules)
    members: list[list[int]] = [[] for _ in range(len(patterns) + 1)]
    for index, name in enumerate(names):
        rule = next((i for i, pattern in enumerate(patterns) if fnmatch.fnmatchcase(name, pattern)), len(patterns))
        members[rule].append(index)
    for pattern, found in zip(patterns, members):
        if not found:
            raise ConfigError(f"rules: {pattern!r} applies to no parameter; " + (
                _tied(module, pattern, names) or f"there are {', '.join(names[:8])}, ..."))
    if not members[-1]:
        raise ConfigError("rules apply to all parameters, so that none is left for the codec")
    lanes: list[Lane] = [(f"rules[{pattern!r}]", found, [(0, rules[pattern], "auto")]) for pattern, found in zip(patterns, members)]
    return [*lanes, ("schedule" if options.codec is None else "codec", members[-1], phases)]


def _tied(module: torch.nn.Module, pattern: str, names: list[str]) -> str:
    """Explains a pattern that matches only further names of shared parameters, which go by their first name."""
    first = {id(parameter): name for name, parameter in module.named_parameters()}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        twin = first[id(parameter)]
        if twin in names and fnmatch.fnmatchcase(name, pattern):
            return f"{name} is tied to {twin}, whose name counts"
    return ""
