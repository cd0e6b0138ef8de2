"""A job that is killed at any moment around its checkpoints always has a complete one to continue from."""

import os
import random
import signal
import time

import pytest

from conftest import DEADLINE, summary
from fault_moments import partial_checkpoint, whole_checkpoints

pytestmark = pytest.mark.slow

FLAGS = ["train", "--model", "lenet", "--train-size", 512, "--test-size", 16, "--batch-size", 2, "--optimiser", "adam", "--lr", 1e-4, "--ranks", 2,
         "--codec", "ef | topk(0.1)", "--no-keep-best", "--epochs", 100000, "--eval-freq", 1000000, "--train-dir", "run"]  # fmt: skip
EVERY, SAMPLE = 200, 5  # moments


def thin_out(folder, keep=3):
    """Nobody needs all of them; the run that wrote them has ended."""
    for step in whole_checkpoints(folder)[:-keep]:
        for part in (folder / f"model_step_{step}").iterdir():
            part.unlink()
        (folder / f"model_step_{step}").rmdir()


def kill_around_a_checkpoint(job, folder, chance, beyond):
    """Kills the launcher, or one rank, up to 30 ms after the job has begun to write a checkpoint, once some are complete."""
    end = time.monotonic() + DEADLINE
    while not (whole_checkpoints(folder) and whole_checkpoints(folder)[-1] > beyond and partial_checkpoint(folder)):
        assert job.process.poll() is None, job.finish().err
        assert time.monotonic() < end, "no checkpoint is written"
        time.sleep(0.0005)
    time.sleep(chance.random() * 0.03)
    os.kill(chance.choice([job.process.pid, job.rank(0), job.rank(1)]), signal.SIGKILL)


def test_always_a_whole_checkpoint(start, good, request, tmp_path):
    chance = random.Random("kills")
    folder, last = tmp_path / "run", 0
    rounds = EVERY if request.config.getoption("--faults") else SAMPLE
    in_the_middle = 0
    for i in range(rounds):
        job = start(*FLAGS, "--checkpoint-every", 1, *(["--resume"] if i else []))
        kill_around_a_checkpoint(job, folder, chance, last)
        job.finish()
        job.nothing_left()
        assert job.status in (1, -signal.SIGKILL)
        assert "left aside" not in job.err, job.err
        assert i == 0 or f"resumed from run/model_step_{last}\n" in job.err, job.err
        in_the_middle += partial_checkpoint(folder)
        assert whole_checkpoints(folder)[-1] > last
        last = whole_checkpoints(folder)[-1]
        thin_out(folder)
    print(f"{rounds} kills in {last} steps; {in_the_middle} launchers died while a checkpoint was written")
    good(*FLAGS, "--resume", "--max-steps", last + 2)
    good(*FLAGS[:-1], "undisturbed", "--max-steps", last + 2)
    assert summary(folder)["parameters_sha256"] == summary(tmp_path / "undisturbed")["parameters_sha256"]
    assert not list(folder.glob("*.tmp"))
