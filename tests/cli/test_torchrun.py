"""torchrun restarts all ranks when one was killed."""

import os
import pathlib
import re
import signal
import sys

import pytest

from conftest import summary, TINY, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def torchrun(start_other, root, build_dir):
    """Starts two ranks, three times at most."""

    def torchrun(*command):
        return start_other(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--max-restarts", 2,
                           "--monitor-interval", "0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", *command,
                           PYTHONPATH=str(build_dir / "python"), GLOO_SOCKET_IFNAME="lo", PYTHONDONTWRITEBYTECODE="1")

    return torchrun


def kill_a_rank(job):
    """Kills the second rank of torchrun, which has its own session."""
    of = f"/proc/{job.process.pid}/task/{job.process.pid}/children"
    ranks = [pid for pid in pathlib.Path(of).read_text().split() if b"\0RANK=1\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()]
    os.kill(int(ranks[0]), signal.SIGKILL)


def test_a_run_goes_on_from_its_checkpoint(torchrun, good, sotto, tmp_path):
    (tmp_path / "run").mkdir()  # --resume wants a folder
    flags = ["train", *TINY, "--codec", "ef | topk(0.1)", "--train-dir"]
    job = torchrun("--no-python", sotto, *flags, "run", "--resume", "--epochs", 1000000, "--checkpoint-every", 100)
    saved = lambda: [int(path.name[11:]) for path in (tmp_path / "run").glob("model_step_*") if path.name[11:].isdigit()]
    wait_until(lambda: len(saved()) > 1, "two checkpoints")
    kill_a_rank(job)
    before = max(saved())
    wait_until(lambda: max(saved()) > before + 200, "checkpoints after the restart")
    job.process.send_signal(signal.SIGTERM)
    job.finish()
    job.nothing_left()
    assert re.search(r"resumed from run/model_step_\d+", job.err), job.err
    end = summary(tmp_path / "run")
    good(*flags, "straight", "--ranks", 2, "--threads", 1, "--epochs", 1000000, "--max-steps", end["steps"])
    assert summary(tmp_path / "straight")["parameters_sha256"] == end["parameters_sha256"]


def test_the_number_of_ranks_is_that_of_torchrun(torchrun, good, sotto, tmp_path):
    """Whatever the run had before: nobody said --ranks."""
    good("train", *TINY, "--ranks", 3, "--max-steps", 6, "--train-dir", "run")
    job = torchrun("--no-python", sotto, "train", "--resume", "--train-dir", "run", "--max-steps", 12).finish()
    assert job.status == 0 and "rank count changed from 3 to 2" in job.err, job.err
    good("train", "--resume", "--train-dir", "run", "--max-steps", 18, "--elastic", "1:4")
    assert summary(tmp_path / "run")["ranks"] == 4


def test_a_script_goes_on_from_its_checkpoint(torchrun, root, tmp_path):
    script, ends = root / "examples" / "restarts.py", []
    assert len(script.read_text().splitlines()) <= 45
    for killed in (True, False):
        saved = tmp_path / "restarts.pt"
        saved.unlink(missing_ok=True)
        job = torchrun(script, 800)
        if killed:
            wait_until(saved.exists, "the checkpoint of step 0")
            first = saved.stat().st_mtime_ns
            wait_until(lambda: saved.stat().st_mtime_ns > first, "another checkpoint")
            kill_a_rank(job)
        job.finish()
        job.nothing_left()
        assert job.status == 0, job.err
        assert bool(re.search("continues from step [1-9]", job.out)) == killed
        ends.append(job.out.splitlines()[-1])
    assert ends[0] == ends[1] and float(re.search(r"accuracy ([0-9.]+)", ends[0])[1]) > 0.9
