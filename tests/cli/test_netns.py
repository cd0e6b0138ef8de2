"""The bytes that a run reports are those that the kernel counts on a real interface: two ranks in network namespaces."""

import os
import shutil
import subprocess

import pytest

from conftest import DEADLINE, summary

HEADERS = 66  # bytes a packet: Ethernet 14, IPv4 20, TCP with timestamps 32


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=30)


class Pair:
    """Two namespaces, joined by a cable whose ends are called eth0."""

    def __init__(self):
        pid = os.getpid()
        self.names = [f"sotto{pid}a", f"sotto{pid}b"]
        subnet = f"10.{200 + pid % 50}.{pid // 50 % 250}"
        self.addresses = [f"{subnet}.1", f"{subnet}.2"]

    def up(self):
        for name in self.names:
            made = ip("netns", "add", name)
            if made.returncode != 0:
                pytest.skip(f"`ip netns add` does not work here: {made.stderr.strip()}")
        a, b = self.names
        commands = [["link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b]]
        for name, address in zip(self.names, self.addresses):
            commands += [["-n", name, "addr", "add", f"{address}/24", "dev", "eth0"],
                         ["-n", name, "link", "set", "lo", "up"], ["-n", name, "link", "set", "eth0", "up"]]
        for command in commands:
            done = ip(*command)
            if done.returncode != 0:
                pytest.skip(f"`ip {' '.join(command)}` does not work here: {done.stderr.strip()}")

    def down(self):
        for name in self.names:
            ip("-n", name, "link", "del", "eth0")
            ip("netns", "del", name)

    def payload(self, rank):
        """Bytes that TCP has sent from a rank's interface."""
        counters = [subprocess.run(["ip", "netns", "exec", self.names[rank], "cat", f"/sys/class/net/eth0/statistics/{name}"],
                                   capture_output=True, text=True, check=True, timeout=30).stdout
                    for name in ("tx_bytes", "tx_packets")]
        return int(counters[0]) - HEADERS * int(counters[1])


@pytest.fixture
def pair():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` program")
    pair = Pair()
    try:
        pair.up()
        yield pair
    finally:
        pair.down()


@pytest.mark.parametrize("codec", ["none", "qsgd(bits=4)", "ef | topk(0.01)", "int8"])
def test_reported_bytes_are_those_of_the_kernel(sotto, tmp_path, pair, codec):
    flags = ["train", "--model", "lenet", "--train-size", "512", "--test-size", "16", "--batch-size", "4",
             "--max-steps", "40", "--codec", codec, "--interface", "eth0", "--train-dir", str(tmp_path / "run")]
    before = [pair.payload(rank) for rank in (0, 1)]
    ranks = []
    for rank, name in enumerate(pair.names):
        environment = os.environ | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": pair.addresses[0], "MASTER_PORT": "29500",
                                    "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        ranks.append(subprocess.Popen(["ip", "netns", "exec", name, sotto, *flags], env=environment, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    try:
        for process in ranks:
            out, _ = process.communicate(timeout=DEADLINE)
            assert process.returncode == 0, out
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
    for rank, reported in enumerate(summary(tmp_path / "run")["bytes_sent"]):
        counted = pair.payload(rank) - before[rank]
        assert counted > 100_000
        assert abs(counted - reported) <= 0.05 * counted, f"rank {rank}: {reported} reported, {counted} counted"
