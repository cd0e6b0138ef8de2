"""`sotto coordinator --state`: what a coordinator leaves to the next one, and ranks that are silent meanwhile."""

import os
import shutil
import signal
import time

import pytest

from conftest import has_step, name_of, summary, wait_until
from test_coordinator import LONG, SMALL, coordinator, generation, goes_on, join, port_in  # noqa: F401 (fixtures)
from test_elastic import members

pytestmark = pytest.mark.slow


def test_training_continues_without_a_coordinator(start, coordinator, join, tmp_path):
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "2:3", "--state", "job.state")
    jobs = [join(port, "--max-steps", 2000), join(port, "--max-steps", 2000)]
    generation(jobs, folder, 1)
    goes_on(jobs, lambda: has_step(folder, 50), "step 50")
    boss.kill()
    goes_on(jobs, lambda: has_step(folder, 200), "150 steps without a coordinator")
    boss = start("coordinator", "--listen", f"127.0.0.1:{port}", "--ranks", "2:3", "--state", "job.state")
    port_in(boss, "ranks join with --coordinator")
    jobs.append(join(port, "--max-steps", 2000))
    _, step, ids = generation(jobs, folder, 2)
    assert ids[:2] == [0, 1] and len(ids) == 3 and step >= 200
    for job in [*jobs, boss]:
        assert job.finish().status == 0, job.err


def test_the_next_coordinator_finds_waiting_ranks(start, coordinator, join, tmp_path):
    boss, port = coordinator("--ranks", "2:3", "--state", "job.state")
    jobs = [join(port, "--max-steps", 20)]
    wait_until(lambda: (tmp_path / "job.state").read_text().splitlines()[-1] == "0" and jobs[0].ranks(), "the state has the rank that waits")
    boss.kill()
    boss = start("coordinator", "--listen", f"127.0.0.1:{port}", "--ranks", "2:3", "--state", "job.state")
    port_in(boss, "ranks join with --coordinator")
    jobs.append(join(port, "--max-steps", 20))
    for job in [*jobs, boss]:
        assert job.finish().status == 0, job.err
    (_, _, ids), = members(tmp_path / "run")
    assert ids[0] == 0 and ids[1] > 0, "no id is given out twice"


def test_a_waiting_rank_heard_late_is_remembered(start, coordinator, join, tmp_path):
    boss, port = coordinator("--ranks", "2:2", "--state", "job.state")
    jobs = [join(port, "--max-steps", 20)]
    wait_until(lambda: (tmp_path / "job.state").read_text().splitlines()[-1] == "0" and jobs[0].ranks(), "the state has the rank that waits")
    boss.kill()
    (stopped,) = jobs[0].ranks()
    os.kill(stopped, signal.SIGSTOP)
    boss = start("coordinator", "--listen", f"127.0.0.1:{port}", "--ranks", "2:2", "--state", "job.state")
    port_in(boss, "ranks join with --coordinator")
    time.sleep(31)  # after this time without a sign a member is lost
    os.kill(stopped, signal.SIGCONT)
    jobs.append(join(port, "--max-steps", 20))
    for job in [*jobs, boss]:
        assert job.finish().status == 0, job.err
    (_, _, ids), = members(tmp_path / "run")
    assert ids[0] == 0


@pytest.mark.parametrize("anew, silence", [(False, 3), (True, 10)])
def test_a_silent_rank_0_loses_the_run_folder(start, coordinator, join, tmp_path, anew, silence):
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "2:3", "--state", "job.state")
    jobs = [join(port, "--max-steps", 1000) for _ in range(3)]
    assert generation(jobs, folder, 1)[2] == [0, 1, 2]
    goes_on(jobs, lambda: has_step(folder, 50), "step 50")
    lost = next(job for job in jobs if name_of(job.ranks()[0]) == "sotto-rank0")
    jobs.remove(lost)
    stopped = lost.ranks()[0]
    if anew:
        boss.kill()
    os.kill(stopped, signal.SIGSTOP)
    if anew:  # it does not know whether rank 0 lives
        boss = start("coordinator", "--listen", f"127.0.0.1:{port}", "--ranks", "2:3", "--state", "job.state")
    assert generation(jobs, folder, 2)[2] == [1, 2]
    os.kill(stopped, signal.SIGCONT)
    lost.finish()
    assert lost.status == 1 and "rank 0: the job continues without it, with ranks 1, 2" in lost.err, lost.err
    for job in [*jobs, boss]:
        job.finish()
        assert job.status == 0, job.err
        job.nothing_left()
    assert f"rank 0 has been silent for {silence} s; generation 2: ranks 1, 2" in boss.err
    assert summary(folder)["steps"] == 1000
    rows = [tuple(row.split(",")[:2]) for row in (folder / "steps.csv").read_text().splitlines()[1:]]
    assert len(rows) == len(set(rows)) and {("999", "0"), ("999", "1")} <= set(rows)


def test_waiting_ranks_leave_out_a_silent_one(coordinator, start, tmp_path):
    """Its silence was shorter than their deadline, so no exchange failed."""
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "1:3")
    flags = ["train", *LONG[:-1], 100, "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}", "--max-steps", 600]
    jobs = [start(*flags) for _ in range(2)]
    generation(jobs, folder, 1)
    goes_on(jobs, lambda: has_step(folder, 50), "step 50")
    lost = jobs.pop()
    os.kill(lost.ranks()[0], signal.SIGSTOP)
    line = ""
    while "has been silent for 30 s" not in line:
        line = boss.process.stderr.readline()
        assert line, "the coordinator ended"
    os.kill(lost.ranks()[0], signal.SIGCONT)
    assert lost.finish().status == 1 and "the job continues without it" in lost.err, lost.err
    for job in [*jobs, boss]:
        assert job.finish().status == 0, job.err
    assert len(members(folder)[-1][2]) == 1 and summary(folder)["steps"] == 600


def test_an_ended_job_leaves_no_state(coordinator, run, tmp_path):
    for name in ("one", "two"):
        boss, port = coordinator("--ranks", 1, "--state", "job.state")
        assert run("train", *SMALL, "--max-steps", 5, "--train-dir", name, "--coordinator", f"127.0.0.1:{port}").status == 0
        assert boss.finish().status == 0 and not list(tmp_path.glob("job.state*"))
        assert members(tmp_path / name) == [(1, 0, [0])]


def test_a_state_belongs_to_one_coordinator(coordinator, run):
    flags = ["--ranks", 1, "--state", "job.state"]
    boss, _ = coordinator(*flags)
    other = run("coordinator", "--listen", "127.0.0.1:0", *flags)
    assert other.status == 2 and "--state job.state: another coordinator works with this file" in other.err, other.err
    boss.kill()
    coordinator(*flags)


def test_a_state_that_cannot_be_written_is_refused(run):
    job = run("coordinator", "--ranks", 1, "--listen", "127.0.0.1:0", "--state", "no/such/state")
    assert job.status != 0 and "no/such/state" in job.err


def test_an_unwritable_state_is_a_warning(coordinator, run, tmp_path):
    (tmp_path / "place").mkdir()
    boss, port = coordinator("--ranks", 1, "--state", "place/job.state")
    shutil.rmtree(tmp_path / "place")
    assert run("train", *SMALL, "--max-steps", 5, "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}").status == 0
    boss.finish()
    assert boss.status == 0 and boss.err.count("place/job.state") == 1, boss.err
    assert "; if this coordinator ends, no other can continue the job\n" in boss.err


def test_a_later_coordinator_knows_the_secret(start, coordinator, join, good, run, tmp_path):
    good("secret", "new", "job.secret"), good("secret", "new", "other.secret")
    boss, port = coordinator("--ranks", "1:2", "--state", "job.state")
    first = join(port, "--secret", "job.secret")
    generation([first], tmp_path / "run", 1)
    boss.kill()
    other = run("coordinator", "--ranks", "1:2", "--listen", "127.0.0.1:0", "--state", "job.state", "--secret", "other.secret")
    assert other.status == 2 and "--secret: the ranks of the job of --state job.state have another one" in other.err, other.err
    boss = start("coordinator", "--listen", f"127.0.0.1:{port}", "--ranks", "1:2", "--state", "job.state")
    port_in(boss, "ranks join with --coordinator")
    bare = join(port).finish()
    assert bare.status == 2 and "it has no secret" in bare.err, bare.err
