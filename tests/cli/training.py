"""Trainings in PyTorch to compare with `sotto train`, and how far rounding alone moves their losses on this machine.

Processors add in other orders, and a training magnifies the difference of rounding. No constant can say how near two
trainings must be. Instead, the same training in PyTorch is repeated in ways that differ by rounding alone, and ours may
differ by a few times as much.
"""

import copy
import csv
import dataclasses
import math
from typing import Callable

import pytest
import torch
from safetensors.torch import save_file

STEPS, BATCH = 20, 16
TIMES = 8  # the differences of three ways are a small sample of what rounding does
ONE_LOSS = {torch.float32: 1e-6, torch.float16: 1e-4, torch.bfloat16: 1e-3}  # what rounding may do to a loss, relatively, before any step
TIED = {"lm_head.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}  # tied to weights that precede them

torch.set_num_threads(1)  # several tests run at the same time


class Scaler(torch.amp.GradScaler):
    """Counts the steps that it leaves out."""

    skipped = 0

    def update(self):
        before = self.get_scale()
        super().update()
        self.skipped += self.get_scale() < before


@dataclasses.dataclass
class Training:
    """Twenty steps in PyTorch, from the weights of `net`. A batch is a tuple of tensors of examples."""

    net: torch.nn.Module
    batches: list  # of each step
    loss: Callable  # of a network and the tensors of a batch
    make_optimiser: Callable  # of parameters
    make_scheduler: Callable | None = None  # of an optimiser and a network
    told: Callable | None = None  # the loss that is told, where it is another than `loss`
    layers: torch.dtype = torch.float32  # in which they compute
    scale: dict = dataclasses.field(default_factory=lambda: {"enabled": False})  # of the loss: arguments of GradScaler

    def __post_init__(self):
        self.losses, self.optimiser, self.scaler = self._run(copy.deepcopy(self.net), self.batches)

    def _run(self, net, batches):
        net.train()
        optimiser, scaler = self.make_optimiser(net.parameters()), Scaler("cpu", **self.scale)
        scheduler = self.make_scheduler(optimiser, net) if self.make_scheduler else None
        losses = []
        for batch in batches:
            optimiser.zero_grad()
            with torch.autocast("cpu", self.layers, enabled=self.layers != torch.float32):
                loss = self.loss(net, *batch)
            with torch.no_grad():
                losses.append((self.told(net, *batch) if self.told else loss).item())
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
            if scheduler:
                scheduler.step()
        return losses, optimiser, scaler

    def tolerances(self):
        """How far other losses may be from these in each step."""
        # In double precision, layers in 16 bits would not be what they are, and convolutions are slow.
        images = self.batches[0][0].dim() == 4
        ways = [reversed_examples, turned_examples, planes if images else in_double]
        others = [self._run(*way(copy.deepcopy(self.net), self.batches))[0] for way in ways]
        within, farthest = [], 0
        for loss, *again in zip(self.losses, *others):
            farthest = max(farthest, *(abs(other - loss) for other in again))
            last_digit = 10 ** (math.floor(math.log10(loss)) - 5)  # steps.csv has six
            within.append(ONE_LOSS[self.layers] * max(self.losses) + last_digit / 2 + TIMES * farthest)
        return within

    def is_that_of(self, ours):
        """Checks the losses of `sotto train`, from the same weights."""
        tolerances = self.tolerances()
        assert len(ours) == len(self.losses)
        assert all(abs(here - there) <= within for here, there, within in zip(ours, self.losses, tolerances)), (ours, self.losses, tolerances)
        # Otherwise the comparison could not tell.
        assert max(abs(loss - self.losses[0]) / within for loss, within in zip(self.losses, tolerances)) > 10, (self.losses, tolerances)


def about(loss_of, net):
    """The loss of a network in PyTorch, give or take what rounding does to it."""
    loss, exact = loss_of(net), loss_of(copy.deepcopy(net).double())
    return pytest.approx(loss, rel=ONE_LOSS[torch.float32], abs=TIMES * abs(loss - exact))


def reversed_examples(net, batches):
    return net, [tuple(tensor.flip(0) for tensor in batch) for batch in batches]


def turned_examples(net, batches):
    return net, [tuple(tensor.roll(len(tensor) // 3, 0) for tensor in batch) for batch in batches]


def planes(net, batches):
    """Images, and the weights of convolutions, channel by channel."""
    plain = torch.contiguous_format
    return net.to(memory_format=plain), [tuple(tensor.contiguous(memory_format=plain) for tensor in batch) for batch in batches]


def in_double(net, batches):
    return net.double(), [tuple(tensor.double() if tensor.is_floating_point() else tensor for tensor in batch) for batch in batches]


def train(good, folder, net, arguments, lr, evaluates=1000, batch=BATCH):
    """The losses of a run of `sotto train` that begins with the weights of `net`. Each batch is all of the training data."""
    weights = {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in net.state_dict().items() if name not in TIED}
    save_file(weights, folder / "first.safetensors")
    good("train", *arguments, "--weights", "first.safetensors", "--lr", lr, "--batch-size", batch, "--epochs", STEPS,
         "--threads", 1, "--no-keep-best", "--eval-freq", evaluates, "--train-dir", "run")
    with open(folder / "run" / "steps.csv") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]
