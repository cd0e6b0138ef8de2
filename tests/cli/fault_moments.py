"""Brings a job to a moment at which a fault is to happen to one of its ranks."""

import os
import pathlib
import re
import signal
import time

from conftest import DEADLINE


class TooLate(Exception):
    """The job ended before the moment came."""


def threads(pid):
    """(state, the kernel's function that it waits in) of each thread."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            found.append(((task / "stat").read_text().rsplit(")", 1)[1].split()[0], (task / "wchan").read_text()))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def freeze(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        while any(state not in "TtZX" for state, _ in threads(pid)):
            time.sleep(0.001)


def thaw(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def whole_checkpoints(folder):
    return sorted(int(p.name.split("_")[-1]) for p in folder.glob("model_step_*") if re.fullmatch(r"model_step_\d+", p.name))


def partial_checkpoint(folder):
    """Whether a checkpoint is being written."""
    try:
        return any(re.fullmatch(r"model_step_\d+\.tmp", entry.name) for entry in os.scandir(folder))
    except FileNotFoundError:
        return False


class Ranks:
    """The processes of a job's ranks. `running` says whether the job still runs."""

    def __init__(self, pids, folder, running):
        self.pids, self.folder, self.running = pids, folder, running

    def wait(self, condition, pause=0.002):
        end = time.monotonic() + DEADLINE
        while not condition():
            if not self.running():
                raise TooLate
            assert time.monotonic() < end, "the moment did not come"
            time.sleep(pause)

    def reach(self, moment, victim):
        """Returns those ranks that are stopped by then, for the caller to thaw after the fault."""
        self.wait(lambda: whole_checkpoints(self.folder))
        return {"exchange": self.exchange, "backward": self.backward, "checkpoint": self.checkpoint}[moment](victim)

    def exchange(self, victim):
        """Another rank is stopped, so the victim comes to an exchange with it, and stays there.

        Where a method lets it run ahead for long, the fault comes while the other rank is missing.
        """
        other = self.pids[(victim + 1) % len(self.pids)]
        freeze([other])
        pid, quiet, end = self.pids[victim], 0, time.monotonic() + 2
        while quiet < 10 and time.monotonic() < end and self.running():
            waits = all(state == "S" and wchan != "hrtimer_nanosleep" for state, wchan in threads(pid))
            quiet = quiet + 1 if waits else 0
            time.sleep(0.02)
        return [other]

    def backward(self, victim):
        """`--link` makes the gradient of the victim take 250 ms, which it sleeps."""
        pid = self.pids[victim]
        self.wait(lambda: any(wchan == "hrtimer_nanosleep" for _, wchan in threads(pid)))
        return []

    def checkpoint(self, _):
        while True:
            self.wait(lambda: partial_checkpoint(self.folder), pause=0.0005)
            freeze(self.pids)
            if partial_checkpoint(self.folder):
                return self.pids
            thaw(self.pids)


def slow_gradients(path, victim, moment, ranks):
    """A file for --link: steps take a while, so that the moment comes before the end of the run."""
    delays = [250 if moment == "backward" and rank == victim else 60 for rank in range(ranks)]
    path.write_text("".join(f'[[rank]]\nrank = {rank}\ndelay = "{delay}ms"\n' for rank, delay in enumerate(delays)))
    return path
