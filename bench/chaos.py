#!/usr/bin/env python3
"""What a training loses when its ranks are killed again and again, and come back.

    python bench/chaos.py --minutes 60 -- --model resnet20 --data cifar10 --data-dir DIR --codec "qsgd(bits=4)"
    python bench/chaos.py --minutes 10 --every 60 --away 20 --slow 1:10 --narrow 2:10mbit -- --algorithm push_sum

`sotto coordinator` and four ranks, each started by itself, with the flags after `--`. Every 60 s one rank dies by SIGKILL; 20 s
later another one takes its place. `--slow` and `--narrow` give a rank a slower processor or link. After `--minutes` nobody is
killed any more, and all ranks are asked to stop. Then the same training runs undisturbed up to the same step, with no slow
ranks or links, which change no result. Prints

- how much of the time in which ranks were there they spent on steps that count: not on starting, meeting, getting the state,
  or on steps that were taken again;
- how long the others took, after a rank was killed, until they had made the next step;
- how much memory, how many threads and how many descriptors the oldest rank had before the second kill, and has at the end;
- the result of both trainings.

With `--peer` it does the same to ranks of torchft or hivemind (bench/chaos_peers.py), without `--narrow`, and without the
last training. What is after `--` are flags of chaos_peers.py then.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

RANKS = 4
PAUSE = 0.01  # seconds between two looks at a page of figures


class Page:
    """The figures that a process serves for Prometheus on a port of this machine; 0 where it does not say."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        self.flags = ["--metrics-port", str(self.port)]

    def read(self, name):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as page:
                return float(re.search(rf"^{name} (\S+)", page.read().decode(), re.MULTILINE)[1])
        except (OSError, TypeError):  # it has not begun
            return 0


class Rank:
    def __init__(self, command, log):
        self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.begun, self.ended = time.monotonic(), None

    def own(self):
        """The process that trains: a child of sotto's launcher, else the one that was started."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in children:
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("sotto-rank"):
                    return int(pid)
            except OSError:  # it has ended
                pass
        return self.process.pid

    def kill(self, whole):
        if whole:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            os.kill(self.own(), signal.SIGKILL)
        self.process.wait()
        self.ended = time.monotonic()

    def figures(self):
        """KB of anonymous memory, threads, descriptors."""
        pid = self.own()
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        return int(status["RssAnon"].split()[0]), int(status["Threads"]), len(os.listdir(f"/proc/{pid}/fd"))


def wait_until(condition, there, log, deadline=600):
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"no step was made within {deadline} s")
        require_ranks(there, log)
        time.sleep(PAUSE)


def require_ranks(there, log):
    if any(rank.process.poll() is not None for rank in there):
        sys.exit("a rank has ended by itself; the end of the log:\n" + pathlib.Path(log.name).read_text()[-2000:])


def table_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def result_of(folder):
    test = [row for row in table_of(folder / "evaluations.csv") if row["split"] == "test"]
    return ", ".join(f"{name} {test[-1][name]}" for name in ("loss", "accuracy") if test[-1].get(name))


def links(path, slow, narrow):
    text = ""
    for rank in range(RANKS):
        text += f"[[rank]]\nrank = {rank}\n"
        text += "".join(f'egress = "{rate}"\ningress = "{rate}"\n' for number, rate in narrow if int(number) == rank)
        text += "".join(f"compute = {factor}\n" for number, factor in slow if int(number) == rank)
    path.write_text(text)
    return ["--link", path]


class Sotto:
    """A coordinator, and what its ranks do. A step counts as made once the page of figures says so."""

    def __init__(self, arguments, folder, log):
        self.run, self.groups, self.training = folder / "run", Page(), Page()
        self.boss = subprocess.Popen([arguments.sotto, "coordinator", "--listen", "127.0.0.1:0", "--ranks", f"2:{RANKS}", *self.groups.flags],
                                     stderr=subprocess.PIPE, text=True)  # fmt: skip
        port = re.search(r":(\d+)", self.boss.stderr.readline())[1]
        subprocess.Popen(["cat"], stdin=self.boss.stderr, stdout=log)
        slow = links(folder / "links.toml", arguments.slow, arguments.narrow) if arguments.slow or arguments.narrow else []
        self.command = [arguments.sotto, "train", *arguments.flags, *slow, "--epochs", "100000", "--train-dir", self.run,
                        "--coordinator", f"127.0.0.1:{port}", *self.training.flags]  # fmt: skip
        self.whole = arguments.machines

    def rank_command(self, number):
        return self.command

    def steps(self):
        return self.training.read("sotto_steps_total")

    def wait_for_next_step(self, before, wait):
        group, step = before
        wait(lambda: self.groups.read("sotto_generation") > group)
        step = max(step, self.steps())  # the page is gone with its rank
        wait(lambda: self.steps() > step)

    def now(self):
        return self.groups.read("sotto_generation"), self.steps()

    def productive(self):
        rows = table_of(self.run / "steps.csv")
        return 1 + max(int(row["step"]) for row in rows), sum(float(row["step_ms"]) for row in rows) / 1000


class Peers:
    """A meeting place of torchft or hivemind, and what their ranks write to files."""

    whole = True

    def __init__(self, arguments, folder, log):
        self.folder, self.begun, self.slow = folder, 0, dict(arguments.slow)
        programs = pathlib.Path(arguments.python).parent
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        if arguments.peer == "hivemind":
            command = [programs / "hivemind-dht", "--host_maddrs", f"/ip4/127.0.0.1/tcp/{port}"]
        else:
            command = [programs / "torchft_lighthouse", "--min_replicas", "2", "--bind", f"127.0.0.1:{port}",
                       "--heartbeat_timeout_ms", str(arguments.silence), "--join_timeout_ms", "1000"]  # fmt: skip
        self.boss = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        place = f"http://127.0.0.1:{port}"
        if arguments.peer == "hivemind":
            while not (found := re.search(r"/ip4/127\S+p2p/\w+", self.boss.stdout.readline())):
                pass
            place = found[0]
        subprocess.Popen(["cat"], stdin=self.boss.stdout, stdout=log)
        self.command = [arguments.python, pathlib.Path(__file__).with_name("chaos_peers.py"), "--peer", arguments.peer, "--meeting", place, *arguments.flags]

    def rank_command(self, number):
        self.begun += 1
        return [*self.command, "--slow", self.slow.get(str(number), "1"), "--steps", self.folder / f"{self.begun}.steps"]

    def rows(self):  # time, step, seconds
        return [[float(word) for word in line.split()] for path in self.folder.glob("*.steps") for line in path.read_text().splitlines()]

    def steps(self):
        return max((row[1] for row in self.rows()), default=0)

    def now(self):
        return time.time(), self.steps()

    def wait_for_next_step(self, before, wait):
        moment, step = before
        wait(lambda: any(row[0] > moment and row[1] > step + 1 for row in self.rows()))  # one may have been all but done

    def productive(self):
        rows = self.rows()
        return int(max(row[1] for row in rows)), sum(row[2] for row in rows)


def disturbed(arguments, job, folder, log):
    there, gone, numbers = [Rank(job.rank_command(number), log) for number in range(RANKS)], [], list(range(RANKS))
    pauses, first = [], None
    chance = random.Random(1)
    try:
        wait_until(lambda: job.steps() > 0, there, log)
        end = time.monotonic() + 60 * arguments.minutes
        next_kill = time.monotonic() + arguments.every
        while time.monotonic() < end:
            time.sleep(max(0, min(next_kill, end) - time.monotonic()))
            if time.monotonic() >= end:
                break
            first = first or (there[0].figures() if gone else None)
            place = chance.randrange(len(there) - 1) + 1  # the oldest one stays: it is measured
            victim, number = there.pop(place), numbers.pop(place)
            before, killed = job.now(), time.monotonic()
            victim.kill(job.whole)
            gone.append(victim)
            job.wait_for_next_step(before, lambda condition: wait_until(condition, there, log))
            pauses.append(time.monotonic() - killed)
            time.sleep(max(0, killed + arguments.away - time.monotonic()))
            there.append(Rank(job.rank_command(number), log))
            numbers.append(number)
            next_kill += arguments.every
            require_ranks(there, log)
        last = there[0].figures()
        first = first or last
        for rank in there:
            rank.process.send_signal(signal.SIGTERM)
        for rank in there:
            rank.process.wait()
            rank.ended = time.monotonic()
    finally:
        for rank in there:
            with contextlib.suppress(ProcessLookupError):  # processes of hivemind's may outlive the one that trained
                os.killpg(rank.process.pid, signal.SIGKILL)
        job.boss.kill()
    steps, productive = job.productive()
    available = sum(rank.ended - rank.begun for rank in there + gone)
    print(f"{len(gone)} ranks were killed in {arguments.minutes:g} minutes; steps {steps}")
    print(f"of {available:.0f} rank-seconds {productive / available:.1%} were spent on steps that count")
    print(f"from a kill to the next step: median {statistics.median(pauses):.2f} s, longest {max(pauses):.2f} s")
    for name, before, now in zip(("KB of memory", "threads", "descriptors"), first, last):
        print(f"{name}: {before} before the second kill, {now} at the end")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=60, help="seconds from kill to kill")
    parser.add_argument("--away", type=float, default=20, help="seconds until another rank comes")
    parser.add_argument("--machines", action="store_true", help="kill a rank's launcher, too, which could tell that it is gone")
    parser.add_argument("--slow", type=lambda text: text.split(":"), action="append", default=[], metavar="RANK:FACTOR")
    parser.add_argument("--narrow", type=lambda text: text.split(":"), action="append", default=[], metavar="RANK:RATE")
    parser.add_argument("--no-result", action="store_true", help="leave out the undisturbed training")
    parser.add_argument("--peer", choices=["torchft", "torchft-local", "hivemind"])
    parser.add_argument("--python", help="with --peer: of an environment that has it")
    parser.add_argument("--silence", type=int, default=5000, help="of torchft's lighthouse: milliseconds until a rank is lost")
    parser.add_argument("flags", nargs="*", help="of `sotto train`, or of chaos_peers.py")
    arguments = parser.parse_args()
    arguments.sotto = str(pathlib.Path(arguments.sotto).resolve())
    with tempfile.TemporaryDirectory() as folder, open(pathlib.Path(folder) / "log", "w") as log:
        folder = pathlib.Path(folder)
        if arguments.peer:
            return disturbed(arguments, Peers(arguments, folder, log), folder, log)
        disturbed(arguments, Sotto(arguments, folder, log), folder, log)
        steps = json.loads((folder / "run" / "summary.json").read_text())["steps"]
        print(f"disturbed: {result_of(folder / 'run')}", flush=True)
        if arguments.no_result:
            return
        whole = folder / "undisturbed"
        subprocess.run([arguments.sotto, "train", *arguments.flags, "--ranks", str(RANKS), "--epochs", "100000", "--max-steps", str(steps), "--train-dir", whole],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        print(f"undisturbed: {result_of(whole)}")


if __name__ == "__main__":
    main()
