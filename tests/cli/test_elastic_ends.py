"""`sotto train --elastic`: signals, and losses at the beginning and the end of a run."""

import os
import signal
import time

import pytest

from conftest import summary, wait_until
from test_elastic import ENDLESS, LONG, SMALL, at_step, kill, members

pytestmark = pytest.mark.slow


def checkpoints(folder):
    return sorted(int(path.name.split("_")[-1]) for path in folder.glob("model_step_*") if path.suffix == "")


def test_ctrl_c_while_a_rank_hangs(start, tmp_path):
    """The launcher gives it up as it does at other times, and the others write a checkpoint."""
    job = start("train", *SMALL, *ENDLESS, "--deadline", 5, "--elastic", "2:3", "--train-dir", "run")
    at_step(job, tmp_path / "run", 60)
    kill(job, 2, signal.SIGSTOP)
    os.kill(job.process.pid, signal.SIGTERM)
    job.finish()
    assert job.status == 143, job.err
    assert "rank 2 did not answer, and was killed; a checkpoint is written by ranks 0, 1" in job.err
    assert "the job was stopped by signal 15 (SIGTERM)" in job.err and "--resume continues from there" in job.err
    assert len(checkpoints(tmp_path / "run")) == 1
    job.nothing_left()


@pytest.mark.parametrize("restarts", [0, 1])
def test_ctrl_c_at_once_after_a_loss(start, good, tmp_path, restarts):
    """The ranks that are left still know the last step, whether they wait for each other or meet already."""
    flags = ["train", *SMALL, *ENDLESS, "--deadline", 30, "--momentum", 0.9]
    job = start(*flags, "--elastic", "1:3", "--restarts", restarts, "--train-dir", "run")
    at_step(job, tmp_path / "run", 60)
    kill(job, 1)
    os.kill(job.process.pid, signal.SIGTERM)
    job.finish()
    assert job.status == 143, job.err
    assert checkpoints(tmp_path / "run")[-1] >= 60, job.err
    job.nothing_left()
    good(*flags, "--ranks", 2, "--train-dir", "run", "--resume", "--max-steps", 200)


def test_a_signal_to_a_waiting_rank(start, tmp_path):
    """All ranks of a launcher end together, and no fewer than MIN train."""
    job = start("train", *SMALL, *ENDLESS, "--deadline", 2, "--elastic", "2:3", "--train-dir", "run")
    at_step(job, tmp_path / "run", 60)
    kill(job, 2, signal.SIGSTOP)
    time.sleep(4)  # the others wait for it, or for the next group
    kill(job, 0, signal.SIGTERM)
    job.finish()
    assert job.status == 143, job.err
    assert members(tmp_path / "run")[-1][2] == [0, 1] and checkpoints(tmp_path / "run"), job.err
    job.nothing_left()


@pytest.mark.parametrize("end", [["--max-steps", 10], ["--until", "accuracy=0.01", "--eval-freq", 10]], ids=["steps", "until"])
@pytest.mark.parametrize("algorithm", ["push_sum", "sync"])
def test_a_loss_after_the_last_step(start, good, tmp_path, algorithm, end):
    """The last checkpoint is there, and the run is not over: the last steps are taken again by those that are left."""
    job = start("train", *"--model fc --train-size 512 --test-size 20000 --batch-size 8 --epochs 100000 --deadline 20".split(),
                *end, "--algorithm", algorithm, "--elastic", "1:3", "--train-dir", "run")  # fmt: skip
    folder = tmp_path / "run"
    wait_until(lambda: job.process.poll() is not None or 10 in checkpoints(folder), "the last checkpoint")
    lost = job.process.poll() is None
    if lost:
        try:
            os.kill(job.rank(2), signal.SIGKILL)
        except (AssertionError, ProcessLookupError):  # it has just ended
            lost = False
    job.finish()
    assert job.status == 0, job.err
    assert summary(folder)["steps"] == 10
    if lost and "continuing with ranks 0, 1" in job.err:
        assert members(folder)[-1][2] == [0, 1] and members(folder)[-1][1] < 10
        good("train", "--replay", "run", "--train-dir", "again")


def test_what_a_checkpoint_counts_on_is_not_cut(start, good, tmp_path):
    """The others go back to before a checkpoint, and the job is killed: --resume finds all rows up to its checkpoint."""
    folder = tmp_path / "run"
    (tmp_path / "slow.toml").write_text('[[rank]]\nrank = 0\ndelay = "50ms"\n[[rank]]\nrank = 1\ndelay = "50ms"\n')
    flags = ["train", *SMALL, *"--epochs 100000 --eval-freq 60 --no-keep-best --algorithm local(h=32) --link slow.toml --train-dir run".split()]
    job = start(*flags, "--checkpoint-every", 60, "--elastic", "1:2", "--max-steps", 200)
    wait_until(lambda: job.process.poll() is not None or 60 in checkpoints(folder), "a checkpoint")
    kill(job, 1)
    wait_until(lambda: job.process.poll() is not None or checkpoints(folder) == [32], "the step that the others go back to")
    job.kill()
    good(*flags, "--ranks", 2, "--max-steps", 80, "--resume")
    rows = [line.split(",") for line in (folder / "steps.csv").read_text().splitlines()[1:]]
    assert {int(row[0]) for row in rows} == set(range(80))
    tested = [line.split(",")[0] for line in (folder / "evaluations.csv").read_text().splitlines()[1:] if ",test," in line]
    assert tested == ["60", "80"]


def test_a_loss_before_anybody_looked_at_the_folder(start, good, tmp_path):
    """A later generation resumes; the first one may have ended before it could refuse a folder with another run."""
    good("train", *LONG[:-1], 20, "--ranks", 2, "--train-dir", "run")
    before = (tmp_path / "run" / "evaluations.csv").read_text()
    job = start("train", *LONG[:-1], 40, "--elastic", "1:2", "--train-dir", "run")
    wait_until(lambda: job.process.poll() is not None or len(job.ranks()) == 2, "the ranks")
    try:
        os.kill(job.rank(1), signal.SIGKILL)
    except (AssertionError, ProcessLookupError):  # it has just ended
        pass
    job.finish()
    assert job.status == 2 and "already holds a run; --resume continues it" in job.err, job.err
    assert (tmp_path / "run" / "evaluations.csv").read_text() == before
