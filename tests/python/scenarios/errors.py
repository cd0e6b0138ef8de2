"""Errors on one rank or on all."""

import copy
import io
import math
import os
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import sotto

from .net import batch, digest, loss_of, make, Net, train
from .refusals import Refusals


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
    KEPT.append(ddp)  # keeps the connections open


def dies():
    """Rank 1 ends in the middle of step 1."""
    ddp = sotto.compress(make(broadcast_buffers=False), "qsgd", timeout=120)
    train(ddp, 1)
    loss = loss_of(ddp, 1)
    if dist.get_rank() == 1:
        os._exit(0)
    loss.backward()


def differently(what):
    """Rank 1 has another argument, or wraps something else."""
    other = {"codec": {"codec": "qsgd"}, "seed": {"seed": 2}, "bucket_mb": {"bucket_mb": 2}, "start_after": {"start_after": 3},
             "rules": {"rules": {"*.bias": "none"}}, "aggregator": {"aggregator": "gather"}, "dtype": {},
             "check_replicas": {"check_replicas": 1}, "nonfinite": {"nonfinite": "propagate"}, "wrapper": {},
             "scaler": {"scaler": torch.amp.GradScaler("cpu")}}[what]
    bad = dist.get_rank() == 1
    if what == "dtype":  # DDP itself would refuse it
        return sotto.AllReduceDataParallel(Net().half() if bad else Net()) is None
    if bad and what == "wrapper":
        make()
        return sotto.Gossiper() is None
    return sotto.compress(make(), **({"codec": "ef | topk(0.1)"} | (other if bad else {}))) is None


def missed():
    """Rank 1 misses the first call; then all call. Rank 0 misses two calls; then all call again."""
    said, digests = [], []
    for absent in ([1], [0, 0]):
        for rank in absent:
            ddp = make()
            if dist.get_rank() != rank:
                try:
                    sotto.compress(ddp, "int8", timeout=0.3)
                except sotto.Error as error:
                    said.append(f"{type(error).__name__}: {error}")
            dist.barrier()
        ddp = sotto.compress(make(), "int8", timeout=600)
        train(ddp, 2)
        digests.append(digest(ddp))
    return [said, digests]


def unfrozen(how):
    """A parameter was frozen when the module was wrapped, and rank 1 trains it from the second step on."""
    net = Net()
    net.out.bias.requires_grad_(False)
    if how == "all reduce":
        model = sotto.AllReduceDataParallel(net, "ef | topk(0.1)", timeout=600)
    else:
        model = sotto.compress(DDP(net, broadcast_buffers=False), "ef | topk(0.1)", timeout=600)
    called = torch.compile(model, backend="eager") if how == "compiled" else model
    loss_of(called, 0).backward()
    net.out.bias.requires_grad_(dist.get_rank() == 1)
    loss_of(called, 1).backward()


def frozen_between(**options):
    """A parameter is frozen after DDP was made: whether all gradients are as with plain DDP, while it is
    frozen and when it is not any more."""
    gradients = []
    for compressed in (True, False):
        torch.manual_seed(7)
        net = Net()
        ddp = DDP(net, **options)
        net.hidden.weight.requires_grad_(False)
        if compressed:
            sotto.compress(ddp, "none", timeout=600)
        for step in range(4):
            net.hidden.weight.requires_grad_(step >= 2)
            ddp.zero_grad()
            loss_of(ddp, step).backward()
            gradients.append([None if p.grad is None else p.grad.tolist() for p in net.parameters()])
    return gradients[:4] == gradients[4:]


def replaced():
    """A parameter is replaced after DDP was made."""
    net = Net()
    ddp = DDP(net)
    net.out.bias = nn.Parameter(torch.zeros(10), requires_grad=False)
    sotto.compress(ddp, "none")


def copies(how):
    """What is said of a copy of a compressed module: where it evaluates, where it is trained, and where it is trained after it was
    compressed, too. Whether gradients of the second are as with plain DDP; and the steps that the copy and the module count."""
    ddp, plain = sotto.compress(make(), "qsgd(2)"), make()
    if how == "deepcopy":
        copied = copy.deepcopy(ddp)
    else:
        file = io.BytesIO()
        torch.save(ddp, file)
        copied = torch.load(io.BytesIO(file.getvalue()), weights_only=False)

    said = []
    for use in ("no_grad", "eval", "train", "compressed"):
        copied.train(use != "eval")
        if use == "compressed":
            sotto.compress(copied, "qsgd(2)")
        with warnings.catch_warnings(record=True) as caught, torch.set_grad_enabled(use != "no_grad"):
            warnings.simplefilter("always")
            loss = loss_of(copied, 0)
            if use in ("train", "compressed"):
                copied.zero_grad()
                loss.backward()
        said.append([str(one.message) for one in caught])
        if use == "train":
            loss_of(plain, 0).backward()
            same = all(torch.equal(a.grad, b.grad) for a, b in zip(copied.parameters(), plain.parameters()))
    return [said, same, sotto.stats(copied).steps, sotto.stats(ddp).steps]


def fails_in_the_hook():
    """On rank 1, the scale of the loss cannot be had."""
    scaler = torch.amp.GradScaler("cpu")
    ddp = sotto.compress(make(broadcast_buffers=False), "ef | topk(0.1)", scaler=scaler, timeout=600)
    if dist.get_rank() == 1:
        scaler._scale = "lost"
        scaler._lazy_init_scale_growth_tracker = lambda *_: None
    loss_of(ddp, 0).backward()


def hooked_by_ddp(how):
    net = Net()
    if how == "delayed":
        ddp = DDP(net, delay_all_reduce_named_params=[("out.bias", net.out.bias)], param_to_hook_all_reduce=net.conv.weight)
    elif how == "skipped":
        ddp = DDP(net, find_unused_parameters=True, skip_all_reduce_unused_params=True)
    elif how == "python":
        from torch._dynamo import config
        with config.patch(optimize_ddp="python_reducer"):
            ddp = DDP(net)
    elif how == "mixed":
        from torch.nn.parallel.distributed import _MixedPrecision
        ddp = DDP(net, mixed_precision=_MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16))
    elif how == "in backward":
        from torch.distributed.optim import _apply_optimizer_in_backward
        _apply_optimizer_in_backward(torch.optim.SGD, net.parameters(), {"lr": 0.1})
        ddp = DDP(net)
    else:
        ddp = DDP(net)
        ddp._register_fused_optim(torch.optim.SGD, 0.1)
    sotto.compress(ddp, "none")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10)
        self.head.weight = self.embedding.weight


def not_plain():
    """The errors about modules and tensors that are not whole on a rank, or that exchange with other ranks already."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor, Shard

    said = Refusals()
    expect = said.expect

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    tensor = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    net = nn.Linear(4, 4)
    spread = nn.Linear(4, 4)
    spread.weight = nn.Parameter(distribute_tensor(spread.weight.detach(), mesh, [Shard(0)]))
    optimiser = torch.optim.SGD(spread.parameters(), 0.1)
    expect("all reduce", lambda: sotto.AllReduceDataParallel(spread))
    expect("gossip", lambda: sotto.GossipDataParallel(spread))
    sparse = nn.Linear(4, 4)
    sparse.mask = nn.Parameter(torch.eye(4).to_sparse())
    expect("sparse all reduce", lambda: sotto.AllReduceDataParallel(sparse))
    expect("sparse gossip", lambda: sotto.GossipDataParallel(sparse))
    sparse.mask = nn.Parameter(torch.ones(4))
    sparse.register_buffer("table", torch.eye(4).to_sparse_csr())
    expect("sparse buffer", lambda: sotto.LocalSGD(sparse, torch.optim.SGD(sparse.parameters(), 0.1)))
    expect("local", lambda: sotto.LocalSGD(spread, optimiser))
    expect("diloco", lambda: sotto.DiLoCo(spread, optimiser))
    expect("aggregate", lambda: sotto.aggregate(tensor))
    expect("codec", lambda: sotto.Codec("int8").encode(tensor))
    expect("ratio", lambda: sotto.Codec("int8").ratio(tensor))
    expect("gossiper", lambda: sotto.Gossiper().mix(tensor))
    ddp = DDP(net)
    later = DDP(nn.Linear(4, 4))
    later.module.weight = spread.weight
    expect("compress", lambda: sotto.compress(later, "none"))
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    expect("gossip of ddp", lambda: sotto.GossipDataParallel(ddp))
    expect("gossip within", lambda: sotto.GossipDataParallel(nn.Sequential(ddp)))
    expect("local of ddp", lambda: sotto.LocalSGD(ddp, optimiser))
    expect("all reduce of ddp", lambda: sotto.AllReduceDataParallel(ddp))
    expect("gossip of all reduce", lambda: sotto.GossipDataParallel(sotto.AllReduceDataParallel(net)))
    expect("compress of gossip", lambda: sotto.compress(DDP(sotto.GossipDataParallel(nn.Linear(4, 4))), "none"))
    return said


def begins_with_more(how, what):
    """Rank 1's module has a buffer or a frozen parameter that the others lack."""
    net = Net()
    if dist.get_rank() == 1 and what == "buffer":
        net.register_buffer("table", torch.ones(3))
    if dist.get_rank() == 1 and what == "parameter":
        net.table = nn.Parameter(torch.ones(3), requires_grad=False)
    {"all reduce": lambda: sotto.AllReduceDataParallel(net, timeout=60),
     "gossip": lambda: sotto.GossipDataParallel(net, timeout=60),
     "local": lambda: sotto.LocalSGD(net, torch.optim.SGD((p for p in net.parameters() if p.requires_grad), 0.1), timeout=60)}[how]()


def not_reduced(how):
    """A parameter is trainable when DDP is compressed, but was missing or frozen when DDP was made."""
    net = Net()
    net.hidden.weight.requires_grad_(how != "unfrozen")
    ddp = DDP(net)
    net.hidden.weight.requires_grad_(True)
    if how == "added":
        net.added = nn.Linear(2, 2)
    sotto.compress(ddp, "ef | topk(0.1)")


def aggregates_differently(what):
    """Rank 1 has another argument."""
    usual = {"shape": 1000, "type": "float32", "op": "avg", "codec": "int8", "aggregator": "auto", "seed": 0}
    other = {"shape": 500, "type": "float16", "op": "sum", "codec": "qsgd(4)", "aggregator": "gather", "seed": 1}
    how = usual | ({what: other[what]} if dist.get_rank() == 1 else {})
    tensor = torch.ones(how.pop("shape"), dtype=getattr(torch, how.pop("type")))
    sotto.aggregate(tensor, **how)


def load_on_some(ranks, steps):
    """Only these ranks load a state, the one after steps[rank] steps; then all continue."""
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
    """After `at` steps only these ranks load the state of step `of`; then all continue."""
    ddp = sotto.compress(make(broadcast_buffers=False), timeout=600, **options)
    states = []
    for step in range(at):
        train(ddp, 1, first=step)
        states.append(sotto.state_dict(ddp))
    if dist.get_rank() in ranks:
        sotto.load_state_dict(ddp, states[of - 1])
    train(ddp, 1, first=at)


def refused_on_one(what):
    """Rank 1 calls with something that cannot be used; then all call again. Returns the error of this rank."""
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
    """Likewise for sotto.aggregate."""
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
    """Rank r has 2 r more batches than rank 0. Returns the parameters with our codec, and with DDP alone."""
    ours, theirs = make(), make()
    sotto.compress(ours, codec, **options)
    for ddp in (ours, theirs):
        optimiser = torch.optim.SGD(ddp.parameters(), 0.1)
        with ddp.join():
            train(ddp, 3 + 2 * dist.get_rank(), optimiser=optimiser)
    return [digest(ours), digest(theirs), sotto.stats(ours).steps]


def bad_calls():
    said = Refusals()
    expect = said.expect

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
    expect("schedule range", lambda: sotto.compress(net, schedule=[(0, "none"), (5, "topk(7)")]))
    expect("schedule empty", lambda: sotto.compress(net, schedule=[(0, " ")]))
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
    expect("no codec", lambda: sotto.compress(net, ""))
    expect("codec type", lambda: sotto.compress(net, 5))
    expect("aggregator type", lambda: sotto.compress(net, "int8", aggregator=None))
    expect("unknown aggregator", lambda: sotto.compress(net, "int8", aggregator="gahter"))
    expect("bucket type", lambda: sotto.compress(net, "none", bucket_mb="4"))
    expect("seed type", lambda: sotto.compress(net, "none", seed=1.5))
    expect("rules type", lambda: sotto.compress(net, "none", rules=["*.bias"]))
    expect("tied", lambda: sotto.compress(DDP(Tied()), "none", rules={"head.weight": "int8"}))
    expect("scaler", lambda: sotto.compress(net, "none", scaler=65536.0))
    expect("rule range", lambda: sotto.compress(net, "none", rules={"*.bia[!-]": "topk(7)"}))
    expect("rule and rate", lambda: sotto.compress(net, "none", rules={"*.bias": "memsgd | int8"}))
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
    expect("op and aggregator", lambda: sotto.aggregate(torch.ones(3), "max", aggregator="gather"))
    expect("memory", lambda: sotto.aggregate(torch.ones(3), codec="ef | topk(0.5)"))
    expect("type", lambda: sotto.aggregate(torch.ones(3, dtype=torch.bool)))
    expect("average of integers", lambda: sotto.aggregate(torch.ones(3, dtype=torch.int32)))
    expect("coded integers", lambda: sotto.aggregate(torch.ones(3, dtype=torch.int32), codec="int8"))
    return said
