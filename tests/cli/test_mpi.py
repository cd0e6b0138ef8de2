"""Ranks that mpirun starts: they have the same numbers as with any other starter, over MPI and over Gloo; how such jobs end."""

import os
import re
import signal
import sys
import time

import pytest

from conftest import DEADLINE, TINY, has_step, summary, wait_until

pytestmark = pytest.mark.slow

# Open MPI refuses to run as root, and more ranks than cores, unless it is told to.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
SIX_STEPS = ["train", *TINY, "--max-steps", 6, "--check-replicas", 1]


@pytest.fixture(scope="session")
def mpiexec(build_dir):
    """The mpirun of the MPI that the program was built with."""
    if not (build_dir / "bin" / "comm_mpi_ranks").exists():
        pytest.skip("the MPI backend was not built (Debian: apt-get install openmpi-bin libopenmpi-dev)")
    cache = (build_dir / "CMakeCache.txt").read_text()
    return re.search(r"^MPIEXEC_EXECUTABLE:FILEPATH=(.+)$", cache, re.M).group(1)


@pytest.fixture
def mpirun(start_other, mpiexec, tmp_path_factory):
    """Starts a program on ranks of mpirun."""

    def mpirun(ranks, *command):
        session = str(tmp_path_factory.mktemp("mpi"))  # jobs would collide in Open MPI's common folder
        return start_other(mpiexec, "-n", ranks, "-x", "OMP_NUM_THREADS=1", *command, **MPI, OMPI_MCA_orte_tmpdir_base=session)

    return mpirun


@pytest.fixture
def play(mpirun, build_dir, tmp_path):
    """Runs a scenario of tests/comm/mpi_ranks.cc to its end; returns the job and the text that each rank wrote."""

    def play(ranks, scenario):
        job = mpirun(ranks, build_dir / "bin" / "comm_mpi_ranks", scenario, tmp_path).finish()
        job.nothing_left()
        return job, {int(path.name): path.read_text() for path in tmp_path.iterdir() if path.suffix != ".tmp"}

    return play


def ended_well(job):
    assert job.finish().status == 0, job.err
    job.nothing_left()
    return job


def test_a_slow_duplicate_writes_to_memory_that_stays(play):
    _, told = play(2, "miss-a-duplicate")
    assert told == {0: "rank 0: some rank did not come within 0.3 s, kept", 1: "came late"}


@pytest.mark.parametrize("codec, others", [("none", ["mpi"]), ("ef | topk(0.1)", ["torchrun", "gloo", "mpi"])])
def test_any_starter_and_backend_gives_the_same_parameters(start, start_other, mpirun, sotto, tmp_path, codec, others):
    flags = [*SIX_STEPS, "--codec", codec, "--train-dir"]
    jobs = {
        "own": lambda: start(*flags, "own", "--ranks", 4, "--threads", 1),
        "torchrun": lambda: start_other(sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", 4,
                                        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", sotto, *flags, "torchrun"),
        "gloo": lambda: mpirun(4, sotto, *flags, "gloo"),
        "mpi": lambda: mpirun(4, sotto, *flags, "mpi", "--backend", "mpi"),
    }
    found = {}
    for name in ["own", *others]:
        ended_well(jobs[name]())
        found[name] = summary(tmp_path / name)
    assert {s["ranks"] for s in found.values()} == {4} and {s["steps"] for s in found.values()} == {6}
    assert {name for name, s in found.items() if s["backend"] == "mpi"} == {"mpi"}
    # Backends might differ by rounding, but sums have one order, so the bits are the same.
    assert len({s["parameters_sha256"] for s in found.values()}) == 1
    assert len({s["test_loss"] for s in found.values()}) == 1
    assert len({tuple(s["bytes_sent"]) for s in found.values()}) == 1


def test_a_run_goes_on_over_another_backend(start, mpirun, sotto, tmp_path):
    flags = ["train", *TINY, "--codec", "ef | topk(0.1)"]
    ended_well(mpirun(2, sotto, *flags, "--max-steps", 3, "--train-dir", "run", "--backend", "mpi"))
    job = start("train", "--train-dir", "run", "--resume").finish()
    assert job.status == 2 and "mpirun -n 2 sotto train --backend mpi" in job.err
    ended_well(start(*flags, "--max-steps", 6, "--train-dir", "run", "--resume", "--backend", "gloo", "--threads", 1, "--ranks", 2))
    ended_well(start(*flags, "--max-steps", 6, "--train-dir", "straight", "--threads", 1, "--ranks", 2))
    assert summary(tmp_path / "run")["parameters_sha256"] == summary(tmp_path / "straight")["parameters_sha256"]


@pytest.mark.parametrize("flags, reason", [
    (["--ranks", 4], "`mpirun -n 4 sotto train --backend mpi ...`"),
    (["--interface", "lo"], "--interface: only for tcp and gloo"),
    (["--address", "127.0.0.1"], "--address: only for tcp and gloo"),
    (["--master", "127.0.0.1:4000"], "--master: only for tcp and gloo"),
])
def test_what_mpi_cannot_be_asked_for(run, mpiexec, flags, reason):
    job = run("train", *TINY, "--backend", "mpi", *flags)
    assert job.status == 2 and reason in job.err


def test_torchrun_cannot_start_ranks_for_mpi(run, mpiexec):
    job = run("train", *TINY, "--backend", "mpi", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", TORCHELASTIC_RUN_ID="x")
    assert job.status == 2 and "MPI wants ranks that mpirun or srun started, not torchrun" in job.err


def test_an_unknown_backend(run):
    job = run("train", *TINY, "--backend", "mp")
    assert job.status == 2 and "unknown backend `mp`; did you mean `mpi`?" in job.err


def test_a_comparison_is_over_tcp(run):
    job = run("compare", "--codecs", "none", "--backend", "mpi")
    assert job.status == 2 and "--backend: sotto compare" in job.err


def test_what_one_rank_refuses_is_said(mpirun, sotto, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "steps.csv").write_text("")
    job = mpirun(3, sotto, *SIX_STEPS, "--train-dir", "run", "--backend", "mpi").finish()
    assert job.status in (1, 2)
    assert "sotto: --train-dir run: already holds a run" in job.err
    job.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_dies_or_stalls_ends_all(mpirun, sotto, tmp_path, number):
    deadline = 60 if number == signal.SIGKILL else 10
    job = mpirun(3, sotto, "train", *TINY[:-1], deadline, "--epochs", 1000000, "--eval-freq", 1000000, "--checkpoint-every", 5,
                 "--train-dir", "run", "--backend", "mpi")
    wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "run", 7), "some steps")
    assert job.process.poll() is None, job.finish().err
    os.kill(job.rank(1), number)
    begin = time.monotonic()
    job.finish()
    assert time.monotonic() - begin < 50  # the deadline, a second or two, and more on a busy machine
    assert job.status != 0
    if number == signal.SIGKILL:
        assert re.search(r"process rank 1 with PID \d+ on node \S+ exited on signal 9 \(Killed\)", job.err), job.err
    else:
        assert re.search(r"sotto: rank [02]: \w+ with rank 1 at step \d+: timed out after 10 s", job.err), job.err
    job.nothing_left()
    assert list((tmp_path / "run").glob("model_step_*[0-9]"))


def test_a_stalled_rank_is_named_by_all_others(play):
    job, told = play(4, "stall")
    assert job.status == 3
    for rank in (0, 2, 3):
        assert told[rank].startswith(f"rank {rank}: all_reduce with rank ")
        assert "with rank 1 at step 17: timed out after 2 s" in told[rank]


@pytest.mark.parametrize("scenario, room", [("overflow", 9), ("overflow-large", 9999999)])
def test_a_message_larger_than_its_buffer_is_refused(play, scenario, room):
    job, told = play(3, scenario)
    assert job.status == 3
    reason = f"rank 1: exchange with rank 0 at step 17: a message that is larger than its room of {room} bytes"
    assert told[1] == reason
    for rank in (0, 2):  # rank 0 may still wait for its message to be taken
        assert re.match(rf"rank {rank}: (barrier|exchange) with rank \d at step 17: it gave up \(because of ", told[rank])
        assert f"(because of {reason})" in told[rank]


def test_a_failed_communicator_stays_failed(play):
    job, told = play(2, "fail-again")
    late = "rank 0: barrier with rank 1 at step 17: timed out after 1 s"
    assert told[0].splitlines() == [
        late,
        f"rank 0: barrier at step 17: an operation failed before: {late}",
        f"rank 0: barrier at step 17: an operation failed before: {late}",
        f"rank 0: clone at step 17: an operation failed before: {late}",
    ]
    assert job.status == 1  # the job is aborted, since MPI can no longer be finalized


def test_nobody_waits_for_a_rank_that_gave_up(play):
    job, told = play(4, "give-up")
    assert job.status == 3
    for rank in (0, 1, 3):
        assert "(because of rank 2: the disk is full)" in told[rank]


@pytest.mark.parametrize("scenario, status", [("lose-a-mailbox", 3), ("give-up-mailboxes", 1)])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_lost_mailbox_is_named_by_all_others(play, scenario, status, ranks):
    job, told = play(ranks, scenario)
    assert [told[rank] for rank in range(ranks - 1)] == ["held"] * (ranks - 1), job.err
    assert job.status == status


def test_a_stalled_mailbox_is_named_at_the_deadline(play):
    job, told = play(4, "stall-a-mailbox")
    assert set(told.values()) == {"held"}, job.err


def test_a_failed_collective_does_not_wait_for_mail(play):
    _, told = play(3, "fail-beside-a-mailbox")
    assert told[1].startswith("rank 1: barrier with rank ")
    for rank in (0, 2):
        assert told[rank] == f"rank {rank}: mailbox with rank 1: it gave up (because of {told[1]})"


@pytest.mark.parametrize("scenario, status", [("leave", 3), ("leave-without-an-error", 1)])
def test_a_rank_that_ends_is_not_waited_for(play, scenario, status):
    begin = time.monotonic()
    job, _ = play(3, scenario)
    assert time.monotonic() - begin < DEADLINE  # the deadline of an operation is twice as long
    assert job.status == status
    if scenario == "leave":
        assert "rank 1: the loss is nan" in job.err


def test_ranks_do_not_wait_in_finalize(play):
    job, _ = play(3, "never-end")
    assert job.status == 1
    assert "MPI_Finalize: rank 1 did not come within 2 s" in job.err


def test_a_message_of_more_than_a_gibibyte(play):
    free = int(re.search(r"MemAvailable: +(\d+)", open("/proc/meminfo").read()).group(1))
    if free < 6_000_000:
        pytest.skip(f"6 GB of free memory are wanted, there are {free} kB")
    job, _ = play(2, "huge")
    assert job.status == 0, job.err
