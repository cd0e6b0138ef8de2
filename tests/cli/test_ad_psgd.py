"""Ranks that average in pairs, each at its own speed: trained, tested, stopped, saved and continued."""

import csv
import os
import signal

import pytest

from conftest import TINY, has_step, summary, wait_until
from test_resume import check

AD_PSGD = ["train", *TINY, "--algorithm", "ad_psgd"]


def steps_of(folder):
    with open(folder / "steps.csv") as file:
        return [{key: int(row[key]) for key in ("step", "rank", "bytes_sent")} for row in csv.DictReader(file)]


@pytest.mark.parametrize("ranks, topology", [(2, "bipartite_linear"), (4, "bipartite_exponential"), (3, "star")])
def test_ranks_agree_and_send_what_the_formula_says(good, tmp_path, ranks, topology):
    steps = 16
    good(*AD_PSGD, "--ranks", ranks, "--topology", topology, "--max-steps", steps, "--train-dir", "run")
    run = summary(tmp_path / "run")
    assert run["steps"] == steps and run["topology"] == topology and run["test_accuracy"] > 0.2
    assert len(run["rank_accuracy"]) == ranks and len(run["exchanges"]) == ranks
    active = [0 if rank == 0 or (topology != "star" and rank % 2 == 0) else 1 for rank in range(ranks)]
    asked = sum(n for n, asks in zip(run["exchanges"], active) if asks)
    answered = sum(n for n, asks in zip(run["exchanges"], active) if not asks)
    assert asked == answered and all(n <= steps for n, asks in zip(run["exchanges"], active) if asks)
    note = 24 + 8 * ranks
    exchange = 32 + 4 * run["parameters"] + note + 8  # the header, the floats, the note, and Gloo's frame
    rows = steps_of(tmp_path / "run")
    for rank in range(ranks):  # rows end before the last meeting, whose answers are in none
        sent = sum(row["bytes_sent"] for row in rows if row["rank"] == rank)
        assert sent <= run["exchanges"][rank] * exchange + 100 * (note + 8)
    assert sorted(row["step"] for row in rows) == sorted(list(range(steps)) * ranks)


def test_a_dry_run_says_what_an_exchange_costs(good):
    dense, half = (good(*AD_PSGD, "--ranks", 4, "--dry-run", "--codec", codec).out for codec in ("none", "f16"))
    assert "a rank sends  31488 bytes a step" in dense, dense  # 32 + 4 * 7850 + 24 + 8 * 4
    assert "a rank sends  15800 bytes a step" in half, half  # with 12 bytes of units


def test_one_rank_goes_on_with_the_same_bits(start, good, tmp_path):
    check(start, good, tmp_path, [*TINY, "--algorithm", "ad_psgd", "--ranks", 1])


def test_a_run_goes_on_from_its_checkpoint(good, tmp_path):
    flags = [*AD_PSGD, "--ranks", 4, "--codec", "f16", "--checkpoint-every", 6, "--train-dir", "run"]
    good(*flags, "--max-steps", 10)
    assert sorted(p.name for p in (tmp_path / "run").glob("model_step_*")) == ["model_step_10", "model_step_6"]
    good("train", "--resume", "--train-dir", "run", "--max-steps", 16)
    run = summary(tmp_path / "run")
    assert (run["first_step"], run["steps"]) == (10, 16)
    good("train", "--resume", "--train-dir", "run", "--max-steps", 20, "--final-average")
    assert summary(tmp_path / "run")["consensus_distance"] < 1e-6


@pytest.mark.parametrize("asked", [0, 1])
def test_all_ranks_end_when_one_is_asked_to(start, good, tmp_path, asked):
    job = start(*AD_PSGD, "--ranks", 4, "--epochs", 100000, "--eval-freq", 1000000, "--train-dir", "run")
    wait_until(lambda: has_step(tmp_path / "run", 20), "some steps")
    os.kill(job.rank(asked), signal.SIGINT)
    job.finish()
    job.nothing_left()
    assert job.status == 128 + signal.SIGINT, job.err
    run = summary(tmp_path / "run")
    assert run["interrupted_by_signal"] == signal.SIGINT
    assert (tmp_path / "run" / f"model_step_{run['steps']}" / "rank_3").exists()
    rows = steps_of(tmp_path / "run")
    assert all(max(row["step"] for row in rows if row["rank"] == rank) == run["steps"] - 1 for rank in range(4))
    good("train", "--resume", "--train-dir", "run", "--max-steps", run["steps"] + 5)
    assert summary(tmp_path / "run")["steps"] == run["steps"] + 5


def test_what_does_not_fit_is_refused(run):
    for ranks, flags, words in [
        (4, ["--topology", "exponential"], "take --topology bipartite_exponential"),
        (3, ["--topology", "ring"], "star (any number)"),
        (3, [], "no even number"),
        (4, ["--mixing", "metropolis"], "leave --mixing out"),
        (4, ["--codec", "qsgd"], "models are exchanged"),
        (4, ["--aggregator", "gather"], "--aggregator: `ad_psgd` has none"),
        (4, ["--check-replicas", 1], "--check-replicas: `ad_psgd` has other models"),
    ]:
        job = run(*AD_PSGD, "--ranks", ranks, "--max-steps", 2, *flags)
        assert job.status != 0 and words in job.err, (flags, job.err)
        job.nothing_left()
