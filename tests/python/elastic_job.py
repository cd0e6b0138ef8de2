"""The processes of an elastic job, for tests."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).parent
DEADLINE = 240  # seconds; generous, since tests share the cores with others


class Nursery:
    """A process that has imported everything, and becomes ranks."""

    def __init__(self, environment, folder):
        self.statuses, self.started = {}, []
        self.changed = threading.Condition()
        with open(folder / "log", "w") as log:
            self.process = subprocess.Popen([sys.executable, HERE / "nursery.py"], env=environment, text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            word, pid, *status = line.split()
            with self.changed:
                if word == "started":
                    self.started.append(int(pid))
                else:
                    self.statuses[int(pid)] = int(status[0])
                self.changed.notify_all()

    def start(self, what, out, err):
        before = len(self.started)
        print(json.dumps([what, str(out), str(err)]), file=self.process.stdin, flush=True)
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.started) > before, DEADLINE)
            return self.started[before]

    def wait(self, pid):
        """The status of a process that ends by itself; None if it does not."""
        with self.changed:
            self.changed.wait_for(lambda: pid in self.statuses, DEADLINE)
            return self.statuses.get(pid)

    def end(self):
        self.process.stdin.close()
        self.process.wait(DEADLINE)
        self.reader.join()
        self.process.stdout.close()


class Rank:
    """A process that writes lines of JSON."""

    def __init__(self, nursery, what, folder, name):
        self.nursery, self.out, self.errors = nursery, folder / f"{name}.out", folder / f"{name}.err"
        for path in (self.out, self.errors):
            path.touch()
        self.pid = nursery.start(what, self.out, self.errors)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def wait_for(self, condition, what):
        wait_until(lambda: condition(self.lines) or self.pid in self.nursery.statuses)
        assert condition(self.lines), f"{what}:\n{self.err()}"

    def send(self, number):
        os.kill(self.pid, number)

    def finish(self):
        status = self.nursery.wait(self.pid)
        assert status is not None, self.err()
        return status

    def err(self):
        return self.errors.read_text()[-4000:]

    def calls(self):
        return [line for line in self.lines if "call" in line]

    def end(self):
        """What the last line says."""
        assert "result" in self.lines[-1], f"{self.lines[-3:]}\n{self.err()}"
        return self.lines[-1]


class Boss:
    """The coordinator."""

    def __init__(self, program, environment, folder, flags, place="127.0.0.1:0"):
        self.errors = folder / "boss"
        with open(self.errors, "w") as log:
            self.process = subprocess.Popen([*program, "coordinator", "--listen", place, *flags], env=environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: "ranks join" in self.err() or self.process.poll() is not None)
        self.place = re.search(r"ranks join with --coordinator (127\.0\.0\.1:\d+)", self.err())[1]

    def finish(self):
        return self.process.wait(DEADLINE)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def err(self):
        return self.errors.read_text()


def wait_until(condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def in_stage(stage, count=1):
    return lambda lines: any(line.get("stage") == stage and line["count"] >= count for line in lines)


class Job:
    def __init__(self, program, environment, nursery, folder):
        self.program, self.environment, self.nursery, self.folder = program, environment, nursery, folder
        self.ranks, self.boss = [], None

    def coordinate(self, *flags):
        """Starts the coordinator, or another one in its place."""
        place = "127.0.0.1:0"
        if self.boss is not None:
            place = self.boss.place
            self.boss.stop()
        self.boss = Boss(self.program, self.environment, self.folder, flags, place)

    def start(self, what):
        self.ranks.append(Rank(self.nursery, what, self.folder, f"rank{len(self.ranks)}"))
        return self.ranks[-1]

    def join(self, plan, **wish):
        return self.start({"coordinator": self.boss.place, "plan": plan} | wish)

    def finish(self, ranks):
        """All ranks come to the end, with the same model, and the coordinator sees it."""
        for rank in ranks:
            assert rank.finish() == 0, rank.err()
        ends = [rank.end() for rank in ranks]
        assert len({end["model"] for end in ends}) == 1 == len({end["step"] for end in ends})
        assert self.boss.finish() == 0, self.boss.err()
        assert self.boss.err().endswith("the run has come to its end\n")
        return ends[0]

    def end(self):
        for rank in self.ranks:
            if rank.pid not in self.nursery.statuses:
                rank.send(signal.SIGKILL)
            rank.finish()
        if self.boss is not None:
            self.boss.stop()
