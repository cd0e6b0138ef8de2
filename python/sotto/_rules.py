"""Which codec each parameter has, and from which step on."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sotto import _check
from sotto._errors import ConfigError
from sotto._library import facts

Lane = tuple[str, list[int], list[tuple[int, str, str]]]  # argument, parameters, (first step, codec, aggregator)


@dataclass(frozen=True)
class Options:
    """The arguments that all who average gradients share, as the user gave them."""

    codec: str | None
    schedule: Sequence[tuple[int, str]] | None
    start_after: int
    rules: Mapping[str, str] | None
    aggregator: str
    seed: int
    bucket_mb: float
    nonfinite: str
    threads: int
    timeout: float | timedelta | None
    encrypt: bool
    interface: str | None

    def propagates(self) -> bool:
        if self.nonfinite not in ("raise", "propagate"):
            raise ConfigError(f"nonfinite={self.nonfinite!r}: one of raise, propagate")
        return self.nonfinite == "propagate"

    def network(self) -> tuple[float, bool, str | None]:
        """The arguments of Meeting.connect()."""
        return _check.seconds(self.timeout), *_check.network(self.encrypt, self.interface)


def lanes_of(names: Sequence[str], options: Options, tied: Callable[[str], str] = lambda pattern: "") -> list[Lane]:
    """`tied` explains a pattern that matches none of the names, if it can."""
    phases = _phases(options)
    rules = _check.codecs({} if options.rules is None else options.rules)
    patterns = list(rules)
    members: list[list[int]] = [[] for _ in range(len(patterns) + 1)]
    for index, name in enumerate(names):
        rule = next((i for i, pattern in enumerate(patterns) if fnmatch.fnmatchcase(name, pattern)), len(patterns))
        members[rule].append(index)
    for pattern, found in zip(patterns, members):
        if not found:
            raise ConfigError(f"rules: {pattern!r} applies to no parameter; " + (
                tied(pattern) or f"there are {', '.join(names[:8])}, ..."))
    if not members[-1]:
        raise ConfigError("rules apply to all parameters, so that none is left for the codec")
    lanes: list[Lane] = [(f"rules[{pattern!r}]", found, [(0, rules[pattern], "auto")]) for pattern, found in zip(patterns, members)]
    return [*lanes, ("schedule" if options.codec is None else "codec", members[-1], phases)]


def said_by(lanes: Sequence[Lane]) -> list[tuple[str, str, list[int]]]:
    """Argument, codec and parameters, without what start_after begins with."""
    return [(option, expression, members) for option, members, phases in lanes
            for _, expression, _ in (phases if option == "schedule" else phases[-1:])]


def doubts_about(lanes: Sequence[Lane], shapes: Sequence[Sequence[int]]) -> list[str]:
    """What is probably a mistake."""
    said = said_by(lanes)
    doubts = _about_other_momenta([(option, expression) for option, expression, _ in said])
    doubts += [facts(option, expression, shapes=[shapes[i] for i in members])["warning"] for option, expression, members in said]
    return list(dict.fromkeys(filter(None, doubts)))


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


def outside() -> int:
    """For the calling function: the stacklevel of the first caller outside this package and torch."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("sotto", "torch"):
        level, frame = level + 1, frame.f_back
    return level
