"""`sotto train --replay`: a run whose ranks came and went is repeated to the bit."""

import json
import os
import signal

import pytest

from conftest import summary, wait_until
from test_coordinator import coordinator, generation, goes_on, join  # noqa: F401 (fixtures)
from test_elastic import ENDLESS, SMALL, at_step, kill, members

pytestmark = pytest.mark.slow

RUN = ["train", *SMALL, *ENDLESS, "--deadline", 20, "--max-steps", 500]
UNENDING = [*RUN[:-1], 10**6]  # for runs that a test ends
FEW = ["train", *SMALL, "--max-steps", 20, "--eval-freq", 10, "--train-dir", "run"]


@pytest.fixture
def replayed(run, tmp_path):
    """Replays the run of the folder `run` in the folder `again`, and checks that both ended alike."""

    def replayed(*flags, known=True, folder="again"):
        job = run("train", "--replay", "run", "--train-dir", folder, *flags)
        assert job.status == 0, job.err
        assert ("its parameters are the same to the bit" if known else "all losses and metrics are the same") in job.out
        if known:
            assert summary(tmp_path / folder)["parameters_sha256"] == summary(tmp_path / "run")["parameters_sha256"]
        return job

    return replayed


def until_generation(job, folder, number):
    wait_until(lambda: job.process.poll() is not None or len(members(folder)) > number, f"generation {number}")


@pytest.mark.sample(4)
@pytest.mark.parametrize("backend, restarts, method", [
    ("gloo", 0, ["--codec", "ef | topk(0.1)", "--momentum", 0.9]),
    ("tcp", 2, ["--codec", "ef | topk(0.1)", "--aggregator", "scatter_reduce", "--optimiser", "adam", "--schedule", "cosine"]),
    ("gloo", 1, ["--algorithm", "slowmo(h=4)", "--momentum", 0.9]),
    ("tcp", 2, ["--algorithm", "push_sum", "--momentum", 0.9]),
    ("gloo", 2, ["--codec", "ef | qsgd(bits=4)", "--aggregator", "gather", "--optimiser", "adam"]),
    ("gloo", 0, ["--algorithm", "push_sum(overlap=true)", "--codec", "f16", "--momentum", 0.9]),
    ("tcp", 1, ["--algorithm", "choco", "--codec", "topk(0.2)"]),
    ("tcp", 2, ["--algorithm", "d_psgd"]),
    ("tcp", 2, ["--algorithm", "parameter_server(down=qsgd(bits=4))", "--codec", "ef | topk(0.1)", "--optimiser", "adam"]),
])  # fmt: skip
def test_ranks_that_were_lost(start, replayed, tmp_path, backend, restarts, method):
    folder = tmp_path / "run"
    job = start(*RUN[:-1], 700, "--elastic", "1:3", "--restarts", restarts, "--backend", backend, *method, "--train-dir", "run")
    begun = 0
    for number, rank in enumerate((1, 0), 1):
        at_step(job, folder, begun + 50)  # a generation that made no step is not repeated
        kill(job, rank)
        until_generation(job, folder, number)
        begun = members(folder)[-1][1]
    assert job.finish().status == 0, job.err
    rows = members(folder)
    assert len(rows[-1][2]) == 1 + restarts
    again = replayed()
    assert [row[1:] for row in members(tmp_path / "again")][1:] == [row[1:] for row in rows][1:]
    groups = (tmp_path / "again" / "membership.csv").read_text().splitlines()[1:]
    assert again.err.count("the group changes before step") == len(groups) - 1
    again.nothing_left()


def test_one_that_had_no_changes(good, replayed):
    good(*FEW, "--ranks", 2, "--algorithm", "push_sum", "--codec", "f16")
    replayed("--backend", "gloo", "--checkpoint-every", 5)


def test_a_killed_run_is_replayed_to_its_end(start, replayed, tmp_path):
    job = start(*UNENDING, "--elastic", "1:2", "--codec", "ef | topk(0.1)", "--train-dir", "run")
    at_step(job, tmp_path / "run", 100)
    kill(job, 0)
    until_generation(job, tmp_path / "run", 1)
    step = members(tmp_path / "run")[-1][1]
    at_step(job, tmp_path / "run", step + 50)
    job.kill()
    replayed(known=False)
    assert summary(tmp_path / "again")["steps"] > step + 50


def test_a_run_that_lost_a_rank_is_replayed(start, replayed, tmp_path):
    """The ranks end at different rows of steps.csv: rows that only one rank has do not count."""
    job = start(*UNENDING, "--ranks", 2, "--train-dir", "run")
    at_step(job, tmp_path / "run", 100)
    kill(job, 1)
    assert job.finish().status == 1
    with open(tmp_path / "run" / "steps.csv") as file:
        rows = file.read().splitlines(keepends=True)
    rank = rows[0].rstrip().split(",").index("rank")
    last = max(i for i, row in enumerate(rows) if row.split(",")[rank] == "1")
    (tmp_path / "run" / "steps.csv").write_text("".join(rows[:last] + rows[last + 1 :]))  # rank 1 has one row fewer in any case
    replayed(known=False)


def test_one_that_diverged(run, tmp_path):
    job = run(*FEW, "--ranks", 2, "--lr", 30)
    assert job.status == 1 and (tmp_path / "run" / "summary.json").exists(), job.err
    again = run("train", "--replay", "run", "--train-dir", "again")
    assert again.status == 0 and "its parameters are the same to the bit" in again.out, again.err


def test_one_that_was_stopped(start, replayed, tmp_path):
    job = start(*UNENDING, "--elastic", "1:2", "--train-dir", "run")
    at_step(job, tmp_path / "run", 100)
    os.kill(job.process.pid, signal.SIGINT)
    assert job.finish().status == 130, job.err
    replayed()


def test_one_that_went_on_from_a_checkpoint(good, run, replayed, tmp_path):
    good(*FEW, "--ranks", 3, "--codec", "ef | topk(0.1)", "--momentum", 0.9)
    good("train", "--train-dir", "run", "--resume", "--ranks", 2, "--max-steps", 40)
    replayed()
    assert not (tmp_path / "again" / "model_step_10").exists()
    good("train", "--train-dir", "run", "--resume", "--max-steps", 30)  # with nothing left to do
    replayed(folder="once_more")
    (tmp_path / "run" / "model_step_20").rename(tmp_path / "away")
    job = run("train", "--replay", "run")
    assert job.status == 2 and "--replay run: it continued from run/model_step_20, which no longer exists" in job.err


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [["--codec", "ef | topk(0.1)"], ["--algorithm", "parameter_server"], ["--algorithm", "push_sum(overlap=true)"], ["--algorithm", "push_sum"]], ids=lambda how: how[1])
def test_ranks_that_came_and_went_by_themselves(coordinator, join, run, tmp_path, method):  # noqa: F811
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "2:3")
    flags = [*method, "--momentum", 0.9, "--lr-scale", "--max-steps", 800]
    jobs = [join(port, *flags), join(port, *flags)]
    generation(jobs, folder, 1)
    jobs.append(join(port, *flags))
    _, step, ids = generation(jobs, folder, 2)
    assert ids == [0, 1, 2]
    goes_on(jobs, lambda: at_step(jobs[0], folder, step + 50) is None, "50 steps")
    os.kill(jobs.pop(0).process.pid, signal.SIGTERM)
    assert len(generation(jobs, folder, 3)[2]) == 2
    for job in [*jobs, boss]:
        assert job.finish().status == 0, job.err
    again = run("train", "--replay", "run", "--train-dir", "again")
    assert again.status == 0 and "the same to the bit" in again.out, again.err
    assert summary(tmp_path / "again")["parameters_sha256"] == summary(folder)["parameters_sha256"]


def test_a_difference_is_named(good, run, tmp_path):
    good(*FEW, "--ranks", 2)
    record = tmp_path / "run" / "summary.json"
    as_it_was = record.read_text()
    record.write_text(json.dumps(json.loads(as_it_was) | {"parameters_sha256": "0" * 64}))
    job = run("train", "--replay", "run", "--train-dir", "a")
    assert job.status == 1 and f"parameters were {'0' * 64}: losses and metrics are the same" in job.err, job.err
    record.write_text(as_it_was)
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("seed = 1", "seed = 2", 1))
    job = run("train", "--replay", "run", "--train-dir", "b")
    assert job.status == 1 and "first in step 0: the loss of rank 0 was " in job.err, job.err


@pytest.mark.parametrize("row, error", [
    ("1,10,1,0,0,1,start,0", "membership.csv:3: `start` is nothing from which step 10 could begin"),
    ("1,10,2,0 5,,1 1,generation 0,0", "membership.csv:3: rank 5 was no member of generation 0, and is not new"),
    ("1,10,3,0 1 2,2,1 1 1,generation 0,0", "membership.csv:3: 3 members; config.toml says 2 ranks"),
    ("1,20,1,0,,1,generation 0,0", "membership.csv:3: step 20 is not before the end, step 20"),
    ("1,10,1,0,,7,generation 0,0", "its ranks computed with different numbers of threads"),
    ("1,10,1,0,,one,generation 0,0", "membership.csv:3: `one` is no number of the column threads"),
])  # fmt: skip
def test_changes_that_cannot_have_been(good, run, tmp_path, row, error):
    good(*FEW, "--ranks", 2, "--threads", 1)
    with open(tmp_path / "run" / "membership.csv", "a") as file:
        file.write(row + "\n")
    job = run("train", "--replay", "run", "--train-dir", "again")
    assert job.status in (1, 2) and error in job.err, job.err
    assert not (tmp_path / "again").exists()


def test_a_change_between_two_exchanges_cannot_have_been(good, run, tmp_path):
    good(*FEW, "--ranks", 2, "--threads", 1, "--algorithm", "local(h=4)")
    with open(tmp_path / "run" / "membership.csv", "a") as file:
        file.write("1,10,1,0,,1,generation 0,0\n")
    job = run("train", "--replay", "run", "--train-dir", "again")
    assert job.status == 1 and "the group cannot change before step 10, which is between two exchanges" in job.err, job.err


@pytest.mark.parametrize("flags, error", [
    (["--lr", 0.1], "--lr: --replay repeats a run with the options that it had; leave it out"),
    (["--elastic", "1:2"], "--elastic: --replay repeats"),
    (["--config", "run/config.toml"], "--config: --replay repeats"),
    (["--train-dir", "run"], "--train-dir run: already holds a run"),
    (["--replay", "nowhere"], "--replay nowhere: there is no config.toml"),
    (["--replay", ""], "--replay: names no folder"),
])  # fmt: skip
def test_what_is_refused(good, run, flags, error):
    good(*FEW, "--ranks", 2)
    job = run("train", *flags, *([] if "--replay" in flags else ["--replay", "run"]))
    assert job.status == 2 and error in job.err, job.err


def test_a_starter_of_ranks_is_refused(good, run):
    good(*FEW, "--ranks", 2)
    job = run("train", "--replay", "run", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    assert job.status == 2 and "--replay run: whoever set RANK and WORLD_SIZE started this rank; a replay starts all its ranks itself" in job.err


@pytest.mark.parametrize("flags, error", [
    (["--algorithm", "ad_psgd"], "ranks of `ad_psgd` go at their own speed"),
    (["--algorithm", "push_sum(overlap=true, synch_freq=2)"], "`push_sum(overlap=true, synch_freq=2)` depends on when messages arrive"),
    (["--codec", "auto"], "`auto` chooses by the time that steps take"),
])  # fmt: skip
def test_no_two_runs_are_the_same(good, run, flags, error):
    good(*FEW, "--ranks", 2, *flags)
    job = run("train", "--replay", "run")
    assert job.status == 2 and error in job.err, job.err
