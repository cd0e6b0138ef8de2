"""bench/cable.py, which joins ranks in benchmarks and tests."""

import subprocess

import pytest


def test_a_failure_is_reported_with_all_output(cable):
    assert cable.run("sh", "-c", "echo rank $RANK of $WORLD_SIZE") == ["rank 0 of 2\n", "rank 1 of 2\n"]
    for end, what in (("kill -ABRT $$", "was ended by SIGABRT"), ("exit 3", "ended with status 3")):
        with pytest.raises(Exception) as failure:
            cable.run("sh", "-c", f"echo here is $RANK >&2; [ $RANK = 0 ] || {end}")
        text = str(failure.value)
        assert end in text.splitlines()[0]
        assert "rank 0 ended with status 0; it printed:\nhere is 0\n" in text
        assert f"rank 1 {what}; it printed:\nhere is 1\n" in text


def test_several_ranks_connect_through_a_switch(cable, sotto, tmp_path):
    with type(cable)("50mbit", ranks=3) as switch:
        run = tmp_path / "run"
        switch.run(sotto, "train", "--data=digits", "--train-size=96", "--test-size=16", "--batch-size=16", "--model=logreg",
                   "--epochs=1", "--train-dir", run)  # fmt: skip
        assert all(switch.count(rank, "tx_bytes") > 4 * 7850 for rank in range(3))
    assert (run / "summary.json").exists()
    assert not any(name in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout
                   for name in [*switch.names, switch.switch])  # fmt: skip
