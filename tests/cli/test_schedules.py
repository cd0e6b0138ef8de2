"""The learning rates of `--schedule` are those of torch's schedulers, step by step."""

import csv

import pytest
import torch
from torch.optim import lr_scheduler as torchs

from conftest import TINY

STEPS = 24  # of 8 in an epoch
RATE = 0.125

SCHEDULES = {
    "step(every=5, factor=0.5)": lambda o: torchs.StepLR(o, 5, 0.5),
    "milestones(at=4/9/20, factor=0.3, unit=step)": lambda o: torchs.MultiStepLR(o, [4, 9, 20], 0.3),
    "step(every=1, factor=0.9)": lambda o: torchs.ExponentialLR(o, 0.9),
    "cosine(floor=0.25)": lambda o: torchs.CosineAnnealingLR(o, STEPS, RATE / 4),
    "polynomial": lambda o: torchs.PolynomialLR(o, STEPS, 1),
    "polynomial(power=2.5)": lambda o: torchs.PolynomialLR(o, STEPS, 2.5),
    "one-cycle": lambda o: torchs.OneCycleLR(o, RATE, STEPS, cycle_momentum=False),
    "one-cycle(rise=0.45, div=4, final-div=50, form=linear)": lambda o: torchs.OneCycleLR(
        o, RATE, STEPS, pct_start=0.45, div_factor=4, final_div_factor=50, anneal_strategy="linear", cycle_momentum=False
    ),
    "inverse-sqrt": lambda o: torchs.LambdaLR(o, lambda step: (step + 1) ** -0.5),
    "warmup(steps=6) | inverse-sqrt": lambda o: torchs.LambdaLR(o, lambda step: 6**0.5 * min((step + 1) ** -0.5, (step + 1) * 6**-1.5)),
    "time-decay(0.05)": lambda o: torchs.LambdaLR(o, lambda step: 1 / (1 + 0.05 * step)),
    "warmup(steps=8) | constant": lambda o: torchs.LinearLR(o, 1 / 8, 1, 7),
    "warmup(steps=6) | step(every=12, factor=0.1)": lambda o: torchs.SequentialLR(
        o, [torchs.LinearLR(o, 1 / 6, 1, 5), torchs.StepLR(o, 1, 1), torchs.ConstantLR(o, 0.1, 100)], [6, 12]
    ),
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_rates_are_torchs(good, tmp_path, schedule):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], RATE)
    theirs = SCHEDULES[schedule](optimizer)
    wanted = []
    for _ in range(STEPS - 4 if "12" in schedule else STEPS):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    good("train", *TINY, "--lr", RATE, "--epochs", 100, "--horizon", STEPS, "--max-steps", len(wanted), "--schedule", schedule, "--train-dir", "run")
    with open(tmp_path / "run" / "steps.csv") as file:
        assert [float(row["lr"]) for row in csv.DictReader(file)] == pytest.approx(wanted, rel=1e-5)
