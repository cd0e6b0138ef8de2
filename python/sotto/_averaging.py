"""Connects the averaging of a module's gradients with DDP or with a wrapper of our own."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import torch

from sotto import _check
from sotto._gradients import AveragerOptions
from sotto._hook import Hook, HookOptions, gradient_type
from sotto._library import facts
from sotto._meeting import Meeting
from sotto._modules import scaler, tied_to
from sotto._rules import Options, doubts_about, lanes_of, outside, said_by


def averaging(reducer: Any, place: Meeting, module: torch.nn.Module, parameters: list[tuple[str, torch.Tensor]],
              problem: Callable[[], str], required_same: list[tuple[str, str]], options: Options,
              grad_scaler: torch.amp.GradScaler | None, check_replicas: int) -> Callable[[], Hook]:
    """Checks the options. The result connects the ranks, and registers the hook with DDP's reducer, if any.

    problem: says in each backward why it must not continue, or nothing. There torch.compile changes nothing.
    """
    names, shapes = [name for name, _ in parameters], [p.shape for _, p in parameters]
    propagates = options.propagates()
    lanes = lanes_of(names, options, lambda pattern: tied_to(module, pattern, names))
    scale = scaler(grad_scaler)
    of_optimisers = filter(None, (_about_the_optimiser(option, expression) for option, expression, _ in said_by(lanes)))
    for doubt in dict.fromkeys([*of_optimisers, *doubts_about(lanes, shapes)]):
        warnings.warn(doubt, stacklevel=outside())
    for name, parameter in parameters:
        gradient_type(name, parameter)
    compared = _check.whole("check_replicas", check_replicas)
    same = [("check_replicas", str(compared)), ("scaler", "none" if scale is None else "one"), ("nonfinite", "propagate" if propagates or scale is not None else "raise")]
    of_averager = AveragerOptions(
        lanes=lanes, required_same=[*same, *required_same], seed=_check.whole("seed", options.seed),
        bucket_bytes=_check.bucket_bytes(options.bucket_mb), propagate=propagates or scale is not None,
        threads=_check.threads(options.threads))
    of_hook = HookOptions(check_replicas=compared, scale=scale, advice=_advice, problem=problem)
    network = options.network()

    def connect() -> Hook:
        hook = Hook(place.connect(*network), parameters, of_averager, of_hook)
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


def _advice() -> str:
    """Advice that follows an error about a gradient that is not finite."""
    kinds = (type(one) for one in gc.get_objects())  # finds every scaler: the collector tracks all objects of such classes
    if not any(issubclass(kind, torch.amp.GradScaler) for kind in kinds):
        return ""
    return "; with a GradScaler say scaler=, so that this step is skipped"
