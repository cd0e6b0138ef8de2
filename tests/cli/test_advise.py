"""What a step would take over a link. No test depends on how fast this machine is."""

import json
import os
import signal

import pytest
from conftest import TINY, has_step, summary, wait_until

pytestmark = pytest.mark.slow

MODEL = TINY[:TINY.index("--deadline")]
JOB = ["advise", *MODEL, "--ranks", 2, "--threads", 1]


def advice(good, *flags):
    found = json.loads(good(*JOB, "--json", *flags).out)
    return found, {row["codec"]: row for row in found["codecs"]}


def test_the_table(good):
    text = good(*JOB, "--link", "1mbit,1ms").out
    assert "logreg, 7850 parameters in 1 bucket: " in text and "on 1 thread\n" in text
    assert "1mbit,1ms, 2 ranks of " in text
    rows = text.split("\n\n")[1].splitlines()
    assert rows[0].split()[:2] == ["codec", "averaged"] and len(rows) == 1 + 5 + 1, "the best five, and dense"
    assert rows[-1].startswith("none ") and "all_reduce" in rows[-1]
    assert "advice   compress with `" in text
    everything = good(*JOB, "--link", "1mbit,1ms", "--all").out.split("\n\n")[1].splitlines()
    assert len(everything) > len(rows) and sum(row.startswith("none ") for row in everything) == 1


def test_a_slow_link_wants_a_codec(good, tmp_path):
    found, rows = advice(good, "--link", "1mbit")
    assert found["advice"].startswith("compress with `")
    # 31 KB take 250 ms, and four bits a value a sixth of that; neither depends on the machine.
    assert 251 < rows["none"]["ms_per_step"] and 125 < rows["f16"]["ms_per_step"]
    assert rows["none"]["waiting_ms"] > 200 and rows["none"]["relative_error"] < 1e-6 < rows["int8"]["relative_error"] < 0.02
    assert rows["none"]["ratio"] == 1 and 5 < rows["qsgd(bits=4)"]["ratio"] < 7
    assert rows["none"]["aggregator"] == "all_reduce" and rows["qsgd(bits=4)"]["aggregator"] == "gather"
    assert {row["quality"] for row in rows.values()} == {"high", "medium"}
    # What is sent is what a run sends.
    for number, codec in enumerate(["none", "ef | power(2)"]):
        good("train", *TINY, "--ranks", 2, "--codec", codec, "--max-steps", 4, "--train-dir", f"run{number}")
        assert abs(rows[codec]["bytes_per_step"] - max(summary(tmp_path / f"run{number}")["bytes_per_step"])) < 1


def test_where_computing_takes_longest_none_is_wanted(good, tmp_path):
    """Computing takes two seconds: whatever else the machine does, no codec saves a twentieth of that."""
    ranks = "".join(f'[[rank]]\nrank = {rank}\ndelay = "2s"\n' for rank in range(2))
    (tmp_path / "slow.toml").write_text('rate = "100gbit"\n' + ranks)
    found, rows = advice(good, "--link", "slow.toml")
    assert found["advice"].startswith("do not compress: `none` takes 2") and "overlap with computing; `" in found["advice"]
    assert 2000 < rows["none"]["ms_per_step"] < 2100


def test_qualities(good):
    _, high = advice(good, "--link", "10mbit", "--quality", "high")
    _, low = advice(good, "--link", "10mbit", "--quality", "low")
    assert {row["quality"] for row in high.values()} == {"high"}
    assert high.keys() < low.keys() and {row["quality"] for row in low.values()} == {"high", "medium", "low"}


def test_codecs_of_the_user(good):
    found, rows = advice(good, "--link", "1mbit", "--codecs", "ef | topk(0.01, dense=0)", "int8",
                         "ef | sampled_topk(0.1) | qsgd(4)", "--aggregator", "gather")  # fmt: skip
    assert rows.keys() == {"none", "ef | topk(0.01, dense=0)", "int8", "ef | sampled_topk(0.1) | qsgd(4)"}
    assert rows["ef | sampled_topk(0.1) | qsgd(4)"]["quality"] == "medium", "it stands in the program's own table"
    assert rows["ef | topk(0.01, dense=0)"]["quality"] is None
    assert rows["int8"]["quality"] == "high" and rows["int8"]["aggregator"] == "gather"
    # The quickest one comes last, and is not recommended, as nobody knows what it does to the loss.
    order = [row["codec"] for row in found["codecs"]]
    assert order[-1] == "ef | topk(0.01, dense=0)" and rows[order[-1]]["ms_per_step"] == min(row["ms_per_step"] for row in rows.values())
    assert found["advice"].startswith("compress with `") and not found["advice"].startswith("compress with `ef | topk(0.01")
    assert found["advice"].endswith("but its loss is not known: --check 200 trains with it and with `none`"), found["advice"]


def test_a_codec_of_unknown_loss_alone(good):
    text = good(*JOB, "--link", "1mbit", "--codecs", "ef | topk(0.01, dense=0)").out
    assert text.split("\n\n")[1].splitlines()[2].endswith("  not known")
    assert "advice   do not compress yet: `none` takes " in text and "its loss is not known: --check 200 trains" in text


def test_a_check_trains_with_each(good, run, tmp_path):
    flags = ["--link", "1mbit", "--codecs", "ef | topk(0.5, dense=0)", "ef | topk(0.001, dense=0)", "--check", 40]
    found, rows = advice(good, *flags)
    loss = {codec: row["checked"]["loss"] for codec, row in rows.items()}
    assert all(row["checked"]["steps"] == 40 and "%" in row["checked"]["test"] for row in rows.values())
    assert loss["ef | topk(0.001, dense=0)"] > 1.5 * loss["none"] and loss["ef | topk(0.5, dense=0)"] < 1.3 * loss["none"]
    assert rows["none"]["quality"] == "high" and rows["ef | topk(0.001, dense=0)"]["quality"] == "low"
    assert [row["codec"] for row in found["codecs"]][-1] == "ef | topk(0.001, dense=0)"
    assert "`ef | topk(0.001, dense=0)` takes " in found["advice"] and " after 40 steps, where dense training has " in found["advice"]
    runs = sorted(tmp_path.glob("runs/advise-*/*"))
    assert runs[0].name == "01-none" and {path.name[3:] for path in runs[1:]} == {"ef-topk-0.5-dense-0", "ef-topk-0.001-dense-0"}
    assert [summary(path)["seed"] for path in runs] == [1, 1, 1]
    job = run(*JOB, *flags, "--lr", "1e30")
    assert job.status == 1 and "sotto: the check with `none` failed: " in job.err


def test_a_check_makes_all_its_steps(start, tmp_path):
    """Also if they are many epochs. A training that failed has not diverged."""
    job = start(*["64" if part == "512" else part for part in JOB], "--link", "1mbit", "--codecs", "int8", "ef | topk(0.1, dense=0)", "--check", 5000)
    second = lambda: next(iter(tmp_path.glob("runs/advise-*/02-*")), tmp_path / "none")  # noqa: E731
    wait_until(lambda: job.process.poll() is not None or has_step(second(), 1), "the second training")
    os.kill(job.rank(1), signal.SIGKILL)
    job.finish()
    assert job.status == 0, job.err
    codec = {"int8": "int8", "ef-topk-0.1-dense-0": "ef | topk(0.1, dense=0)"}[second().name[3:]]
    assert f"left out `{codec}`: its check failed: rank 1 was killed by signal 9 (SIGKILL)" in job.out, job.out
    assert "loss after 5000 steps" in job.out and "diverged" not in job.out
    assert [summary(path)["steps"] for path in sorted(tmp_path.glob("runs/advise-*/*")) if path != second()] == [5000, 5000]


def test_ranks_that_share_this_machine(good):
    found, rows = advice(good, "--link", "1mbit", "--ranks-per-host", 2, "--codecs", "int8")
    assert found["cores"] == os.cpu_count() / 2 and 251 < rows["none"]["ms_per_step"]


def test_links_of_a_file(good, tmp_path):
    (tmp_path / "links.toml").write_text('rate = "1gbit"\n\n[[rank]]\nrank = 1\ndelay = "300ms"\n')
    _, rows = advice(good, "--link", "links.toml", "--codecs", "none")
    assert 300 < rows["none"]["ms_per_step"] < 10_000


@pytest.mark.parametrize("flags, reason", [
    ([], "say over which link, as --link 100mbit,20ms"),
    (["--link", "fast"], "--link fast: "),
    (["--link", "1mbit", "--ranks", 1], "--ranks 1: from 2 to 64 ranks"),
    (["--link", "1mbit", "--algorithm", "local"], "--algorithm local: only steps of `sync`"),
    (["--link", "1mbit", "--codecs", "auto"], "--codecs auto: it needs a real link to measure"),
    (["--link", "1mbit", "--codecs", "topk(2)"], "--codecs topk(2): ratio must be in (0, 1]"),
    (["--link", "1mbit", "--quality", "best"], "--quality best"),
    (["--link", "1mbit", "--ranks", 2, "--ranks-per-host", 3], "--ranks-per-host 3: there are 2 ranks"),
    (["--link", "1mbit", "--train-dir", "run"], "--train-dir: changes nothing in a step"),
])  # fmt: skip
def test_what_cannot_be_advised_is_refused(run, flags, reason):
    job = run("advise", *MODEL, *flags)
    assert job.status == 2 and reason in job.err and job.out == ""


def test_an_unsuitable_codec_is_left_out(good):
    job = [*JOB, "--link", "1mbit", "--codecs", "int8", "svd | atomo(s=3)", "--aggregator", "sparse"]
    text, found = good(*job).out, json.loads(good(*job, "--json").out)
    assert [entry["codec"] for entry in found["refused"]] == ["int8", "svd | atomo(s=3)"]
    for entry in found["refused"]:
        assert f"left out `{entry['codec']}`: {entry['reason']}\n" in text
