"""Faults of ranks, cables and the launcher, in each method: a job ends, or continues, as docs/elastic.md says ("What a fault does").

`./dev test` runs a sample, `./dev faults` all cases (pytest --faults).
"""

import contextlib
import csv
import importlib.util
import os
import shutil
import signal
import time

import pytest

import fault_matrix as matrix
from conftest import summary
from fault_moments import Ranks, TooLate, slow_gradients, thaw, whole_checkpoints

pytestmark = pytest.mark.slow

STEPS = 20
SMALL = ["--model", "lenet", "--train-size", 512, "--test-size", 64, "--batch-size", 8, "--max-steps", STEPS, "--checkpoint-every", 2, "--no-keep-best"]
PATIENT, SHORT = 60, 6  # seconds of --deadline: where peers answer in the end, and where they do not
SLACK = 30  # seconds; generous, since tests share the cores with others


@pytest.fixture(scope="session")
def undisturbed():
    return {}


@pytest.fixture
def expected(undisturbed, good, tmp_path):
    """The hash of the parameters that an undisturbed run of a method ends with."""

    def expected(method):
        if method not in undisturbed:
            good("train", *SMALL, *matrix.METHODS[method].flags, "--ranks", matrix.RANKS, "--train-dir", "undisturbed")
            undisturbed[method] = summary(tmp_path / "undisturbed")["parameters_sha256"]
        return undisturbed[method]

    return expected


class Launched:
    """A job that `sotto train` started."""

    def __init__(self, case, start, folder, flags):
        ranks = ["--elastic", f"2:{matrix.RANKS}"] if case.elastic else ["--ranks", matrix.RANKS]
        self.job = start("train", *flags, *ranks)
        self.folder = folder

    def running(self):
        return self.job.process.poll() is None

    def pids(self):
        found = []
        while len(found) < matrix.RANKS:
            try:
                found.append(self.job.rank(len(found)))
            except AssertionError:
                if not self.running():
                    raise TooLate from None
        return found

    def kill_launcher(self):
        os.kill(self.job.process.pid, signal.SIGKILL)

    def finish(self):
        """Returns the exit statuses, and the errors that the user sees."""
        self.job.finish()
        self.job.nothing_left()
        return [self.job.status], [self.job.err]


class Cabled:
    """Ranks in network namespaces, each started by itself, as on separate machines."""

    def __init__(self, switch, start_other, sotto, folder, flags):
        self.switch, self.folder = switch, folder
        self.jobs = []
        for rank, name in enumerate(switch.names):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(matrix.RANKS), "MASTER_ADDR": switch.addresses[0], "MASTER_PORT": "29500", "OMP_NUM_THREADS": "1"}  # as torchrun has it
            self.jobs.append(start_other("ip", "netns", "exec", name, sotto, "train", *flags, "--interface", "eth0", **variables))

    def running(self):
        return all(job.process.poll() is None for job in self.jobs)

    def pids(self):
        return [job.process.pid for job in self.jobs]

    def plug(self, rank, state):
        self.switch.plug(rank, state)

    def finish(self):
        for job in self.jobs:
            job.finish()
            job.nothing_left()
        return [job.status for job in self.jobs], [job.err for job in self.jobs]


@pytest.fixture
def begin(start, start_other, sotto, root, tmp_path):
    """Starts the job of a case."""
    with contextlib.ExitStack() as stack:

        def begin(case, flags):
            stack.close()  # of an attempt that came too late
            if not case.fault.startswith("cut"):
                return Launched(case, start, tmp_path / "run", flags)
            spec = importlib.util.spec_from_file_location("cable", root / "bench" / "cable.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            try:
                switch = stack.enter_context(module.Cable(ranks=matrix.RANKS))
            except module.CableError as error:
                pytest.skip(str(error))
            return Cabled(switch, start_other, sotto, tmp_path / "run", flags)

        yield begin


def strike(case, job, pids):
    """The fault. Returns what is to be done after 3 s, if it does not last."""
    victim = pids[case.victim]
    if case.fault == "kill":
        os.kill(victim, signal.SIGKILL)
    elif case.fault == "launcher":
        job.kill_launcher()
    elif case.fault in ("stop", "pause"):
        os.kill(victim, signal.SIGSTOP)
        return lambda: thaw([victim])
    else:
        job.plug(case.victim, "down")
        return lambda: job.plug(case.victim, "up")
    return None


def disturbed(case, begin, tmp_path):
    """Runs the job of a case; returns its exit statuses, its errors, and the seconds from the fault to the end."""
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    link = slow_gradients(tmp_path / "links.toml", case.victim, case.moment, matrix.RANKS)
    deadline = SHORT if case.fault in ("stop", "cut") else PATIENT
    job = begin(case, [*SMALL, *matrix.METHODS[case.method].flags, "--link", link, "--deadline", deadline, "--train-dir", "run"])
    pids = job.pids()
    stopped = Ranks(pids, tmp_path / "run", job.running).reach(case.moment, case.victim)
    undo = strike(case, job, pids)
    begun = time.monotonic()
    thaw([pid for pid in stopped if not (case.fault in ("stop", "pause") and pid == pids[case.victim])])
    if case.fault in matrix.HARMLESS:
        time.sleep(3)
        undo()
    statuses, errors = job.finish()
    return statuses, errors, time.monotonic() - begun


def check_end(case, statuses, errors, seconds):
    """Each rank, or the launcher for all of them, ends soon with one error that names the rank that was lost."""
    if case.fault == "launcher":
        assert statuses == [-signal.SIGKILL]
        assert seconds < SLACK
        return
    assert all(status == 1 for status in statuses), (statuses, errors)
    assert seconds < (0 if case.fault == "kill" else 2 * SHORT) + SLACK
    told = []
    for error in errors:
        lines = [line for line in error.splitlines() if line.startswith("sotto: ")]
        assert len(lines) == 1, error
        told += lines
    if case.fault == "kill":
        assert f"rank {case.victim} was killed by signal 9 (SIGKILL)" in told[0], told
    elif case.fault == "stop":
        assert f"rank {case.victim}" in told[0], told
    else:  # The rank that is cut off may name any other.
        others = told[: case.victim] + told[case.victim + 1 :]
        named = [f"rank {case.victim}" in line for line in others]
        # Rank 0 serves the store, in which the others would say for whom they waited.
        assert any(named) if case.victim == 0 else all(named), told


def members(folder):
    with open(folder / "membership.csv", newline="") as file:
        return [[int(i) for i in row["members"].split()] for row in csv.DictReader(file)]


@pytest.mark.sample(len(matrix.SAMPLE))
@pytest.mark.parametrize("case", matrix.all_cases(), ids=str)
def test_fault(case, begin, expected, good, tmp_path):
    if "--secret" in matrix.METHODS[case.method].flags:
        good("secret", "new", "secret")
    for attempt in range(5):
        try:
            statuses, errors, seconds = disturbed(case, begin, tmp_path)
            break
        except TooLate:
            assert attempt < 4, "the job always ended before the moment came"
    folder, same_bits = tmp_path / "run", matrix.METHODS[case.method].same_bits
    if case.elastic and case.fault in ("kill", "stop"):
        assert statuses == [0], errors
        assert members(folder) == [[0, 1, 2], [rank for rank in range(matrix.RANKS) if rank != case.victim]]
        same_bits = False  # other examples: compared in test_elastic.py
    elif case.fault in matrix.HARMLESS:
        assert all(status == 0 for status in statuses), errors
        assert not case.elastic or members(folder) == [[0, 1, 2]]
    else:
        check_end(case, statuses, errors, seconds)
        assert case.fault in ("launcher", "cut") or not list(folder.glob("*.tmp"))
        made = whole_checkpoints(folder)
        assert made
        said = good("train", "--resume", "--train-dir", "run", "--link", "auto").err
        assert f"resumed from run/model_step_{made[-1]}\n" in said and "left aside" not in said, said
    assert summary(folder)["steps"] == STEPS
    assert not list(folder.glob("*.tmp"))
    if same_bits:
        assert summary(folder)["parameters_sha256"] == expected(case.method)
