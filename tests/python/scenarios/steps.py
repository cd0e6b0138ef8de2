"""Ranks with different models: gossip and local steps, driven by a plain loop."""

import torch
import torch.distributed as dist
from torch import nn

import sotto

from .net import batch, digest, flat, Net

LR = 0.1


class Point(nn.Module):
    """A vector p. The loss of each rank draws it to that rank's own target: the gradient is p - target."""

    def __init__(self, size=5):
        super().__init__()
        self.p = nn.Parameter(torch.linspace(-1, 1, size) + dist.get_rank())  # wrapping sets it to rank 0's

    def forward(self):
        return 0.5 * (self.p - self.target()).square().sum()

    def target(self):
        return torch.arange(self.p.numel()) * (dist.get_rank() + 1.0)


def wrap(module, how, optimizer, **options):
    """The wrapper that `how` names, and the module that the loop calls."""
    if how == "local":
        return sotto.LocalSGD(module, optimizer, **options), module
    if how == "diloco":
        return sotto.DiLoCo(module, optimizer, **options), module
    model = sotto.GossipDataParallel(module, how, **options)
    return model, model


def points(how, steps, lr=LR, momentum=0.0, stepped=None, **options):
    """The vector of this rank before the first step and after each step."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), lr, momentum)
    owner, model = wrap(module, how, optimizer, **options)
    seen = [module.p.tolist()]
    for _ in range(steps):
        optimizer.zero_grad()
        model().backward()
        optimizer.step()
        seen.append(module.p.tolist())
    assert sotto.stats(owner).steps == steps
    return seen


def mean_in_the_end(how, **options):
    """This rank's vector, the vector within average(), this rank's vector again, and the vector after take_average()."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), LR)
    owner, model = wrap(module, how, optimizer, **options)
    for _ in range(7):
        optimizer.zero_grad()
        model().backward()
        optimizer.step()
    seen = [module.p.tolist()]
    with owner.average():
        seen.append(module.p.tolist())
    seen.append(module.p.tolist())
    owner.take_average()
    seen.append(module.p.tolist())
    optimizer.zero_grad()
    model().backward()  # training can continue
    optimizer.step()
    return seen


def network(how, **options):
    torch.manual_seed(7 + dist.get_rank())
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), LR, momentum=0.9)
    return net, optimizer, *wrap(net, how, optimizer, **options)


def learn(model, optimizer, first, steps):
    for step in range(first, first + steps):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def steps_straight(how, steps, **options):
    net, optimizer, owner, model = network(how, **options)
    learn(model, optimizer, 0, steps)
    return digest(net)


def steps_saved(how, steps, folder, **options):
    net, optimizer, owner, model = network(how, **options)
    learn(model, optimizer, 0, steps)
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "sotto": sotto.state_dict(owner)},
               f"{folder}/rank{dist.get_rank()}")
    learn(model, optimizer, steps, 1)  # saving a state changes nothing


def steps_resumed(how, first, steps, folder, late=False, **options):
    net, optimizer, owner, model = network(how, **options)
    state = torch.load(f"{folder}/rank{dist.get_rank()}", weights_only=True)
    if late:
        sotto.load_state_dict(owner, state["sotto"])
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    if not late:
        sotto.load_state_dict(owner, state["sotto"])
    learn(model, optimizer, first, steps)
    return digest(net)


def alike_at_the_start():
    """The parameters, including frozen ones, and the buffers, which must be rank 0's."""
    net = Net()
    net.norm.running_mean += dist.get_rank()
    net.out.bias.requires_grad_(False)
    torch.nn.init.normal_(net.out.bias)
    optimizer = torch.optim.SGD((p for p in net.parameters() if p.requires_grad), LR)
    local = sotto.LocalSGD(net, optimizer)
    return [digest(net), net.norm.running_mean.sum().item(), local.stats().steps]


def statistics():
    """Batch-norm statistics: this rank's, their mean within average(), and this rank's again. The network also
    has a buffer that is the same on all ranks, and not finite."""
    net, optimizer, owner, model = network("push_sum")
    net.register_buffer("mask", torch.full((3, 3), float("-inf"), dtype=torch.float64).triu(1))
    mask = net.mask.clone()
    learn(model, optimizer, 0, 3)
    seen = [net.norm.running_mean.tolist()]
    with owner.average():
        seen.append(net.norm.running_mean.tolist())
        alike = digest(net)
    seen.append(net.norm.running_mean.tolist())
    owner.take_average()
    return [alike, *seen, torch.equal(net.mask, mask)]


def precise_statistics():
    """Buffers that float32 cannot hold: within average(), and after take_average()."""
    rank = dist.get_rank()
    point = Point()
    for name in ("alike", "wide", "short", "mask"):
        point.register_buffer(name, torch.zeros(2, dtype=torch.half if name == "short" else torch.double))
    model = sotto.GossipDataParallel(point)
    point.alike[0] = 123456789.25
    point.alike[1] = -1e300
    point.wide[0] = 123456789.25 + rank
    point.wide[1] = 1.7e308
    point.short[0] = 1.0 + rank
    point.short[1] = 65504.0
    point.mask[0] = float("inf")
    seen = []
    with model.average():
        seen.append({name: buffer.tolist() for name, buffer in point.named_buffers()})
    assert point.wide[0] == 123456789.25 + rank
    model.take_average()
    return [*seen, {name: buffer.tolist() for name, buffer in point.named_buffers()}]


def another_buffer(statistics):
    """What is said if rank 1 has a buffer that others lack when models are averaged; then it is gone, and all average."""
    net = Net() if statistics else Point()
    local = sotto.LocalSGD(net, torch.optim.SGD(net.parameters(), LR))
    if dist.get_rank() == 1:
        net.register_buffer("table", torch.ones(3))
    try:
        local.take_average()
    except sotto.ConfigError as error:
        said = str(error)
    if dist.get_rank() == 1:
        del net.table
    local.take_average()
    return [said, True]


def caches():
    """A buffer that is as long as this rank's inputs were: as a cache it stays, and as a part of checkpoints it has no mean."""
    net, optimizer, owner, model = network("push_sum")
    cache = torch.arange(4.0 + dist.get_rank())
    net.register_buffer("table", cache.clone(), persistent=False)
    owner.take_average()
    assert torch.equal(net.table, cache)
    net.register_buffer("table", cache.clone())
    try:
        owner.take_average()
    except sotto.ConfigError as error:
        assert torch.equal(net.table, cache)
        return str(error)


def loops():
    """A loop that also evaluates, saves and averages between steps gives the same as a plain loop. Both accumulate gradients."""
    digests = []
    for fancy in (False, True):
        net, optimizer, owner, model = network("d_psgd", topology="ring")
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        for step in range(4):
            optimizer.zero_grad()
            for part in range(2):
                x, y = batch(10 * step + part)
                nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
            if fancy:
                model.eval()
                with torch.no_grad():
                    model(batch(99)[0])
                model.train()
                sotto.state_dict(owner)
                with owner.average():
                    pass
        digests.append(digest(net))
    return digests


def local_of_one(ranks):
    """The largest differences of parameters between DDP and LocalSGD(every=1), AllReduceDataParallel, and DDP itself."""
    ends = []
    for how in ("local", "all_reduce", "ddp"):
        torch.manual_seed(7)
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), LR)
        if how == "local":
            kept, model = sotto.LocalSGD(net, optimizer, every=1), net
        else:
            model = sotto.AllReduceDataParallel(net) if how == "all_reduce" else nn.parallel.DistributedDataParallel(net)
        learn(model, optimizer, 0, 5)
        ends.append(flat(net.parameters()))
    return [(end - ends[-1]).abs().max().item() for end in ends]


def step_stats(how, **options):
    net, optimizer, owner, model = network(how, **options)
    learn(model, optimizer, 0, 8)
    stats = sotto.stats(owner)
    assert stats.wire_seconds > 0
    return {**stats.__dict__, "ratio": stats.ratio, "numel": sum(p.numel() for p in net.parameters())}


def two_wrapped():
    """Two modules have an optimizer each. Each module is mixed after its optimizer's steps."""
    modules = [Point(), Point(3)]
    models = [sotto.GossipDataParallel(module, "push_sum", "complete") for module in modules]
    optimizers = [torch.optim.SGD(module.parameters(), LR) for module in modules]
    for _ in range(3):
        models[0]().backward()
        optimizers[0].step()
    models[1]().backward()
    optimizers[1].step()
    return [sotto.stats(model).steps for model in models]


class Accelerated(torch.optim.Optimizer):
    """Wraps an optimizer as accelerate does."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.step()


def wrapped_optimizer():
    """The numbers of steps after steps of a wrapped optimizer."""
    counts = []
    for make in (sotto.LocalSGD, sotto.DiLoCo, lambda module, optimizer: sotto.GossipDataParallel(module, optimizer=optimizer)):
        module = Point()
        optimizer = Accelerated(torch.optim.SGD(module.parameters(), LR))
        owner = make(module, optimizer)
        module().backward()
        optimizer.step()
        counts.append(owner.stats().steps)
    return counts
