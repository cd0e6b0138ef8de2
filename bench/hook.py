#!/usr/bin/env python3
"""What the Python package adds to a step of DDP, and what a call of the library takes.

Two ranks of one thread train with plain DDP, with torch's hooks and with codecs of sotto, in turns, with the installed package
or a build: PYTHONPATH=build/release/python python bench/hook.py
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
import timeit

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))  # fmt: skip


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 3000), nn.ReLU(), nn.Linear(3000, 3000), nn.ReLU(), nn.Linear(3000, 500), nn.ReLU(),
                         nn.Linear(500, 10))  # fmt: skip


class Many(nn.Module):
    """100 million parameters in 400 tensors, of which each is used once: hardly any computing."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.full((250_000,), 1e-3)) for _ in range(400))

    def forward(self, x):
        return x.flatten(1)[:, :10] + sum(part.sum() for part in self.parts)


MODELS = {"lenet": (lenet, 64), "mlp": (mlp, 2), "many": (Many, 2)}  # and the batch of a rank


def nothing(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def prepared(name, model):
    ddp = nn.parallel.DistributedDataParallel(model)
    if name == "nothing":
        ddp.register_comm_hook(None, nothing)
    elif name == "bf16 hook":
        ddp.register_comm_hook(None, lambda group, bucket: default_hooks.bf16_compress_hook(group, bucket))
    elif name != "DDP":
        import sotto

        sotto.compress(ddp, name)
    return ddp


def rank(number, folder, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=number, world_size=2)
    make, batch = MODELS[arguments.model]
    torch.manual_seed(0)
    jobs = {name: prepared(name, make()) for name in arguments.variants}
    optimizers = {name: torch.optim.SGD(job.parameters(), 1e-4) for name, job in jobs.items()}
    x, y = torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,))
    found = {name: [] for name in jobs}
    for turn in range(arguments.rounds + 1):
        for name, ddp in jobs.items():
            dist.barrier()
            for _ in range(arguments.steps):
                begin = time.perf_counter()
                nn.functional.cross_entropy(ddp(x), y).backward()
                optimizers[name].step()
                optimizers[name].zero_grad()
                if turn:  # the first is for DDP to find its buckets
                    found[name].append(1e3 * (time.perf_counter() - begin))
    if number == 0:
        medians = {name: statistics.median(times) for name, times in found.items()}
        base = medians[arguments.variants[0]]
        print(f"| {arguments.model} | ms a step | times {arguments.variants[0]} |\n| --- | ---: | ---: |")
        for name, ms in medians.items():
            print(f"| `{name}` | {ms:.2f} | {ms / base:.2f} |")
        sys.stdout.flush()
    dist.barrier()
    os._exit(0)  # Gloo's threads may still use the interpreter


def calls():
    import sotto

    codec, tiny = sotto.Codec("int8"), torch.ones(16)
    message = codec.encode(tiny)
    print("| call | a second |\n| --- | ---: |")
    for name, work in (("Codec.text", lambda: codec.text), ("Codec.encode of 16 floats", lambda: codec.encode(tiny)),
                       ("Codec.decode of 16 floats", lambda: codec.decode(message))):
        count, seconds = timeit.Timer(work).autorange()
        print(f"| {name} | {count / seconds:,.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="lenet")
    parser.add_argument("--variants", nargs="+", default=["DDP", "nothing", "bf16 hook", "none", "qsgd(4)"],
                        help="DDP, nothing (a hook that sends nothing), `bf16 hook`, or codecs; the first is what others are compared with")
    parser.add_argument("--steps", type=int, default=10, help="of a variant in its turn")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--calls", action="store_true", help="only the calls a second")
    arguments = parser.parse_args()
    if arguments.calls:
        return calls()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank, (folder, arguments), nprocs=2)


if __name__ == "__main__":
    main()
