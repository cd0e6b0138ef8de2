"""`sotto coordinator`: ranks come and go by themselves, whoever starts them."""

import os
import re
import shutil
import signal
import socket
import time

import pytest

from conftest import has_step, name_of, summary, wait_until
from test_elastic import members
from test_metrics_page import families

SMALL = "--model logreg --train-size 512 --test-size 100 --batch-size 8".split()
LONG = [*SMALL, "--epochs", 100000, "--eval-freq", 1000, "--link", "1gbit,3ms", "--deadline", 20]


def port_in(job, text):
    while True:
        line = job.process.stderr.readline()
        assert line, "the coordinator ended"
        if found := re.search(text + r".*:(\d+)", line):
            return int(found[1])


@pytest.fixture
def coordinator(start):
    """Starts a coordinator; returns it and its port."""

    def begin(*flags):
        job = start("coordinator", "--listen", "127.0.0.1:0", *flags)
        return job, port_in(job, "ranks join with --coordinator")

    return begin


@pytest.fixture
def join(start):
    return lambda port, *flags: start("train", *LONG, "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}", *flags)


def goes_on(jobs, condition, what):
    wait_until(lambda: any(job.process.poll() is not None for job in jobs) or condition(), what)
    for job in jobs:
        assert job.process.poll() is None, job.finish().err


def generation(jobs, folder, number):
    goes_on(jobs, lambda: (folder / "membership.csv").exists() and len(members(folder)) >= number, f"generation {number}")
    return members(folder)[number - 1]


@pytest.mark.parametrize("backend, algorithm, codec", [("gloo", ["sync", "--check-replicas", 50], "ef | topk(0.1)"), ("tcp", ["local(h=4)"], "none")])
def test_ranks_come_and_go(coordinator, join, tmp_path, backend, algorithm, codec):
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "2:3", "--metrics-port", 0)
    page = port_in(boss, "metrics for Prometheus are at http://127.0.0.1(?=:)")
    flags = ["--backend", backend, "--algorithm", *algorithm, "--codec", codec, "--max-steps", 2500]
    jobs = [join(port, *flags), join(port, *flags)]
    assert generation(jobs, folder, 1)[1:] == (0, [0, 1])
    goes_on(jobs, lambda: has_step(folder, 100), "step 100")
    third = join(port, *flags)
    jobs.append(third)
    _, step, ids = generation(jobs, folder, 2)
    assert ids == [0, 1, 2] and step >= 100
    assert families(page)["sotto_members", ] == 3
    goes_on(jobs, lambda: has_step(folder, step + 100), "100 steps more")
    os.kill(third.ranks()[0], signal.SIGKILL)
    assert third.finish().status == 1 and "was killed by signal 9" in third.err
    jobs.remove(third)
    _, then, ids = generation(jobs, folder, 3)
    assert ids == [0, 1] and then >= step + 96
    jobs.append(join(port, *flags))
    assert generation(jobs, folder, 4)[2] == [0, 1, 3]
    jobs.pop().kill()  # with its starter, as if its machine were gone
    assert generation(jobs, folder, 5)[2] == [0, 1]
    for job in [*jobs, boss]:
        job.finish()
        assert job.status == 0, job.err
        job.nothing_left()
    assert "rank 2 was killed by signal 9 (SIGKILL); generation" in boss.err and "rank 3 has been silent for 1 s" in boss.err and boss.err.endswith("the run has come to its end\n")
    assert summary(folder)["steps"] == 2500


def test_a_rank_that_is_asked_to_stop_leaves_and_the_last_one_keeps_the_run(coordinator, join, tmp_path):
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "1:2")
    first, second = join(port), join(port)
    generation([first, second], folder, 1)
    goes_on([first, second], lambda: (folder / "membership.csv").exists() and members(folder)[-1][2] == [0, 1], "both ranks")
    _, step, _ = members(folder)[-1]
    goes_on([first, second], lambda: has_step(folder, step + 50), "50 steps")
    os.kill(first.process.pid, signal.SIGTERM)
    assert first.finish().status == 143, first.err
    wait_until(lambda: second.process.poll() is not None or len(members(folder)[-1][2]) == 1, "the other one goes on")
    _, last, _ = members(folder)[-1]
    assert last > step + 50, "no step was taken again from the beginning"
    goes_on([second], lambda: has_step(folder, last + 20), "20 steps more")
    os.kill(second.process.pid, signal.SIGINT)
    assert second.finish().status == 130, second.err
    assert list(folder.glob("model_step_*")), "a checkpoint"
    os.kill(boss.process.pid, signal.SIGINT)
    assert boss.finish().status == 130
    assert re.search("rank [01]: stopped by a signal", boss.err) and "has been silent" not in boss.err, boss.err


def test_ranks_that_are_stopped_while_they_wait_for_others_leave_a_checkpoint(coordinator, join, good, tmp_path):
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", 3)
    jobs = [join(port, "--codec", "ef | topk(0.1)") for _ in range(3)]
    generation(jobs, folder, 1)
    goes_on(jobs, lambda: has_step(folder, 50), "50 steps")
    lost = jobs.pop()
    os.kill(lost.ranks()[0], signal.SIGKILL)
    lost.finish()
    for job in jobs:
        os.kill(job.process.pid, signal.SIGINT)
    assert [job.finish().status for job in jobs] == [130, 130], jobs[0].err + jobs[1].err
    step = max(int(path.name.split("_")[-1]) for path in folder.glob("model_step_*"))  # one rank may have come further
    assert step >= 50 and any(f"was stopped while it waited for others; a checkpoint was written after step {step}" in job.err for job in jobs)
    os.kill(boss.process.pid, signal.SIGINT)
    boss.finish()
    assert "rank count changed from 1 to 2" in good("train", "--train-dir", "run", "--resume", "--ranks", 2, "--max-steps", step + 20).err
    assert summary(folder)["steps"] == step + 20


def test_training_goes_on_without_a_coordinator_until_there_is_one_again(start, coordinator, join, tmp_path):
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


def test_a_rank_that_waited_is_there_for_the_next_coordinator(start, coordinator, join, tmp_path):
    boss, port = coordinator("--ranks", "2:3", "--state", "job.state")
    jobs = [join(port, "--max-steps", 20)]
    wait_until(lambda: (tmp_path / "job.state").read_text().splitlines()[-1] == "0", "the state has the rank that waits")
    boss.kill()
    boss = start("coordinator", "--listen", f"127.0.0.1:{port}", "--ranks", "2:3", "--state", "job.state")
    port_in(boss, "ranks join with --coordinator")
    jobs.append(join(port, "--max-steps", 20))
    for job in [*jobs, boss]:
        assert job.finish().status == 0, job.err
    (_, _, ids), = members(tmp_path / "run")
    assert ids[0] == 0 and ids[1] > 0, "no id is given out twice"


def test_a_rank_that_came_when_the_coordinator_ended_is_found(start, coordinator, join, tmp_path):
    """It had an id, and the coordinator had not heard of it yet."""
    boss, port = coordinator("--ranks", "2:2", "--state", "job.state")
    before = (tmp_path / "job.state").read_text()
    jobs = [join(port, "--max-steps", 20)]
    wait_until(lambda: (tmp_path / "job.state").read_text() != before, "the coordinator to hear of the rank")
    boss.kill()
    (tmp_path / "job.state").write_text(before)
    boss = start("coordinator", "--listen", f"127.0.0.1:{port}", "--ranks", "2:2", "--state", "job.state")
    port_in(boss, "ranks join with --coordinator")
    jobs.append(join(port, "--max-steps", 20))
    for job in [*jobs, boss]:
        assert job.finish().status == 0, job.err
    (_, _, ids), = members(tmp_path / "run")
    assert ids == [0, 100]


def test_a_rank_that_waited_and_is_heard_late_is_not_forgotten(start, coordinator, join, tmp_path):
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


@pytest.mark.parametrize("anew, silence", [(False, 2), (True, 10)])
def test_a_silent_rank_0_loses_its_place_and_the_run_folder(start, coordinator, join, tmp_path, anew, silence):
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
    assert lost.status == 1 and "rank 0: the job goes on without it, with ranks 1, 2" in lost.err, lost.err
    for job in [*jobs, boss]:
        job.finish()
        assert job.status == 0, job.err
        job.nothing_left()
    assert f"rank 0 has been silent for {silence} s; generation 2: ranks 1, 2" in boss.err
    assert summary(folder)["steps"] == 1000
    rows = [tuple(row.split(",")[:2]) for row in (folder / "steps.csv").read_text().splitlines()[1:]]
    assert len(rows) == len(set(rows)) and {("999", "0"), ("999", "1")} <= set(rows)


def test_a_rank_that_was_silent_too_long_is_left_out_by_ranks_that_waited_for_it(coordinator, start, tmp_path):
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
    assert lost.finish().status == 1 and "the job goes on without it" in lost.err, lost.err
    for job in [*jobs, boss]:
        assert job.finish().status == 0, job.err
    assert len(members(folder)[-1][2]) == 1 and summary(folder)["steps"] == 600


@pytest.mark.parametrize("on_failure", ["continue", "checkpoint"])
def test_a_newcomer_without_the_data_fails_alone(coordinator, start, tmp_path, on_failure):
    rows = "".join(f"{i % 2},{i % 7},{i % 5}\n" for i in range(64))
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text(rows)
    boss, port = coordinator("--ranks", "1:2", "--on-failure", on_failure)
    flags = ["train", "--task", "classify-rows", "--model", "logreg", "--data", "csv", "--batch-size", 8, "--epochs", 100000,
             "--eval-freq", 1000000, "--link", "1gbit,3ms", "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}", "--max-steps", 3000]  # fmt: skip
    job = start(*flags, "--data-dir", tmp_path)
    goes_on([job], lambda: has_step(tmp_path / "run", 20), "step 20")
    lost = start(*flags, "--data-dir", tmp_path / "nothing").finish()
    assert lost.status != 0 and "nothing" in lost.err, lost.err
    for one in (job, boss):
        assert one.finish().status == 0, one.err
    assert summary(tmp_path / "run")["steps"] == 3000


def test_the_state_of_a_job_that_has_ended_is_gone(coordinator, run, tmp_path):
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


def test_a_state_that_can_be_written_no_more_is_a_warning(coordinator, run, tmp_path):
    (tmp_path / "place").mkdir()
    boss, port = coordinator("--ranks", 1, "--state", "place/job.state")
    shutil.rmtree(tmp_path / "place")
    assert run("train", *SMALL, "--max-steps", 5, "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}").status == 0
    boss.finish()
    assert boss.status == 0 and boss.err.count("place/job.state") == 1, boss.err
    assert "; if this coordinator ends, none can go on with the job\n" in boss.err


def test_one_with_other_options_is_refused_and_the_others_go_on(coordinator, join, tmp_path):
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "1:2")
    first = join(port)
    generation([first], folder, 1)
    goes_on([first], lambda: has_step(folder, 50), "step 50")
    other = join(port, "--lr", 0.123)
    assert other.finish().status == 2 and "lr" in other.err, other.err
    assert generation([first], folder, 2)[2] == [0]
    os.kill(first.process.pid, signal.SIGTERM)
    assert first.finish().status == 143, first.err
    os.kill(boss.process.pid, signal.SIGTERM)
    assert boss.finish().status == 143 and "`lr = 0.123` instead of" in boss.err, boss.err


def test_ranks_with_another_run_folder_are_refused(coordinator, join, start, start_other, sotto, tmp_path):
    """One of them would go on there if rank 0 were lost."""
    boss, port = coordinator("--ranks", "1:2")
    first = join(port)
    generation([first], tmp_path / "run", 1)
    goes_on([first], lambda: has_step(tmp_path / "run", 50), "step 50")
    other = start("train", *LONG, "--train-dir", "other", "--coordinator", f"127.0.0.1:{port}")
    assert other.finish().status == 2 and "`train-dir = 'other'` instead of `train-dir = 'run'`" in other.err, other.err
    assert generation([first], tmp_path / "run", 2)[2] == [0]
    (tmp_path / "elsewhere").mkdir()
    apart = start_other("env", "-C", "elsewhere", sotto, "train", *LONG, "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}")
    assert apart.finish().status == 2 and "ranks that come and go must share the run folder (run)" in apart.err, apart.err


@pytest.mark.parametrize("on_failure", ["checkpoint", "stop"])
def test_a_failure_ends_the_job(coordinator, join, good, tmp_path, on_failure):
    """One that leaves because it was asked to, or has other options, is no failure."""
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "1:3", "--on-failure", on_failure)
    first, second = join(port), join(port)
    goes_on([first, second], lambda: (folder / "membership.csv").exists() and members(folder)[-1][2] == [0, 1], "both ranks")
    other = join(port, "--lr", 0.123)
    assert other.finish().status == 2, other.err
    leaver = join(port)
    goes_on([first, second, leaver], lambda: members(folder)[-1][2] == [0, 1, 3], "a third rank")
    _, step, _ = members(folder)[-1]
    goes_on([first, second, leaver], lambda: has_step(folder, step + 20), "20 steps")
    os.kill(leaver.process.pid, signal.SIGTERM)
    assert leaver.finish().status == 143, leaver.err
    goes_on([first, second], lambda: members(folder)[-1][2] == [0, 1], "the others go on")
    _, step, _ = members(folder)[-1]
    goes_on([first, second], lambda: has_step(folder, step + 20), "20 steps")
    os.kill(second.ranks()[0], signal.SIGKILL)
    assert first.finish().status == 1 and second.finish().status == 1
    assert boss.finish().status == 1 and "was killed by signal 9 (SIGKILL)" in boss.err.splitlines()[-1], boss.err
    saved = [int(path.name.split("_")[-1]) for path in folder.glob("model_step_*")]
    if on_failure == "stop":
        assert not saved
    else:
        assert len(saved) == 1 and f"a checkpoint was written after step {saved[0]}; --resume goes on from there" in first.err, first.err
        good("train", *LONG[:-2], "--train-dir", "run", "--resume", "--ranks", 2, "--max-steps", saved[0] + 5)


def test_one_that_comes_before_the_coordinator_says_once_for_whom_it_waits(start, join):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        job = join(port, "--max-steps", 5)
        said = f"sotto: the coordinator at 127.0.0.1:{port} does not answer; it is tried for 10 minutes\n"
        while (line := job.process.stderr.readline()) != said:
            assert line, "it ended"
    boss = start("coordinator", "--listen", f"127.0.0.1:{port}", "--ranks", "1:1")
    for one in (job, boss):
        assert one.finish().status == 0, one.err
    assert "does not answer" not in job.err


def test_one_that_comes_when_the_run_is_over(coordinator, join):
    boss, port = coordinator("--ranks", "1:1")
    first = join(port, "--max-steps", 1500)
    late = join(port, "--max-steps", 1500)  # there is no room for it
    for job in (first, late, boss):
        assert job.finish().status == 0, job.err
    assert "the run has come to its end without this rank" in first.err + late.err


def test_what_is_refused(run, tmp_path):
    def refused(arguments, error):
        job = run(*arguments)
        assert job.status == 2 and error in job.err, job.err

    at = ["train", *SMALL, "--coordinator", "127.0.0.1:29400"]
    refused(at, "--coordinator 127.0.0.1:29400: needs --train-dir")
    refused([*at, "--ranks", 2, "--train-dir", "run"], "leave --ranks out")
    refused([*at, "--master", "a:1", "--train-dir", "run"], "leave --master out")
    refused([*at, "--elastic", "1:2", "--train-dir", "run"], "--coordinator: the coordinator says how many ranks there may be")
    refused(["train", *SMALL, "--coordinator", "here", "--train-dir", "run"], "--coordinator here: must be HOST:PORT")
    refused([*at, "--on-failure", "stop", "--train-dir", "run"], "--on-failure stop: the coordinator says what ranks do; give it to `sotto coordinator`")
    refused(["coordinator"], "--ranks: missing")
    refused(["coordinator", "--ranks", "1:2", "--on-failure", "no"], "--on-failure no: must be continue, stop or checkpoint")
    refused(["coordinator", "--ranks", "3:2"], "--ranks 3:2: 3 is more than 2")
    (tmp_path / "state").write_text("else\n")
    refused(["coordinator", "--ranks", "1:2", "--listen", "127.0.0.1:0", "--state", "state"], "--state state: this is not the state of a coordinator")
