"""Emulated links and slow ranks, as a file describes them."""

import csv
import socket

import pytest

from conftest import TINY, summary

pytestmark = pytest.mark.slow

LINKS = """
rate = "1gbit"
latency = "1ms"

[[rank]]
rank = 1
delay = "40ms"
"""


def steps(folder):
    with open(folder / "steps.csv") as file:
        return list(csv.DictReader(file))


def test_a_slow_rank_computes_longer(good, tmp_path):
    (tmp_path / "links.toml").write_text(LINKS)
    good("train", *TINY, "--ranks", 2, "--max-steps", 4, "--link", "links.toml", "--train-dir", "run")
    assert (tmp_path / "run" / "link.toml").read_text() == LINKS
    assert summary(tmp_path / "run")["link"] == "links.toml"
    assert all(float(row["compute_ms"]) >= 40 for row in steps(tmp_path / "run") if row["rank"] == "1")


@pytest.mark.parametrize("algorithm", ["sync", "local(h=2)", "push_sum", "parameter_server(mode=stale)"])
def test_deadlines_follow_step_times(good, tmp_path, algorithm):
    """A rank may be as late as ten times what the others' steps take, though the deadline is shorter."""
    late = "".join(f'[[rank]]\nrank = {rank}\ndelay = "{seconds}s"\n' for rank, seconds in enumerate((1, 1, 4)))
    (tmp_path / "links.toml").write_text(late)
    good("train", *TINY[:-1], 2, "--ranks", 3, "--max-steps", 2, "--algorithm", algorithm, "--link", "links.toml")


def test_what_is_wrong_is_named(run, tmp_path):
    (tmp_path / "links.toml").write_text(LINKS)
    for flags in ([], ["--dry-run"]):
        job = run("train", *TINY, "--ranks", 1, "--max-steps", 1, "--link", "links.toml", "--train-dir", "run", *flags)
        assert job.status == 2 and "links.toml:6: rank: there is no rank 1; ranks are 0 to 0" in job.err
    (tmp_path / "links.toml").write_text(LINKS.replace("rank = 1\n", "rank = 1\n\nrte = 3\n"))
    job = run("train", *TINY, "--ranks", 2, "--max-steps", 1, "--link", "links.toml", "--train-dir", "run")
    line = LINKS[:LINKS.index("rank = 1")].count("\n") + 3
    assert job.status == 2 and f"links.toml:{line}: unknown key `rte`; known: rank, " in job.err, job.err
    job = run("train", *TINY, "--ranks", 1, "--link", "missing.toml", "--train-dir", "run")
    assert job.status != 0 and "missing.toml" in job.err


def test_ranks_must_have_the_same_links(start, tmp_path):
    """Ranks compare the contents of their link files, not the paths."""
    for contents, status in (([LINKS, LINKS], 0), ([LINKS, LINKS.replace("40ms", "50ms")], 2)):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        jobs = []
        for rank, content in enumerate(contents):
            (tmp_path / f"{rank}.toml").write_text(content)
            jobs.append(start("train", *TINY, "--max-steps", 2, "--link", f"{rank}.toml", "--train-dir", f"run{status}",
                              RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))  # fmt: skip
        assert [job.finish().status for job in jobs] == [status, status], jobs[0].err
    assert "rank 1 was started with other data, links or initial parameters" in jobs[0].err
