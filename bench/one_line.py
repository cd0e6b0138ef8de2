#!/usr/bin/env python3
"""examples/mnist_ddp.py with and without its one line, on two ranks in network namespaces that a cable of a given rate joins.

As root, with the Python of an installed or built package: PYTHONPATH=build/release/python python bench/one_line.py
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "mnist_ddp.py"
# Without the line, Gloo's threads may still want the interpreter when it ends, which aborts the process (torch 2.13:
# ~AsyncWork drops Python objects of the thread that asked for it).
LEAVE = "sys.stdout.flush(); os._exit(0)\n"


def ip(*arguments, program="ip", check=True):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=check, timeout=30)


class Cable:
    """Two namespaces, joined by a cable whose ends are called eth0."""

    def __init__(self, rate):
        self.rate = rate
        self.names = [f"line{os.getpid()}{end}" for end in "ab"]
        subnet = f"10.{150 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self.addresses = [f"{subnet}.1", f"{subnet}.2"]

    def __enter__(self):
        for name in self.names:
            ip("netns", "add", name)
        a, b = self.names
        ip("link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        for name, address in zip(self.names, self.addresses):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
            if self.rate != "unshaped":
                ip("-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self.rate, "burst", "64k",
                   "latency", "50ms", program="tc")
        return self

    def __exit__(self, *_):
        for name in self.names:
            ip("-n", name, "link", "del", "eth0", check=False)
            ip("netns", "del", name, check=False)

    def sent(self, rank):
        """Bytes that left this end, all headers included."""
        shown = ip("netns", "exec", self.names[rank], "cat", "/sys/class/net/eth0/statistics/tx_bytes")
        return int(shown.stdout)

    def run(self, script, steps):
        """Loss, milliseconds a step, and bytes that rank 1 sent in a step (rank 0 also sends DDP the first parameters)."""
        before, ranks = self.sent(1), []
        for rank, name in enumerate(self.names):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": self.addresses[0], "MASTER_PORT": "29500",
                         "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
            ranks.append(subprocess.Popen(["ip", "netns", "exec", name, sys.executable, script, str(steps)], text=True,
                                          env=os.environ | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
        try:
            out = [process.communicate(timeout=600)[0] for process in ranks]
        finally:
            for process in ranks:
                process.kill()
        if any(process.returncode for process in ranks):
            sys.exit("a rank failed; see above")
        loss, ms = re.search(r"loss (\S+), (\S+) ms", out[0]).groups()
        return float(loss), float(ms), (self.sent(1) - before) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="100mbit", help="of the cable in each direction, as tc has it, or `unshaped`")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=3, help="of runs, alternately without and with the line")
    arguments = parser.parse_args()
    found = {"plain": [], "compressed": []}
    with tempfile.TemporaryDirectory() as folder, Cable(arguments.rate) as cable:
        plain = pathlib.Path(folder) / "plain.py"
        plain.write_text("".join(line for line in EXAMPLE.open() if "sotto" not in line) + LEAVE)
        for _ in range(arguments.pairs):
            for name, script in (("plain", plain), ("compressed", EXAMPLE)):
                found[name].append(cable.run(script, arguments.steps))
    for name, runs in found.items():
        loss, ms, sent = (statistics.median(values) for values in zip(*runs))
        found[name] = ms, sent
        print(f"{name:<10} {ms:8.1f} ms a step, {sent / 1000:9.1f} kB sent a step, loss {loss:.3f}")
    print(f"{found['plain'][0] / found['compressed'][0]:.1f} times faster, "
          f"{found['plain'][1] / found['compressed'][1]:.1f} times fewer bytes")


main()
