"""The learning rates of `--schedule` agree with torch's schedulers, step by step."""

import csv

import pytest
import torch
from torch.optim import lr_scheduler as torchs

from conftest import TINY, summary

STEPS = 24
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
    "warmup(steps=6, from=0.1, form=exponential) | constant": lambda o: torchs.LambdaLR(o, lambda step: 0.1 ** (1 - min(1, (step + 1) / 6))),
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


def column(path, name, **where):
    with open(path) as file:
        return [float(row[name]) for row in csv.DictReader(file) if all(row[key] == value for key, value in where.items())]


EVERY = 3  # steps between evaluations


@pytest.mark.parametrize("options,metric,theirs", [
    ("factor=0.5, patience=0, threshold=0.02", "accuracy", dict(mode="max", factor=0.5, patience=0, threshold=0.02)),
    ("metric=loss, factor=0.3, patience=1, threshold=0.2", "loss", dict(mode="min", factor=0.3, patience=1, threshold=0.2)),
    ("loss, factor=0.5, patience=0, threshold=0.1, threshold-mode=abs, cooldown=1, floor=0.25", "loss",
     dict(mode="min", factor=0.5, patience=0, threshold=0.1, threshold_mode="abs", cooldown=1, min_lr=RATE / 4)),
])  # fmt: skip
def test_the_rates_of_a_plateau_are_torchs(good, tmp_path, options, metric, theirs):
    job = good("train", *TINY, "--lr", RATE, "--epochs", 100, "--max-steps", 40, "--eval-freq", EVERY, "--schedule", f"plateau({options})", "--train-dir", "run")
    values = column(tmp_path / "run" / "evaluations.csv", metric, split="test")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], RATE)
    scheduler = torchs.ReduceLROnPlateau(optimizer, **theirs)
    wanted = []
    for step in range(40):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (step + 1) % EVERY == 0:
            scheduler.step(values[(step + 1) // EVERY - 1])
    assert wanted[-1] < RATE, "it fell"
    assert column(tmp_path / "run" / "steps.csv", "lr") == pytest.approx(wanted, rel=1e-5)
    assert f"{metric} has stopped to improve: learning rate times {theirs['factor']}" in job.err


def test_a_plateau_resumes_with_its_run(good, run, tmp_path):
    said = [*TINY, "--ranks", 2, "--epochs", 100, "--eval-freq", EVERY, "--schedule", "plateau(loss, factor=0.5, patience=1, threshold=0.2)"]
    good("train", *said, "--max-steps", 30, "--train-dir", "whole")
    good("train", *said, "--max-steps", 14, "--train-dir", "run")  # the run evaluates at its end, which must not change the rate
    good("train", "--train-dir", "run", "--resume", "--max-steps", 19)
    good("train", "--train-dir", "run", "--resume", "--max-steps", 30)
    for rank in ("0", "1"):
        rates = [column(tmp_path / folder / "steps.csv", "lr", rank=rank) for folder in ("whole", "run")]
        assert rates[0] == rates[1] and min(rates[0]) < max(rates[0])
    assert summary(tmp_path / "run")["parameters_sha256"] == summary(tmp_path / "whole")["parameters_sha256"]
    job = run("train", "--train-dir", "run", "--resume", "--max-steps", 40, "--schedule", "constant")
    assert job.status == 2 and "it was written with optimiser sgd(momentum=0.9, nesterov=false, dampening=0); plateau" in job.err, job.err


def test_a_plateau_watches_a_task_metric(run):
    job = run("train", *TINY, "--schedule", "plateau(metric=acuracy)")
    assert job.status == 2 and "did you mean `accuracy`" in job.err, job.err


def test_a_run_shorter_than_its_schedule_says_so(good):
    said = [*TINY, "--epochs", 100, "--max-steps", 8]
    assert "the schedule is stretched over the 6400 steps of 100 epochs, and this run ends at step 8; --horizon 8 says otherwise" in good(
        "train", *said, "--schedule", "cosine", "--train-dir", "a").err  # fmt: skip
    for number, quiet in enumerate([["--schedule", "cosine", "--horizon", 8], ["--schedule", "inverse-sqrt"]]):
        assert "stretched" not in good("train", *said, *quiet, "--train-dir", f"b{number}").err
