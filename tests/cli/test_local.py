"""Local steps: trained, tested, stopped, saved and continued."""

import csv
import os
import re
import signal

import pytest

from conftest import TINY, summary, wait_until
from test_resume import check


@pytest.mark.parametrize("algorithm, codec", [("local(h=5)", "none"), ("slowmo(h=5, buffers=average)", "qsgd(bits=4)"),
                                              ("diloco(h=5, overlap=3)", "ef | topk(0.1)")])  # fmt: skip
def test_bits_are_the_same_after_a_resume(start, good, tmp_path, algorithm, codec):
    check(start, good, tmp_path, [*TINY, "--algorithm", algorithm, "--codec", codec, "--ranks", 3])


def test_the_mean_model_is_tested_and_saved(good, tmp_path):
    flags = ["train", *TINY, "--algorithm", "local(h=4)", "--ranks", 3]
    good(*flags, "--max-steps", 8, "--train-dir", "together")
    together = summary(tmp_path / "together")
    assert together["consensus_distance"] < 1e-6 and together["aggregator"] == "all_reduce"
    good(*flags, "--max-steps", 10, "--train-dir", "apart")
    apart = summary(tmp_path / "apart")
    assert apart["consensus_distance"] > 0 and len(apart["rank_accuracy"]) == 3
    tested = good("eval", "--model-dir", "apart").out
    assert float(re.search(r"[Ll]oss:? *([0-9.]+)", tested)[1]) == pytest.approx(apart["test_loss"], abs=1e-3), tested
    good(*flags, "--max-steps", 10, "--final-average", "--train-dir", "agreed")
    agreed = summary(tmp_path / "agreed")
    assert agreed["consensus_distance"] < 1e-6 and agreed["test_loss"] == pytest.approx(apart["test_loss"], abs=1e-4)


def test_overlap_changes_no_bit(good, tmp_path):
    flags = ["train", *TINY, "--algorithm", "diloco(h=4, overlap=2)", "--ranks", 2, "--max-steps", 10]
    good(*flags, "--train-dir", "with")
    good(*flags, "--no-overlap", "--train-dir", "without")
    assert summary(tmp_path / "with")["parameters_sha256"] == summary(tmp_path / "without")["parameters_sha256"]


def test_diloco_brings_adamw(good, tmp_path):
    flags = ["train", *TINY, "--algorithm", "diloco(h=2)", "--ranks", 2, "--max-steps", 2]
    good(*flags, "--train-dir", "own")
    own = summary(tmp_path / "own")
    assert own["optimiser"].startswith("adamw(") and own["lr"] == 0.001
    good(*flags, "--optimiser", "sgd", "--train-dir", "said")
    assert summary(tmp_path / "said")["optimiser"].startswith("sgd(")


def test_bytes_are_those_of_the_dry_run(good, tmp_path):
    flags = ["train", *TINY, "--ranks", 4, "--codec", "qsgd(bits=4)", "--aggregator", "gather"]
    sync = int(re.search(r"a rank sends +(\d+) bytes a step", good(*flags, "--dry-run").out)[1])
    for algorithm in ["local(h=4)", "local(h=4, after=4)", "diloco(h=4, overlap=1)"]:
        text = good(*flags, "--algorithm", algorithm, "--dry-run").out
        assert f"a rank sends  {sync} bytes an exchange" in text, text
        assert f"exchanges     after 1 of 4 steps: {sync // 4} bytes a step" in text, text
        assert ("from step     4" in text) == ("after" in algorithm), text
    good(*flags, "--algorithm", "local(h=4)", "--max-steps", 8, "--train-dir", "run")
    with open(tmp_path / "run" / "steps.csv") as file:
        sent = {int(row["step"]): int(row["bytes_sent"]) for row in csv.DictReader(file)}
    assert sent == {step: sync if step % 4 == 3 else 0 for step in range(8)}
    assert summary(tmp_path / "run")["bytes_per_step"] == [sync // 4] * 4


def test_a_signal_ends_all_after_the_next_exchange(start, tmp_path):
    job = start("train", *TINY, "--algorithm", "local(h=5)", "--ranks", 3, "--epochs", 100000, "--eval-freq", 1000000,
                "--train-dir", "run")  # fmt: skip
    steps = tmp_path / "run" / "steps.csv"
    wait_until(lambda: steps.exists() and len(steps.read_text().splitlines()) > 10, "steps")
    os.kill(job.rank(1), signal.SIGTERM)
    job.finish()
    assert job.status == 128 + signal.SIGTERM, job.err
    ended = summary(tmp_path / "run")
    assert ended["interrupted_by_signal"] == signal.SIGTERM and ended["steps"] % 5 == 0
    assert (tmp_path / "run" / f"model_step_{ended['steps']}").is_dir()
    job.nothing_left()


def test_what_does_not_fit_is_refused(run):
    for flags, words in [
        (["--algorithm", "local", "--check-replicas", 1], "--check-replicas: `local` has other models"),
        (["--algorithm", "local", "--topology", "ring"], "--topology: `local` exchanges with no neighbours"),
        (["--algorithm", "local", "--codec", "auto"], "say which codec"),
        (["--algorithm", "slowmo", "--codec", "memsgd | topk(0.1)"], "use `ef`"),
        (["--algorithm", "slowmo(buffers=reset)", "--optimiser", "adam"], "say buffers=keep or average"),
        (["--algorithm", "diloco", "--momentum", 0.9], "the optimiser `adamw` has no momentum"),
        (["--algorithm", "diloco(shards=9)"], "shards=9 of 1 buckets"),
        (["--algorithm", "diloco(h=3, overlap=3)"], "must be below h=3"),
    ]:
        job = run("train", *TINY, "--ranks", 2, "--max-steps", 2, *flags)
        assert job.status != 0 and words in job.err, (flags, job.err)
        job.nothing_left()
