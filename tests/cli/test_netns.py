"""A run of two ranks in network namespaces reports the bytes that the kernel counts on a real interface."""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from conftest import summary, wait_until

pytestmark = pytest.mark.slow

HEADERS = 66  # bytes a packet: Ethernet 14, IPv4 20, TCP with timestamps 32


def payload(cable, rank):
    """The bytes that TCP has sent from the interface of `rank`."""
    return cable.count(rank, "tx_bytes") - HEADERS * cable.count(rank, "tx_packets")


def job(tmp_path, *flags):
    return ["train", "--model", "lenet", "--train-size", "512", "--test-size", "16", "--batch-size", "4", "--max-steps", "40",
            "--interface", "eth0", "--train-dir", str(tmp_path / "run"), *flags]  # fmt: skip


def check_bytes(sotto, tmp_path, cable, flags):
    before = [payload(cable, rank) for rank in (0, 1)]
    cable.run(sotto, *job(tmp_path, *flags))
    for rank, reported in enumerate(summary(tmp_path / "run")["bytes_sent"]):
        counted = payload(cable, rank) - before[rank]
        assert counted > 100_000
        assert abs(counted - reported) <= 0.05 * counted, f"rank {rank}: {reported} reported, {counted} counted"


def secret(sotto, tmp_path):
    subprocess.run([sotto, "secret", "new", tmp_path / "secret"], check=True)
    return str(tmp_path / "secret")


@pytest.mark.parametrize("codec", ["none", "qsgd(bits=4)", "ef | topk(0.01)", "int8", "svd | atomo(s=3)"])
def test_reported_bytes_are_those_of_the_kernel(sotto, tmp_path, cable, codec):
    check_bytes(sotto, tmp_path, cable, ["--codec", codec])


def test_a_secret_makes_connections_between_hosts_private(sotto, tmp_path, cable):
    flags = ["--codec", "qsgd(bits=4)", "--backend", "tcp"]
    with pytest.raises(Exception, match="others can read and change what they send; give all ranks the same --secret"):
        cable.run(sotto, *job(tmp_path, *flags))
    check_bytes(sotto, tmp_path, cable, [*flags, "--secret", secret(sotto, tmp_path)])


def test_several_connections_carry_the_same_bytes(sotto, tmp_path, cable):
    check_bytes(sotto, tmp_path, cable, ["--backend", "tcp", "--secret", secret(sotto, tmp_path), "--streams", 3, "--buckets", "whole"])


def at(cable, rank, *command):
    return ["ip", "netns", "exec", cable.names[rank], *map(str, command)]


def test_the_host_with_the_address_serves_the_store(sotto, tmp_path, cable):
    """A server of another machine would reach the one there, and spoil its job."""
    place = f"{cable.addresses[0]}:29501"
    lonely = subprocess.run(at(cable, 1, sotto, "coordinator", "--ranks", "1", "--listen", place), capture_output=True, text=True, timeout=100)
    assert lonely.returncode == 1 and f"at {place}: nothing answers there; is it an address of this machine?" in lonely.stderr
    first = subprocess.Popen(at(cable, 0, sotto, "coordinator", "--ranks", "1", "--listen", place), stderr=subprocess.PIPE, text=True)
    try:
        assert "ranks join with" in first.stderr.readline()
        second = subprocess.run(at(cable, 1, sotto, "coordinator", "--ranks", "1", "--listen", place), capture_output=True, text=True, timeout=100)
        assert second.returncode == 1 and f"at {place}: another machine serves one there; give an address of this machine" in second.stderr
    finally:
        first.terminate()
        first.communicate()


def test_a_coordinator_at_all_addresses_names_none(sotto, cable):
    job = subprocess.Popen(at(cable, 0, sotto, "coordinator", "--ranks", "1", "--listen", "0.0.0.0:29502"), stderr=subprocess.PIPE, text=True)
    try:
        assert "--coordinator HOST:29502, where HOST is an address of this machine" in job.stderr.readline()
    finally:
        job.terminate()
        job.communicate()


def listens(process, number):
    """Whether a process catches the signal, or takes it later."""
    masks = re.findall(r"^Sig(?:Blk|Cgt):\s*(\w+)$", pathlib.Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def test_ctrl_c_ends_the_wait_for_an_unreachable_master(sotto, tmp_path, cable):
    variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.77", "MASTER_PORT": "29500"}
    rank = subprocess.Popen(at(cable, 0, sotto, "train", "--model", "logreg", "--deadline", 600, "--backend", "gloo"), cwd=tmp_path,
                            env=os.environ | variables, stderr=subprocess.PIPE, text=True)  # fmt: skip
    wait_until(lambda: rank.poll() is not None or listens(rank.pid, signal.SIGINT), "the rank to listen to signals")
    time.sleep(3)  # it begins to connect
    assert rank.poll() is None, rank.communicate()[1]
    rank.send_signal(signal.SIGINT)
    assert rank.wait(60) == 130, rank.communicate()[1]
