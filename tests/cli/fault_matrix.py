"""The table of faults: what happens to which rank, when, in which method. test_faults.py runs the cases."""

import dataclasses
import itertools

GATHER = ["--codec", "ef | topk(0.1)", "--aggregator", "gather"]
RING = ["--topology", "ring"]


@dataclasses.dataclass(frozen=True)
class Method:
    flags: list
    same_bits: bool = True  # two runs end with the same parameters
    elastic: bool = False  # takes --elastic


METHODS = {
    "all_reduce": Method(["--aggregator", "all_reduce"], elastic=True),
    "gather": Method(GATHER, elastic=True),
    "scatter_reduce": Method([*GATHER[:3], "scatter_reduce"], elastic=True),
    "power": Method(["--codec", "ef | power(1)"], elastic=True),
    "push_sum": Method(["--algorithm", "push_sum"], elastic=True),
    "overlap": Method(["--algorithm", "push_sum(overlap=true)"], elastic=True),
    "choco": Method(["--algorithm", "choco", *RING], elastic=True),
    "d_psgd": Method(["--algorithm", "d_psgd", *RING], elastic=True),
    "ad_psgd": Method(["--algorithm", "ad_psgd", "--topology", "star"], same_bits=False, elastic=True),
    "server": Method(["--algorithm", "parameter_server"], elastic=True),
    "server_async": Method(["--algorithm", "parameter_server(mode=async)"], same_bits=False, elastic=True),
    "local": Method(["--algorithm", "local(h=4)"], elastic=True),
    "diloco": Method(["--algorithm", "diloco(h=4)"], elastic=True),
    "gloo": Method(["--backend", "gloo"], elastic=True),
    "secret": Method(["--secret", "secret"], elastic=True),
}

RANKS = 3
VICTIMS = [2, 0]
MOMENTS = ["exchange", "backward", "checkpoint"]

# "kill": SIGKILL. "stop": SIGSTOP for ever. "pause": SIGSTOP for 3 s, which is less than the deadline.
# "cut", "cut_for_3_s": the network cable of the rank. "launcher": SIGKILL for `sotto train`, which started the ranks.
FATAL = ["kill", "stop", "cut", "launcher"]
HARMLESS = ["pause", "cut_for_3_s"]


@dataclasses.dataclass(frozen=True)
class Case:
    method: str
    fault: str
    victim: int
    moment: str
    elastic: bool = False

    def __str__(self):
        return "-".join([*(["elastic"] if self.elastic else []), self.method, self.fault, str(self.victim), self.moment])


def plain(method, turn):
    """The cases of a method. Where not all moments are tried, they take turns from method to method."""
    moment = itertools.cycle(MOMENTS[turn:] + MOMENTS[:turn])
    yield from (Case(method, "kill", victim, m) for victim in VICTIMS for m in MOMENTS)
    yield from (Case(method, "launcher", 0, m) for m in MOMENTS)
    for fault in ("stop", "cut"):
        yield from (Case(method, fault, victim, next(moment)) for victim in VICTIMS)
    for i, fault in enumerate(HARMLESS):
        yield Case(method, fault, VICTIMS[(turn + i) % 2], next(moment))


def elastic(method, turn):
    moment = itertools.cycle(MOMENTS[turn:] + MOMENTS[:turn])
    for fault in ("kill", "stop"):
        yield from (Case(method, fault, victim, next(moment), elastic=True) for victim in VICTIMS)
    yield Case(method, "pause", VICTIMS[turn % 2], next(moment), elastic=True)
    yield Case(method, "launcher", 0, next(moment), elastic=True)


def all_cases():
    """Those of SAMPLE first."""
    return SAMPLE + [case for case in cases() if case not in SAMPLE]


def cases():
    for i, (name, method) in enumerate(METHODS.items()):
        yield from plain(name, i % len(MOMENTS))
        if method.elastic:
            yield from elastic(name, i % len(MOMENTS))


# What ./dev test runs: each fault and each moment.
SAMPLE = [
    Case("gather", "kill", 2, "checkpoint"),
    Case("push_sum", "kill", 0, "exchange"),
    Case("choco", "stop", 2, "backward"),
    Case("scatter_reduce", "cut", 2, "exchange"),
    Case("all_reduce", "cut_for_3_s", 2, "exchange"),
    Case("secret", "cut_for_3_s", 2, "exchange"),
    Case("server", "pause", 0, "exchange"),
    Case("diloco", "launcher", 0, "checkpoint"),
    Case("local", "kill", 0, "backward", elastic=True),
    Case("push_sum", "kill", 2, "exchange", elastic=True),
]
