"""Python threads, forks and exceptions while the library's threads work."""

import os
import threading

import torch
import torch.distributed as dist

import sotto

from .net import digest, make, train


def beside_a_spinning_thread():
    """A thread holds the interpreter's lock whenever it can, during gradients, local steps and gossip."""
    stop = threading.Event()
    spinner = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)], daemon=True)
    spinner.start()
    try:
        ddp = sotto.compress(make(), "qsgd(4) | rans", timeout=600)
        train(ddp, 3)
        net = torch.nn.Linear(4, 4)
        optimiser = torch.optim.SGD(net.parameters(), 0.1)
        local = sotto.LocalSGD(net, optimiser, every=2, timeout=600)
        for _ in range(4):
            net(torch.ones(2, 4)).sum().backward()
            optimiser.step()
        local.take_average()
        total = sotto.aggregate(torch.ones(2), "sum", timeout=600)
    finally:
        stop.set()
        spinner.join()
    return [digest(ddp), total.tolist()]


def with_forks():
    """A process that is forked between steps, and ends as Python does, leaves the parent's connections alone."""
    ddp = sotto.compress(make(), "int8", timeout=600)
    statuses = []
    for step in range(3):
        train(ddp, 1, first=step)
        child = os.fork()
        if child == 0:
            import atexit

            del ddp
            atexit._run_exitfuncs()
            os._exit(7)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    train(ddp, 2, first=3)
    return [digest(ddp), statuses]


def an_exception_in_a_callback():
    """The model that rank 1's library reads is another one: its own error, and the other rank hears of it."""
    net = torch.nn.Linear(4, 4)
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    local = sotto.LocalSGD(net, optimiser, every=1, timeout=600)
    if dist.get_rank() == 1:
        model = local._steps.stepper._model
        model.copy = lambda *_, **__: (_ for _ in ()).throw(KeyError("a callback raised"))
    net(torch.ones(2, 4)).sum().backward()
    optimiser.step()
