#!/usr/bin/env python3
"""Trains on a Ray cluster, whose nodes may come and go.

    python launch/ray/train.py --ranks 2:4 --cpus 8 -- --model resnet20 --train-dir /shared/run ...

Each rank is an actor that runs `sotto train --coordinator` with the options after `--`. A rank that is lost, alone or
with its node, is started again where there is room, and joins the others, which have gone on meanwhile. Ctrl-C ends
the run with a checkpoint; a second one ends everything at once.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import ray

REFUSED = 2  # the exit status after an option that cannot be used


def run(arguments, **options):
    """A process that ends when its parent does, however that ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *arguments], start_new_session=True, **options)


@ray.remote(max_restarts=-1, max_task_retries=-1, max_concurrency=2, scheduling_strategy="SPREAD")
class Rank:
    def __init__(self):
        self.process, self.stopped = None, False

    def train(self, command, threads):
        """Returns the exit status of the last attempt: 0 at the end of the run."""
        while True:
            self.process = run([*command, "--threads", str(threads)])
            status = self.process.wait()
            if status in (0, REFUSED) or self.stopped:
                return status

    def stop(self):
        self.stopped = True
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)


class Coordinator:
    """On this node. Its state lets another one continue if it is killed."""

    def __init__(self, program, ranks, folder):
        self.command = [program, "coordinator", "--ranks", ranks, "--state", os.path.join(folder, "job.state")]
        self.place = f"{ray.util.get_node_ip_address()}:0"
        self.begin()

    def begin(self):
        self.process = run([*self.command, "--listen", self.place], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            sys.stderr.write(line)
            if found := re.search(r"--coordinator (\S+)", line):
                self.place = found[1]
                threading.Thread(target=shutil.copyfileobj, args=(self.process.stderr, sys.stderr), daemon=True).start()
                return
        raise SystemExit(self.process.wait())

    def status(self):
        """None while the job runs."""
        status = self.process.poll()
        if status is not None and status < 0:  # killed
            self.begin()
            return None
        return status


def wait_for_all(ranks, runs):
    """Waits for the runs of those actors that have found a place, after they were asked to stop. Returns a status."""
    asked = [rank.stop.remote() for rank in ranks]
    placed, _ = ray.wait(asked, num_returns=len(asked), timeout=10)
    ended, _ = ray.wait([one for answer, one in zip(asked, runs) if answer in placed], num_returns=len(placed))
    return max(ray.get(ended), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", required=True, metavar="MIN:MAX", help="training starts with MIN ranks, and takes in others up to MAX")
    parser.add_argument("--cpus", type=int, default=1, help="processors of a rank (default 1)")
    parser.add_argument("--sotto", default="sotto", help="the program, on all nodes (default: from the PATH)")
    parser.add_argument("--address", default=os.environ.get("RAY_ADDRESS", "auto"), help="of the Ray cluster (default: the one of this node)")
    parser.add_argument("options", nargs="*", help="of `sotto train`, after --")
    own = parser.parse_args()
    if not re.fullmatch(r"\d+:\d+", own.ranks):
        parser.error(f"--ranks {own.ranks}: must be MIN:MAX, as in 2:4")

    ray.init(address=own.address, logging_level="ERROR")
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: (stopped.set(), signal.signal(number, signal.SIG_DFL)))
    with tempfile.TemporaryDirectory() as folder:
        coordinator = Coordinator(own.sotto, own.ranks, folder)
        command = [own.sotto, "train", *own.options, "--coordinator", coordinator.place]
        ranks = [Rank.options(num_cpus=own.cpus).remote() for _ in range(int(own.ranks.split(":")[1]))]
        runs = [rank.train.remote(command, own.cpus) for rank in ranks]
        while (status := coordinator.status()) is None:
            if stopped.wait(1):
                status = wait_for_all(ranks, runs)
                break
            ended, _ = ray.wait(runs, num_returns=len(runs), timeout=0)
            if REFUSED in ray.get(ended):
                status = REFUSED
                break
        for rank in ranks:
            ray.kill(rank)
        coordinator.process.kill()
    return status


if __name__ == "__main__":
    sys.exit(main())
