"""Ranks that `sotto train --hosts` starts by ssh, with real sshds in network namespaces, and `sotto hosts`."""

import array
import fcntl
import os
import re
import shlex
import signal
import stat
import subprocess
import termios
import time

import pytest

import ssh_hosts
from conftest import TINY, has_step, processes, summary, wait_until

pytestmark = pytest.mark.slow

LENET = "--model lenet --train-size 256 --test-size 64 --batch-size 8 --deadline 60 --threads 1".split()
# In place of ssh: runs the command on this machine.
STAND_IN = shlex.join(["sh", "-c", 'for last; do :; done; exec sh -c "$last"', "ssh"])


@pytest.fixture
def net(cable, tmp_path):
    """Two hosts, and a machine where commands are given."""
    if reason := ssh_hosts.missing():
        pytest.skip(f"ssh: {reason}")
    with type(cable)(ranks=3) as switch:
        hosts = ssh_hosts.SshHosts(switch, tmp_path / "ssh")
        try:
            yield hosts
        finally:
            hosts.close()


@pytest.fixture
def start_at(net, start_other, sotto):
    """Starts sotto where commands are given, with the flags that reach the hosts."""

    def start_at(*arguments, ssh=None):
        return start_other(*net.here, sotto, *arguments, "--ssh", ssh or net.ssh)

    return start_at


@pytest.fixture
def run_at(net, start_at):
    """Runs sotto to its end there, and checks that nothing is left, here or on the hosts."""

    def run_at(*arguments, **options):
        job = start_at(*arguments, **options).finish()
        job.nothing_left()
        wait_until(lambda: not net.processes(), "the processes of the hosts to end")
        return job

    return run_at


@pytest.fixture
def endless(net, start_at, tmp_path):
    """A job on two hosts that has made some steps."""

    def endless(*flags):
        job = start_at("train", *TINY, "--epochs", 1000000, "--eval-freq", 1000000, "--train-dir", "run",
                       "--hosts", two(net), *flags)  # fmt: skip
        wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "run", 3), "some steps")
        assert job.process.poll() is None, job.finish().err + net.logs()
        return job

    return endless


def two(net):
    return ",".join(f"{host}:2" for host in net.hosts)


def all_gone(net, job):
    job.nothing_left()
    wait_until(lambda: not net.processes(), "the processes of the hosts to end")


@pytest.mark.parametrize("backend", ["tcp", "gloo"])
def test_two_hosts_train_as_one_machine_does(net, run_at, good, tmp_path, backend):
    flags = ["train", *LENET, "--max-steps", 6, "--codec", "ef | topk(0.1)", "--check-replicas", 1, "--train-dir"]
    chosen = [] if backend == "tcp" else ["--backend", backend]  # tcp is the usual one
    job = run_at(*flags, "hosts", "--hosts", two(net), *chosen)
    assert job.status == 0, job.err + net.logs()
    assert re.search(r"^\[0\] step 6 ", job.err, re.M) and "[0] [" not in job.err
    good(*flags, "own", "--ranks", 4)
    found, own = summary(tmp_path / "hosts"), summary(tmp_path / "own")
    assert found["ranks"] == 4 and found["steps"] == 6
    assert found["parameters_sha256"] == own["parameters_sha256"]
    config = (tmp_path / "hosts" / "config.toml").read_text()
    assert f"backend = '{backend}'" in config and "secret = ''" in config


def test_the_file_of_atomo_is_understood(net, run_at, tmp_path):
    (tmp_path / "hosts").write_text("".join(f"{host}\tdeeplearning-worker{i}\n" for i, host in enumerate(net.hosts, 1)))
    job = run_at("train", *TINY, "--max-steps", 2, "--train-dir", "run", "--hosts", "hosts")
    assert job.status == 0, job.err + net.logs()
    assert summary(tmp_path / "run")["ranks"] == 2


def test_a_given_secret_stays_in_place(net, run_at, good, tmp_path):
    good("secret", "new", "secret")
    job = run_at("train", *TINY, "--max-steps", 2, "--train-dir", "run", "--hosts", two(net), "--secret", "secret")
    assert job.status == 0, job.err + net.logs()
    secret = (tmp_path / "secret").read_text().strip()
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_rank_that_is_killed_ends_all(net, endless):
    job = endless()
    os.kill(net.rank(3), signal.SIGKILL)
    job.finish()
    assert job.status == 1
    assert [line for line in job.err.splitlines() if line.startswith("sotto: ")] == [
        f"sotto: {net.hosts[1]}: rank 3 was killed by signal 9 (SIGKILL)"]  # fmt: skip
    all_gone(net, job)


def test_ranks_restart_from_the_newest_checkpoint(net, endless, tmp_path):
    job = endless("--restarts", 1, "--checkpoint-every", 2)
    os.kill(net.rank(3), signal.SIGKILL)

    def last_step():
        return int((tmp_path / "run" / "steps.csv").read_text().splitlines()[-1].split(",")[0])

    wait_until(lambda: job.process.poll() is not None or rank_3_runs(net), "the ranks to be started again")
    begun = last_step()
    wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "run", begun + 3), "more steps")
    os.kill(job.process.pid, signal.SIGINT)
    assert job.finish().status == 130, job.err
    assert "starting again, 1 of 1" in job.err and "resumed from run/model_step_" in job.err, job.err
    all_gone(net, job)


def rank_3_runs(net):
    try:
        return bool(net.rank(3))
    except AssertionError:
        return False


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGUSR1, 138)])
def test_a_signal_ends_after_a_checkpoint(net, endless, run_at, tmp_path, number, status):
    job = endless()
    os.kill(job.process.pid, number)
    assert job.finish().status == status, job.err
    all_gone(net, job)
    (step,) = (int(path.name.rsplit("_", 1)[1]) for path in (tmp_path / "run").glob("model_step_*"))
    assert summary(tmp_path / "run")["steps"] == step
    resumed = run_at("train", *TINY, "--epochs", 1000000, "--max-steps", step + 2, "--train-dir", "run", "--resume",
                     "--hosts", two(net))  # fmt: skip
    assert resumed.status == 0, resumed.err
    assert summary(tmp_path / "run")["steps"] == step + 2


def test_ranks_die_with_the_launcher(net, endless):
    job = endless()
    assert len(net.processes()) >= 4
    os.kill(job.process.pid, signal.SIGKILL)
    job.finish()
    all_gone(net, job)


def test_ranks_die_with_the_connection(net, endless):
    job = endless()
    (ssh, *_) = job.ranks()
    os.kill(ssh, signal.SIGKILL)
    assert job.finish().status == 1
    assert "ssh was killed by signal 9" in job.err
    all_gone(net, job)


def test_ranks_die_with_what_ssh_started(net, endless):
    job = endless()
    (share,) = (pid for pid in net.processes() if b"serve\0" in open(f"/proc/{pid}/cmdline", "rb").read()
                and pid in ssh_hosts.processes_of(net.cable.names[2]) and b"SOTTO" not in open(f"/proc/{pid}/environ", "rb").read())  # fmt: skip
    os.kill(share, signal.SIGKILL)
    assert job.finish().status == 1
    assert job.err.count("sotto: ") == 1 and f"sotto: {net.hosts[1]}: " in job.err, job.err
    all_gone(net, job)


def test_a_missing_host_is_an_error(net, run_at, tmp_path):
    job = run_at("train", *TINY, "--train-dir", "run", "--hosts", f"{net.hosts[0]}:2,10.0.0.99:2")
    assert job.status == 1
    assert "sotto: 10.0.0.99: sotto cannot be started there: ssh: connect to host 10.0.0.99 port 22" in job.err
    assert not (tmp_path / "run").exists()


def test_a_wrong_key_is_reported_as_by_ssh(net, run_at):
    job = run_at("train", *TINY, "--train-dir", "run", "--hosts", two(net), ssh=net.ssh_with("stranger"))
    assert job.status == 1
    assert re.search(r"^sotto: 10\.0\.0\.\d: sotto cannot be started there: .*Permission denied \(publickey\)", job.err, re.M)
    assert job.err.count("sotto: ") == 1


def test_a_refused_option_is_reported_once(net, run_at):
    job = run_at("train", *TINY, "--train-dir", "run", "--hosts", two(net), "--interface", "nosuch0")
    assert job.status == 2
    assert job.err.count("sotto: ") == 1 and "sotto: there is no network interface `nosuch0`" in job.err, job.err


def test_check_says_what_is_missing(net, run_at, sotto, tmp_path):
    (tmp_path / "data").mkdir()
    job = run_at("hosts", "check", two(net), "data")
    assert job.status == 0, job.out
    for host in net.hosts:
        assert re.search(rf"^{host} +2 +same +\d+ +[\d.]+ ms *$", job.out, re.M), job.out
    job = run_at("hosts", "check", f"{net.hosts[0]},10.0.0.99", "nothing")
    assert job.status == 1
    assert re.search(rf"^{net.hosts[0]} .* no {tmp_path}/nothing$", job.out, re.M), job.out
    assert re.search(r"^10\.0\.0\.99 .*(ssh: connect to host|banner exchange: )", job.out, re.M), job.out  # ssh may hear of it late


def test_check_finds_a_shared_run_folder(net, run_at, tmp_path):
    """The hosts share their files with this machine."""
    before = set(tmp_path.iterdir())
    job = run_at("hosts", "check", two(net), "--train-dir", "runs/new")
    assert job.status == 0 and "share" not in job.out, job.out
    assert set(tmp_path.iterdir()) == before


def test_push_copies_whole_files_with_their_mode(net, run_at, tmp_path):
    """The hosts share their files with this machine, so a file arrives where it was."""
    secret = tmp_path / "a folder" / "it's secret"
    secret.parent.mkdir()
    secret.write_bytes(bytes(range(256)) * 1000)
    secret.chmod(0o600)
    before = secret.stat().st_ino
    job = run_at("hosts", "push", two(net), secret)
    assert job.status == 0, job.err
    assert secret.read_bytes() == bytes(range(256)) * 1000 and stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.stat().st_ino != before and list(secret.parent.iterdir()) == [secret]
    (tmp_path / "link").symlink_to(secret)
    assert run_at("hosts", "push", two(net), tmp_path / "link").status == 0
    assert (tmp_path / "link").is_symlink() and secret.read_bytes() == bytes(range(256)) * 1000
    os.mkfifo(tmp_path / "pipe")
    job = run_at("hosts", "push", two(net), tmp_path / "pipe")
    assert job.status == 2 and "pipe is no file that can be read" in job.err
    job = run_at("hosts", "push", "10.0.0.99", secret)
    assert job.status == 1 and "10.0.0.99: " in job.err and "was not copied: ssh: connect" in job.err


# Without an sshd:


def test_one_share_trains_like_the_launcher(good, tmp_path):
    flags = ["train", *LENET, "--max-steps", 3, "--train-dir"]
    good(*flags, "host", "--hosts", "here:2", "--ssh", STAND_IN)
    good(*flags, "own", "--ranks", 2)
    assert summary(tmp_path / "host")["parameters_sha256"] == summary(tmp_path / "own")["parameters_sha256"]


def test_an_unread_share_ends_with_its_launcher(sotto, tmp_path):
    orders = ["argument train", "argument --help", "ranks 16", "all-ranks 16", "start "]  # prints more than a pipe takes
    with subprocess.Popen([sotto, "hosts", "serve"], cwd=tmp_path, text=True, start_new_session=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as share:  # fmt: skip
        print(*orders, sep="\n", file=share.stdin, flush=True)
        full = fcntl.fcntl(share.stdout, fcntl.F_GETPIPE_SZ)
        wait_until(lambda: array.array("i", fcntl.ioctl(share.stdout, termios.FIONREAD, bytes(4)))[0] > full * 3 / 4, "a full pipe")
        time.sleep(1)
        share.stdin.close()
        try:
            share.wait(30)
        finally:
            for pid in processes(share.pid):
                os.kill(pid, signal.SIGKILL)


def program(path, *lines):
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def test_another_version_is_refused(run, sotto, tmp_path):
    other = program(tmp_path / "other", "echo welcome", "echo sotto-share sotto 0.0.1", "cat > /dev/null")
    job = run("train", *TINY, "--hosts", "here:2", "--ssh", STAND_IN, "--remote-sotto", other)
    own = run("--version").out.strip()
    assert job.status == 2
    assert f"here has another sotto: `sotto 0.0.1`, and this is `{own}`" in job.err and "--remote-sotto" in job.err
    checked = run("hosts", "check", "here", "--ssh", STAND_IN, "--remote-sotto", other)
    assert checked.status == 1 and "other" in checked.out and "sotto 0.0.1" in checked.out


def test_hosts_are_checked_at_the_same_time(run, sotto, tmp_path):
    """Each host waits for the other one to be asked."""
    waits = program(tmp_path / "waits", f"cd {tmp_path}; mkdir first 2> /dev/null || mkdir second", "while ! test -e second; do sleep 0.05; done", f'exec {sotto} "$@"')
    job = run("hosts", "check", "here,there", "--ssh", STAND_IN, "--remote-sotto", waits)
    assert job.status == 0 and job.out.count("same") == 2, job.out


def test_check_finds_hosts_with_another_run_folder(run, tmp_path):
    """The host `there` has its own folder where the others have `shared`, and `lone` has none that it may write in."""
    for name in ("shared", "own"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    ssh = program(tmp_path / "ssh", 'while [ $# -gt 2 ]; do shift; done; to=shared',
                  'case $1 in there) to=own;; lone) to=file/x;; esac', f'sed -u "s,{tmp_path}/shared,{tmp_path}/$to," | sh -c "$2"')  # fmt: skip
    job = run("hosts", "check", "here,too,there,lone", "--ssh", ssh, "--train-dir", "shared")
    assert job.status == 1 and not job.err, job.err
    assert re.search("^here .* ms *$", job.out, re.M) and re.search("^too .* ms *$", job.out, re.M), job.out
    assert re.search(f"^there .*  {tmp_path}/shared is another folder than on here; all ranks must share it$", job.out, re.M), job.out
    assert re.search(f"^lone .* cannot write in {tmp_path}/file: Not a directory$", job.out, re.M), job.out
    assert not [*tmp_path.glob("shared/*"), *tmp_path.glob("own/*")]
    assert "not checked: whether the hosts share the run folder" in run("hosts", "check", "here,too", "--ssh", ssh).out


def test_what_a_shell_says_first_is_passed_over(run, sotto, tmp_path):
    noisy = program(tmp_path / "noisy", "echo welcome; echo out nonsense", f'exec {sotto} "$@"')
    job = run("train", *TINY, "--max-steps", 1, "--train-dir", "run", "--hosts", "here:1", "--ssh", STAND_IN, "--remote-sotto", noisy)
    assert job.status == 0 and "nonsense" not in job.out, job.err


def test_a_hosts_error_spells_options_as_given(run):
    job = run("train", *TINY, "--hosts", "here:1,there:1", "--ssh", STAND_IN, SSH_CONNECTION="127.0.0.1 4000 127.0.0.1 22")
    assert job.status in (1, 2) and "where others cannot come; name it in --hosts as they do" in job.err, job.err
    assert "or say where to meet: --master HOST:PORT" in job.err, job.err


def test_a_missing_program_is_an_error(run):
    job = run("train", *TINY, "--hosts", "here:2", "--ssh", STAND_IN, "--remote-sotto", "/no/sotto")
    assert job.status == 1 and "sotto: here: sotto cannot be started there: " in job.err and "/no/sotto" in job.err
    job = run("train", *TINY, "--hosts", "here:2", "--ssh", "no-such-ssh")
    assert job.status == 1 and "no-such-ssh" in job.err


@pytest.mark.parametrize("flags, why", [
    (["--ranks", "3", "--hosts", "a:2"], "--ranks 3: the hosts of --hosts have 2"),
    (["--elastic", "1:3", "--hosts", "a:2"], "--elastic 1:3: the hosts of --hosts have 2; give MIN alone"),
    (["--hosts", "-oProxyCommand=x"], "`-oProxyCommand=x` is no name of a host"),
    (["--hosts", "a:2,b:1", "--topology", "hosts"], "--topology hosts: the hosts of --hosts have different numbers"),
    (["--hosts", "a:2", "--backend", "mpi"], "mpi"),
    (["--hosts", "a:2", "--backend", "gloo", "--secret", "f"], "--secret"),
])  # fmt: skip
def test_what_cannot_work_is_refused(run, flags, why):
    job = run("train", *TINY, *flags)
    assert job.status == 2 and why in job.err, job.err


def test_a_rank_starts_no_hosts(run):
    job = run("train", *TINY, "--hosts", "a:2", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", TORCHELASTIC_RUN_ID="x")
    assert job.status == 2 and "--hosts: torchrun started this rank" in job.err
