"""bench/cable.py, with which benchmarks and tests join two ranks."""

import pytest


def test_it_says_which_rank_failed_how_and_what_each_printed(cable):
    assert cable.run("sh", "-c", "echo rank $RANK of $WORLD_SIZE") == ["rank 0 of 2\n", "rank 1 of 2\n"]
    for end, what in (("kill -ABRT $$", "was ended by SIGABRT"), ("exit 3", "ended with status 3")):
        with pytest.raises(Exception) as failure:
            cable.run("sh", "-c", f"echo here is $RANK >&2; [ $RANK = 0 ] || {end}")
        text = str(failure.value)
        assert end in text.splitlines()[0]
        assert "rank 0 ended with status 0; it printed:\nhere is 0\n" in text
        assert f"rank 1 {what}; it printed:\nhere is 1\n" in text
