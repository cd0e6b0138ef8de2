"""Ranks that average in pairs, each at its own speed: trained, tested, stopped, saved and continued."""

import csv
import os
import signal

import pytest

from conftest import TINY, has_step, summary, wait_until
from test_resume import check

pytestmark = pytest.mark.slow

AD_PSGD = ["train", *TINY, "--algorithm", "ad_psgd"]


def steps_of(folder):
    with open(folder / "steps.csv") as file:
        return [{key: int(row[key]) for key in ("step", "rank", "bytes_sent")} for row in csv.DictReader(file)]


@pytest.mark.parametrize("ranks, topology, count", [(2, "bipartite_linear", "all"), (4, "bipartite_exponential", "each"), (3, "star", "all")])
def test_ranks_agree_and_send_what_the_formula_says(good, tmp_path, ranks, topology, count):
    good(*AD_PSGD[:-1], f"ad_psgd(count={count})", "--ranks", ranks, "--topology", topology, "--max-steps", 16, "--train-dir", "run")
    run = summary(tmp_path / "run")
    steps = run["rank_steps"]
    assert steps == [16] * ranks if count == "each" else sum(steps) >= 16 * ranks
    assert run["steps"] == 16 and run["topology"] == topology and run["test_accuracy"] > 0.2
    assert len(run["rank_accuracy"]) == ranks and len(run["exchanges"]) == ranks
    active = [0 if rank == 0 or (topology != "star" and rank % 2 == 0) else 1 for rank in range(ranks)]
    asked = sum(n for n, asks in zip(run["exchanges"], active) if asks)
    answered = sum(n for n, asks in zip(run["exchanges"], active) if not asks)
    assert asked == answered and all(n <= made for n, made, asks in zip(run["exchanges"], steps, active) if asks)
    note = 24 + 8 * ranks
    exchange = 32 + 4 * run["parameters"] + note + 24  # the header, the floats, the note, and the frame of tcp
    rows = steps_of(tmp_path / "run")
    for rank in range(ranks):  # the last row ends before the last meeting, so no row counts its answers
        sent = sum(row["bytes_sent"] for row in rows if row["rank"] == rank)
        notes = 100 + (sum(steps) if count == "all" else 0)  # in each step a rank asks one question and answers others'
        assert sent <= run["exchanges"][rank] * exchange + notes * (note + 24)
        assert sorted(row["step"] for row in rows if row["rank"] == rank) == list(range(steps[rank]))


def test_a_dry_run_says_what_an_exchange_costs(good):
    dense, half = (good(*AD_PSGD, "--ranks", 4, "--dry-run", "--codec", codec).out for codec in ("none", "f16"))
    # A model is 32 + 4 * 7850 bytes, and 24 + 8 * 4 before it; who asks sends as many once more.
    assert "a rank sends  31544 bytes a step at most, 31488 at least" in dense, dense
    assert "a rank sends  15856 bytes a step at most, 15800 at least" in half, half  # 12 bytes of them are units


def test_one_rank_goes_on_with_the_same_bits(start, good, tmp_path):
    check(start, good, tmp_path, [*TINY, "--algorithm", "ad_psgd", "--ranks", 1])


def check_rows(folder, steps):
    rows = steps_of(folder)
    for rank, made in enumerate(steps):
        assert sorted(row["step"] for row in rows if row["rank"] == rank) == list(range(made))


@pytest.mark.parametrize("count", ["all", "each"])
def test_a_slow_rank_makes_fewer_steps(good, tmp_path, count):
    (tmp_path / "slow.toml").write_text("".join(f'[[rank]]\nrank = {rank}\ndelay = "{delay}ms"\n' for rank, delay in enumerate([5, 5, 100, 5])))
    good(*AD_PSGD[:-1], f"ad_psgd(count={count})", "--ranks", 4, "--codec", "f16", "--checkpoint-every", 6, "--train-dir", "run",
         "--max-steps", 12 if count == "all" else 7, "--link", "slow.toml")  # fmt: skip
    run = summary(tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").glob("model_step_*")} == {"model_step_6", f"model_step_{run['steps']}"}
    check_rows(tmp_path / "run", run["rank_steps"])
    if count == "each":
        assert run["rank_steps"] == [7] * 4 and run["steps"] == 7
    else:
        assert run["steps"] == 12 and 48 <= sum(run["rank_steps"]) < 96
        assert run["rank_steps"][2] < min(steps for rank, steps in enumerate(run["rank_steps"]) if rank != 2)
    good("train", "--resume", "--train-dir", "run", "--max-steps", 18, "--final-average", "--link", "")
    again = summary(tmp_path / "run")
    assert (again["first_step"], again["steps"]) == (run["steps"], 18) and again["consensus_distance"] < 1e-6
    assert all(now > before for now, before in zip(again["rank_steps"], run["rank_steps"])) and sum(again["rank_steps"]) >= 72
    check_rows(tmp_path / "run", again["rank_steps"])


@pytest.mark.parametrize("asked, count", [(0, "each"), (1, "all")])
def test_all_ranks_end_when_one_is_asked_to(start, good, tmp_path, asked, count):
    job = start(*AD_PSGD[:-1], f"ad_psgd(count={count})", "--ranks", 4, "--epochs", 100000, "--eval-freq", 1000000, "--train-dir", "run")
    wait_until(lambda: has_step(tmp_path / "run", 20), "some steps")
    os.kill(job.rank(asked), signal.SIGINT)
    job.finish()
    job.nothing_left()
    assert job.status == 128 + signal.SIGINT, job.err
    run = summary(tmp_path / "run")
    assert run["interrupted_by_signal"] == signal.SIGINT
    assert (tmp_path / "run" / f"model_step_{run['steps']}" / "rank_3").exists()
    assert run["steps"] == sum(run["rank_steps"]) // 4 and (count == "all" or len(set(run["rank_steps"])) == 1)
    check_rows(tmp_path / "run", run["rank_steps"])
    good("train", "--resume", "--train-dir", "run", "--max-steps", run["steps"] + 5)
    assert summary(tmp_path / "run")["steps"] == run["steps"] + 5


def test_what_does_not_fit_is_refused(run):
    for ranks, flags, words in [
        (4, ["--topology", "exponential"], "take bipartite_exponential"),
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
