"""Averaged gradients: means, memories, replicas, bytes, schedules."""

import torch
import torch.distributed as dist

import sotto

from .net import digest, flat, loss_of, make, train


def dense_is_ddp(dtype, accumulate=1, channels_last=False, options=None, extra=True):
    """The parameters with codec none, and with DDP alone; on two ranks they have the same bits, since halves are exact."""
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
    """The sums of the applied means, of the dense means, and of all that is still held back, at constant parameters."""
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
    """How much the state of one rank owes to the mean gradient, summed over the elements."""
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
    """In some steps, no rank uses a part of the model, or only one rank does."""
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
