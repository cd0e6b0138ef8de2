#!/usr/bin/env python3
"""A rank of ResNet-20 on CIFAR-10 in torchft or hivemind, for `bench/chaos.py --peer`, which starts it with their Python.

    python bench/chaos.py --peer torchft --python VENV/bin/python --minutes 10 -- --data-dir DIR

A rank appends a line to its --steps file for each step that counts: the time of day, the step, and the seconds since the end
of the step before it. `torchft-local` averages models after every 8 steps of each rank's own; `hivemind`, which is made for
large batches, averages the gradients of 8 batches of each rank, and its steps are these.
"""

import argparse
import os
import pathlib
import random
import time
from datetime import timedelta

import torch
from torch import nn

from ddp import network

LR, MOMENTUM, DECAY = 0.05, 0.9, 0.0005
EVERY = 8  # batches from average to average, of torchft's LocalSGD and of hivemind
RANKS = 4
TIMEOUT = timedelta(seconds=10)


class Pictures:
    """Batches drawn from CIFAR-10's binary files."""

    def __init__(self, folder, size):
        records = b"".join(path.read_bytes() for path in sorted(pathlib.Path(folder).glob("data_batch_*.bin")))
        self.records = torch.frombuffer(bytearray(records), dtype=torch.uint8).view(-1, 3073)
        self.size = size

    def draw(self):
        batch = self.records[torch.randint(len(self.records), (self.size,))]
        return (batch[:, 1:].float().view(-1, 3, 32, 32) - 120) / 64, batch[:, 0].long()


class Log:
    def __init__(self, path):
        self.path, self.last = path, time.monotonic()

    def step(self, step, counts=True):
        now = time.monotonic()
        if counts:
            with open(self.path, "a") as file:
                file.write(f"{time.time()} {step} {now - self.last}\n")
        self.last = now


def compute(model, pictures, slow):
    begun = time.monotonic()
    x, y = pictures.draw()
    loss = nn.functional.cross_entropy(model(x), y)
    time.sleep((slow - 1) * (time.monotonic() - begun) * 3)  # of a step's time, going back takes two thirds
    return loss


def torchft(arguments, model, pictures, log):
    from torch.distributed import TCPStore
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo
    from torchft.local_sgd import LocalSGD

    local = arguments.peer == "torchft-local"
    inner = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def load(state):
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["optimiser"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=TIMEOUT), load_state_dict=load, state_dict=lambda: {"model": model.state_dict(), "optimiser": inner.state_dict()},
        min_replica_size=2, timeout=TIMEOUT, rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
        lighthouse_addr=arguments.meeting, replica_id=f"rank{os.getpid()}", hostname="127.0.0.1", use_async_quorum=not local)  # fmt: skip
    if local:
        with LocalSGD(manager, model, inner, sync_every=EVERY):
            step = 0
            while True:
                inner.zero_grad()
                compute(model, pictures, arguments.slow).backward()
                before = manager.current_step()
                inner.step()
                step += 1
                log.step(EVERY * before + step % EVERY)
    ddp, optimiser = DistributedDataParallel(manager, model), Optimizer(manager, inner)
    while True:
        optimiser.zero_grad()
        compute(ddp, pictures, arguments.slow).backward()
        before = manager.current_step()
        optimiser.step()
        log.step(manager.current_step(), counts=manager.current_step() > before)


def hivemind(arguments, model, pictures, log):
    import hivemind as hm

    dht = hm.DHT(start=True, host_maddrs=["/ip4/127.0.0.1/tcp/0"], initial_peers=[arguments.meeting])
    optimiser = hm.Optimizer(
        dht=dht, run_id="chaos", params=model.parameters(), target_batch_size=RANKS * EVERY * arguments.batch_size, batch_size_per_step=arguments.batch_size,
        optimizer=lambda params: torch.optim.SGD(params, lr=LR, momentum=MOMENTUM, weight_decay=DECAY),
        use_local_updates=False, matchmaking_time=arguments.matchmaking, averaging_timeout=10, offload_optimizer=False)  # fmt: skip
    optimiser.load_state_from_peers()
    while True:
        compute(model, pictures, arguments.slow).backward()
        optimiser.step()
        optimiser.zero_grad()
        log.step(optimiser.local_epoch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=["torchft", "torchft-local", "hivemind"], required=True)
    parser.add_argument("--meeting", required=True, help="address of torchft's lighthouse or of hivemind's first peer")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--steps", required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--slow", type=float, default=1)
    parser.add_argument("--matchmaking", type=float, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = network("resnet20")
    torch.manual_seed(random.randrange(2**31))
    job = hivemind if arguments.peer == "hivemind" else torchft
    job(arguments, model, Pictures(arguments.data_dir, arguments.batch_size), Log(arguments.steps))


if __name__ == "__main__":
    main()
