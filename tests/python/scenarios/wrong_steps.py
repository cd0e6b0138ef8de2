"""Errors where each rank has its own model."""

import collections
import gc
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import optimizer as hooks

import sotto
from sotto._elastic_state import kept

from .net import batch, digest
from .refusals import Refusals
from .steps import learn, LR, network, Point, points, steps_straight, wrap


def step_dies(how, **options):
    """Rank 1 ends after the backward of step 2."""
    net, optimizer, owner, model = network(how, timeout=120, **options)
    learn(model, optimizer, 0, 2)
    if dist.get_rank() == 1:
        nn.functional.cross_entropy(model(batch(2)[0]), batch(2)[1]).backward()
        os._exit(1)
    learn(model, optimizer, 2, 4)


def step_fails(how, **options):
    """Rank 1's step leads to a NaN. The next step of each rank has the same error again, and statistics still work."""
    net, optimizer, owner, model = network(how, timeout=60, **options)
    learn(model, optimizer, 0, 2)
    if dist.get_rank() == 1:
        with torch.no_grad():
            net.out.bias[3] = float("nan")
    said = []
    for _ in range(2):
        try:
            learn(model, optimizer, 2, 4)
        except sotto.Error as error:
            said.append(f"{type(error).__name__}: {error}")
    return [*said, sotto.stats(owner).steps]


def bad_means(how, what, **options):
    """The errors of means when rank 1's model or a statistic of it is not finite. They change nothing, and after a repair all continue."""
    net, optimizer, owner, model = network(how, timeout=60, **options)
    learn(model, optimizer, 0, 2)
    bad = net.norm.running_var if what == "norm.running_var" else net.out.bias
    good = bad.detach().clone()
    if dist.get_rank() == 1:
        with torch.no_grad():
            bad[3] = float("inf")
    before, said = digest(net), []

    def show():
        with owner.average():
            pass

    for mean in owner.take_average, show:
        try:
            mean()
        except sotto.NumericError as error:
            said.append(str(error))
        assert digest(net) == before or how == "ad_psgd"  # whose models travel meanwhile
        assert dist.get_rank() == 1 or all(p.isfinite().all() for p in net.parameters())
    with torch.no_grad():
        bad.copy_(good)
    owner.take_average()
    learn(model, optimizer, 2, 1)
    owner.take_average()
    return [said, digest(net)]


def shape_changes():
    """Rank 1's parameter has another shape at its second step."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), LR)
    model = sotto.GossipDataParallel(module, "push_sum", timeout=60)
    model().backward()
    optimizer.step()
    if dist.get_rank() == 1:
        module.p.data = torch.zeros(3)
    optimizer.zero_grad()
    model().backward()
    optimizer.step()


def refused_by_one(what):
    """Rank 1 wraps something that cannot be wrapped; then all wrap again."""
    bad, said = dist.get_rank() == 1, ""
    module = Point(size=4 if bad and what == "model" else 5)
    options = {"codec": {"codec": "tokp"}, "seed": {"seed": 2}}.get(what, {}) if bad else {}
    if bad and what == "type":
        module.double()
    try:
        sotto.GossipDataParallel(module, **options, timeout=600)
    except sotto.Error as error:
        said = f"{type(error).__name__}: {error}"
    return [said, points("push_sum", 2)[-1] is not None]


def wrapped_twice():
    """The errors of a second wrapper of the same parameters, given the optimizer or not. Two modules may share an optimizer."""
    said, point = [], Point()
    optimizer = torch.optim.SGD(point.parameters(), LR)
    local = sotto.LocalSGD(point, optimizer)
    try:
        sotto.DiLoCo(point, optimizer)
    except sotto.ConfigError as error:
        said.append(str(error))
    unsaid = sotto.GossipDataParallel(point)
    try:
        optimizer.step()
    except sotto.ConfigError as error:
        said.append(str(error))
    del unsaid
    optimizer.step()
    points = [Point(), Point(3)]
    both = torch.optim.SGD([p for point in points for p in point.parameters()], LR)
    owners = [sotto.LocalSGD(point, both) for point in points]
    for _ in range(2):
        both.step()
    return [said, [local.stats().steps] * 2, [owner.stats().steps for owner in owners]]


def wrapped_anew():
    """The same module and optimizer are wrapped again after a wrapper has failed on all ranks. The first try is refused."""
    point = Point(3)
    optimizer = torch.optim.SGD(point.parameters(), LR)
    first = sotto.LocalSGD(point, optimizer, every=1, timeout=60)
    point.p.grad = torch.full((3,), float("nan"))
    failed = 0
    for use in optimizer.step, lambda: sotto.LocalSGD(point, optimizer, codec="nonsense("), optimizer.step:
        try:
            use()
        except sotto.Error:
            failed += 1
    with torch.no_grad():
        point.p.fill_(1.0)
    second = sotto.LocalSGD(point, optimizer, every=1)
    for _ in range(2):
        point.p.grad = torch.full((3,), 1.0 + dist.get_rank())
        optimizer.step()
    return [failed, second.stats().steps, point.p.tolist()]


def forward_after_a_failure():
    """What the steps and forwards of a wrapper say that has failed on all ranks, before and after another takes its place."""
    said, point = [], Point(3)
    optimizer = torch.optim.SGD(point.parameters(), LR)
    first, wrappers = sotto.GossipDataParallel(point, timeout=60), []
    point.p.grad = torch.full((3,), float("nan"))
    for use in optimizer.step, first, lambda: wrappers.append(sotto.GossipDataParallel(point)), first:
        try:
            use()
        except sotto.Error as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def dropped(how):
    """This rank's vector after a step with a wrapper that nobody holds; the steps of one in its place, and the number of hooks."""
    point = Point()
    optimizer = torch.optim.SGD(point.parameters(), LR)
    make = {"local": lambda: sotto.LocalSGD(point, optimizer, every=1),
            "gossip": lambda: sotto.GossipDataParallel(point, optimizer=optimizer)}[how]
    point.p.grad = torch.full((5,), 1.0 + dist.get_rank())
    make()
    optimizer.step()
    moved, held = point.p.tolist(), make()
    optimizer.step()
    return [moved, held.stats().steps, len(optimizer._optimizer_step_post_hooks)]


def collected_in_a_step(register):
    """A wrapper that nobody uses any more is collected while the hooks of another one's optimizer run."""
    gc.collect()
    gc.disable()
    unused = [sotto.GossipDataParallel(Point())]
    unused.append(unused)
    handle = getattr(hooks, register)(lambda *_: gc.collect() * 0 or None)
    try:
        module = Point()
        model = sotto.GossipDataParallel(module, timeout=60)
        optimizer = torch.optim.SGD(module.parameters(), LR)
        del unused
        model().backward()
        optimizer.step()
    finally:
        handle.remove()
        gc.enable()
    return model.stats().steps


def of_another_group():
    """What is said to somebody who keeps wrappers when their group has ended. Then the module is wrapped again."""
    said, makers = [], (sotto.LocalSGD, lambda point, _: sotto.GossipDataParallel(point), sotto.LocalSGD)
    point = Point()
    optimizer = torch.optim.SGD(point.parameters(), LR)
    point.p.grad = torch.zeros(5)
    for make in makers:
        wrapper = make(point, optimizer)
        optimizer.step()
        steps = wrapper.stats().steps
        wrapper._steps.give_up("the group has changed")
        for use in (optimizer.step, wrapper.take_average, *([wrapper] if isinstance(wrapper, nn.Module) else [])):
            try:
                use()
            except sotto.ConfigError as error:
                said.append(str(error))
    del wrapper, use
    optimizer.step()
    return [said, steps]


def uneven_commits(how):
    """Rank 1 has made more steps than the others at its last commit."""
    net, optimizer, owner, model = network(how, timeout=60)
    learn(model, optimizer, 0, 2)
    state = kept(owner._steps.stepper)
    state["step"] += 10 * dist.get_rank()
    anew = network(how, timeout=60)[2]._steps.stepper
    try:
        anew.rejoin(state["step"], (state["rank"], state["ranks"], state["values"]))
    except sotto.Error as error:
        return f"{type(error).__name__}: {error}"


def rejoins(how, new, **options):
    """This rank's vector, moved by hand after two steps, and the one after a rejoin: of a rank that was there, or of one that is
    new and has the vector of rank 0."""
    point = Point()
    optimizer = torch.optim.SGD(point.parameters(), LR)
    owner, model = wrap(point, how, optimizer, **options)
    for _ in range(2):
        optimizer.zero_grad()
        model().backward()
        optimizer.step()
    with torch.no_grad():
        point.p += 1 + dist.get_rank()
    before, state = point.p.tolist(), kept(owner._steps.stepper)
    if new:
        dist.broadcast(point.p.data, 0)
        state |= {"rank": -1, "values": {name: state["values"][name] for name in state["shared"]}}
    owner._steps.give_up("the group has changed")
    anew = wrap(point, how, optimizer, **options)[0]
    anew._steps.stepper.rejoin(state["step"], (state["rank"], state["ranks"], state["values"]))
    return before, point.p.tolist()


class Lazy(collections.UserDict):
    def __getitem__(self, name):
        raise OSError(f"{name} went away")


def loads_differently(what):
    """Ranks load different states. Returns the error of this rank, and whether training continues as if none had been loaded."""
    net, optimizer, owner, model = network("push_sum", timeout=600)
    states = []
    for step in range(2):
        learn(model, optimizer, step, 1)
        states.append(sotto.state_dict(owner))
    bad = dist.get_rank() == 1
    state = {"step": states[1 - bad], "other": {"a": 1} if bad else states[1],
             "rank": states[1] | ({"rank": 0} if bad else {}),
             "damaged": states[1] | ({"values": states[1]["values"] | {"push_sum.x": torch.zeros(3)}} if bad else {}),
             "no data": states[1] | (
                 {"values": states[1]["values"] | {"push_sum.x": torch.zeros(3, device="meta")}} if bad else {}),
             "lazy": states[1] | ({"values": Lazy(states[1]["values"])} if bad else {}),
             "kind": states[1] | ({"values": states[1]["values"] | {"push_sum.x": "x"}} if bad else {}),
             "identity": states[1] | ({"identity": states[1]["identity"].replace("seed 1", "seed 2")} if bad else {}),
             "ranks": states[1] | ({"ranks": 7} if bad else {})}[what]
    said = ""
    try:
        sotto.load_state_dict(owner, state)
    except Exception as error:  # any error
        said = f"{type(error).__name__}: {error}"
    learn(model, optimizer, 2, 2)  # nothing was changed
    end = digest(net)
    return [said, end == steps_straight("push_sum", 4)]


def step_errors():
    said = Refusals()
    expect = said.expect

    def gossip(*arguments, **options):
        return lambda: sotto.GossipDataParallel(Point(), *arguments, **options)

    point = Point()
    optimizer = torch.optim.SGD(point.parameters(), LR)
    expect("algorithm", gossip("push_smu"))
    expect("no gossip", gossip("sync"))
    expect("own speed", gossip("ad_psgd"))
    expect("algorithm type", gossip(3))
    expect("option", gossip("push_sum(synch_freq=2)"))
    expect("topology", gossip(topology="rign"))
    expect("topology type", gossip(topology=3))
    expect("topology of other ranks", gossip(topology=[[1], [0], [0], [0], [0]]))
    expect("topology's rank", gossip(topology=[["1"], [0]]))
    expect("topology's columns", gossip(topology=torch.tensor([[0.5, 0.5], [0.25, 0.5]])))
    expect("topology's shape", gossip(topology=torch.zeros(2, 3)))
    expect("peers", gossip(peers_per_step="0:1"))
    expect("peers too late", gossip(peers_per_step=[(1, 1)]))
    expect("too many peers", gossip(peers_per_step=[(0, 1), (5, 7)]))
    expect("fixed peers", gossip(topology="star", peers_per_step=[(0, 1)]))
    expect("peers and mixing", gossip(topology="ring", mixing="metropolis", peers_per_step=[(0, 1)]))
    expect("peers and topology", gossip(topology="rign", peers_per_step=[(0, 1)]))
    expect("peers of d_psgd", gossip("d_psgd", peers_per_step=[(0, 1)]))
    expect("node size", gossip(node_size=2))
    expect("nodes of hosts", gossip(node_size=0))
    expect("nodes of ad_psgd", gossip("ad_psgd", "star", node_size=3))
    expect("bipartite", gossip(topology="bipartite_exponential"))
    expect("mixing", gossip(mixing="unifrom"))
    expect("doubly", gossip("d_psgd", "star"))
    expect("codec", gossip(codec="qsgd(4)"))
    expect("choco", gossip("choco", "exponential(peers=1)", codec="topk(0.1)"))
    expect("memory", gossip("choco", "ring", codec="ef | topk(0.1)"))
    expect("double", lambda: sotto.GossipDataParallel(Point().double()))
    expect("half", lambda: sotto.GossipDataParallel(Point().bfloat16()))
    expect("frozen", lambda: sotto.GossipDataParallel(Point().requires_grad_(False)))
    expect("no module", lambda: sotto.GossipDataParallel(3))
    expect("group", gossip(process_group=3))
    expect("other optimizer", lambda: sotto.LocalSGD(point, torch.optim.SGD(Point().parameters(), LR)))
    expect("no optimizer", lambda: sotto.LocalSGD(point, None))
    expect("every", lambda: sotto.LocalSGD(point, optimizer, every=0))
    expect("local codec", lambda: sotto.LocalSGD(point, optimizer, codec="momentum | topk(0.1)"))
    expect("shards", lambda: sotto.DiLoCo(point, optimizer, shards=3))
    expect("alpha", lambda: sotto.DiLoCo(point, optimizer, every=4, alpha=7))
    expect("overlap", lambda: sotto.DiLoCo(point, optimizer, every=4, overlap=4))
    expect("outer momentum", lambda: sotto.DiLoCo(point, optimizer, outer_momentum=1))
    expect("no state", lambda: sotto.state_dict(point))
    model = sotto.GossipDataParallel(point, "d_psgd", "ring")
    model()
    expect("in a step", lambda: sotto.state_dict(model))
    optimizer.step()
    with model.average():
        model().backward()
        expect("averaged", optimizer.step)
    pair = nn.ModuleList([Point(), Point()])
    unsaid = sotto.GossipDataParallel(pair)
    first, second = (torch.optim.SGD(one.parameters(), LR) for one in pair)
    first.step()
    expect("two optimizers", second.step)
    del unsaid
    point.p = nn.Parameter(torch.zeros(5))
    expect("replaced", model)
    return said
