"""`sotto relay`: ranks that do not reach each other train through it."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading

import pytest

from conftest import has_step, summary, wait_until
from test_elastic import kill, members

pytestmark = pytest.mark.slow

JOB = ["train", "--data", "digits", "--model", "logreg", "--train-size", 512, "--test-size", 100, "--batch-size", 8,
       "--max-steps", 40]  # fmt: skip


@pytest.fixture
def secret(sotto, tmp_path):
    subprocess.run([sotto, "secret", "new", tmp_path / "secret"], check=True)
    return tmp_path / "secret"


def port_of(relay):
    line = relay.process.stderr.readline()
    return int(re.fullmatch(r"sotto: the relay listens at \S+:(\d+)\n", line)[1])


@pytest.fixture
def relay(start):
    """A relay on the loopback, and its place."""
    job = start("relay", "--listen", "127.0.0.1:0")
    return job, f"127.0.0.1:{port_of(job)}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(relay, number):
    relay[0].process.send_signal(number)
    done = relay[0].finish()
    assert (done.status, done.out, done.err) == (128 + number, "", "")
    relay[0].nothing_left()


def test_it_refuses_a_port_in_use(run, relay):
    again = run("relay", "--listen", relay[1])
    assert again.status == 1
    assert again.err == f"sotto: cannot listen at 127.0.0.1 port {relay[1].split(':')[1]}: Address already in use\n"


@pytest.mark.parametrize("flags", [["--algorithm", "sync"], ["--streams", 3, "--buckets", "whole"], ["--algorithm", "push_sum"]])
def test_the_same_bits_go_through_it(good, relay, secret, flags):
    job = [*JOB, "--ranks", 3, *flags]
    good(*job, "--train-dir", "direct")
    good(*job, "--train-dir", "relayed", "--secret", secret, "--relay", relay[1])
    direct, relayed = summary(secret.parent / "direct"), summary(secret.parent / "relayed")
    assert relayed["parameters_sha256"] == direct["parameters_sha256"]
    assert relayed["bytes_sent"] == direct["bytes_sent"]


def test_a_run_through_it_is_repeated_without_it(good, relay, secret):
    good(*JOB, "--ranks", 2, "--train-dir", "first", "--secret", secret, "--relay", relay[1])
    assert "relay" in (secret.parent / "first" / "config.toml").read_text()
    good("train", "--replay", "first", "--train-dir", "second")
    first, second = summary(secret.parent / "first"), summary(secret.parent / "second")
    assert first["parameters_sha256"] == second["parameters_sha256"]


class Middlebox:
    """Stands before a relay. When so many bytes have come from a rank over one connection, it changes a bit of the next byte
    ("flip"), or takes all that comes over this connection and passes nothing on ("swallow"); so with as many connections."""

    def __init__(self, place, deed, at, times):
        host, port = place.rsplit(":", 1)
        self.relay, self.deed, self.at, self.times = (host, int(port)), deed, at, times
        self.done = 0
        self.lock = threading.Lock()
        self.open = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while True:
            try:
                near = self.listening.accept()[0]
            except OSError:
                return
            far = socket.create_connection(self.relay)
            mute = threading.Event()
            with self.lock:
                self.open += [near, far]
                for ends in ((near, far, True), (far, near, False)):
                    self.threads.append(threading.Thread(target=self.forward, args=(*ends, mute)))
                    self.threads[-1].start()

    def forward(self, source, target, up, mute):
        passed, harmed = 0, not up
        try:
            while data := bytearray(source.recv(4096)):
                with self.lock:
                    harm = not harmed and passed <= self.at < passed + len(data) and self.done < self.times
                    self.done += harm
                harmed |= harm
                if harm and self.deed == "flip":
                    data[self.at - passed] ^= 1 << self.at % 8
                elif harm:
                    mute.set()
                if not mute.is_set():
                    target.sendall(data)
                passed += len(data)
        except OSError:
            pass
        if mute.is_set():
            return  # whoever swallows says nothing of an end, either
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        for end in [self.listening, *self.open]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self.threads:
            thread.join()


# In words to the relay, in handshakes, and in what follows; with bytes of a training's messages, and of a mailbox's.
@pytest.mark.parametrize("deed, at, times", [("flip", 20, 6), ("flip", 50, 6), ("flip", 250, 6), ("flip", 20_000, 4),
                                             ("swallow", 40, 3), ("swallow", 20_000, 2)])  # fmt: skip
@pytest.mark.parametrize("flags", [["--streams", 2, "--buckets", "whole"], ["--algorithm", "parameter_server"]])
def test_harm_on_the_way_changes_no_bit(good, relay, secret, deed, at, times, flags):
    job = [*JOB, "--ranks", 3, *flags]
    good(*job, "--train-dir", "direct")
    box = Middlebox(relay[1], deed, at, times)
    try:  # a connection that is silent for two seconds is replaced
        good(*job, "--train-dir", "harmed", "--secret", secret, "--relay", box.place, "--deadline", 8)
    finally:
        box.close()
    direct, harmed = summary(secret.parent / "direct"), summary(secret.parent / "harmed")
    assert harmed["parameters_sha256"] == direct["parameters_sha256"]
    more = [now - before for now, before in zip(harmed["bytes_sent"], direct["bytes_sent"], strict=True)]
    assert more[1:] == [0, 0]
    if deed == "swallow" and "parameter_server" in flags:  # it reminds clients that wait after a quarter of the deadline
        assert more[0] in range(0, 1000)
    else:
        assert more[0] == 0
    assert box.done == times


def test_a_killed_rank_is_named(start, relay, secret):
    job = start(*JOB[:-2], "--epochs", 10000, "--ranks", 3, "--train-dir", "run", "--secret", secret, "--relay", relay[1],
                "--checkpoint-every", 20)  # fmt: skip
    wait_until(lambda: has_step(secret.parent / "run", 10), "step 10")
    kill(job, 1)
    job.finish()
    assert job.status == 1
    assert "rank 1 was killed by signal 9 (SIGKILL)" in job.err
    job.nothing_left()


def test_the_others_go_on_without_a_killed_rank(start, relay, secret):
    folder = secret.parent / "run"
    job = start(*JOB[:-1], 400, "--epochs", 10000, "--link", "1gbit,3ms", "--elastic", "2:3", "--train-dir", "run",
                "--secret", secret, "--relay", relay[1])  # fmt: skip
    wait_until(lambda: job.process.poll() is not None or has_step(folder, 50), "step 50")
    kill(job, 1)
    job.finish()
    assert job.status == 0, job.err
    assert "sotto: rank 1 was killed by signal 9 (SIGKILL); continuing with ranks 0, 2" in job.err
    assert [ids for _, _, ids in members(folder)] == [[0, 1, 2], [0, 2]]
    job.nothing_left()


def test_without_a_relay_there_it_says_so(run, start, secret):
    gone = start("relay", "--listen", "127.0.0.1:0")
    place = f"127.0.0.1:{port_of(gone)}"
    gone.process.send_signal(signal.SIGINT)
    gone.finish()
    job = run(*JOB, "--deadline", 1, "--ranks", 2, "--secret", secret, "--relay", place)
    assert job.status == 1
    assert re.search(rf"no relay answers at {place} for [\d.]+ s: Connection refused; does `sotto relay`, of this version, run there\?", job.err), job.err


def call(*command, check=True):
    subprocess.run(command, check=check, capture_output=True, timeout=30)


class Star:
    """A namespace in the middle, and others that reach it, but not each other: it forwards nothing."""

    MIDDLE = "10.77.0.1"

    def __init__(self, others):
        self.middle = f"relay{os.getpid()}-m"
        self.others = [f"relay{os.getpid()}-{i}" for i in range(others)]
        self.names = [self.middle, *self.others]

    def lay(self):
        ip = lambda name, *command: call("ip", "-n", name, *command)
        for name in self.names:
            call("ip", "netns", "add", name)
            ip(name, "link", "set", "lo", "up")
        call("ip", "netns", "exec", self.middle, "sysctl", "-qw", "net.ipv4.ip_forward=0")
        ip(self.middle, "addr", "add", f"{self.MIDDLE}/32", "dev", "lo")
        for i, name in enumerate(self.others):
            call("ip", "link", "add", f"to{i}", "netns", self.middle, "type", "veth", "peer", "name", "eth0", "netns", name)
            for where, device, end in ((self.middle, f"to{i}", 1), (name, "eth0", 2)):
                ip(where, "addr", "add", f"10.77.{i + 1}.{end}/24", "dev", device)
                ip(where, "link", "set", device, "up")
            ip(name, "route", "add", "10.77.0.0/16", "via", f"10.77.{i + 1}.1")

    def remove(self):
        for name in self.names:
            call("ip", "netns", "del", name, check=False)


@pytest.fixture
def star(cable):  # which skips the test where there are no namespaces
    made = Star(2)
    try:
        made.lay()
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("flags", [["--codec", "int8"], ["--streams", 2, "--buckets", "whole"]])
def test_ranks_that_do_not_reach_each_other(star, start_other, good, sotto, secret, flags):
    folder = secret.parent
    good(*JOB, *flags, "--ranks", 3, "--train-dir", "direct")

    def inside(name, *command, **variables):
        return start_other("ip", "netns", "exec", name, *command, **variables)

    relay = inside(star.middle, sotto, "relay", "--listen", f"{star.MIDDLE}:0")
    place = f"{star.MIDDLE}:{port_of(relay)}"

    def job(behind, *more):
        ranks = []
        for rank, name in enumerate(star.names):
            way = ["--relay", place] if rank in behind else []
            ranks.append(inside(name, sotto, *JOB, *flags, "--secret", secret, *way, *more, RANK=str(rank), WORLD_SIZE="3",
                                MASTER_ADDR=star.MIDDLE, MASTER_PORT="29500", OMP_NUM_THREADS="1"))  # as torchrun has it  # fmt: skip
        return [rank.finish() for rank in ranks]

    without = job([], "--train-dir", "without", "--deadline", 3)
    assert [rank.status for rank in without] == [1, 1, 1]
    assert "timed out after 3 s" in "".join(rank.err for rank in without)
    for behind in ([1, 2], [0, 1, 2]):
        run = f"relayed{len(behind)}"
        for rank in job(behind, "--train-dir", run):
            assert rank.status == 0, rank.err
        assert summary(folder / run)["parameters_sha256"] == summary(folder / "direct")["parameters_sha256"]
    relay.process.send_signal(signal.SIGTERM)
    assert relay.finish().err == ""


def test_wrong_uses_are_refused(run, secret):
    for flags, words in [
        (["--relay", "127.0.0.1:1"], "could read and change what ranks send; give all ranks the same --secret"),
        (["--relay", "127.0.0.1:1", "--backend", "gloo"], "--relay: only for tcp; with --backend gloo ranks connect to each other directly"),
        (["--relay", "127.0.0.1:1", "--address", "127.0.0.1"], "the rank listens nowhere; leave --address 127.0.0.1 out"),
        (["--relay", "127.0.0.1", "--secret", secret], "--relay 127.0.0.1: must be HOST:PORT"),
        (["--relay", "no.such.host.invalid:1", "--secret", secret], "no.such.host.invalid"),
    ]:
        job = run(*JOB, "--ranks", 2, *flags)
        assert job.status == 2, (flags, job.err)
        assert words in job.err
