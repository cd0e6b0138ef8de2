"""A run of two ranks in network namespaces reports the bytes that the kernel counts on a real interface."""

import subprocess

import pytest

from conftest import summary

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
