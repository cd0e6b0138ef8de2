"""`sotto train --elastic`: a job continues when ranks are killed, or hang."""

import os
import random
import re
import signal
import time

import pytest

from conftest import has_step, summary, wait_until

pytestmark = pytest.mark.slow

SMALL = "--model logreg --train-size 512 --test-size 100 --batch-size 8".split()
ENDLESS = ["--epochs", 100000, "--eval-freq", 1000, "--link", "1gbit,3ms"]  # a step takes ten milliseconds or more
LONG = [*SMALL, *ENDLESS, "--deadline", 20, "--max-steps", 400]


def members(folder):
    """The rows of membership.csv: (generation, first step, ids), without groups that begin because newcomers have
    caught up."""
    lines = (folder / "membership.csv").read_text().splitlines()
    assert lines[0] == "generation,step,ranks,members,new,threads,from,epoch"
    rows = [line.split(",") for line in lines[1:]]
    follows = [False, *("generation" in row[6] and row[4] != "" for row in rows)]  # newcomers, in the generation before
    changes = [row for i, row in enumerate(rows) if not (follows[i] and row[3] == rows[i - 1][3] and row[4] == "")]
    return [(int(g), int(s), [int(i) for i in ids.split()]) for g, s, _, ids, *_ in changes]


def kill(job, rank, number=signal.SIGKILL):
    assert job.process.poll() is None, job.finish().err
    os.kill(job.rank(rank), number)


def at_step(job, folder, step):
    wait_until(lambda: job.process.poll() is not None or has_step(folder, step), f"step {step}")


@pytest.mark.sample(3)
@pytest.mark.parametrize("backend, algorithm", [
    ("tcp", ["sync", "--momentum", 0.9]), ("tcp", ["parameter_server(servers=1)", "--optimiser", "adam"]), ("gloo", ["slowmo(h=4)", "--momentum", 0]),
    ("gloo", ["sync", "--momentum", 0.9]),
])  # fmt: skip
def test_the_rest_equals_a_run_with_fewer_ranks(start, good, tmp_path, backend, algorithm):
    """Without a memory, the rest of the run has the bits of one that continued from a checkpoint with fewer ranks. A parameter
    server, which makes no such run, has the bits of sync with gather."""
    flags = ["train", *SMALL, *ENDLESS, "--deadline", 20, "--backend", backend, "--max-steps", 400]
    job = start(*flags, "--algorithm", *algorithm, "--elastic", "2:4", "--train-dir", "run", "--checkpoint-minutes", 0)
    at_step(job, tmp_path / "run", 100)
    kill(job, 1)
    job.finish()
    assert job.status == 0, job.err
    assert "sotto: rank 1 was killed by signal 9 (SIGKILL); continuing with ranks 0, 2, 3" in job.err
    job.nothing_left()
    first, then = members(tmp_path / "run")
    assert first == (1, 0, [0, 1, 2, 3]) and then[0] == 2 and then[2] == [0, 2, 3]
    step = then[1]
    assert 90 < step < 400 and f"step {step}  continues with 3 ranks" in job.err
    twin = ["sync", *algorithm[1:], "--aggregator", "gather"] if algorithm[0].startswith("parameter_server") else algorithm
    good(*flags[:-2], "--algorithm", *twin, "--max-steps", step, "--ranks", 4, "--train-dir", "same")
    good(*flags, "--algorithm", *twin, "--ranks", 3, "--train-dir", "same", "--resume")
    assert summary(tmp_path / "run")["parameters_sha256"] == summary(tmp_path / "same")["parameters_sha256"]


def test_what_a_lost_rank_has_sent_still_counts(start, tmp_path):
    job = start("train", *SMALL, "--epochs", 100000, "--eval-freq", 50, "--link", "1gbit,3ms", "--deadline", 20, "--max-steps", 300,
                "--elastic", "2:4", "--train-dir", "run")  # fmt: skip
    folder = tmp_path / "run"
    at_step(job, folder, 110)
    kill(job, 3)
    at_step(job, folder, 210)
    kill(job, 0)  # it counted for rank 3, too
    job.finish()
    assert job.status == 0 and len(members(folder)) == 3, job.err
    steps = [line.split(",") for line in (folder / "steps.csv").read_text().splitlines()[1:]]
    found = [line.split(",") for line in (folder / "evaluations.csv").read_text().splitlines() if ",test," in line]
    sent = [int(row[3]) for row in found]
    assert sent == sorted(sent) and int(found[-1][0]) == 300
    assert sent[-1] == sum(int(row[13]) for row in steps)


@pytest.mark.sample(2)
@pytest.mark.parametrize("codec, flags", [
    ("fetchsgd", []), ("ef | topk(0.1)", ["--aggregator", "scatter_reduce"]), ("ef | topk(0.1)", ["--aggregator", "gather"]),
    ("qsgd(bits=4)", []), ("auto", []), ("ef | topk(0.1)", ["--algorithm", "parameter_server(down=qsgd(bits=4))"]), ("none", ["--algorithm", "diloco(h=2)"]),
    ("none", ["--algorithm", "push_sum"]), ("none", ["--algorithm", "push_sum(overlap=true)"]), ("topk(0.1)", ["--algorithm", "choco"]),
])  # fmt: skip
def test_ranks_that_are_killed_at_any_moment(start, tmp_path, codec, flags):
    """Every rank is killed once, and replaced; replicas stay the same to the bit, as the fixture `start` has them compared."""
    chance = random.Random(codec)
    job = start("train", *LONG, "--elastic", "1:3", "--restarts", 3, "--codec", codec, *flags, "--train-dir", "run")
    folder = tmp_path / "run"
    for generation, rank in enumerate(chance.sample(range(3), 3), 1):
        at_step(job, folder, 60 * generation)
        time.sleep(chance.random() / 10)
        kill(job, rank)
        wait_until(lambda g=generation: job.process.poll() is not None or len(members(folder)) > g, "the next generation")
    job.finish()
    assert job.status == 0, job.err
    assert job.err.count("(SIGKILL), and is replaced; continuing with ranks 0, 1, 2") == 3, job.err
    job.nothing_left()
    rows = members(folder)
    assert [ids for _, _, ids in rows] == 4 * [[0, 1, 2]] and sorted(s for _, s, _ in rows) == [s for _, s, _ in rows]
    assert summary(folder)["steps"] == 400


@pytest.mark.sample(2)
@pytest.mark.parametrize("flags", [
    ["ad_psgd", "--topology", "star"], ["parameter_server(mode=async)", "--codec", "ef | topk(0.1)"], ["parameter_server(mode=stale, servers=2, dedicated=true)", "--buckets", "4KiB", "--optimiser", "adam", "--lr", 0.001],
], ids=lambda flags: flags[0])  # fmt: skip
def test_ranks_at_their_own_speed(start, tmp_path, flags):
    """Nobody goes back: each continues from where it was, and a new one from the mean."""
    (tmp_path / "link.toml").write_text("".join(f'[[rank]]\nrank = {r}\ndelay = "{10 + 10 * r}ms"\n' for r in range(4)))
    job = start("train", *SMALL, "--epochs", 100000, "--eval-freq", 50, "--link", "link.toml", "--deadline", 20, "--max-steps", 300,
                "--algorithm", *flags, "--elastic", "3:4", "--restarts", 2, "--train-dir", "run")  # fmt: skip
    folder = tmp_path / "run"
    for number, rank in enumerate((1, 0, 3), 1):
        wait_until(lambda n=number: job.process.poll() is not None or evaluations(folder) >= n, "an evaluation")
        kill(job, rank)
        wait_until(lambda n=number: job.process.poll() is not None or len(members(folder)) > n, "the next generation")
    job.finish()
    assert job.status == 0, job.err
    job.nothing_left()
    rows = members(folder)
    assert [ids for _, _, ids in rows] == [*3 * [[0, 1, 2, 3]], [0, 1, 2]] and sorted(s for _, s, _ in rows) == [s for _, s, _ in rows]
    ended = summary(folder)
    assert ended["steps"] == 300 and ended["test_loss"] < 2.2


def evaluations(folder):
    """How many there have been of the test examples."""
    try:
        return (folder / "evaluations.csv").read_text().count(",test,")
    except FileNotFoundError:
        return 0


def test_a_loss_in_a_very_long_round(start, tmp_path):
    """The others would find it out at the end of the round alone, after 14 s; the launcher waits for 10 s."""
    (tmp_path / "link.toml").write_text("".join(f'[[rank]]\nrank = {r}\ndelay = "500ms"\n' for r in range(3)))
    job = start("train", *SMALL, *"--epochs 100000 --eval-freq 1000 --link link.toml --deadline 5 --max-steps 60 --algorithm local(h=30) --elastic 2:3 --train-dir run".split())  # fmt: skip
    folder = tmp_path / "run"
    at_step(job, folder, 31)
    kill(job, 1)
    job.finish()
    assert job.status == 0 and "did not answer" not in job.err, job.err
    job.nothing_left()
    assert members(folder) == [(1, 0, [0, 1, 2]), (2, 30, [0, 2])]


@pytest.mark.parametrize("flags", [
    [*SMALL, "--link", "link.toml", "--eval-freq", 1000],
    [*"--model resnet20 --data made-cifar --train-size 512 --test-size 5000 --batch-size 8 --eval-freq 1".split()],
], ids=["step", "evaluation"])  # fmt: skip
def test_a_loss_in_a_very_long_phase(start, tmp_path, flags):
    """The launcher waits for the others as long as their steps take; batches of an evaluation look for losses."""
    (tmp_path / "link.toml").write_text("".join(f'[[rank]]\nrank = {r}\ndelay = "6s"\n' for r in range(3)))
    job = start("train", *flags, *"--deadline 2 --max-steps 3 --threads 1 --no-keep-best --elastic 2:3 --train-dir run".split())
    at_step(job, tmp_path / "run", 0)
    time.sleep(0.5)  # they are at work
    kill(job, 1)
    job.finish()
    assert job.status == 0 and "did not answer" not in job.err, job.err
    job.nothing_left()
    first, then = members(tmp_path / "run")
    assert first == (1, 0, [0, 1, 2]) and then[2] == [0, 2]


def test_a_new_rank_dies_while_joining(start, tmp_path):
    """They need not wait for it until the deadline."""
    job = start("train", *SMALL, *ENDLESS, "--deadline", 600, "--max-steps", 400, "--elastic", "1:3", "--restarts", 1, "--train-dir", "run")
    at_step(job, tmp_path / "run", 100)
    first = job.rank(1)
    os.kill(first, signal.SIGKILL)

    def replacement():
        try:
            return job.rank(1) != first
        except AssertionError:
            return False

    wait_until(replacement, "the new rank")
    kill(job, 1, signal.SIGSTOP)
    time.sleep(3)  # the others come to the meeting
    kill(job, 1)
    job.finish()
    assert job.status == 0, job.err
    assert members(tmp_path / "run")[-1][2] == [0, 2]
    job.nothing_left()


def test_rank_0_and_its_run_folder(start, tmp_path):
    job = start("train", *LONG, "--elastic", "1:2", "--train-dir", "run", "--checkpoint-every", 100)
    at_step(job, tmp_path / "run", 150)
    kill(job, 0)
    job.finish()
    assert job.status == 0, job.err
    assert members(tmp_path / "run")[1][2] == [1]
    assert summary(tmp_path / "run")["steps"] == 400 and (tmp_path / "run" / "model_step_400").is_dir()


def test_a_rank_that_hangs_is_given_up(start, tmp_path):
    job = start("train", *SMALL, *ENDLESS, "--max-steps", 400, "--elastic", "1:3", "--train-dir", "run", "--deadline", 8)
    at_step(job, tmp_path / "run", 100)
    kill(job, 2, signal.SIGSTOP)
    job.finish()
    assert job.status == 0, job.err
    assert "rank 2 did not answer, and was killed; continuing with ranks 0, 1" in job.err
    job.nothing_left()


@pytest.mark.parametrize("on_failure", ["continue", "checkpoint"])
def test_checkpoints_of_a_lost_group_do_not_survive(start, good, tmp_path, on_failure):
    """The others go back to the last exchange, and a checkpoint of a later step was there."""
    folder = tmp_path / "run"
    (tmp_path / "slow.toml").write_text('[[rank]]\nrank = 0\ndelay = "50ms"\n[[rank]]\nrank = 1\ndelay = "50ms"\n')
    job = start("train", *SMALL, "--epochs", 100000, "--eval-freq", 1000, "--algorithm", "local(h=32)", "--link", "slow.toml",
                "--elastic", "1:2", "--on-failure", on_failure, "--checkpoint-every", 33, "--max-steps", 50, "--train-dir", "run")  # fmt: skip
    wait_until(lambda: job.process.poll() is not None or (folder / "model_step_33").exists(), "a checkpoint")
    kill(job, 1)
    job.finish()
    rows = [int(row.split(",")[0]) for row in (folder / "steps.csv").read_text().splitlines()[1:] if row.split(",")[1] == "0"]
    assert rows == list(range(len(rows)))
    newest = max(int(path.name.split("_")[-1]) for path in folder.glob("model_step_*"))
    if on_failure == "continue":
        assert job.status == 0 and newest == 50, job.err
        assert members(folder)[-1] == (2, 32, [0])
    else:
        assert job.status == 1 and newest == 33 and "; there is a checkpoint of step 33 already; --resume continues from there" in job.err, job.err
        assert len(rows) >= 33


def test_too_few_are_left(start, good, tmp_path):
    """The last one writes a checkpoint."""
    job = start("train", *LONG, "--elastic", "2:3", "--train-dir", "run")
    at_step(job, tmp_path / "run", 100)
    kill(job, 0)
    wait_until(lambda: job.process.poll() is not None or len(members(tmp_path / "run")) == 2, "the next generation")
    kill(job, 2)
    job.finish()
    lost = r"sotto: rank 2 was killed by signal 9 \(SIGKILL\); one rank is left, and 2 are needed"
    step = int(re.fullmatch(lost + r"; a checkpoint was written after step (\d+); --resume continues from there", job.err.splitlines()[-1])[1])
    assert job.status == 1 and step >= 100, job.err
    job.nothing_left()
    resumed = good("train", *LONG[:-2], "--max-steps", step + 10, "--ranks", 2, "--train-dir", "run", "--resume")
    assert f"resumed from run/model_step_{step}\n" in resumed.err


@pytest.mark.parametrize("ranks", ["2:3", "3:3"])
def test_a_failure_ends_the_job_with_a_checkpoint(start, good, tmp_path, ranks):
    """All ranks continue from there as if nothing had happened, also if fewer were left than may train."""
    flags = ["train", *LONG[:-2], "--momentum", 0.9, "--max-steps", 200]
    job = start(*flags, "--elastic", ranks, "--on-failure", "checkpoint", "--train-dir", "run")
    at_step(job, tmp_path / "run", 60)
    kill(job, 1)
    job.finish()
    assert job.status == 1
    step = int(re.search(r"a checkpoint was written after step (\d+)", job.err)[1])
    assert 50 < step < 200
    last = job.err.splitlines()[-1]
    assert last == f"sotto: rank 1 was killed by signal 9 (SIGKILL); a checkpoint was written after step {step}; --resume continues from there"
    job.nothing_left()
    assert [row[2] for row in members(tmp_path / "run")] == [[0, 1, 2]], "a generation that only saves is none"
    good(*flags, "--ranks", 3, "--train-dir", "run", "--resume")
    good(*flags, "--ranks", 3, "--train-dir", "same")
    assert summary(tmp_path / "run")["parameters_sha256"] == summary(tmp_path / "same")["parameters_sha256"]


def test_gossip_goes_back_to_its_last_checkpoint(start, good, tmp_path):
    """Else the steps between would be in no row, and --resume would continue from a checkpoint of another course."""
    flags = ["train", *LONG[:-2], "--algorithm", "push_sum", "--max-steps", 150]
    job = start(*flags, "--elastic", "4:4", "--on-failure", "checkpoint", "--checkpoint-every", 1, "--train-dir", "run")
    at_step(job, tmp_path / "run", 60)
    kill(job, 1)
    job.finish()
    last = r"; (?:a checkpoint was written after step (\d+)|there is a checkpoint of step (\d+) already); --resume continues from there\n$"
    written, already = re.search(last, job.err).groups()
    step = int(written or already)
    assert step >= 60 and step == max(int(path.name.split("_")[-1]) for path in (tmp_path / "run").glob("model_step_*"))
    ranks = 3 if written else 4  # an earlier one has the lost rank's state, too
    resumed = good(*flags, "--ranks", ranks, "--train-dir", "run", "--resume", "--checkpoint-every", 0)
    assert f"resumed from run/model_step_{step}\n" in resumed.err and "rank count changed" not in resumed.err
    with open(tmp_path / "run" / "steps.csv") as file:
        steps = [int(line.split(",")[0]) for line in file.readlines()[1:]]
    assert [steps.count(s) for s in range(150)] == step * [4] + (150 - step) * [ranks]


def test_a_failure_ends_the_job(start, tmp_path):
    job = start("train", *LONG, "--elastic", "1:3", "--on-failure", "stop", "--train-dir", "run")
    at_step(job, tmp_path / "run", 60)
    kill(job, 0)
    job.finish()
    assert job.status == 1 and job.err.splitlines()[-1] == "sotto: rank 0 was killed by signal 9 (SIGKILL)"
    job.nothing_left()


def test_ctrl_c_after_a_loss_saves(start, tmp_path):
    job = start("train", *SMALL, *ENDLESS, "--elastic", "1:3", "--train-dir", "run")
    at_step(job, tmp_path / "run", 100)
    kill(job, 1)
    wait_until(lambda: job.process.poll() is not None or len(members(tmp_path / "run")) == 2, "the next generation")
    step = members(tmp_path / "run")[1][1]
    at_step(job, tmp_path / "run", step + 10)
    os.kill(job.process.pid, signal.SIGINT)
    job.finish()
    assert job.status == 130, job.err
    assert list((tmp_path / "run").glob("model_step_*")), "a checkpoint"
    job.nothing_left()


@pytest.mark.parametrize("flags, error", [
    (["--elastic", "x"], "--elastic x: the least number of ranks"),
    (["--elastic", "3:2"], "--elastic 3:2: 3 is more than 2"),
    (["--elastic", "1:2", "--ranks", 3], "--elastic 1:2: --ranks says 3; give MIN alone"),
    (["--elastic", "1:2:3"], "--elastic 1:2:3: the greatest number of ranks"),
    (["--elastic", "1:2", "--algorithm", "parameter_server(gradients=1)"], "--elastic: `parameter_server(gradients=1)` cannot continue without some of its ranks; `sync`, `push_sum`, `d_psgd`, `ad_psgd`, `choco`, `local`, `slowmo`, `diloco`, `parameter_server` can"),
    (["--elastic", "2:4", "--algorithm", "push_sum", "--topology", "hypercube"], "--elastic: with 3 ranks: --topology hypercube"),
    (["--elastic", "1:4", "--algorithm", "parameter_server(mode=async, servers=2)"], "--elastic: with 1 rank: --algorithm parameter_server(mode=async, servers=2): servers=2 of 1 ranks"),
    (["--elastic", "2:4", "--algorithm", "push_sum", "--node-size", 2], "--elastic: --node-size makes groups of one size; leave it out"),
    (["--elastic", "1:2", "--algorithm", "diloco(h=4, overlap=2)"], "--elastic: `diloco(h=4, overlap=2)` cannot continue"),
    (["--elastic", "1:2", "--algorithm", "sync(priority=need)"], "--elastic: `sync(priority=need)` cannot continue"),
    (["--elastic", "1:4", "--aggregator", "hierarchical(group=2)", "--codec", "ef | topk(0.1)"], "--elastic: `hierarchical` has groups of one size"),
    (["--elastic", "1:2", "--on-failure", "wait"], "--on-failure wait: must be continue, stop or checkpoint"),
    (["--ranks", 2, "--on-failure", "stop"], "--on-failure stop: without --elastic, a lost rank ends the job in any case"),
    (["--elastic", "1:2", "--restarts", 1, "--on-failure", "checkpoint"], "--on-failure checkpoint: no lost rank is replaced; leave --restarts out"),
])  # fmt: skip
def test_what_is_refused(run, flags, error):
    job = run("train", *SMALL, *flags)
    assert job.status == 2 and error in job.err, job.err
