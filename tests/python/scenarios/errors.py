"""What goes wrong, on one rank or on all."""

import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import sotto

from .net import batch, digest, loss_of, make, Net, train


KEPT = []


def not_finite(nonfinite):
    """Rank 1 has a NaN in its gradient at step 2."""
    ddp = sotto.compress(make(), "ef | topk(0.1)", nonfinite=nonfinite)
    train(ddp, 2)
    before = sotto.state_dict(ddp)["values"]
    loss = loss_of(ddp, 2)
    ddp.zero_grad()
    (loss * (math.nan if dist.get_rank() == 1 else 1)).backward()
    nans = sum(int(p.grad.isnan().sum()) for p in ddp.parameters())
    after = sotto.state_dict(ddp)["values"]
    kept = torch.equal(before["0/memory.ef"], after["0/memory.ef"])
    train(ddp, 1, first=3)
    return {"nans": nans, "of": sum(p.numel() for p in ddp.parameters()), "memory kept": kept, "steps": sotto.stats(ddp).steps,
            "digest": digest(ddp)}


def again_after_an_error():
    ddp = sotto.compress(make(), "none", timeout=20)
    x, y = batch(0)
    raised = ""
    try:
        (ddp(x).sum() * (math.inf if dist.get_rank() == 0 else 1)).backward()
    except sotto.Error as error:
        raised = type(error).__name__
    with ddp.no_sync():
        pass
    return [raised, sotto.stats(ddp).steps]


def stalls(timeout):
    """Rank 1 stays away from the backward of step 1."""
    ddp = sotto.compress(make(), "none", timeout=timeout)
    train(ddp, 1)
    loss = loss_of(ddp, 1)
    if dist.get_rank() != 1:
        loss.backward()
    KEPT.append(ddp)  # and with it the connections


def dies():
    """Rank 1 ends in the middle of step 1."""
    ddp = sotto.compress(make(broadcast_buffers=False), "qsgd", timeout=120)
    train(ddp, 1)
    loss = loss_of(ddp, 1)
    if dist.get_rank() == 1:
        os._exit(0)
    loss.backward()


def differently():
    return sotto.compress(make(), "none" if dist.get_rank() == 0 else "qsgd") is None


def differently_checked():
    return sotto.compress(make(), "none", check_replicas=dist.get_rank()) is None


def not_reduced(how):
    """A parameter that is trainable when DDP is compressed, but was not there, or frozen, when DDP was made."""
    net = Net()
    net.hidden.weight.requires_grad_(how != "unfrozen")
    ddp = DDP(net)
    net.hidden.weight.requires_grad_(True)
    if how == "added":
        net.added = nn.Linear(2, 2)
    sotto.compress(ddp, "ef | topk(0.1)")
    loss_of(ddp, 0).backward()


def aggregates_differently(what):
    """Rank 1 does something else."""
    usual = {"shape": 1000, "type": "float32", "op": "avg", "codec": "none", "aggregator": "auto", "seed": 0}
    other = {"shape": 500, "type": "float16", "op": "sum", "codec": "qsgd(4)", "aggregator": "gather", "seed": 1}
    how = usual | ({what: other[what]} if dist.get_rank() == 1 else {})
    tensor = torch.ones(how.pop("shape"), dtype=getattr(torch, how.pop("type")))
    sotto.aggregate(tensor, **how)


def load_on_some(ranks, steps):
    """Only these ranks load a state, that of so many steps; then all go on."""
    old = sotto.compress(make(), schedule=[(0, "none"), (2, "ef | topk(0.1)")])
    states = []
    for step in range(3):
        states.append(sotto.state_dict(old))
        train(old, 1, first=step)
    # A rank that waits for others must not wait in DDP's own broadcast.
    ddp = sotto.compress(make(broadcast_buffers=False), schedule=[(0, "none"), (2, "ef | topk(0.1)")], timeout=60)
    if dist.get_rank() in ranks:
        sotto.load_state_dict(ddp, states[steps[dist.get_rank()]])
    train(ddp, 1)


def load_late(ranks, at, of, **options):
    """Only these ranks load a state, that of step `of`, after `at` steps; then all go on."""
    ddp = sotto.compress(make(broadcast_buffers=False), timeout=600, **options)
    states = []
    for step in range(at):
        train(ddp, 1, first=step)
        states.append(sotto.state_dict(ddp))
    if dist.get_rank() in ranks:
        sotto.load_state_dict(ddp, states[of - 1])
    train(ddp, 1, first=at)


def refused_on_one(what):
    """Rank 1 calls with something that cannot be used: what each rank is told. Then all call again."""
    wrong = {"rules": {"rules": {"nope": "int8"}}, "codec": {"codec": "tokp"}, "type": {"seed": "3"},
             "timeout": {"timeout": 1e-6}, "float64": {}, "no ddp": {}}[what]
    bad = dist.get_rank() == 1
    ddp = make("float64" if bad and what == "float64" else "float32")
    module = ddp.module if bad and what == "no ddp" else ddp
    said = ""
    try:
        sotto.compress(module, **({"codec": "int8", "timeout": 600} | (wrong if bad else {})))
    except sotto.Error as error:
        said = f"{type(error).__name__}: {error}"
    ddp = sotto.compress(make(), "int8", timeout=600)
    train(ddp, 2)
    return [said, digest(ddp)]


def aggregate_refused_on_one(what):
    """The same."""
    tensor, how = torch.ones(1000), {"codec": "f16" if what == "large" else "int8", "timeout": 600}
    if dist.get_rank() == 1:
        tensor = {"nan": tensor * math.nan, "large": tensor * 1e6, "list": [1.0], "sparse": tensor.to_sparse(),
                  "nested": torch.nested.nested_tensor([tensor, tensor[1:]])}.get(what, tensor)
        how |= {"op": {"op": 3}, "timeout": {"timeout": 0}}.get(what, {})
    said = ""
    try:
        sotto.aggregate(tensor, **how)
    except sotto.Error as error:
        said = f"{type(error).__name__}: {error}"
    return [said, sotto.aggregate(torch.ones(3), "sum").tolist()]


def mean_too_large():
    tensor = torch.zeros(64)
    tensor[:16] = 2.9e38
    try:
        sotto.aggregate(tensor, codec="randomk(0.9, unbiased=true, dense=0)", aggregator="scatter_reduce", seed=5, timeout=600)
    except sotto.Error as error:
        return f"{type(error).__name__}: {error}"
    return ""


def uneven(codec, **options):
    """Rank r has r more batches than rank 0. The parameters with our codec, and those of DDP alone."""
    ours, theirs = make(), make()
    sotto.compress(ours, codec, **options)
    for ddp in (ours, theirs):
        optimiser = torch.optim.SGD(ddp.parameters(), 0.1)
        with ddp.join():
            train(ddp, 3 + 2 * dist.get_rank(), optimiser=optimiser)
    return [digest(ours), digest(theirs), sotto.stats(ours).steps]


def bad_calls():
    said = {}

    def expect(name, call):
        try:
            call()
            said[name] = "nothing"
        except sotto.ConfigError as error:
            assert isinstance(error, ValueError)
            said[name] = str(error)

    net = make()
    expect("no ddp", lambda: sotto.compress(net.module, "none"))
    expect("not compressed", lambda: sotto.stats(net))
    expect("unknown", lambda: sotto.compress(net, "tokp(0.1)"))
    expect("range", lambda: sotto.compress(net, "topk(1.5)"))
    expect("aggregator", lambda: sotto.compress(net, "topk(0.1)", aggregator="all_reduce"))
    expect("neither", lambda: sotto.compress(net))
    expect("both", lambda: sotto.compress(net, "none", schedule=[(0, "none")]))
    expect("schedule order", lambda: sotto.compress(net, schedule=[(0, "none"), (5, "int8"), (5, "qsgd")]))
    expect("schedule start", lambda: sotto.compress(net, schedule=[(3, "none")]))
    expect("schedule later", lambda: sotto.compress(net, schedule=[(0, "none"), (5, "tokp")]))
    expect("schedule drops", lambda: sotto.compress(net, schedule=[(0, "ef | topk(0.1)"), (5, "none")]))
    expect("schedule changes memory", lambda: sotto.compress(net, schedule=[(0, "ef | topk(0.1)"), (5, "momentum | topk(0.1)")]))
    expect("rate", lambda: sotto.compress(net, "memsgd | topk(0.1)"))
    expect("schedule fraction", lambda: sotto.compress(net, schedule=[(0, "none"), (2.7, "int8")]))
    expect("rule unused", lambda: sotto.compress(net, "none", rules={"*.wieght": "int8"}))
    expect("rules all", lambda: sotto.compress(net, "none", rules={"*": "int8"}))
    expect("nonfinite", lambda: sotto.compress(net, "none", nonfinite="ignore"))
    expect("start_after", lambda: sotto.compress(net, "none", start_after=-1))
    expect("bucket", lambda: sotto.compress(net, "none", bucket_mb=0))
    expect("timeout", lambda: sotto.compress(net, "none", timeout=0))
    expect("short timeout", lambda: sotto.compress(net, "none", timeout=0.0005))
    expect("timeout type", lambda: sotto.compress(net, "none", timeout="long"))
    expect("codec type", lambda: sotto.compress(net, 5))
    expect("aggregator type", lambda: sotto.compress(net, "int8", aggregator=None))
    expect("unknown aggregator", lambda: sotto.compress(net, "int8", aggregator="gahter"))
    expect("bucket type", lambda: sotto.compress(net, "none", bucket_mb="4"))
    expect("seed type", lambda: sotto.compress(net, "none", seed=1.5))
    expect("rules type", lambda: sotto.compress(net, "none", rules=["*.bias"]))
    expect("rule type", lambda: sotto.compress(net, "none", rules={"*.bias": 3}))
    sotto.compress(net, "none")
    expect("twice", lambda: sotto.compress(net, "none"))
    hooked = make()
    hooked.register_comm_hook(None, lambda state, bucket: None)
    expect("other hook", lambda: sotto.compress(hooked, "none"))
    expect("double", lambda: sotto.compress(make("float64"), "none"))
    torch.manual_seed(0)
    sparse = DDP(nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 4)))
    expect("sparse", lambda: sotto.compress(sparse, "none"))
    expect("op", lambda: sotto.aggregate(torch.ones(3), "mul"))
    expect("op type", lambda: sotto.aggregate(torch.ones(3), 3))
    expect("no tensor", lambda: sotto.aggregate([1.0]))
    expect("aggregate by", lambda: sotto.aggregate(torch.ones(3), codec="int8", aggregator="xx"))
    expect("op and codec", lambda: sotto.aggregate(torch.ones(3), "max", codec="qsgd"))
    expect("memory", lambda: sotto.aggregate(torch.ones(3), codec="ef | topk(0.5)"))
    expect("type", lambda: sotto.aggregate(torch.ones(3, dtype=torch.bool)))
    expect("average of integers", lambda: sotto.aggregate(torch.ones(3, dtype=torch.int32)))
    return said
