"""Ranks that step at their own speed, and nodes of ranks that share a model."""

import time

import torch
import torch.distributed as dist
from torch import nn

import sotto

from .net import digest, flat, images
from .steps import learn, network, Point


def own_speed(enough, **options):
    """ad_psgd with a slow rank 0, until all together have taken enough steps; then from a state; then without rank 1. Returns
    the sum of this rank's own steps in the first two runs, the mean model after them, and each rank's steps."""
    went, counted, state = torch.zeros(5, dtype=torch.float64), [], None
    for total in (enough, 2 * enough):
        module = Point()
        optimizer = torch.optim.SGD(module.parameters(), 0.01)
        model = sotto.GossipDataParallel(module, "ad_psgd", timeout=60, **options)
        start = module.p.tolist() if state is None else start
        if state is not None:
            sotto.load_state_dict(model, state)
            assert model.steps() == counted[-1]  # whoever takes steps already
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
    """Rank 1's model becomes a NaN, or another shape; what each rank says in the end, and again."""
    net, optimizer, owner, model = network("ad_psgd", timeout=60, codec="f16")
    learn(model, optimizer, 0, 2)
    dist.barrier()  # the other one has taken these steps, too
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
    """A step of a node, one rank of which is in a group that the other one is not in."""
    dist.new_group([1])
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    model = sotto.GossipDataParallel(net, "push_sum", node_size=2, timeout=60)
    model(torch.full((3, 4), 1.0 + dist.get_rank())).sum().backward()
    optimizer.step()
    return digest(net)


def nodes(how, node_size, ranks, **options):
    """Adam's steps of a network, between nodes; each of which has, in each step, the batches of its share of all ranks'."""
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
            parts.append(images(100 * step + other))
        x, y = (torch.cat(tensors) for tensors in zip(*parts))
        if step == 3:  # gradients that are added up
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
    if node_size > 1:  # each rank sends gradients, and a leader models, too
        models = 2 if dist.get_rank() % node_size == 0 else 0
        numel = sum(p.numel() for p in net.parameters())
        assert 0.99 < sotto.stats(model).bytes_sent / (6 * 4 * numel * (1 + models)) < 1.2, sotto.stats(model)
    with model.average():
        return [own, flat(net.parameters()).tolist()]
