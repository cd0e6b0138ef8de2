"""`sotto coordinator`: ranks come and go by themselves, whoever starts them."""

import os
import re
import signal
import socket
import struct
import time

import pytest

from conftest import compared, has_step, summary, wait_until
from test_elastic import members
from test_metrics_page import families

pytestmark = pytest.mark.slow

SMALL = "--model logreg --train-size 512 --test-size 100 --batch-size 8 --threads 1".split()  # several ranks share this machine
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


@pytest.mark.parametrize("backend, algorithm, codec", [("gloo", ["sync"], "ef | topk(0.1)"), ("tcp", ["local(h=4)"], "none")])
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
    assert "rank 2 was killed by signal 9 (SIGKILL); generation" in boss.err and re.search("rank 3 has been silent for [13] s", boss.err) and boss.err.endswith("the run has come to its end\n")
    assert summary(folder)["steps"] == 2500


def test_a_stopped_rank_leaves_and_the_last_saves(coordinator, join, tmp_path):
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "1:2")
    first, second = join(port), join(port)
    generation([first, second], folder, 1)
    goes_on([first, second], lambda: (folder / "membership.csv").exists() and members(folder)[-1][2] == [0, 1], "both ranks")
    _, step, _ = members(folder)[-1]
    goes_on([first, second], lambda: has_step(folder, step + 50), "50 steps")
    os.kill(first.process.pid, signal.SIGTERM)
    assert first.finish().status == 143, first.err
    wait_until(lambda: second.process.poll() is not None or len(members(folder)[-1][2]) == 1, "the other one continues")
    _, last, _ = members(folder)[-1]
    assert last > step + 50, "no step was taken again from the beginning"
    goes_on([second], lambda: has_step(folder, last + 20), "20 steps more")
    os.kill(second.process.pid, signal.SIGINT)
    assert second.finish().status == 130, second.err
    assert list(folder.glob("model_step_*")), "a checkpoint"
    os.kill(boss.process.pid, signal.SIGINT)
    assert boss.finish().status == 130
    assert re.search("rank [01]: stopped by a signal", boss.err) and "has been silent" not in boss.err, boss.err


def test_stopped_waiting_ranks_leave_a_checkpoint(coordinator, join, good, tmp_path):
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


@pytest.mark.parametrize("on_failure", ["continue", "checkpoint"])
def test_a_newcomer_without_the_data_fails_alone(coordinator, start, tmp_path, on_failure):
    rows = "".join(f"{i % 2},{i % 7},{i % 5}\n" for i in range(64))
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text(rows)
    boss, port = coordinator("--ranks", "1:2", "--on-failure", on_failure)
    flags = ["train", "--task", "classify-rows", "--model", "logreg", "--data", "csv", "--batch-size", 8, "--epochs", 100000,
             "--eval-freq", 1000000, "--link", "1gbit,3ms", "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}", "--max-steps", 40000]  # fmt: skip
    job = start(*flags, "--data-dir", tmp_path)
    goes_on([job], lambda: has_step(tmp_path / "run", 20), "step 20")
    lost = start(*flags, "--data-dir", tmp_path / "nothing").finish()
    assert lost.status != 0 and "nothing" in lost.err, lost.err
    for one in (job, boss):
        assert one.finish().status == 0, one.err
    assert summary(tmp_path / "run")["steps"] == 40000


def test_a_rank_with_other_options_is_refused(coordinator, join, tmp_path):
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
    """One of them would continue there if rank 0 were lost."""
    boss, port = coordinator("--ranks", "1:2")
    first = join(port)
    generation([first], tmp_path / "run", 1)
    goes_on([first], lambda: has_step(tmp_path / "run", 50), "step 50")
    other = start("train", *LONG, "--train-dir", "other", "--coordinator", f"127.0.0.1:{port}")
    assert other.finish().status == 2 and "`train-dir = 'other'` instead of `train-dir = 'run'`" in other.err, other.err
    assert generation([first], tmp_path / "run", 2)[2] == [0]
    (tmp_path / "elsewhere").mkdir()
    apart = start_other("env", "-C", "elsewhere", sotto, *compared(["train", *LONG, "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}"]))
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
    goes_on([first, second], lambda: members(folder)[-1][2] == [0, 1], "the others continue")
    _, step, _ = members(folder)[-1]
    goes_on([first, second], lambda: has_step(folder, step + 20), "20 steps")
    os.kill(second.ranks()[0], signal.SIGKILL)
    assert first.finish().status == 1 and second.finish().status == 1
    assert boss.finish().status == 1 and "was killed by signal 9 (SIGKILL)" in boss.err.splitlines()[-1], boss.err
    saved = [int(path.name.split("_")[-1]) for path in folder.glob("model_step_*")]
    if on_failure == "stop":
        assert not saved
    else:
        assert len(saved) == 1 and f"a checkpoint was written after step {saved[0]}; --resume continues from there" in first.err, first.err
        good("train", *LONG[:-2], "--train-dir", "run", "--resume", "--ranks", 2, "--max-steps", saved[0] + 5)


def test_a_rank_before_the_coordinator_says_so_once(start, join):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        job = join(port, "--max-steps", 5)
        said = f"sotto: the coordinator at 127.0.0.1:{port} does not answer; it is tried for 600 s\n"
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


def test_how_long_a_rank_waits_for_its_coordinator(run):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{nobody.getsockname()[1]}"
        job = run("train", *LONG, "--train-dir", "run", "--coordinator", place, "--coordinator-wait", 1)
    assert job.status == 1 and f"nobody serves the ranks' meeting place at {place}, for 1 s" in job.err, job.err
    job = run("train", *SMALL, "--coordinator-wait", 5)
    assert job.status == 2 and "--coordinator-wait: this rank has no coordinator" in job.err, job.err


@pytest.mark.parametrize("knows", [False, True])
def test_a_rank_without_the_secret_is_refused(coordinator, join, good, tmp_path, knows):
    """The group of the others does not change. A coordinator that has the secret itself lets nobody else reach its store."""
    good("secret", "new", "job.secret"), good("secret", "new", "other.secret")
    ours, folder = ["--secret", "job.secret"], tmp_path / "run"
    boss, port = coordinator("--ranks", "2:4", *(ours if knows else []))
    jobs = [join(port, *ours), join(port, *ours)]
    generation(jobs, folder, 1)
    goes_on(jobs, lambda: has_step(folder, 20), "step 20")
    bare, wrong = join(port).finish(), join(port, "--secret", "other.secret").finish()
    assert (bare.status, wrong.status) == (2, 2)
    if knows:
        assert "wants a --secret, and this process has none; give all the same one" in bare.err, bare.err
        assert "has another --secret; give all the same one" in wrong.err, wrong.err
    else:
        assert "is refused: it has no secret, and the ranks of this job have one: give it the same" in bare.err, bare.err
        assert "is refused: its secret differs from the secret of this job" in wrong.err, wrong.err
    steps = len((folder / "steps.csv").read_text().splitlines())
    goes_on(jobs, lambda: has_step(folder, steps), "the others continue")
    assert len(members(folder)) == 1, "their group has not changed"
    jobs.append(join(port, *ours))
    assert len(generation(jobs, folder, 2)[2]) == 3
    for job in jobs:
        os.kill(job.process.pid, signal.SIGTERM)
    assert [job.finish().status for job in jobs] == [143] * 3, [job.err for job in jobs]
    os.kill(boss.process.pid, signal.SIGINT)  # the run may continue
    boss.finish()
    if knows:
        assert "sotto: the ranks' meeting place: refused a connection from 127.0.0.1 port " in boss.err, boss.err
    else:
        assert re.search(r"rank \d+, \S+ \(process \d+\), is refused: it has no secret", boss.err), boss.err
        assert "is refused: its secret differs" in boss.err


def test_a_secret_is_refused_if_others_have_none(coordinator, join, good, tmp_path):
    good("secret", "new", "job.secret")
    boss, port = coordinator("--ranks", "1:2")
    first = join(port)
    generation([first], tmp_path / "run", 1)
    other = join(port, "--secret", "job.secret").finish()
    assert other.status == 2 and "it has a secret, and the ranks of this job have none: leave it out" in other.err, other.err
    goes_on([first], lambda: has_step(tmp_path / "run", 20), "step 20")
    assert len(members(tmp_path / "run")) == 1


class Stranger:
    """Writes to the coordinator's store, as sotto/comm/group/tcp_store.h says."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.answers = self.socket.makefile("rb")
        self.ask(1)

    def ask(self, kind, key="", value=b""):
        value = value.encode() if isinstance(value, str) else value
        head = struct.pack("<IBBHqIIII", 0x71747373, kind, 1, 0, 0, len(key), len(value), 0, 0)
        self.socket.sendall(head + key.encode() + value)
        word, answer, version, _, _, more, _ = struct.unpack("<IBBHqII", self.answers.read(24))
        assert (word, answer, version, more) == (0x72747373, 1, 1, 0)

    def set(self, key, value):
        self.ask(2, key, value)

    def delete_key(self, key):
        self.ask(7, key)


NONSENSE = [b"", b"2000000000", b"-1", b"9" * 30, b"x", b"\x1b[31m\nsotto: forged", b"\xff\x00\x9b", b"7" * 2000000]


def test_a_strangers_writes_are_bounded_and_reported(coordinator, start, tmp_path):
    """Every key that the coordinator reads. Then a rank can still come."""
    boss, port = coordinator("--ranks", "1:1", "--state", "job.state")
    store = Stranger(port)
    keys = ["application/0", "application/1", "beat/0", "beat/1", "farewell/0", "farewell/1", "left/0", "left/0/0", "moved/0"]
    for value in NONSENSE:
        for key in [*keys, "next id"]:
            store.set(key, value)
        time.sleep(0.2)  # for the coordinator to look
    for key in keys:
        store.delete_key(key)
    job = start("train", *SMALL, "--max-steps", 5, "--train-dir", "run", "--coordinator", f"127.0.0.1:{port}")
    for one in (job, boss):
        assert one.finish().status == 0, one.err
    assert "ids of ranks; they continue from" in boss.err and len(boss.err) < 20000, boss.err
    assert "\x1b" not in boss.err and not re.search("^sotto: forged", boss.err, re.M), boss.err


def test_invented_ranks_do_not_keep_the_coordinator(coordinator):
    boss, port = coordinator("--ranks", "1:2")
    store = Stranger(port)
    store.set("next id", "2000000000")
    line = boss.process.stderr.readline()
    assert "somebody who is no rank has given out ids of ranks; they continue from" in line, line
    store.set("application/1001", "none x\x1b[2J\nsotto: rank 9 has come")
    store.set("next id", "1002")
    assert "rank 1001 has come" in boss.process.stderr.readline()
    store.set("farewell/1001", "-\x1b[31mgone\nsotto: rank 9 has come")
    line = boss.process.stderr.readline()
    assert line == "sotto: rank 1001 has ended: \\x1b[31mgone\\nsotto: rank 9 has come\n"
    os.kill(boss.process.pid, signal.SIGINT)
    assert boss.finish().status == 130


def test_a_job_that_gives_up_leaves_a_checkpoint(coordinator, join, good, tmp_path):
    """Somebody who reaches the store ends each of their groups at once. One rank is enough, since a busy machine may keep
    the other silent for so long that it counts as lost."""
    folder = tmp_path / "run"
    boss, port = coordinator("--ranks", "1:2")
    jobs = [join(port), join(port)]
    goes_on(jobs, lambda: (folder / "membership.csv").exists() and len(members(folder)[-1][2]) == 2, "two ranks")
    goes_on(jobs, lambda: has_step(folder, members(folder)[-1][1] + 20), "20 steps")
    store = Stranger(port)
    for number in range(1, 30):
        store.set(f"sotto/{number}/outcome", "failed")
        store.set(f"sotto/{number}/settled", "1")
        store.set(f"left/{number}", "yes")
    for job in [*jobs, boss]:
        assert job.finish().status == 1, job.err
    assert "they lost each other 5 times" in boss.err, boss.err
    (saved,) = folder.glob("model_step_*")
    step = int(saved.name.split("_")[-1])
    assert step >= 20 and any(f"a checkpoint was written after step {step}; --resume continues from there" in job.err for job in jobs), jobs[0].err + jobs[1].err
    good("train", *LONG[:-2], "--train-dir", "run", "--resume", "--ranks", 2, "--max-steps", step + 5)


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
