"""Jobs of several ranks: what they print, how they end, and that no process of them is left."""

import csv
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import DEADLINE, TINY, has_step, name_of, processes, summary, wait_until
from test_elastic import members

pytestmark = pytest.mark.slow

ENDLESS = ["train", *TINY, "--epochs", 1000000, "--eval-freq", 1000000, "--train-dir", "run"]


def running(start, folder, *flags, **variables):
    """A job that has made some steps."""
    job = start(*ENDLESS, *flags, **variables)
    wait_until(lambda: job.process.poll() is not None or has_step(folder, 3), "some steps")
    assert job.process.poll() is None, job.finish().err
    return job


def checkpoints(folder):
    return sorted(int(p.name.rsplit("_", 1)[1]) for p in folder.glob("model_step_*") if p.suffix != ".tmp")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_whole_run(good, tmp_path, ranks):
    job = good("train", *TINY, "--ranks", ranks, "--max-steps", 6, "--train-dir", "run", "--check-replicas", 1)
    found = summary(tmp_path / "run")
    assert found["steps"] == 6 and found["ranks"] == ranks and len(found["bytes_sent"]) == ranks
    assert 0 <= found["test_accuracy"] <= 1
    assert re.search(r"^test accuracy [\d.]+ % after 6 steps; .* sent a rank .*; run$", job.out, re.M)
    prefix = "" if ranks == 1 else "[0] "
    assert f"\n{prefix}step 6  test loss" in job.err
    rows = (tmp_path / "run" / "steps.csv").read_text().splitlines()
    assert len(rows) == 1 + 6 * ranks


def test_without_a_folder_a_new_one_is_made(good, tmp_path):
    good("train", *TINY, "--max-steps", 1)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("logreg-")
    assert summary(folder)["steps"] == 1


def test_a_new_folders_name_needs_no_quotes(good, tmp_path):
    good("train", "--model", "mlp(16, hidden2=8)", *TINY[2:], "--max-steps", 1)
    (folder,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"mlp-16-hidden2-8-\d{8}-\d{6}-\d+", folder.name), folder.name


@pytest.mark.parametrize("number", [0, 3])
def test_a_rank_that_is_killed_ends_all(start, tmp_path, number):
    job = running(start, tmp_path / "run", "--ranks", 4, "--checkpoint-every", 5)
    wait_until(lambda: checkpoints(tmp_path / "run"), "a checkpoint")
    os.kill(job.rank(number), signal.SIGKILL)
    begin = time.monotonic()
    job.finish()
    assert time.monotonic() - begin < 20  # two seconds, and more on a busy machine
    assert job.status == 1
    message = f"sotto: rank {number} was killed by signal 9 (SIGKILL)"
    assert job.err.count(message) == 1 and job.err.count("sotto: ") == 1, job.err
    job.nothing_left()
    assert not list((tmp_path / "run").glob("*.tmp"))
    assert checkpoints(tmp_path / "run")


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)])
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_signal_ends_after_a_checkpoint(start, tmp_path, number, status, ranks):
    job = running(start, tmp_path / "run", "--ranks", ranks)
    os.kill(job.process.pid, number)
    job.finish()
    assert job.status == status, job.err
    job.nothing_left()
    (step,) = checkpoints(tmp_path / "run")
    assert summary(tmp_path / "run")["steps"] == step
    resumed = start("train", *TINY, "--ranks", ranks, "--epochs", 1000000, "--max-steps", step + 3, "--train-dir", "run", "--resume").finish()
    assert resumed.status == 0, resumed.err
    assert summary(tmp_path / "run")["steps"] == step + 3


def test_what_is_asked_for_after_sigusr1_counts(start, tmp_path):
    """SIGUSR1 does not count as the first of the two signals that kill."""
    job = running(start, tmp_path / "run", "--ranks", 2)
    os.kill(job.rank(1), signal.SIGSTOP)  # so that no step can be finished
    for number, said in [(signal.SIGUSR1, "stopping for SIGUSR1"), (signal.SIGTERM, "once more to kill")]:
        os.kill(job.process.pid, number)
        assert any(said in line for line in iter(job.process.stderr.readline, ""))
    os.kill(job.rank(1), signal.SIGCONT)
    assert job.finish().status == 143
    job.nothing_left()
    assert checkpoints(tmp_path / "run") == [summary(tmp_path / "run")["steps"]]


def test_the_second_signal_kills(start, tmp_path):
    job = running(start, tmp_path / "run", "--ranks", 2)
    os.kill(job.rank(1), signal.SIGSTOP)  # so that no step can be finished
    os.kill(job.process.pid, signal.SIGINT)
    assert any("once more to kill" in line for line in iter(job.process.stderr.readline, ""))
    os.kill(job.process.pid, signal.SIGINT)
    job.finish()
    assert job.status == 130
    job.nothing_left()


def test_ranks_die_with_the_launcher(start, tmp_path):
    job = running(start, tmp_path / "run", "--ranks", 3)
    assert len(job.ranks()) == 3
    os.kill(job.process.pid, signal.SIGKILL)
    job.finish()
    job.nothing_left()


def command_of(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()


CORES = len(os.sched_getaffinity(0))


# More threads than cores wait passively, as a variable says that libraries read when they are loaded.
@pytest.mark.parametrize("variable, threads, forked", [(None, 1, True), ("1", 1, True), ("3", 1, True), (None, CORES, False)])
def test_ranks_are_forked_if_their_environment_allows(start, tmp_path, variable, threads, forked):
    job = running(start, tmp_path / "run", "--ranks", 2, "--threads", threads, OMP_NUM_THREADS=variable)
    assert len(job.ranks()) == 2
    for pid in job.ranks():
        assert (command_of(pid) == command_of(job.process.pid)) is forked
        parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        assert int(parent) == job.process.pid
        held = {int(fd.name): os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
        assert {0, 1, 2, 3} <= held.keys() and not any("memfd" in path for path in held.values())
        assert all(number <= 3 for number, path in held.items() if path.startswith("pipe:"))
    os.kill(job.process.pid, signal.SIGINT)
    assert job.finish().status == 130
    job.nothing_left()


def test_ranks_compute_with_the_given_threads(good, tmp_path):
    """Counted by torch. Whether the last bits of sums depend on their number differs between processors."""
    for name, threads, variables in [("one", 1, {}), ("two", 2, {}), ("others", 1, {"OMP_NUM_THREADS": "2"})]:
        good("train", *TINY, "--max-steps", 5, "--train-dir", name, "--ranks", 2, "--threads", threads, **variables)
        with open(tmp_path / name / "membership.csv") as file:
            (row,) = csv.DictReader(file)
        assert row["threads"].split() == 2 * [str(threads)], name
    assert summary(tmp_path / "one")["parameters_sha256"] == summary(tmp_path / "others")["parameters_sha256"]


def test_the_fork_server_ends_before_the_program(start):
    for arguments in (["--help"], [*TINY, "--max-steps", 1, "--ranks", 2]):
        job = start("train", *arguments).finish()
        assert job.status == 0 and processes(job.session) == []


def test_a_lost_fork_server_ends_nothing(start, tmp_path):
    job = running(start, tmp_path / "run", "--ranks", 2, "--checkpoint-every", 10, "--restarts", 1)
    wait_until(lambda: checkpoints(tmp_path / "run"), "a checkpoint")
    (server,) = (pid for pid in processes(job.session) if name_of(pid) == "sotto-forks")
    os.kill(server, signal.SIGKILL)
    first = job.rank(1)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: job.process.poll() is not None or (len(job.ranks()) == 2 and first not in job.ranks()), "new ranks")
    step = checkpoints(tmp_path / "run")[-1]
    wait_until(lambda: job.process.poll() is not None or checkpoints(tmp_path / "run")[-1] > step, "a later checkpoint")
    os.kill(job.process.pid, signal.SIGINT)
    assert job.finish().status == 130, job.err
    job.nothing_left()


def test_a_hanging_fork_server_costs_one_rank(start, tmp_path):
    job = running(start, tmp_path / "run", "--ranks", 3, "--elastic", "2:3", "--restarts", 2)
    (server,) = (pid for pid in processes(job.session) if name_of(pid) == "sotto-forks")
    os.kill(server, signal.SIGSTOP)
    os.kill(job.rank(1), signal.SIGKILL)
    wait_until(lambda: job.process.poll() is not None or len(members(tmp_path / "run")) == 2, "the others to continue")  # 30 s
    assert members(tmp_path / "run")[-1][2] == [0, 2]
    os.kill(job.rank(2), signal.SIGKILL)  # the next one is started without a server
    wait_until(lambda: job.process.poll() is not None or len(members(tmp_path / "run")) == 3, "another rank 2")
    assert members(tmp_path / "run")[-1][2] == [0, 2]
    os.kill(job.process.pid, signal.SIGINT)
    assert job.finish().status == 130, job.err
    assert "sotto: rank 1 cannot be replaced: cannot start a process: the process that forks ranks does not answer" in job.err
    job.nothing_left()


@pytest.mark.parametrize("transport", [[], ["--secret", "secret"], ["--backend", "tcp"]])
def test_by_hand_as_torchrun_does(start, good, tmp_path, transport):
    good("secret", "new", "secret")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    flags = ["train", *TINY, "--codec", "ef | topk(0.1)", "--max-steps", 5, "--train-dir", "run"]
    # Ranks may differ in the number of codec threads.
    ranks = [start(*flags, *transport, "--codec-threads", r + 1,
                   RANK=str(r), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)) for r in (0, 1)]
    for job in ranks:
        assert job.finish().status == 0, job.err
    assert "test accuracy" in ranks[0].out and ranks[1].out == ""
    good(*flags[:-1], "same", "--ranks", 2, "--threads", CORES)
    assert summary(tmp_path / "same")["parameters_sha256"] == summary(tmp_path / "run")["parameters_sha256"]


def test_the_shell_of_an_interactive_job_starts_ranks(good, tmp_path):
    """`srun --pty bash` has the variables of a step of one task."""
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_NODEID": "0", "SLURM_LOCALID": "0",
            "SLURM_JOB_ID": "7", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_STEP_NODELIST": "node1"}  # fmt: skip
    for name, flags, ranks in (("two", ["--ranks", 2], 2), ("elastic", ["--elastic", "1:2"], 2), ("one", [], 1)):
        good("train", *TINY, "--max-steps", 2, "--train-dir", name, *flags, **step)
        assert summary(tmp_path / name)["ranks"] == ranks


def test_ranks_with_other_options_are_refused(start):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = [start("train", *TINY, "--max-steps", 5, "--train-dir", "run", "--seed", r + 1,
                   RANK=str(r), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)) for r in (0, 1)]
    assert [job.finish().status for job in ranks] == [2, 2]
    for job in ranks:
        assert "rank 1 was started with other options than rank 0: `seed = 2` instead of `seed = 1`" in job.err


def test_ranks_with_another_algorithm_are_named(start):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = [start("train", *TINY, "--max-steps", 5, "--train-dir", "run", "--algorithm", algorithm,
                   RANK=str(r), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)) for r, algorithm in enumerate(["sync", "ad_psgd"])]
    assert [job.finish().status for job in ranks] == [2, 2]
    for job in ranks:
        assert "`algorithm = 'ad_psgd'` instead of `algorithm = 'sync'`" in job.err


def test_a_signal_ends_the_wait_for_a_silent_master(start):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        job = start("train", *TINY[:-1], 600, "--max-steps", 5, "--train-dir", "run", RANK="1", WORLD_SIZE="2",
                    MASTER_ADDR="127.0.0.1", MASTER_PORT=str(silent.getsockname()[1]))
        silent.settimeout(DEADLINE)
        silent.accept()  # it has connected, so it handles signals by now
        os.kill(job.process.pid, signal.SIGINT)
        assert job.finish().status == 130
    assert "rank 1: stopped by SIGINT while the ranks met at 127.0.0.1:" in job.err
    job.nothing_left()


def test_an_unknown_host_is_told_at_once(run):
    job = run("train", *TINY[:-1], 600, "--ranks", 2, "--master", "no-such-host.invalid:4000")
    assert job.status == 2 and "the host `no-such-host.invalid`, where the ranks meet, is unknown here" in job.err


def test_a_hangup_ends_after_a_checkpoint(start, tmp_path):
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that nohup started would hand it on as ignored
    try:
        job = running(start, tmp_path / "run", "--ranks", 2)
    finally:
        signal.signal(signal.SIGHUP, former)
    os.kill(job.process.pid, signal.SIGHUP)
    assert job.finish().status == 143, job.err
    job.nothing_left()
    assert checkpoints(tmp_path / "run") == [summary(tmp_path / "run")["steps"]]


@pytest.mark.parametrize("output", ["/dev/full", "closed pipe"])
def test_unwritable_output_does_not_end_the_job(sotto, tmp_path, output):
    """Ranks continue when output goes to `| head`, or to a log on a full disk."""
    if output == "closed pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(output, os.O_WRONLY)
    try:
        command = [sotto, "train", *TINY, "--ranks", "2", "--max-steps", "20", "--eval-freq", "5", "--no-keep-best", "--train-dir", "run"]
        job = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, timeout=DEADLINE)
    finally:
        os.close(writer)
    assert job.returncode == 0
    assert summary(tmp_path / "run")["steps"] == 20
    assert checkpoints(tmp_path / "run") == [20]
