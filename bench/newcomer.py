#!/usr/bin/env python3
"""How long a rank that comes to a training takes to get the state of the others, over a slow link.

    python bench/newcomer.py --sotto build/release/bin/sotto --ranks 4 --newcomers 1 --link 100mbit

Ranks of `mlp` with momentum (13 million parameters; with sync a state of 104 MB) train on this machine over an emulated link,
with a coordinator; then newcomers come. Prints the seconds that the state took, and the seconds that one link
needs for it. "In all" are the seconds from the announcement of the newcomers until the group trains with them: the ranks
meet twice, and newcomers catch up. Then come the steps that the others made meanwhile.
"""

import argparse
import contextlib
import csv
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time


class Lines:
    """What a process prints, with the time of each line."""

    def __init__(self, command):
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True)  # fmt: skip
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line))

    def wait_for(self, pattern, after=0.0):
        end = time.monotonic() + 600
        while time.monotonic() < end:
            for moment, line in list(self.lines):
                if moment > after and (found := re.search(pattern, line)):
                    return moment, found
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise SystemExit(f"no line has `{pattern}`:\n" + "".join(line for _, line in self.lines[-20:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto")
    parser.add_argument("--ranks", type=int, default=4, help="in all")
    parser.add_argument("--newcomers", type=int, default=1)
    parser.add_argument("--link", default="100mbit")
    parser.add_argument("--algorithm", default="sync")
    parser.add_argument("--codec", default="ef | topk(0.001)")
    parser.add_argument("--deadline", default="60")
    arguments = parser.parse_args()
    rate = {"k": 1e3, "m": 1e6, "g": 1e9}[arguments.link.strip("0123456789")[0]] * int(re.match(r"\d+", arguments.link)[0]) / 8
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        before = arguments.ranks - arguments.newcomers
        coordinator = Lines([arguments.sotto, "coordinator", "--listen", "127.0.0.1:0", "--ranks", f"{before}:{arguments.ranks}"])
        port = coordinator.wait_for(r":(\d+)")[1][1]
        command = [arguments.sotto, "train", "--coordinator", f"127.0.0.1:{port}", "--train-dir", pathlib.Path(folder) / "run", "--model", "mlp",
                   "--data", "digits", "--batch-size", "8", "--algorithm", arguments.algorithm, "--optimiser", "sgd", "--codec", arguments.codec, "--link", arguments.link, "--threads", "1",
                   "--epochs", "100000", "--eval-freq", "1000000", "--no-keep-best", "--deadline", arguments.deadline]  # fmt: skip
        ranks = []
        try:
            for number in range(before):
                ranks.append(Lines(command))
                coordinator.wait_for(f"rank {number} has come")  # the first one is rank 0, which prints
            ranks[0].wait_for(r"step [1-9]")
            came = time.monotonic()
            for _ in range(arguments.newcomers):
                ranks.append(Lines(command))
            announced, _ = coordinator.wait_for(f"generation .*: ranks? .*{arguments.ranks - 1}", came)
            begun, first = ranks[0].wait_for(r"step (\d+)  continues with", announced)
            came_in, last = ranks[0].wait_for(rf"step (\d+)  continues with {arguments.ranks} rank", announced)
            _, took = ranks[0].wait_for(r"newcomers have the state: ([\d.]+) MB in ([\d.]+) s", announced)
            first, last, alone, took = int(first[1]), int(last[1]), float(took[1]) * 1e6 / rate, float(took[2])
            with open(pathlib.Path(folder) / "run/steps.csv", newline="") as file:
                rows = [(int(row["step"]), float(row["step_ms"])) for row in csv.DictReader(file) if row["rank"] == "0"]
            before_ms, meanwhile_ms = (statistics.median([ms for step, ms in rows if step in steps] or [math.nan]) for steps in (range(1, first), range(first, last)))
            print(f"{arguments.newcomers} newcomer(s) to {before} ranks at {arguments.link}: the state took {took:.2f} s, {took / alone:.2f} of {alone:.2f} s; "
                  f"{came_in - announced:.2f} s in all; the others begin after {begun - announced:.2f} s, and make {last - first} steps meanwhile, of "
                  f"{meanwhile_ms:.0f} ms ({before_ms:.0f} ms before)")
        finally:
            for rank in [*ranks, coordinator]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(rank.process.pid, signal.SIGKILL)
                rank.process.wait()


if __name__ == "__main__":
    main()
