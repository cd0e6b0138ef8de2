"""`sotto train --hosts ... --elastic`: a job survives the loss of ranks or hosts, with real sshds in network namespaces."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import has_step, summary, wait_until
from test_elastic import members
from test_hosts import STAND_IN, all_gone, net, run_at, start_at, two  # noqa: F401

pytestmark = pytest.mark.slow

SMALL = "--model logreg --train-size 512 --test-size 100 --batch-size 8 --threads 1".split()
LONG = [*SMALL, "--epochs", 100000, "--eval-freq", 1000, "--check-replicas", 20, "--link", "1gbit,3ms"]  # a step takes ten milliseconds or more


@pytest.fixture
def elastic(net, start_at, tmp_path):  # noqa: F811
    """A job on two hosts that has made some steps."""

    def elastic(least, *flags, ssh=None):
        job = start_at("train", *LONG, "--train-dir", "run", "--hosts", two(net), "--elastic", least, *flags, ssh=ssh)
        at_step(job, tmp_path / "run", 50)
        return job

    return elastic


def at_step(job, folder, step):
    goes_on(job, lambda: has_step(folder, step), f"step {step}")


def goes_on(job, condition, what):
    wait_until(lambda: job.process.poll() is not None or condition(), what)
    assert job.process.poll() is None, job.finish().err


def group(job, folder, number):
    """The row of the group that is the `number`th one."""
    goes_on(job, lambda: (folder / "membership.csv").exists() and len(members(folder)) >= number, f"group {number}")
    return members(folder)[number - 1]


def stop(job):
    os.kill(job.process.pid, signal.SIGINT)
    assert job.finish().status == 130, job.err


def ssh_to(job, host):
    (pid,) = (pid for pid in job.ranks() if host.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
    return pid


def said(job):
    """What the launcher said, but for newcomers that have caught up."""
    lines = [line.removeprefix("sotto: ") for line in job.err.splitlines() if line.startswith("sotto: ")]
    return [line for line in lines if "have caught up" not in line]


def test_the_others_go_on_without_a_rank(net, elastic, good, tmp_path):  # noqa: F811
    job = elastic("3:4", "--deadline", 20, "--max-steps", 300)
    os.kill(net.rank(3), signal.SIGKILL)
    assert job.finish().status == 0, job.err
    all_gone(net, job)
    assert said(job) == [f"{net.hosts[1]}: rank 3 was killed by signal 9 (SIGKILL); continuing with ranks 0, 1, 2"]
    assert [ids for _, _, ids in members(tmp_path / "run")] == [[0, 1, 2, 3], [0, 1, 2]]
    assert summary(tmp_path / "run")["steps"] == 300
    assert "the same to the bit" in good("train", "--replay", "run", "--train-dir", "again").out


def test_a_lost_rank_is_started_anew(net, elastic, tmp_path):  # noqa: F811
    job = elastic(4, "--deadline", 20, "--restarts", 1)
    os.kill(net.rank(0), signal.SIGKILL)
    at_step(job, tmp_path / "run", group(job, tmp_path / "run", 2)[1] + 20)
    stop(job)
    all_gone(net, job)
    assert said(job)[:-1] == [f"{net.hosts[0]}: rank 0 was killed by signal 9 (SIGKILL), and is replaced; continuing with ranks 0, 1, 2, 3"]
    assert [ids for _, _, ids in members(tmp_path / "run")] == 2 * [[0, 1, 2, 3]]


def test_a_host_whose_connection_ends_comes_back(net, elastic, tmp_path):  # noqa: F811
    job = elastic(2, "--deadline", 20, "--restarts", 2)
    folder = tmp_path / "run"
    os.kill(ssh_to(job, net.hosts[1]), signal.SIGKILL)
    assert group(job, folder, 2)[2] == [0, 1]
    _, step, ids = group(job, folder, 3)
    assert ids == [0, 1, 2, 3]
    at_step(job, folder, step + 20)
    stop(job)
    all_gone(net, job)
    assert f"sotto: ranks 2, 3 are lost: {net.hosts[1]}: ssh was killed by signal 9; continuing with ranks 0, 1\n" in job.err
    saved = max(int(path.name.rsplit("_", 1)[1]) for path in folder.glob("model_step_*"))  # an evaluation may have kept an earlier one
    assert summary(folder)["steps"] == saved > step


@pytest.mark.sample(1)
@pytest.mark.parametrize("host", [1, 0])
def test_a_host_is_cut_off(net, elastic, tmp_path, host):  # noqa: F811
    """Its ranks end by themselves, later. Until then rank 0 keeps the others from the run folder."""
    job = elastic(2, "--deadline", 4, ssh=net.ssh + " -o ServerAliveInterval=1")
    net.cable.plug(1 + host, "down")
    _, step, _ = group(job, tmp_path / "run", 2)
    at_step(job, tmp_path / "run", step + 20)
    stop(job)
    job.nothing_left()
    lost, left = ([0, 1], [2, 3]) if host == 0 else ([2, 3], [0, 1])
    assert said(job)[:-1] == [f"ranks {lost[0]}, {lost[1]} are lost: {net.hosts[host]}: Timeout, server {net.hosts[host]} not responding; "
                         f"continuing with ranks {left[0]}, {left[1]}"]  # fmt: skip
    assert [ids for _, _, ids in members(tmp_path / "run")] == [[0, 1, 2, 3], left]
    assert summary(tmp_path / "run")["steps"] > step
    net.cable.plug(1 + host, "up")
    all_gone(net, job)


def test_too_few_are_left(net, elastic, tmp_path):  # noqa: F811
    """They write a checkpoint."""
    job = elastic(3, "--deadline", 20)
    os.kill(ssh_to(job, net.hosts[1]), signal.SIGKILL)
    assert job.finish().status == 1
    step = max(int(path.name.rsplit("_", 1)[1]) for path in (tmp_path / "run").glob("model_step_*"))
    lost = f"ranks 2, 3 are lost: {net.hosts[1]}: ssh was killed by signal 9"
    assert said(job) == [f"{lost}; a checkpoint is written by ranks 0, 1",
                         f"{lost}; 2 ranks are left, and 3 are needed; a checkpoint was written after step {step}; --resume continues from there"]
    all_gone(net, job)


def test_a_failure_ends_the_job_with_a_checkpoint(net, elastic, tmp_path):  # noqa: F811
    job = elastic(4, "--deadline", 20, "--on-failure", "checkpoint")
    os.kill(ssh_to(job, net.hosts[1]), signal.SIGKILL)
    assert job.finish().status == 1
    (step,) = (int(path.name.rsplit("_", 1)[1]) for path in (tmp_path / "run").glob("model_step_*"))
    assert said(job)[-1].endswith(f"a checkpoint was written after step {step}; --resume continues from there")
    all_gone(net, job)


def test_a_host_that_comes_later_joins(net, start_at, tmp_path):  # noqa: F811
    folder = tmp_path / "run"
    net.cable.plug(2, "down")
    job = start_at("train", *LONG, "--deadline", 20, "--train-dir", "run", "--hosts", two(net), "--elastic", 2,
                   ssh=net.ssh + " -o ConnectTimeout=2")  # fmt: skip
    at_step(job, folder, 50)
    net.cable.plug(2, "up")
    _, step, ids = group(job, folder, 2)
    assert ids == [0, 1, 2, 3] and members(folder)[0][2] == [0, 1]
    at_step(job, folder, step + 20)
    stop(job)
    all_gone(net, job)
    assert re.search(rf"sotto: {net.hosts[1]}: .*; the job begins with 2 of 4 ranks, and tries it again\n", job.err), job.err
    assert "sotto: ranks 2, 3 have come; continuing with ranks 0, 1, 2, 3\n" in job.err


def test_too_few_hosts_answer(net, run_at, tmp_path):  # noqa: F811
    job = run_at("train", *LONG, "--train-dir", "run", "--hosts", f"{net.hosts[0]}:2,10.0.0.99:2", "--elastic", 3)
    assert job.status == 1
    assert re.search(r"^sotto: 10\.0\.0\.99: sotto cannot be started there: ssh: .*; the other hosts have 2 ranks, and 3 are needed$", job.err, re.M), job.err
    assert not (tmp_path / "run").exists()


def test_ranks_die_with_the_launcher(net, elastic):  # noqa: F811
    job = elastic(1, "--deadline", 20)
    os.kill(job.process.pid, signal.SIGKILL)
    job.finish()
    all_gone(net, job)


# Without an sshd:


def test_an_error_of_a_rank_ends_the_job(run):
    job = run("train", *SMALL, "--hosts", "here:2", "--elastic", 1, "--ssh", STAND_IN, "--interface", "nosuch0", "--train-dir", "run")
    assert job.status == 2 and said(job) == ["there is no network interface `nosuch0`" + job.err.split("`nosuch0`")[1].split("\n")[0]]


def test_a_newcomer_reads_data_before_it_joins(run):
    job = run("train", "--data-dir", "nowhere", SOTTO_RANK="2", SOTTO_RANKS="4", SOTTO_LOCAL_RANK="0", SOTTO_LOCAL_RANKS="2",
              SOTTO_MASTER="127.0.0.1:9", SOTTO_GENERATION="2")  # fmt: skip
    assert job.status != 0 and "nowhere" in job.err, job.err


def test_a_share_reports_why_it_refuses(sotto, tmp_path):
    orders = "folder /nowhere\nleast-ranks 1\nstart \n"
    share = subprocess.run([sotto, "hosts", "serve"], input=orders, text=True, capture_output=True, cwd=tmp_path)
    assert share.returncode == 2
    assert share.stdout.splitlines()[-1].startswith("failed Ethe folder /nowhere, from which the job was started, cannot be entered here")


def test_a_share_survives_no_dead_launcher(sotto, tmp_path):
    orders = f"master here-{os.getpid()}:2\nranks 1\nall-ranks 4\nleast-ranks 1\nstart \n"
    share = subprocess.run([sotto, "hosts", "serve"], input=orders, text=True, capture_output=True, cwd=tmp_path, timeout=30)
    assert share.returncode == 0


def test_a_socket_of_another_user_is_told(sotto, tmp_path):
    """Any user of a host can take the name by which a share waits for the one before it."""
    if os.geteuid() != 0:
        pytest.skip("another user: only root can become one")
    place = f"here-{os.getpid()}:1"
    stranger = "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + sys.argv[1]); s.listen(); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", stranger, f"sotto {place} 2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        orders = f"master {place}\nfirst-rank 2\nranks 1\nall-ranks 4\nleast-ranks 1\nstart \n"
        share = subprocess.run([sotto, "hosts", "serve"], input=orders, text=True, capture_output=True, cwd=tmp_path, timeout=60)
        other.stdin.close()
    assert f"failed Eanother user of this host has the socket `@sotto {place} 2`" in share.stdout, share.stdout
