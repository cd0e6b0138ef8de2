"""Tables of several runs."""

import json
import os
import signal

import pytest

from conftest import TINY, has_step, summary, wait_until

pytestmark = pytest.mark.slow

SMALL = [*TINY, "--max-steps", 4, "--ranks", 2]


def test_a_table(good, run, tmp_path):
    job = good("compare", *SMALL, "--codecs", "none", "ef | topk(0.01)", "--train-dir", "both")
    lines = job.out.splitlines()
    assert lines[0].split()[:3] == ["codec", "test", "accuracy"]
    assert lines[1].startswith("none ") and lines[2].startswith("ef | topk(0.01) ")
    none, topk = summary(tmp_path / "both" / "01-none"), summary(tmp_path / "both" / "02-ef-topk-0.01")
    assert none["codec"] == "none" and topk["codec"] == "ef | topk(0.01)"
    assert none["seed"] == topk["seed"]
    assert f"{100 * topk['test_accuracy']:.2f} %" in lines[2]
    assert "test loss" not in job.err  # only progress
    assert "1/2 none  step " in job.err
    again = run("compare", *SMALL, "--codecs", "none", "ef | topk(0.01)", "--train-dir", "both")
    assert again.status == 2 and "--train-dir both: both/01-none is a run already; choose another folder" in again.err


def test_algorithms_times_codecs(good, tmp_path):
    job = good("compare", *SMALL, "--algorithms", "sync", "push_sum", "--codecs", "none", "f16", "--topology", "ring",
               "--train-dir", "four")  # fmt: skip
    lines = job.out.splitlines()
    assert lines[0].split()[:7] == ["algorithm", "codec", "test", "accuracy", "of", "the", "ranks"]
    assert [line.split()[:2] for line in lines[1:]] == [["sync", "none"], ["sync", "f16"], ["push_sum", "none"], ["push_sum", "f16"]]
    assert "the same" in lines[1] and " to " in lines[3]
    found = summary(tmp_path / "four" / "04-push-sum-f16")
    assert found["topology"] == "ring" and len(found["rank_accuracy"]) == 2


def test_a_topology_of_nobody(run):
    job = run("compare", *SMALL, "--algorithms", "sync", "--topology", "ring")
    assert job.status == 2 and "no algorithm here exchanges with neighbours" in job.err


def test_seeds(good, run, tmp_path):
    """A row has means and deviations over them."""
    job = good("compare", *SMALL, "--codecs", "none", "int8", "--seeds", 2, "--seed", 5, "--until", "accuracy=0.01", "--train-dir", "seeds")
    head, *rows = job.out.splitlines()
    assert len(rows) == 2 and "1/4 none, seed 5  step " in job.err, job.out
    runs = [summary(tmp_path / "seeds" / name) for name in ("01-none-seed-5", "02-none-seed-6")]
    assert [one["seed"] for one in runs] == [5, 6]
    tested = [100 * one["test_accuracy"] for one in runs]
    mean, deviation = sum(tested) / 2, abs(tested[0] - tested[1]) / 2**0.5
    assert (f"{mean:.2f} % ± {deviation:.2f} %" if deviation > 0 else f"{mean:.2f} %") in rows[0], job.out
    assert " sent by all ranks" in rows[0] and "after " in rows[0]
    found = json.loads(good("compare", *SMALL, "--codecs", "int8", "--seeds", 2, "--json").out)
    assert [one["seed"] for one in found] == [1, 2]
    job = run("compare", *SMALL, "--codecs", "none", "--seeds", 0)
    assert job.status == 2 and "--seeds 0: must be in [1, 1000]" in job.err
    job = run("compare", *SMALL, "--codecs", "none", "--seeds", 2, "--lr", "1e30")
    assert job.status == 1 and [line.split() for line in job.out.splitlines()[1:]] == [["none", "diverged"]]


def test_markdown(good):
    lines = good("compare", *SMALL, "--codec", "none", "--codec", "ef | topk(0.01)", "--markdown").out.splitlines()
    assert lines[0].startswith("| codec | test accuracy |") and lines[1].startswith("| --- | ---: |")
    assert lines[3].startswith("| ef \\| topk(0.01) |")


def test_one_that_fails_does_not_stop_the_rest(run, tmp_path):
    job = run("compare", *SMALL, "--codecs", "none", "ef | auto", "int8", "--train-dir", "three")
    assert job.status == 2
    rows = job.out.splitlines()[1:]
    assert [row.split("  ")[0] for row in rows] == ["none", "ef | auto", "int8"]
    assert rows[1].split() == ["ef", "|", "auto", "failed"]
    assert job.err.count("no memory before it") == 1
    assert summary(tmp_path / "three" / "03-int8")["steps"] == 4


def test_one_that_diverged_is_called_that(run):
    job = run("compare", *SMALL, "--codecs", "none", "--lr", "1e30")
    assert job.status == 1 and job.out.splitlines()[1].split() == ["none", "diverged"], job.out + job.err


def test_combinations_that_cannot_be_trained_are_told_first(run):
    job = run("compare", *SMALL, "--algorithms", "sync", "choco", "--codecs", "none", "power(2)")
    assert job.status == 2 and job.err.index("sotto: choco, power(2): ") < job.err.index("1/4 sync none"), job.err
    assert [line.split("  ")[0] for line in job.out.splitlines()[1:]] == ["sync", "sync", "choco", "choco"]
    assert job.out.count("failed") == 1


def test_warnings_of_runs_are_shown_once(good):
    flags = [*TINY, "--max-steps", 4, "--ranks", 2, "--optimiser", "onebit-adam"]
    said = "the codec would begin at step"
    job = good("compare", *flags, "--codecs", "none", "qsgd(4)", "int8")
    assert job.err.count(said) == 1 and f"warning (none; qsgd(4); int8): {said}" in job.err, job.err
    job = good("tune", *flags, "--codec", "int8", "--grid", "lr=0.1,0.2", "--steps", 4)
    assert job.err.count(said) == 1 and f"warning (lr=0.1; lr=0.2): {said}" in job.err, job.err


def test_one_that_is_interrupted_says_so(start, tmp_path):
    """No other run begins after it, and the exit status is as for `sotto train`."""
    flags = [*TINY, "--epochs", 100000, "--ranks", 2, "--codecs", "none", "int8"]
    for style, folder in [("--markdown", "first"), ("--json", "second")]:
        job = start("compare", *flags, style, "--train-dir", folder)
        wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / folder / "01-none", 3), "some steps")
        os.kill(job.process.pid, signal.SIGINT)
        job.finish()
        assert job.status == 130 and "interrupted in run 1 of 2; those after it were not begun" in job.err, job.err
        assert "failed" not in job.out and job.out.count("interrupted") == 1 and "int8" not in job.out, job.out
        assert not (tmp_path / folder / "02-int8").exists()


def test_a_signal_to_a_job_that_then_fails(start, tmp_path):
    """A rank hangs, so that the others do not come to the end of a step. Nothing is begun after that, or again."""
    for command, flags, wanted in [("compare", ["--codecs", "none", "int8"], 130), ("train", ["--restarts", 3], 1)]:
        folder = tmp_path / command
        job = start(command, *TINY[:-1], 3, "--epochs", 100000, "--ranks", 2, *flags, "--train-dir", command)
        run = folder / "01-none" if command == "compare" else folder
        wait_until(lambda: job.process.poll() is not None or has_step(run, 3), "some steps")  # noqa: B023
        os.kill(job.rank(1), signal.SIGSTOP)
        os.kill(job.process.pid, signal.SIGINT)
        job.finish()
        assert job.status == wanted and "starting again" not in job.err, job.err
        assert command == "train" or "interrupted in run 1 of 2; those after it were not begun" in job.err, job.err
        job.nothing_left()


def test_bad_codecs_are_refused_before_training(run, tmp_path):
    for wrong, reason in [("topk(2)", "--codecs topk(2): ratio must be in (0, 1]"), ("nosuch(1)", "unknown codec"), ("ef(3) | topk", "no arguments")]:
        job = run("compare", *SMALL, "--codecs", "none", wrong, "--train-dir", "refused")
        assert job.status == 2 and reason in job.err and not (tmp_path / "refused").exists()


def test_json(run):
    job = run("compare", *SMALL, "--codecs", "int8", "ef | auto", "--json")
    good, bad = json.loads(job.out)
    assert good["codec"] == "int8" and good["steps"] == 4 and len(good["bytes_sent"]) == 2
    assert bad["codec"] == "ef | auto" and "no memory before it" in bad["error"]


def test_dry_run_predicts_what_is_sent(good, tmp_path):
    for number, codec in enumerate(["none", "ef | topk(0.01)"]):
        text = good("train", *SMALL, "--codec", codec, "--dry-run").out
        said = dict(line.split(maxsplit=1) for line in text.splitlines())
        assert "7850 parameters in 1 bucket" in said["model"]
        predicted = int(text.split("a rank sends")[1].split()[0])
        good("train", *SMALL, "--codec", codec, "--train-dir", f"run{number}")
        measured = summary(tmp_path / f"run{number}")
        assert int(said["dense"].split()[0]) == measured["dense_bytes_per_step"]
        # Steps also send a few bytes to agree on stopping, and the size of sparse messages depends on where the values are.
        assert abs(predicted - max(measured["bytes_per_step"])) <= 64 + 0.1 * predicted
    assert not list(tmp_path.glob("runs"))


def test_a_lone_ranks_dry_run_explains_itself(good):
    text = good("train", *TINY, "--codec", "ef | topk(0.01)", "--dry-run").out
    assert "a rank sends  0 bytes: it is alone, and has nobody to send to; say how many there are with --ranks\n" in text
    assert "ratio" not in text
