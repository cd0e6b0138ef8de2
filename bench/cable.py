"""Two ranks in network namespaces, joined by a cable that may be slow. Needs root and iproute2."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

DEADLINE = 900  # seconds for one run


class CableError(Exception):
    """There can be no cable here, or a rank failed."""


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
    """With it there are two namespaces, joined by a cable of a rate in each direction, as tc has it, or of any rate.

    Both ends are called eth0.
    """

    addresses = ["10.0.0.1", "10.0.0.2"]

    def __init__(self, rate=None):
        self.rate = rate
        self.names = [f"cable{os.getpid()}{end}" for end in "ab"]

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
        a, b = self.names
        call("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        for name, address in zip(self.names, self.addresses):
            call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            call("ip", "-n", name, "link", "set", "lo", "up")
            call("ip", "-n", name, "link", "set", "eth0", "up")
            if self.rate:
                call("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self.rate, "burst", "64k",
                     "latency", "50ms")  # fmt: skip

    def _remove(self):
        for name in self.names:
            call("ip", "-n", name, "link", "del", "eth0", check=False)
            call("ip", "netns", "del", name, check=False)

    def count(self, rank, counter):
        """What the kernel counts at a rank's end: tx_bytes, all headers included, tx_packets, ..."""
        return int(call("ip", "netns", "exec", self.names[rank], "cat", f"/sys/class/net/eth0/statistics/{counter}"))

    def run(self, *command):
        """What each rank prints, when both run this command, with torchrun's variables. CableError when one fails."""
        command = [str(part) for part in command]
        outputs = [tempfile.TemporaryFile("w+", errors="replace") for _ in self.names]
        ranks = []
        try:
            for rank, name in enumerate(self.names):
                variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": self.addresses[0], "MASTER_PORT": "29500",
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
