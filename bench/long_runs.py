#!/usr/bin/env python3
"""Measures whether the memory of a rank grows with the steps of a run: a tiny model, 64 images, two ranks, a million
steps.

    python bench/long_runs.py --sotto build/release/bin/sotto            all four algorithms
    python bench/long_runs.py --sotto SOTTO --algorithm ad_psgd --backend gloo --steps 200000

Prints the resident memory of the rank that has most, in KB, once steps.csv has the given step.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import tempfile
import time

SEEN = [1_000, 10_000, 100_000, 1_000_000]
ALGORITHMS = ["sync", "push_sum", "ad_psgd", "parameter_server(mode=async)"]
PAUSE = 0.2


def children_of(process):
    return pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()


def resident(process):
    """The anonymous memory of a process in KB: pages of files that are mapped are the system's to keep or drop."""
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def last_step(path):
    """The step of the last whole line of a CSV file; 0: there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 4096))
            lines = file.read().split(b"\n")[1:-1]
    except FileNotFoundError:
        return 0
    first = lines[-1].split(b",")[0] if lines else b""
    return int(first) if first.isdigit() else 0


def measure(arguments, algorithm):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        job = subprocess.Popen(
            [arguments.sotto, "train", "--ranks", "2", "--backend", arguments.backend, "--algorithm", algorithm, "--model", "logreg", "--train-size", "64",
             "--test-size", "64", "--batch-size", "1", "--lr", "0.001", "--epochs", "1000000000", "--max-steps", str(arguments.steps * 2), "--eval-freq", "1000000000", "--checkpoint-minutes", "0", "--train-dir", run],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
        try:
            marks = [step for step in SEEN if step < arguments.steps] + [arguments.steps]
            found = []
            while marks:
                if job.poll() is not None:
                    raise SystemExit(f"{algorithm}: {job.stderr.read()[-500:]}")
                if (step := last_step(run / "steps.csv")) >= marks[0]:
                    found.append(f"{step}: {max(resident(child) for child in children_of(job.pid))}")
                    marks = [mark for mark in marks if mark > step]
                time.sleep(PAUSE)
            print(f"{algorithm:32}{'   '.join(found)}", flush=True)
        finally:
            for child in children_of(job.pid):  # a slow rank of `async` may be half the steps behind: no clean end is worth that
                os.kill(int(child), signal.SIGKILL)
            job.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto")
    parser.add_argument("--algorithm", nargs="+", default=ALGORITHMS)
    parser.add_argument("--backend", default="tcp")
    parser.add_argument("--steps", type=int, default=SEEN[-1])
    arguments = parser.parse_args()
    print(f"{'algorithm':32}step: KB of a rank ..")
    for algorithm in arguments.algorithm:
        measure(arguments, algorithm)


if __name__ == "__main__":
    main()
