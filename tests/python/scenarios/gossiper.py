"""Tensors that are mixed with neighbours' tensors."""

import functools

import torch
import torch.distributed as dist

import sotto


def gossiper_exact(topology, dtype="float32"):
    """The largest difference from the mean after the number of rounds that make it exact, and that number."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gossiper = sotto.Gossiper(topology=topology)
    tensor = (torch.arange(12, dtype=torch.float32).view(3, 4) * (rank + 1)).to(getattr(torch, dtype)).t()
    same = gossiper.average(tensor, rounds=gossiper.exact_after)
    assert same is tensor and gossiper.rounds == gossiper.exact_after
    mean = torch.arange(12, dtype=torch.float32).view(3, 4).t() * (size + 1) / 2
    return [(tensor - mean).abs().max().item(), gossiper.exact_after]


def gossiper_own(topology):
    """How far a tensor is from the mean after many rounds on lists of peers, on such lists in turns, or on a matrix."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gossiper = sotto.Gossiper(topology=torch.tensor(topology["matrix"]) if isinstance(topology, dict) else topology)
    tensor = gossiper.average(torch.full((5,), float(rank)), rounds=40)
    return (tensor - (size - 1) / 2).abs().max().item()


def gossiper_push_sum():
    """On a graph whose weights do not stay 1: the sums of tensors and of weights, tensor / weight, and the weight."""
    gossiper = sotto.Gossiper(topology="star")
    tensor, weight = torch.full((7,), float(dist.get_rank())), 1.0
    for _ in range(60):
        weight = gossiper.mix(tensor, weight)
    sums = [sotto.aggregate(tensor, "sum")[0].item(), sotto.aggregate(torch.tensor([weight]), "sum").item()]
    return [*sums, (tensor / weight)[0].item(), weight]


def gossiper_shapes():
    """Tensors of several shapes in turn, and one that is no float."""
    gossiper = sotto.Gossiper(topology="complete")
    out = [gossiper.average(torch.full((size,), dist.get_rank() + 1.0))[0].item() for size in (3, 1000, 3)]
    negated = torch._neg_view(torch.full((3,), -1.0 - dist.get_rank(), device="cpu"))  # has another sign in memory
    out.append(gossiper.average(negated)[0].item())
    said = []
    for call in (lambda: gossiper.mix(torch.ones(3, dtype=torch.int32)), lambda: gossiper.mix(torch.ones(3), 0.0),
                 lambda: gossiper.average(torch.ones(3), -1), lambda: gossiper.mix([1.0]),
                 lambda: gossiper.mix(torch.ones(1).expand(3))):
        try:
            call()
        except sotto.ConfigError as error:
            said.append(str(error))
    out.append(gossiper.average(torch.full((3,), dist.get_rank() + 1.0))[0].item())  # nothing was sent of those
    return [out, said]


def gossiper_mixes_another_tensor(what):
    gossiper = sotto.Gossiper(topology="complete", timeout=60)
    ones = functools.partial(torch.ones, device="cpu")  # from a device, every tensor is copied to the same strides
    gossiper.average(ones(1, 3)[:, :2] if dist.get_rank() == 1 else ones(1, 2))  # these are alike
    tensors = {"size": ones(7), "shape": ones(2, 3), "strides": ones(2, 3).t()}
    gossiper.average(tensors[what] if dist.get_rank() == 1 else ones(3, 2))


def gossiper_refuses(what):
    """Rank 1 calls with a tensor or weight that cannot be mixed."""
    gossiper, bad = sotto.Gossiper(topology="complete", timeout=600), dist.get_rank() == 1
    gossiper.mix(torch.ones(3, dtype=torch.int32 if bad and what == "type" else None), 0.0 if bad and what == "weight" else 1.0)


def aggregate_by(codec):
    """Sums over batches of different sizes, divided by the number of all examples."""
    rank = dist.get_rank()
    tensor = torch.full((64,), 3.0 * (rank + 1))
    mean = sotto.aggregate(tensor, denominator=8, codec=codec)
    assert tensor[0] == 3.0 * (rank + 1)
    return [mean[0].item(), sotto.aggregate(tensor.double(), denominator=8)[0].item() if codec == "none" else None]
