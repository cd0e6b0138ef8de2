"""Ranks in network namespaces, joined by cables that may be slow. Needs root and iproute2."""

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

DEADLINE = 900  # seconds for one run


class CableError(Exception):
    """The cable cannot be made on this machine, or a rank failed."""


def call(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if check and done.returncode != 0:
        raise CableError(f"`{shlex.join(command)}` does not work here: {done.stderr.strip()}")
    return done.stdout


def ending(status):
    if status is None:
        return f"still ran after {DEADLINE} s"
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


class Cable:
    """Context manager: one network namespace per rank, joined at `rate` (as for tc) in each direction, or unlimited.

    Two ranks share one cable; more ranks have a cable each to a switch. The interface of every rank is eth0.
    """

    _numbers = itertools.count()

    def __init__(self, rate=None, ranks=2):
        self.rate = rate
        name = f"cable{os.getpid()}-{next(self._numbers)}"
        self.names = [f"{name}-{rank}" for rank in range(ranks)]
        self.switch = f"{name}-switch" if ranks > 2 else None
        self.addresses = [f"10.0.0.{rank + 1}" for rank in range(ranks)]

    def __enter__(self):
        if os.geteuid() != 0:
            raise CableError("network namespaces need root")
        for program in ["ip"] + (["tc"] if self.rate else []):
            if shutil.which(program) is None:
                raise CableError(f"there is no program `{program}`; install iproute2")
        try:
            self._lay()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def _lay(self):
        for name in self.names:
            call("ip", "netns", "add", name)
        if self.switch:
            call("ip", "netns", "add", self.switch)
            call("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
            call("ip", "-n", self.switch, "link", "set", "switch", "up")
            for rank, name in enumerate(self.names):
                self._join(name, "eth0", self.switch, f"port{rank}")
                call("ip", "-n", self.switch, "link", "set", f"port{rank}", "master", "switch")
        else:
            self._join(self.names[0], "eth0", self.names[1], "eth0")
        for name, address in zip(self.names, self.addresses):
            call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            call("ip", "-n", name, "link", "set", "lo", "up")

    def _join(self, *ends):
        a, at_a, b, at_b = ends
        call("ip", "link", "add", at_a, "netns", a, "type", "veth", "peer", "name", at_b, "netns", b)
        for name, device in ((a, at_a), (b, at_b)):
            call("ip", "-n", name, "link", "set", device, "up")
            if self.rate:
                call("tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst", "64k",
                     "latency", "50ms")  # fmt: skip

    def _remove(self):
        for name in self.names:
            call("ip", "-n", name, "link", "del", "eth0", check=False)
            call("ip", "netns", "del", name, check=False)
        if self.switch:
            call("ip", "netns", "del", self.switch, check=False)

    def count(self, rank, counter):
        """The kernel's counters at a rank's interface: tx_bytes (with all headers), tx_packets, ..."""
        return int(call("ip", "netns", "exec", self.names[rank], "cat", f"/sys/class/net/eth0/statistics/{counter}"))

    def plug(self, rank, state):
        """Pulls the cable of a rank out of the switch ("down"), or plugs it in again ("up")."""
        call("ip", "-n", self.switch, "link", "set", f"port{rank}", state)

    def run(self, *command):
        """Runs this command as all ranks, with torchrun's variables; returns their outputs. CableError when one fails."""
        command = [str(part) for part in command]
        outputs = [tempfile.TemporaryFile("w+", errors="replace") for _ in self.names]
        ranks = []
        try:
            for rank, name in enumerate(self.names):
                variables = {"RANK": str(rank), "WORLD_SIZE": str(len(self.names)), "MASTER_ADDR": self.addresses[0], "MASTER_PORT": "29500",
                             "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive",
                             "MKL_NUM_THREADS": "1"}  # fmt: skip
                ranks.append(subprocess.Popen(["ip", "netns", "exec", name, *command], env=os.environ | variables,
                                              stdin=subprocess.DEVNULL, stdout=outputs[rank], stderr=subprocess.STDOUT))  # fmt: skip
            end = time.monotonic() + DEADLINE
            while any(process.poll() is None for process in ranks) and time.monotonic() < end:
                time.sleep(0.05)
            statuses = [process.poll() for process in ranks]
        finally:
            for process in ranks:
                process.kill()
                process.wait()
        texts = []
        for output in outputs:
            with output:
                output.seek(0)
                texts.append(output.read())
        if any(status != 0 for status in statuses):
            lines = [f"rank {rank} {ending(status)}; it printed:\n{text}" for rank, (status, text) in enumerate(zip(statuses, texts))]
            raise CableError("\n".join([f"`{shlex.join(command)}`", *lines]))
        return texts
