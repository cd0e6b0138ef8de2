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
"""

import argparse
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
        """The process that trains: a child of the launcher."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in children:
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("sotto-rank"):
                    return int(pid)
            except OSError:  # it has ended
                pass
        return None

    def kill(self, machine):
        if machine:
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


def disturbed(arguments, flags, folder):
    run, log = folder / "run", open(folder / "log", "w")
    groups, training = Page(), Page()
    boss = subprocess.Popen([arguments.sotto, "coordinator", "--listen", "127.0.0.1:0", "--ranks", f"2:{RANKS}", *groups.flags],
                            stderr=subprocess.PIPE, text=True)  # fmt: skip
    port = re.search(r":(\d+)", boss.stderr.readline())[1]
    subprocess.Popen(["cat"], stdin=boss.stderr, stdout=log)
    command = [arguments.sotto, "train", *flags, "--epochs", "100000", "--train-dir", run, "--coordinator", f"127.0.0.1:{port}", *training.flags]
    there, gone = [Rank(command, log) for _ in range(RANKS)], []
    pauses, first = [], None
    chance = random.Random(1)
    try:
        wait_until(lambda: training.read("sotto_steps_total") > 0, there, log)
        end = time.monotonic() + 60 * arguments.minutes
        next_kill = time.monotonic() + arguments.every
        while time.monotonic() < end:
            time.sleep(max(0, min(next_kill, end) - time.monotonic()))
            if time.monotonic() >= end:
                break
            first = first or (there[0].figures() if gone else None)
            victim = there.pop(chance.randrange(len(there) - 1) + (1 if len(there) == RANKS else 0))  # the oldest one stays: it is measured
            group, before = groups.read("sotto_generation"), training.read("sotto_steps_total")
            killed = time.monotonic()
            victim.kill(arguments.machines)
            gone.append(victim)
            wait_until(lambda: groups.read("sotto_generation") > group, there, log)
            step = max(before, training.read("sotto_steps_total"))  # the page is gone with its rank
            wait_until(lambda: training.read("sotto_steps_total") > step, there, log)
            pauses.append(time.monotonic() - killed)
            time.sleep(max(0, killed + arguments.away - time.monotonic()))
            there.append(Rank(command, log))
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
            if rank.process.poll() is None:
                rank.kill(machine=True)
        boss.kill()
    steps = table_of(run / "steps.csv")
    productive = sum(float(row["step_ms"]) for row in steps) / 1000
    available = sum(rank.ended - rank.begun for rank in there + gone)
    print(f"{len(gone)} ranks were killed in {arguments.minutes:g} minutes; steps {1 + max(int(row['step']) for row in steps)}")
    print(f"of {available:.0f} rank-seconds {productive / available:.1%} were spent on steps that count")
    print(f"from a kill to the next step: median {statistics.median(pauses):.2f} s, longest {max(pauses):.2f} s")
    for name, before, now in zip(("KB of memory", "threads", "descriptors"), first, last):
        print(f"{name}: {before} before the second kill, {now} at the end")
    return json.loads((run / "summary.json").read_text())["steps"], result_of(run)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=60, help="seconds from kill to kill")
    parser.add_argument("--away", type=float, default=20, help="seconds until another rank comes")
    parser.add_argument("--machines", action="store_true", help="kill a rank's launcher, too, which could tell that it is gone")
    parser.add_argument("--slow", type=lambda text: text.split(":"), action="append", default=[], metavar="RANK:FACTOR")
    parser.add_argument("--narrow", type=lambda text: text.split(":"), action="append", default=[], metavar="RANK:RATE")
    parser.add_argument("flags", nargs="*", help="of `sotto train`")
    arguments = parser.parse_args()
    arguments.sotto = str(pathlib.Path(arguments.sotto).resolve())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        slow = links(folder / "links.toml", arguments.slow, arguments.narrow) if arguments.slow or arguments.narrow else []
        steps, result = disturbed(arguments, [*arguments.flags, *slow], folder)
        print(f"disturbed: {result}", flush=True)
        whole = folder / "undisturbed"
        subprocess.run([arguments.sotto, "train", *arguments.flags, "--ranks", str(RANKS), "--epochs", "100000", "--max-steps", str(steps), "--train-dir", whole],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        print(f"undisturbed: {result_of(whole)}")


if __name__ == "__main__":
    main()
