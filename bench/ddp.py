#!/usr/bin/env python3
"""Compares steps of `sotto train` with steps of PyTorch's DistributedDataParallel on the same links.

    python bench/ddp.py --sotto build/release/bin/sotto                       everything: about an hour on an idle machine
    python bench/ddp.py --sotto ... --model lenet --link 100mbit --rounds 3   one cell

Two ranks of one thread each in two network namespaces, joined by a cable that `tc` limits to the rate of the link in
each direction. Contenders run in turns, --rounds times. Prints medians over steps and rounds, and the median of the
ratios to DDP fp32 in the same round. Needs root, iproute2, and a Python with torch.
"""

import argparse
import csv
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

from cable import Cable, CableError

DDP = ["ddp fp32", "ddp fp16", "ddp bf16", "ddp powersgd"]
MODELS = {  # batch; steps per run; first steps that are not counted; flags of sotto's data; codecs of sotto
    "lenet": (64, 60, 10, ["--data", "digits"], ["none", "qsgd(bits=4)", "qsgd(bits=4, norm=l2) | rans", "auto"]),
    "resnet20": (64, 40, 5, ["--data", "made-cifar"], ["none", "bf16", "qsgd(bits=4)", "power(2)", "dgc", "auto", "auto(quality=medium)"]),
    "resnet18": (16, 10, 2, ["--data", "made-cifar"], ["none", "ef | sampled_topk(0.01)", "power(1)", "auto", "auto(quality=medium)"]),
    "logreg": (64, 60, 10, ["--data", "made-rows"], ["none", "bf16", "threshold(0)", "qsgd(bits=4)", "sketchml", "auto"]),
    "mlp": (64, 30, 5, ["--data", "digits"], ["none", "power(1)", "ef | sampled_topk(0.01)", "auto"]),
}
LINKS = ["loopback", "1gbit", "100mbit"]


# PyTorch's side: a rank runs this file again ------------------------------------------------------------------------------


def network(name):
    from torch import nn

    if name == "lenet":  # Caffe's sizes, like sotto's lenet
        return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
                             nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))  # fmt: skip
    if name == "logreg":  # a weight for each of a million features; a row names those that it has
        return nn.EmbeddingBag(1_000_000, 1, mode="sum")
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 3232), nn.ReLU(), nn.Linear(3232, 3232), nn.ReLU(), nn.Linear(3232, 10))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride, learned):
            super().__init__()
            self.learned, self.stride, self.more = learned, stride, outputs - inputs
            self.a = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                                   nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))  # fmt: skip
            self.b = nn.Sequential()
            if learned and (stride != 1 or inputs != outputs):
                self.b = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            if self.learned or (self.stride == 1 and self.more == 0):
                return nn.functional.relu(self.a(x) + self.b(x))
            # Without parameters: the new channels are zeros.
            kept = x[:, :, :: self.stride, :: self.stride]
            return nn.functional.relu(self.a(x) + nn.functional.pad(kept, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2)))

    widths, blocks = ((16, 32, 64), 3) if name == "resnet20" else ((64, 128, 256, 512), 2)
    width = widths[0]
    layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for outputs in widths:
        for block in range(blocks):
            layers.append(Block(width, outputs, 2 if block == 0 and outputs != widths[0] else 1, name == "resnet18"))
            width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def ddp_times(contender, model_name, batch, steps):
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    images = torch.randn((batch, 3, 32, 32) if model_name.startswith("resnet") else (batch, 1, 28, 28))
    labels = torch.randint(0, 10, (batch,))
    loss_of = torch.nn.functional.cross_entropy
    if model_name == "logreg":
        images, labels = torch.randint(0, 1_000_000, (batch, 100)), torch.randint(0, 2, (batch, 1)).float()
        loss_of = torch.nn.functional.binary_cross_entropy_with_logits
    model = network(model_name)
    if model_name.startswith("resnet"):  # channels last is faster, and sotto uses it, too
        model, images = model.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
    # torch's PowerSGD hook aborts or hangs on Gloo with several buckets.
    model = DistributedDataParallel(model, bucket_cap_mb=1000 if contender == "ddp powersgd" else None)
    if contender == "ddp fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif contender == "ddp bf16":
        # Without a GPU DDP refuses its own hook by its name, although Gloo can add bf16.
        model.register_comm_hook(None, lambda group, bucket: default_hooks.bf16_compress_hook(group, bucket))
    elif contender == "ddp powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        optimiser.zero_grad()
        loss_of(model(images), labels).backward()
        optimiser.step()
        times.append(1e3 * (time.perf_counter() - begin))
    return times


def be_a_rank(arguments):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    batch, steps, *_ = MODELS[arguments.model]
    times = {contender: ddp_times(contender, arguments.model, batch, steps) for contender in DDP}
    if dist.get_rank() == 0:
        pathlib.Path(arguments.be_a_rank).write_text(json.dumps(times))
    dist.barrier()  # a rank that exits early makes the other one fail
    os._exit(0)  # a normal exit may abort, because Gloo's threads still use the interpreter (torch 2.13)


# Both sides in turns ----------------------------------------------------------------------------------------------------


def sotto_times(cable, program, model, codec, folder):
    batch, steps, _, data, _ = MODELS[model]
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    cable.run(program, "train", "--model", model, *data, "--train-size", "2048", "--test-size", "16", "--batch-size", str(batch),
               "--max-steps", str(steps + (45 if codec.startswith("auto") else 0)), "--epochs", "1000", "--eval-freq", "1000000", "--lr", "0.01",
               "--codec", codec, "--interface", "eth0", "--train-dir", run)  # fmt: skip
    with open(run / "steps.csv") as rows:
        times = [float(row["step_ms"]) for row in csv.DictReader(rows) if row["rank"] == "0"]
    summary = json.loads((run / "summary.json").read_text())
    return times[-steps:], summary.get("remark", "")


def measure(cell, program, rounds):
    model, link = cell
    _, _, skipped, _, codecs = MODELS[model]
    medians, remarks = {}, {}
    with tempfile.TemporaryDirectory() as name, Cable(None if link == "loopback" else link) as cable:
        folder = pathlib.Path(name)
        for _ in range(rounds):
            cable.run(sys.executable, __file__, "--be-a-rank", folder / "times.json", "--model", model)
            found = json.loads((folder / "times.json").read_text())
            for codec in codecs:
                found[f"sotto {codec}"], remarks[codec] = sotto_times(cable, program, model, codec, folder)
            for contender, times in found.items():
                medians.setdefault(contender, []).append(statistics.median(times[skipped:]))
            print(".", end="", file=sys.stderr, flush=True)
    print(f"\r{model}, batch {MODELS[model][0]} a rank, {link}: {rounds} rounds")
    for contender, values in medians.items():
        ratios = [value / base for value, base in zip(values, medians["ddp fp32"])]
        spread = f"{min(values):.1f} .. {max(values):.1f}"
        print(f"| {contender} | {statistics.median(values):.1f} ms | {spread} | {statistics.median(ratios):.3f} |")
    if remarks.get("auto"):
        print(f"auto: {remarks['auto']}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--model", choices=MODELS, help="one model; default: all")
    parser.add_argument("--link", choices=LINKS, help="one link; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--be-a-rank", metavar="FILE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.be_a_rank:
        be_a_rank(arguments)
        return
    program = shutil.which(arguments.sotto)
    if program is None:
        parser.error(f"--sotto {arguments.sotto}: there is no such program; build it first")
    print("| contender | ms a step | lowest .. highest median of a round | of DDP fp32 |\n| --- | --- | --- | --- |")
    for model in [arguments.model] if arguments.model else MODELS:
        for link in [arguments.link] if arguments.link else LINKS:
            try:
                measure((model, link), os.path.abspath(program), arguments.rounds)
            except CableError as error:
                sys.exit(f"{model}, {link}: {error}")


if __name__ == "__main__":
    main()
