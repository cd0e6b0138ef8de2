"""`sotto train --dry-run` refuses what the run would refuse, and nothing else."""

import os
import re

import pytest

from conftest import TINY

pytestmark = pytest.mark.slow

SHORT = ["train", *TINY, "--ranks", 2, "--max-steps", 2]


def refused_alike(run, flags):
    """The error of the run, which is also the error of its dry run."""
    tried, made = run(*flags, "--dry-run"), run(*flags)
    assert made.status != 0 and tried.status == made.status, tried.err
    assert tried.err.splitlines()[-1] in made.err, (tried.err, made.err)
    return tried.err


@pytest.mark.parametrize("flags, words", [
    (["train", "--data", "made-text", "--max-steps", 1, "--csv-format", "sgp"], "--csv-format sgp: its columns are accuracies, which the task language does not have"),
    ([*SHORT, "--csv-format", "sgp", "--csv-tag", "a/b"], "--csv-tag a/b: is a part of a file's name"),
    ([*SHORT, "--secret", "nothing"], "nothing"),
    ([*SHORT, "--codec", "ef | topk(0.1)", "--aggregator", "hierarchical(group=2)", "--capture", "every=1,dir=captured,memory=true"],
     "--capture: memory=true: no rank of this job has a whole memory of its own"),
    ([*SHORT, "--algorithm", "slowmo(h=2)", "--lr", "1e-300"], "slowmo: its momentum is in units of the learning rate, which is 1e-300 at step 1"),
])  # fmt: skip
def test_options(run, flags, words):
    assert words in refused_alike(run, flags)


def test_folders_of_other_runs(good, run, tmp_path):
    good(*SHORT, "--train-dir", "run", "--tensorboard", "events", "--capture", "every=1,dir=captured")
    good("tune", *TINY, "--grid", "lr=0.1,0.2", "--max-steps", 1, "--train-dir", "search")
    for flags, words in [
        (["--train-dir", "run"], "--train-dir run: already holds a run; --resume continues it"),
        (["--train-dir", "search"], "--train-dir search: holds a search of `sotto tune`"),
        (["--train-dir", "new", "--tensorboard", "events"], "--tensorboard events: holds the events of another run"),
        (["--train-dir", "new", "--capture", "every=1,dir=captured"], "captured holds the gradients of another run already"),
    ]:
        before = sorted(os.listdir(tmp_path))
        job = run(*SHORT, *flags, "--dry-run")
        assert job.status == 2 and words in job.err, job.err
        assert sorted(os.listdir(tmp_path)) == before, "it makes no folder"
    good(*SHORT, "--train-dir", "new", "--tensorboard", "more", "--capture", "every=1,dir=more", "--dry-run")
    assert not (tmp_path / "new").exists() and not (tmp_path / "more").exists()


def test_a_run_below_its_max_steps_says_so(good):
    said = "warning: --max-steps 200: the run ends after 15 steps, with 3 epochs; --epochs says how many"
    flags = ["train", *["80" if part == "512" else part for part in TINY]]
    assert good(*flags, "--ranks", 2, "--max-steps", 200).err.count(said) == 1
    assert "warning" not in good(*flags, "--ranks", 2, "--max-steps", 15).err


def test_a_rank_that_would_come_later(start, good, tmp_path):
    """The folder of the job already holds a run."""
    good(*SHORT, "--train-dir", "run")
    boss = start("coordinator", "--listen", "127.0.0.1:0", "--ranks", "1:2")
    while not (found := re.search(r"ranks join with --coordinator.*:(\d+)", line := boss.process.stderr.readline())):
        assert line, "the coordinator ended"
    joins = ["train", *TINY, "--coordinator", f"127.0.0.1:{found[1]}", "--train-dir", "run"]
    assert "a rank sends" in good(*joins, "--dry-run").out


@pytest.mark.parametrize("rounds, steps", [(2, 1), (5, 3)])
def test_steps_never_taken_do_not_fail(good, rounds, steps):
    """The trial is of the first steps that send something, which come after the end of this run."""
    flags = ["train", *TINY, "--max-steps", steps, "--algorithm", f"slowmo(h={rounds})", "--lr", "1e-300", "--ranks", 2]
    good(*flags, "--train-dir", "run")
    told = good(*flags, "--dry-run").out
    assert "the run ends before, and never compresses" in told and "a rank sends " in told


def test_a_resume(good, run):
    """What belongs to the checkpoint must be the same, and some algorithms need as many ranks."""
    good(*SHORT, "--codec", "ef | topk(0.1)", "--train-dir", "run")
    good("train", "--resume", "--train-dir", "run", "--max-steps", 4, "--dry-run")
    good("train", "--resume", "--train-dir", "run", "--max-steps", 4, "--ranks", 3, "--dry-run")
    for changed in (["--codec", "int8"], ["--seed", 7], ["--train-size", 64], ["--model", "fc"], ["--batch-size", 4]):
        words = refused_alike(run, ["train", "--resume", "--train-dir", "run", "--max-steps", 4, *changed])
        assert "--resume run/model_step_2: it was written with" in words, words
    good(*SHORT, "--algorithm", "parameter_server", "--train-dir", "served")
    words = refused_alike(run, ["train", "--resume", "--train-dir", "served", "--max-steps", 4, "--ranks", 3])
    assert "`parameter_server` cannot continue with another number" in words


@pytest.mark.parametrize("codec, varies", [("none", False), ("qsgd(4)", False), ("qsgd(4) | rans", True), ("ef | topk(0.01)", True)])
def test_it_says_whether_bytes_depend_on_values(good, codec, varies):
    line = re.search(r"a rank sends +\d+ bytes a step(.*)", good(*SHORT, "--codec", codec, "--dry-run").out)[1]
    assert line == (" of random gradients; the number depends on their values" if varies else ""), line
