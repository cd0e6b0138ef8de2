"""Gradients of plain modules."""

import functools
import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import _apply_optimizer_in_backward

import sotto

from .net import DEVICE, batch, digest, make, Net, train
from .refusals import Refusals


def wrapped(dtype="float32", memory_format=torch.contiguous_format, **options):
    torch.manual_seed(7 + dist.get_rank())
    net = Net().to(getattr(torch, dtype)).to(memory_format=memory_format)
    return sotto.AllReduceDataParallel(net, **({"bucket_mb": 0.01} | options))


def same_as_ddp(codec, dtype="float32", channels_last=False, accumulate=1, extra=True, same_start=True, **options):
    """The parameters after training, of our module and of a DDP with the same codec."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    theirs = sotto.compress(make(dtype, layout, find_unused_parameters=not extra), codec, bucket_mb=0.01, **options)
    ours = wrapped(dtype, layout, codec=codec, **options)
    ours.module.load_state_dict(theirs.module.state_dict())
    for model in (ours, theirs):
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(4):
            optimiser.zero_grad(set_to_none=step % 2 == 0)
            for micro in range(accumulate - 1):
                with model.no_sync():
                    backward(model, 10 * step + micro, extra)
            backward(model, 10 * step + accumulate, extra)
            optimiser.step()
    return [digest(ours), digest(theirs), sotto.stats(ours).bytes_sent == sotto.stats(theirs).bytes_sent]


def backward(model, step, extra=True):
    x, y = batch(step, next(model.parameters()).dtype)
    nn.functional.cross_entropy(model(x, extra=extra).float(), y).backward()


def all_reduce_resumed(folder, steps, first=0):
    """Trains some steps, from a saved state unless `first` is 0, and saves its own state."""
    model = wrapped(codec="ef | topk(0.1) | qsgd(4)", rules={"*.bias": "int8"}, seed=5)
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    path = f"{folder}/rank{dist.get_rank()}"
    if first > 0:
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        sotto.load_state_dict(model, state["sotto"])
    train(model, steps, first=first, optimiser=optimiser)
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "sotto": sotto.state_dict(model)}, path)
    return digest(model)


def all_reduce_fails(how):
    """Rank 1 has a NaN, dies, or has a gradient of another shape."""
    model = wrapped(codec="ef | topk(0.1)", timeout=120)
    train(model, 2)
    if dist.get_rank() == 1 and how == "dies":
        os._exit(1)
    if dist.get_rank() == 1 and how == "shape":
        model.module.out.bias.data = torch.zeros(1)  # broadcasts
    x, y = batch(2)
    (nn.functional.cross_entropy(model(x), y) * (math.nan if dist.get_rank() == 1 else 1)).backward()


def second_gradient():
    """In one backward, rank 1 makes two gradients of a layer; the others would wait for its first step."""
    model = wrapped(timeout=600)
    if dist.get_rank() == 0:
        return backward(model, 0)
    twice = lambda x: torch.utils.checkpoint.checkpoint(model.module.out, x, use_reentrant=True)
    hidden = torch.ones(4, 32, requires_grad=True)
    ((twice(hidden) + twice(hidden * 2)).sum() + model.module.extra.weight.sum()).backward()


def all_reduce_errors():
    said = Refusals()
    expect = said.expect

    expect("codec", lambda: wrapped(codec="tokp"))
    expect("double", lambda: wrapped("float64"))
    expect("frozen", lambda: sotto.AllReduceDataParallel(Net().requires_grad_(False)))
    expect("no module", lambda: sotto.AllReduceDataParallel(3))
    expect("sparse", lambda: sotto.AllReduceDataParallel(nn.Embedding(10, 4, sparse=True)))
    expect("group", lambda: sotto.AllReduceDataParallel(Net(), process_group=3))
    model = wrapped()
    twice = lambda x: torch.utils.checkpoint.checkpoint(model.module.out, x, use_reentrant=True)
    hidden = torch.ones(4, 32, requires_grad=True)
    expect("twice", lambda: ((twice(hidden) + twice(hidden * 2)).sum() + model.module.extra.weight.sum()).backward())
    return said


def parameters_that_change_their_kind():
    """What a forward says after a parameter was unfrozen or replaced; and how far one moves that was frozen."""
    said = Refusals()
    x = torch.ones(2, 3, device=DEVICE)
    wrappers = {
        "all_reduce": lambda net: sotto.AllReduceDataParallel(net),
        "ddp": lambda net: sotto.compress(nn.parallel.DistributedDataParallel(net), "none", check_replicas=1),
        "gossip": lambda net: sotto.GossipDataParallel(net),
    }
    for name, wrap in wrappers.items():
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)).to(DEVICE)
        net[0].requires_grad_(False)
        model = wrap(net)
        said.expect(f"{name}, the same", lambda m=model: m(x))
        net[0].requires_grad_(True)
        said.expect(f"{name}, unfrozen", lambda m=model: m(x))
        net[0].requires_grad_(False)
        net[1].weight = nn.Parameter(torch.ones(1, 3, device=DEVICE))
        said.expect(f"{name}, replaced", lambda m=model: m(x))
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)).to(DEVICE)
    model = sotto.AllReduceDataParallel(net)
    optimiser = torch.optim.AdamW(net.parameters(), 0.1, weight_decay=0.5)
    net[0].requires_grad_(False)
    before = [p.detach().clone() for p in net.parameters()]
    for _ in range(3):
        optimiser.zero_grad()
        model(x).sum().backward()
        optimiser.step()
    return [dict(said), [float((p.detach() - old).abs().max()) for p, old in zip(net.parameters(), before)]]


def all_reduce_twice():
    """A newer wrapper takes the place of an older one, unless it is refused; then backward fails on rank 1, and all wrap again."""
    said, net = Refusals(), Net()
    older = sotto.AllReduceDataParallel(net, timeout=600)
    said.expect("refused", lambda: sotto.AllReduceDataParallel(net, "nonsense("))
    train(older, 1)
    assert older.stats().steps == 1
    model = sotto.AllReduceDataParallel(net, timeout=600)
    said.expect("older", lambda: train(older, 1))
    train(model, 1)
    gossip = sotto.GossipDataParallel(net, node_size=2)
    model = sotto.AllReduceDataParallel(net, timeout=600)
    said.expect("node", lambda: train(gossip, 1))
    if dist.get_rank() == 1:
        net.norm.register_full_backward_hook(lambda *_: 1 / 0)
    try:
        train(model, 1)
    except (sotto.CommError, ZeroDivisionError) as error:
        kept = error
    net.norm._backward_hooks.clear()
    model = sotto.AllReduceDataParallel(net)
    train(model, 2)
    return [said, type(kept).__name__, model.stats().steps, digest(net)]


def wrapped_anew_by_one():
    """Rank 1 leaves its loop before backward, in which rank 0 waits for it, and wraps the module again; then rank 0 does, too."""
    net = Net()
    model = sotto.AllReduceDataParallel(net, timeout=600)
    said = "KeyError"
    if dist.get_rank() == 0:
        try:
            train(model, 1)
        except sotto.CommError as error:
            said = str(error)
    model = sotto.AllReduceDataParallel(net)
    train(model, 2)
    return [said, model.stats().steps, digest(net)]


def used_after_a_failure():
    """Rank 1 leaves a backward early; a newer wrapper is refused. What the next forward says, and a backward without it."""
    said, net = [], Net()
    model = sotto.AllReduceDataParallel(net, timeout=600)
    if dist.get_rank() == 1:
        net.norm.register_full_backward_hook(lambda *_: 1 / 0)
    for use in (lambda: train(model, 1), lambda: sotto.AllReduceDataParallel(net, "nonsense("), lambda: train(model, 1),
                lambda: net.out(torch.ones(1, 32)).sum().backward()):
        try:
            use()
        except (sotto.Error, ZeroDivisionError) as error:
            said.append(f"{type(error).__name__}: {error}")
        net.norm._backward_hooks.clear()
    with torch.no_grad():
        model(batch(0)[0])  # evaluating is no training
    return said


def hooks_in_backward():
    """What is said to hooks that use a gradient before it is the mean: registered before wrapping, or later on rank 1 alone.
    And how often a tensor hook was called, which sees a rank's own gradient."""
    said, seen, net = Refusals(), [], Net()
    net.out.bias.register_hook(lambda gradient: seen.append(gradient.shape))
    hook = net.out.bias.register_post_accumulate_grad_hook(lambda p: p.grad.clamp_(-0.1, 0.1))
    said.expect("before", lambda: sotto.AllReduceDataParallel(net))
    hook.remove()
    model = sotto.AllReduceDataParallel(net, timeout=600)
    train(model, 1)
    if dist.get_rank() == 1:
        net.out.bias.register_post_accumulate_grad_hook(lambda p: p.grad.clamp_(-0.1, 0.1))
    try:
        train(model, 1)
    except sotto.Error as error:
        said["later"] = f"{type(error).__name__}: {error}"
    net = Net()
    _apply_optimizer_in_backward(torch.optim.SGD, net.parameters(), {"lr": 0.1})
    said.expect("optimizer", lambda: sotto.AllReduceDataParallel(net))
    return [said, len(seen)]


class Trains(torch.autograd.Function):
    """Trains a model within its backward."""

    @staticmethod
    def forward(ctx, x, model):
        ctx.model = model
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            ctx.model(torch.ones(2, 3)).sum().backward()
        return gradient, None


def backward_within_backward():
    """What is said to a net whose last part, or all parts, are reentrant checkpoints, and to one that is trained in a backward."""
    said, net = Refusals(), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    again = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=True)
    for name, first in ("last", net[0]), ("all", functools.partial(again, net[0])):
        model, x = sotto.AllReduceDataParallel(net), torch.ones(2, 3, requires_grad=True)
        said.expect(name, lambda: again(net[1], first(x)).sum().backward())
    model = sotto.AllReduceDataParallel(net)
    said.expect("function", lambda: Trains.apply(torch.ones(1, requires_grad=True), model).backward())
    return said


def compiled_backward():
    net = nn.Linear(3, 1)
    model = sotto.AllReduceDataParallel(net, timeout=600)
    from torch._dynamo.compiled_autograd import _enable
    with _enable(torch.compile(backend="eager")):
        model(torch.ones(2, 3)).sum().backward()


def a_step_after_a_backward_that_failed():
    """A backward fails on all ranks after some gradients, and is caught. What the next one says, which reaches others first."""
    said, net = Refusals(), Net()
    model = sotto.AllReduceDataParallel(net)
    hook = net.norm.register_full_backward_hook(lambda *_: 1 / 0)
    try:
        backward(model, 0, extra=False)
    except ZeroDivisionError:
        hook.remove()
    said.expect("next", lambda: model.module.extra(torch.ones(1, 32)).sum().backward())
    return said
