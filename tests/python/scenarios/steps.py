"""Ranks with models of their own: gossip and local steps, driven by a plain loop."""

import time

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
    model().backward()  # training can go on
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
    """The parameters, including frozen ones, and the buffers, which must be those of rank 0."""
    net = Net()
    net.norm.running_mean += dist.get_rank()
    net.out.bias.requires_grad_(False)
    torch.nn.init.normal_(net.out.bias)
    optimizer = torch.optim.SGD((p for p in net.parameters() if p.requires_grad), LR)
    local = sotto.LocalSGD(net, optimizer)
    return [digest(net), net.norm.running_mean.sum().item(), local.stats().steps]


def statistics():
    """Batch-norm statistics: those of this rank, their mean within average(), and those of this rank again."""
    net, optimizer, owner, model = network("push_sum")
    learn(model, optimizer, 0, 3)
    seen = [net.norm.running_mean.tolist()]
    with owner.average():
        seen.append(net.norm.running_mean.tolist())
        alike = digest(net)
    seen.append(net.norm.running_mean.tolist())
    return [alike, *seen]


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


def within_average():
    """Within average(), calls that would take the mean for this rank's model are refused. A state holds the rank's model."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), LR)
    local = sotto.LocalSGD(module, optimizer, every=4)
    learned, said = local.state_dict(), []
    for _ in range(3):
        module().backward()
        optimizer.step()
    before = module.p.tolist()
    with local.average():
        for call in (local.average().__enter__, local.take_average, lambda: local.load_state_dict(learned), optimizer.step):
            try:
                call()
            except sotto.ConfigError as error:
                said.append(str(error))
        state = local.state_dict()
    after = module.p.tolist()
    local.load_state_dict(state)
    return [said, before, after, module.p.tolist()]


class Derived(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


def nested_steps(how):
    """Parameters after steps of SGD, and of a class derived from it, one of whose steps raises; and the errors."""
    ends, said = [], []
    for kind in (torch.optim.SGD, Derived):
        module = Point()
        optimizer = kind(module.parameters(), LR)
        owner, model = wrap(module, how, optimizer)
        for step in range(4):
            if step == 2 and kind is Derived:
                try:
                    optimizer.step(lambda: {}["no gradients today"])
                except KeyError as error:
                    said.append(error.args[0])
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
        ends.append(module.p.tolist())
    try:
        owner._steps.stepper.end()
    except sotto.ConfigError as error:
        said.append(str(error)[:len("no step has begun that could end")])
    return [*ends, said]


def weights_changed_by_hand():
    """Parameters are changed by hand before the first step and after it. A change after a step counts as part of the next one."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), 0.0)
    model = sotto.GossipDataParallel(module, "push_sum", "complete")
    with torch.no_grad():
        module.p.add_(1.0 + dist.get_rank())
    model().backward()
    optimizer.step()
    with torch.no_grad():
        module.p.add_(dist.get_rank())
    model().backward()
    optimizer.step()
    return module.p.tolist()


def changed_by_hand_and_saved(how, **options):
    """A state is saved after a step and a clamp. Returns the ends of the run that goes on and of one that loads that state."""
    ends = []
    for resumes in (False, True):
        module = Point()
        optimizer = torch.optim.SGD(module.parameters(), LR)
        owner, model = wrap(module, how, optimizer, **options)
        if resumes:
            sotto.load_state_dict(owner, state)
            loaded = module.p.tolist()
        else:
            model().backward()
            optimizer.step()
            module.p.data.clamp_(-0.1 * dist.get_rank(), 0.2)
            saved, state = module.p.tolist(), sotto.state_dict(owner)
        for _ in range(4):
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
        ends.append(module.p.tolist())
    return [*ends, loaded, saved]


def changed_by_hand_and_agreed(how, **options):
    """After a step, all ranks but 0 change their parameters; then come take_average() and a step with a rate of 0."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), LR)
    owner, model = wrap(module, how, optimizer, **options)
    model().backward()
    optimizer.step()
    module.p.data.add_(dist.get_rank())
    seen = [module.p.tolist()]
    owner.take_average()
    seen.append(module.p.tolist())
    optimizer.param_groups[0]["lr"] = 0.0
    model().backward()
    optimizer.step()
    return [*seen, module.p.tolist()]


def local_of_one(ranks):
    """The largest differences between the parameters of DDP and those of LocalSGD(every=1), AllReduceDataParallel, and DDP itself."""
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
    """Two modules have an optimizer each. Each module is mixed after the steps of its own optimizer."""
    modules = [Point(), Point(3)]
    models = [sotto.GossipDataParallel(module, "push_sum", "complete") for module in modules]
    optimizers = [torch.optim.SGD(module.parameters(), LR) for module in modules]
    for _ in range(3):
        models[0]().backward()
        optimizers[0].step()
    models[1]().backward()
    optimizers[1].step()
    return [sotto.stats(model).steps for model in models]


def own_speed(enough, **options):
    """ad_psgd with a slow rank 0. The first run ends when all ranks together have taken enough steps; the second goes on from its
    state; then all ranks but 1 take some more steps. Returns the sum of this rank's steps in the two runs, the mean model after
    them, and the number of steps of each rank."""
    went, counted, state = torch.zeros(5, dtype=torch.float64), [], None
    for total in (enough, 2 * enough):
        module = Point()
        optimizer = torch.optim.SGD(module.parameters(), 0.01)
        model = sotto.GossipDataParallel(module, "ad_psgd", timeout=60, **options)
        start = module.p.tolist() if state is None else start
        if state is not None:
            sotto.load_state_dict(model, state)
            assert model.steps() == counted[-1]  # even if other ranks go on already
        while sum(model.steps()) < total:
            optimizer.zero_grad()
            model().backward()
            time.sleep(0.02 if dist.get_rank() == 0 else 0.001)
            optimizer.step()
            went -= 0.01 * module.p.grad.double()
        state = sotto.state_dict(model)
        counted.append(model.steps())
        assert sotto.stats(model).steps == model.steps()[dist.get_rank()] - (counted[0][dist.get_rank()] if len(counted) > 1 else 0)
    with model.average():
        mean = module.p.tolist()
    if dist.get_rank() != 1:
        for _ in range(5):
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
    return {"start": start, "went": went.tolist(), "mean": mean, "steps": counted}


def own_speed_fails(what):
    """Rank 1's model becomes NaN or changes its shape. Returns the error of this rank, and the error of the next step."""
    net, optimizer, owner, model = network("ad_psgd", timeout=60, codec="f16")
    learn(model, optimizer, 0, 2)
    if dist.get_rank() == 1:
        net.out.bias.data = torch.full((10,), float("nan")) if what == "nan" else torch.zeros(3)
    said = []
    for _ in range(2):
        try:
            while True:
                optimizer.zero_grad()
                for parameter in net.parameters():
                    parameter.grad = torch.zeros_like(parameter)
                optimizer.step()
        except sotto.Error as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def nodes_beside_a_group():
    """A step of a node. One of its ranks is in a group that the other rank is not in."""
    dist.new_group([1])
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    model = sotto.GossipDataParallel(net, "push_sum", node_size=2, timeout=60)
    model(torch.full((3, 4), 1.0 + dist.get_rank())).sum().backward()
    optimizer.step()
    return digest(net)


def nodes(how, node_size, ranks, **options):
    """Steps of Adam, with models mixed between nodes. The batches of `ranks` ranks are divided among the processes."""
    torch.manual_seed(7)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    each = ranks // dist.get_world_size()
    model = sotto.GossipDataParallel(net, how, node_size=node_size, timeout=60, **options)
    saved = None
    for step in range(6):
        optimizer.zero_grad()
        parts = []
        for other in range(dist.get_rank() * each, (dist.get_rank() + 1) * each):
            generator = torch.Generator().manual_seed(100 * step + other)
            parts.append((torch.randn(8, 1, 8, 8, generator=generator), torch.randint(0, 10, (8,), generator=generator)))
        x, y = (torch.cat(tensors) for tensors in zip(*parts))
        if step == 3:  # accumulates gradients
            with model.no_sync():
                (nn.functional.cross_entropy(model(x[::2]), y[::2]) / 2).backward()
            (nn.functional.cross_entropy(model(x[1::2]), y[1::2]) / 2).backward()
        else:
            nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step == 4:
            saved = sotto.state_dict(model)
            sotto.load_state_dict(model, saved)
    own = digest(net)
    if node_size > 1:  # each rank sends gradients, and a leader also sends models
        models = 2 if dist.get_rank() % node_size == 0 else 0
        numel = sum(p.numel() for p in net.parameters())
        assert 0.99 < sotto.stats(model).bytes_sent / (6 * 4 * numel * (1 + models)) < 1.2, sotto.stats(model)
    with model.average():
        return [own, flat(net.parameters()).tolist()]
