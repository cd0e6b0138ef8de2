"""Losses that a torch.amp.GradScaler scales."""

import math

import torch
import torch.distributed as dist

import sotto

from .all_reduce import wrapped
from .net import batch, DEVICE, digest, loss_of, make


def wrap(kind, dtype="float32", **options):
    return wrapped(dtype, **options) if kind == "plain" else sotto.compress(make(dtype), bucket_mb=0.01, **options)


def memories(model):
    return {name: value for name, value in sotto.state_dict(model)["values"].items() if isinstance(value, torch.Tensor)}


def scaled(kind, codec, steps, overflows, **options):
    """The parameters after a training with a scaler whose scale changes, where rank 1 alone overflows in some steps; and those
    after a training without a scaler that leaves these steps out."""
    found = {}
    for name in ("scaled", "unscaled"):
        scaler = torch.amp.GradScaler(DEVICE, init_scale=8.0, growth_interval=2, enabled=name == "scaled")
        model = wrap(kind, codec=codec, scaler=scaler, **options)
        optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
        scales, kept = [], True
        for step in range(steps):
            if step in overflows and name == "unscaled":
                continue
            optimiser.zero_grad()
            before = memories(model)
            loss = scaler.scale(loss_of(model, step))
            if step in overflows:  # in the last gradient of backward, when all other buckets are on their way
                loss = loss + (math.inf if dist.get_rank() == 1 else 1) * model.module.conv.weight.sum()
            loss.backward()
            if step in overflows:
                after = memories(model)
                kept = kept and before.keys() == after.keys() and all(torch.equal(before[k], after[k]) for k in before)
                kept = kept and all(p.grad.isnan().all() for p in model.parameters())
            scaler.step(optimiser)
            scaler.update()
            scales.append(scaler.get_scale())
        found[name] = {"digest": digest(model), "scales": scales, "kept": kept, "methods": sotto.stats(model).methods,
                       "held": max([v.abs().max().item() for v in memories(model).values() if v.numel() > 0], default=0)}
    return found


def scaled_differently():
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0 ** dist.get_rank())
    model = sotto.compress(make(broadcast_buffers=False), "ef | topk(0.1)", scaler=scaler)
    scaler.scale(loss_of(model, 0)).backward()


def overflow_without_scaler():
    """The loop uses a GradScaler that was not given to sotto."""
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**20)
    model = sotto.compress(make(broadcast_buffers=False), "ef | topk(0.1)")
    loss = scaler.scale(loss_of(model, 0))
    (loss * (math.inf if dist.get_rank() == 1 else 1)).backward()


def mean_saturates(nonfinite):
    """The gradients of each rank fit their type, but the codec makes some ten times as large, and those do not."""
    model = sotto.compress(make("float16"), "randomk(0.1, unbiased=true, dense=0)", nonfinite=nonfinite)
    model(batch(0, torch.float16)[0])
    sum((p * (torch.finfo(torch.float16).max / 2)).sum() for p in model.parameters()).backward()
    return all(bool(p.grad.isnan().all()) for p in model.parameters())
