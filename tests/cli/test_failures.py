"""When a rank stalls or dies, all others end with an error that names it, in every algorithm, and checkpoints stay whole."""

import os
import re
import signal
import subprocess
import time

import pytest

from conftest import TINY, has_step, summary, wait_until

pytestmark = pytest.mark.slow

ALGORITHMS = {  # and aggregators, after a comma
    "sync": [],
    "sync(priority=need)": [],
    "push_sum": [],
    "push_sum(overlap=true)": [],
    "d_psgd": ["--topology", "ring"],
    "choco": ["--topology", "ring"],
    "ad_psgd": [],
    "local(h=4)": [],
    "slowmo(h=4)": [],
    "diloco(h=4, overlap=1)": [],
    "parameter_server": [],
    "parameter_server(mode=async)": [],
    "parameter_server(mode=stale)": [],
    "parameter_server(gradients=3)": [],
    "sync, sparse": ["--codec", "ef | topk(0.05)", "--aggregator", "sparse"],
    "sync, hierarchical": ["--codec", "ef | topk(0.05)", "--aggregator", "hierarchical(group=2)"],
}
GROUPS = [list(ALGORITHMS)[i : i + 4] for i in range(0, len(ALGORITHMS), 4)]  # four run at a time


def runs(start, folder, algorithms, deadline):
    """Starts a job of 4 ranks for each algorithm; returns once every job has a checkpoint."""
    jobs = {}
    for algorithm in algorithms:
        name = algorithm.split("(")[0].split(",")[0] + str(len(jobs))
        jobs[algorithm] = start("train", *TINY[:-1], deadline, "--algorithm", re.sub("^sync, .*", "sync", algorithm), *ALGORITHMS[algorithm], "--ranks", 4,
                                "--epochs", 100000, "--eval-freq", 1000000, "--checkpoint-every", 20, "--train-dir", name)  # fmt: skip
        jobs[algorithm].folder = folder / name
    for job in jobs.values():
        wait_until(lambda job=job: checkpoints(job), "a checkpoint")
    return jobs


def checkpoints(job):
    return sorted(int(p.name.split("_")[-1]) for p in job.folder.glob("model_step_*") if p.name[-1].isdigit())


def goes_on(good, job):
    last = checkpoints(job)[-1]
    good("train", "--resume", "--train-dir", job.folder, "--max-steps", last + 3)
    assert (job.folder / f"model_step_{last + 3}").is_dir()


@pytest.mark.sample(1)
@pytest.mark.parametrize("algorithms", GROUPS, ids=lambda group: group[0])
def test_a_rank_that_stalls_is_named(start, good, tmp_path, algorithms):
    jobs = runs(start, tmp_path, algorithms, 12)
    for job in jobs.values():
        os.kill(job.rank(2), signal.SIGSTOP)  # for good
    for algorithm, job in jobs.items():
        job.finish()
        assert job.status == 1 and "rank 2" in job.err, (algorithm, job.err)
        job.nothing_left()
        goes_on(good, job)


@pytest.mark.sample(2)
@pytest.mark.parametrize("algorithms", GROUPS, ids=lambda group: group[0])
def test_a_rank_that_dies_is_named(start, good, tmp_path, algorithms):
    jobs = runs(start, tmp_path, algorithms, 60)
    for job in jobs.values():
        os.kill(job.rank(2), signal.SIGKILL)
    for algorithm, job in jobs.items():
        job.finish()
        assert job.status == 1 and "rank 2 was killed" in job.err, (algorithm, job.err)
        job.nothing_left()
        goes_on(good, job)


# The others make new connections to it meanwhile, after two seconds; that changes nothing.
@pytest.mark.parametrize("flags", [[], ["--streams", 2, "--buckets", "whole"], ["--algorithm", "parameter_server"], ["--algorithm", "push_sum"]])
@pytest.mark.parametrize("secret", [False, True], ids=["open", "secret"])
def test_a_short_stall_changes_no_bit(start, good, sotto, tmp_path, flags, secret):
    subprocess.run([sotto, "secret", "new", tmp_path / "secret"], check=True)
    job = ["train", "--data", "digits", "--model", "logreg", "--train-size", 512, "--test-size", 100, "--batch-size", 8, "--max-steps", 60,
           "--epochs", 1000, *flags, "--ranks", 3, *(["--secret", tmp_path / "secret"] if secret else [])]  # fmt: skip
    good(*job, "--train-dir", "undisturbed")
    stalled = start(*job, "--link", "1gbit,3ms", "--deadline", 40, "--train-dir", "stalled")
    wait_until(lambda: has_step(tmp_path / "stalled", 5), "step 5")
    victim = stalled.rank(2)
    os.kill(victim, signal.SIGSTOP)
    time.sleep(5)
    os.kill(victim, signal.SIGCONT)
    stalled.finish()
    assert stalled.status == 0, stalled.err
    assert summary(tmp_path / "stalled")["parameters_sha256"] == summary(tmp_path / "undisturbed")["parameters_sha256"]
    stalled.nothing_left()
