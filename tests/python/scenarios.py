"""What ranks do in the tests. Each function runs on every rank of a job and gives back plain values."""

import hashlib
import math
import os
import threading
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import sotto


KEPT = []


class Net(nn.Module):
    """Convolution, batch norm, layers of several sizes; a part that is used only when asked for."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4 * 6 * 6, 32)
        self.extra = nn.Linear(32, 32)
        self.out = nn.Linear(32, 10)

    def forward(self, x, extra=True):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        x = torch.relu(self.hidden(x))
        return self.out(self.extra(x) if extra else x)


def make(dtype="float32", memory_format=torch.contiguous_format, **options):
    torch.manual_seed(7)
    net = Net().to(getattr(torch, dtype)).to(memory_format=memory_format)
    return DDP(net, **({"bucket_cap_mb": 0.01} | options))


def batch(step, dtype=torch.float32):
    """Of this rank."""
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    return (torch.randn(8, 1, 8, 8, generator=generator).to(dtype),
            torch.randint(0, 10, (8,), generator=generator))


def loss_of(ddp, step, **how):
    x, y = batch(step, next(ddp.parameters()).dtype)
    return nn.functional.cross_entropy(ddp(x, **how).float(), y)


def train(ddp, steps, first=0, lr=0.1, optimiser=None, **how):
    optimiser = optimiser or torch.optim.SGD(ddp.parameters(), lr)
    for step in range(first, first + steps):
        optimiser.zero_grad()
        loss_of(ddp, step, **how).backward()
        optimiser.step()


def digest(ddp):
    return hashlib.sha256(b"".join(p.detach().float().numpy().tobytes() for p in ddp.parameters())).hexdigest()


def flat(gradients):
    return torch.cat([g.detach().flatten().double() for g in gradients])


def dense_is_ddp(dtype, accumulate=1, channels_last=False, options=None, extra=True):
    """Whether codec none gives what DDP alone gives, to the last bit (two ranks: halves are exact), over several steps."""
    ours = make(dtype, torch.channels_last if channels_last else torch.contiguous_format, **(options or {}))
    theirs = make(dtype, torch.channels_last if channels_last else torch.contiguous_format, **(options or {}))
    sotto.compress(ours, "none", bucket_mb=0.01)
    same = []
    for ddp in (ours, theirs):
        optimiser = torch.optim.SGD(ddp.parameters(), 0.1)
        for step in range(4):
            optimiser.zero_grad(set_to_none=True)
            for micro in range(accumulate):
                if micro + 1 < accumulate:
                    with ddp.no_sync():
                        loss_of(ddp, 10 * step + micro, extra=extra).backward()
                else:
                    loss_of(ddp, 10 * step + micro, extra=extra).backward()
            optimiser.step()
        same.append(digest(ddp))
    return same, sotto.stats(ours).steps


def with_ddp_buckets(caps, codec, **options):
    """The parameters after some steps, for several sizes of DDP's own buckets."""
    digests = []
    for cap in caps:
        ddp = sotto.compress(make(bucket_cap_mb=cap), codec, check_replicas=1, threads=1 + dist.get_rank(), **options)
        train(ddp, 6)
        digests.append(digest(ddp))
    return digests


def conservation(steps, **options):
    """What was applied and what is still held back, against the sum of the dense means, at parameters that stay."""
    ddp, plain = make(), make()
    sotto.compress(ddp, **options)
    applied, dense = 0, 0
    for step in range(steps):
        for net in (ddp, plain):
            net.zero_grad()
            loss_of(net, step).backward()
        applied = applied + flat(p.grad for p in ddp.parameters())
        dense = dense + flat(p.grad for p in plain.parameters())
    held = sotto.state_dict(ddp)["values"]
    pending = torch.tensor(owed(held, dist.get_world_size()))
    dist.all_reduce(pending)
    return {"applied": applied.sum().item(), "dense": dense.sum().item(), "pending": pending.item(),
            "changed": (applied - dense).norm().item(), "methods": sotto.stats(ddp).methods.splitlines()}


def owed(values, ranks):
    """What one rank's state owes to the mean gradient, summed over the elements."""
    return sum(value.double().sum().item() / (ranks if name.endswith("/memory.ef") else 1)
               for name, value in values.items() if name.endswith(("/memory.ef", "/mean/error")))


def replicas(codec, dtype, **options):
    ddp = sotto.compress(make(dtype), codec, check_replicas=2, bucket_mb=0.02, **options)
    train(ddp, 5)
    return digest(ddp)


def replicas_that_differ():
    ddp = sotto.compress(make(), "none", check_replicas=2)
    train(ddp, 1)
    if dist.get_rank() == 1:
        with torch.no_grad():
            ddp.module.out.bias.add_(1)
    train(ddp, 2, first=1)


def unused(codec):
    """A part of the model that nobody, or one rank only, uses in some steps."""
    ddp = sotto.compress(make(find_unused_parameters=True), codec, check_replicas=1)
    optimiser = torch.optim.SGD(ddp.parameters(), 0.1)
    for step in range(6):
        train(ddp, 1, first=step, optimiser=optimiser, extra=step % 3 == 0 or (step % 3 == 1 and dist.get_rank() == 0))
    return digest(ddp)


def compressed_stats(**options):
    ddp = sotto.compress(make(), **options)
    train(ddp, 6)
    stats = sotto.stats(ddp)
    return {**stats.__dict__, "ratio": stats.ratio, "numel": sum(p.numel() for p in ddp.parameters())}


def schedule_by_step(schedule, steps):
    """The method in use after each step."""
    ddp = sotto.compress(make(), schedule=[tuple(phase) for phase in schedule])
    methods = []
    for step in range(steps):
        train(ddp, 1, first=step)
        methods.append(sotto.stats(ddp).methods.strip())
    return methods


# --- checkpoints ---------------------------------------------------------------------------------------------------

RESUMED = {"schedule": [(0, "none"), (2, "ef | topk(0.1) | qsgd(4)")], "rules": {"*.bias": "int8"}, "seed": 5}


def resumable():
    ddp = make()
    return ddp, torch.optim.SGD(ddp.parameters(), 0.1, momentum=0.9)


def straight(steps):
    ddp, optimiser = resumable()
    sotto.compress(ddp, **RESUMED)
    train(ddp, steps, optimiser=optimiser)
    return digest(ddp)


def save(steps, folder):
    ddp, optimiser = resumable()
    sotto.compress(ddp, **RESUMED)
    train(ddp, steps, optimiser=optimiser)
    torch.save({"model": ddp.state_dict(), "optimiser": optimiser.state_dict(), "sotto": sotto.state_dict(ddp)},
               f"{folder}/rank{dist.get_rank()}")


def resume(first, steps, folder, rank=None):
    ddp, optimiser = resumable()
    sotto.compress(ddp, **RESUMED)
    state = torch.load(f"{folder}/rank{dist.get_rank() if rank is None else rank}", weights_only=True)
    ddp.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    sotto.load_state_dict(ddp, state["sotto"])
    train(ddp, steps, first=first, optimiser=optimiser)
    return digest(ddp)


def resume_on_other_ranks(folder, old_ranks):
    """The largest difference between the memory and the mean of the old ones; whether it was refused without a list."""
    ddp, _ = resumable()
    sotto.compress(ddp, **RESUMED)
    states = [torch.load(f"{folder}/rank{rank}", weights_only=True)["sotto"] for rank in range(old_ranks)]
    try:
        sotto.load_state_dict(ddp, states[0])
        refused = ""
    except sotto.ConfigError as error:
        refused = str(error)
    sotto.load_state_dict(ddp, states[::-1])
    now = sotto.state_dict(ddp)
    name = next(name for name in now["values"] if name.endswith("memory.ef"))
    mean = torch.stack([state["values"][name] for state in states]).mean(0)
    assert mean.abs().max() > 0
    train(ddp, 2, first=3)
    return {"difference": (now["values"][name] - mean).abs().max().item(), "refused": refused, "step": now["step"]}


def save_states(folder, steps, **options):
    ddp = sotto.compress(make(), **options)
    train(ddp, steps)
    torch.save(sotto.state_dict(ddp), f"{folder}/rank{dist.get_rank()}")


def spread_states(folder, old_ranks, **options):
    """What the old ranks owed, each part of it, and what this rank of the new ones does."""
    states = [torch.load(f"{folder}/rank{rank}", weights_only=True)["values"] for rank in range(old_ranks)]
    parts = [sum(value.double().sum().item() for state in states for name, value in state.items() if name.endswith(end))
             for end in ("/memory.ef", "/mean/error")]
    ddp = sotto.compress(make(), **options)
    sotto.load_state_dict(ddp, [torch.load(f"{folder}/rank{rank}", weights_only=True) for rank in range(old_ranks)])
    values = sotto.state_dict(ddp)["values"]
    return {"was": [parts[0] / old_ranks, parts[1]], "is": owed(values, dist.get_world_size())}


def spread_sketches(folder, old_ranks, **options):
    """How far the sketches are from those of the old ranks, at most; and their largest value."""
    states = [torch.load(f"{folder}/rank{rank}", weights_only=True) for rank in range(old_ranks)]
    ddp = sotto.compress(make(), **options)
    sotto.load_state_dict(ddp, states)
    values = sotto.state_dict(ddp)["values"]
    names = [name for name in values if "fetch" in name]
    assert len(names) == 2
    difference = max((values[name] - state["values"][name]).abs().max().item() for name in names for state in states)
    return difference, min(values[name].abs().max().item() for name in names)


def tied_presets(codecs):
    """The warnings of each."""
    said = {}
    for codec in codecs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sotto.compress(make(), codec)
        said[codec] = [str(warning.message) for warning in caught if warning.filename == __file__]
    return said


def damaged_states():
    """What each of these says, and that nothing was changed by it."""
    ddp = sotto.compress(make(), "ef | topk(0.1)", aggregator="gather")
    train(ddp, 2)
    good = sotto.state_dict(ddp)
    memory = "0/memory.ef"
    bad = {
        "no state": {"a": 1},
        "format": good | {"sotto": 99},
        "rank": good | {"rank": 1 - good["rank"]},
        "identity": good | {"identity": good["identity"].replace("0.1", "0.2")},
        "missing": good | {"values": {}},
        "short": good | {"values": {memory: good["values"][memory][:-1]}},
        "kind": good | {"values": {memory: 3}},
        "double": good | {"values": {memory: good["values"][memory].double()}},
        "surplus": good | {"values": good["values"] | {"0/other": 1}},
        "list": [good],
    }
    said = {}
    for name, state in bad.items():
        try:
            sotto.load_state_dict(ddp, state)
            said[name] = "nothing"
        except sotto.Error as error:
            said[name] = f"{type(error).__name__}: {error}"
    after = sotto.state_dict(ddp)
    assert torch.equal(after["values"][memory], good["values"][memory]) and after["step"] == good["step"] == 2
    return said


# --- errors ----------------------------------------------------------------------------------------------------------

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


# --- aggregate -------------------------------------------------------------------------------------------------------

def aggregates():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4).t() + rank  # not contiguous
    own = x.clone()
    result = {"avg": sotto.aggregate(x), "sum": sotto.aggregate(x, "sum"), "min": sotto.aggregate(x, "min"),
              "max": sotto.aggregate(x, "max"), "codec": sotto.aggregate(x, codec="f16"),
              "sum of codec": sotto.aggregate(x, "sum", codec="int8"), "bf16": sotto.aggregate(x.bfloat16()),
              "i64": sotto.aggregate(x.long(), "sum")}
    assert torch.equal(x, own)
    base = own - rank
    mean = base + (size - 1) / 2
    assert torch.equal(result["avg"], mean) and torch.equal(result["codec"], mean)
    assert torch.equal(result["sum"], size * mean) and torch.equal(result["min"], base)
    assert torch.equal(result["max"], base + size - 1) and torch.equal(result["i64"], (size * mean).long())
    assert result["bf16"].dtype == torch.bfloat16
    assert (result["sum of codec"] - size * mean).abs().max() < size * 0.2
    everywhere = [torch.empty(4, 3) for _ in range(size)]
    dist.all_gather(everywhere, result["sum of codec"].contiguous())
    assert all(torch.equal(one, everywhere[0]) for one in everywhere)
    group = dist.new_group([1])
    if rank == 1:
        assert torch.equal(sotto.aggregate(x, group=group), x)
    else:
        try:
            sotto.aggregate(x, group=group)
            raise AssertionError("a group that this rank is not in")
        except sotto.ConfigError:
            pass
    return list(result["avg"].shape)


def others_run_meanwhile(folder):
    """Rank 1 takes part only when rank 0's main thread says so, which it can while another thread of it waits."""
    go = f"{folder}/go"
    if dist.get_rank() == 0:
        results = []
        thread = threading.Thread(target=lambda: results.append(sotto.aggregate(torch.ones(4), "sum").tolist()))
        thread.start()
        with open(go, "w"):
            pass
        thread.join()
        return results[0]
    while not os.path.exists(go):
        pass
    return sotto.aggregate(torch.ones(4), "sum").tolist()
