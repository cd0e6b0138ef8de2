import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

DEADLINE = 300  # seconds; generous, since tests share the cores with others
TINY = "--model logreg --train-size 512 --test-size 100 --batch-size 8 --deadline 60".split()


def session_of(pid):
    """The session of a process, or None when the process is gone (a zombie counts as gone)."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[3])


def name_of(pid):
    """What `ps` calls a process; nothing when it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def processes(session):
    """The living processes of a session."""
    return [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and session_of(p.name) == session]


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


class Job:
    """The program in its own session, so that every process that outlives it can be found."""

    def __init__(self, program, arguments, cwd, environment):
        self.process = subprocess.Popen(
            [program, *arguments], cwd=cwd, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.session = self.process.pid

    def ranks(self):
        return [p for p in processes(self.session) if p != self.process.pid and name_of(p) != "sotto-forks"]

    def rank(self, number):
        for pid in self.ranks():
            if name_of(pid) == f"sotto-rank{number}":
                return pid
        raise AssertionError(f"rank {number} does not run")

    def finish(self):
        self.out, self.err = self.process.communicate(timeout=DEADLINE)
        self.status = self.process.returncode
        return self

    def nothing_left(self):
        wait_until(lambda: not processes(self.session), "the processes of the job to end")

    def kill(self):
        for pid in processes(self.session):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.communicate()


@pytest.fixture
def start_other(tmp_path):
    """Starts any program with arguments, in the test's own folder."""
    jobs = []
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("SOTTO_", "OMP_", "SLURM_", "OMPI_", "PMIX_", "PMI_"))}

    def start(program, *arguments, **variables):
        known = {name: value for name, value in (environment | variables).items() if value is not None}
        jobs.append(Job(program, [str(a) for a in arguments], tmp_path, known))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()


def compared(arguments):
    """Ranks of a job whose group changes compare their parameters, if they have one model: they must not differ silently."""
    given = [str(argument) for argument in arguments]
    changes = given[:1] == ["train"] and ("--elastic" in given or "--coordinator" in given)
    algorithm = given[len(given) - given[::-1].index("--algorithm")] if "--algorithm" in given else "sync"
    one_model = algorithm.startswith("sync") or (algorithm.startswith("parameter_server") and "mode=" not in algorithm)
    return [*arguments, "--check-replicas", 20] if changes and one_model and "--check-replicas" not in given else arguments


@pytest.fixture
def start(start_other, sotto):
    """Starts sotto with arguments, in the test's own folder."""
    return lambda *arguments, **variables: start_other(sotto, *compared(arguments), **variables)


@pytest.fixture
def run(start):
    """Runs sotto to its end, and checks that none of its processes is left."""

    def run(*arguments, **variables):
        job = start(*arguments, **variables).finish()
        job.nothing_left()
        return job

    return run


@pytest.fixture
def good(run):
    """Runs sotto, which must succeed."""

    def good(*arguments, **variables):
        job = run(*arguments, **variables)
        assert job.status == 0, job.err
        return job

    return good


def summary(folder):
    return json.loads((pathlib.Path(folder) / "summary.json").read_text())


def has_step(folder, step):
    """Whether steps.csv holds a row of `step` or of a later step."""
    path = pathlib.Path(folder) / "steps.csv"
    if not path.exists():
        return False
    rows = path.read_text().splitlines()[1:]
    return any(row.split(",")[0].isdigit() and int(row.split(",")[0]) >= step for row in rows)


@pytest.fixture
def browser(tmp_path):
    import chromium  # which imports this module

    if chromium.missing():
        pytest.skip(chromium.missing())
    made = chromium.Chromium(tmp_path)
    yield made
    made.close()
