"""Workers and servers: trained, tested, stopped, saved and continued."""

import os
import re
import signal

import pytest

from conftest import TINY, has_step, summary, wait_until
from test_ad_psgd import check_rows
from test_resume import check

pytestmark = pytest.mark.slow

MODES = ["mode=sync", "gradients=2, late=carry", "mode=async", "mode=stale, bound=2", "servers=1, dedicated=true",
         "mode=async, dedicated=true, down=qsgd(6)"]  # fmt: skip


@pytest.mark.parametrize("options, codec", [("mode=sync", "none"), ("down=topk(0.2)", "ef | topk(0.1)"),
                                            ("dedicated=true", "qsgd(bits=4)")])  # fmt: skip
def test_bits_are_the_same_after_a_resume(start, good, tmp_path, options, codec):
    flags = [*TINY, "--algorithm", f"parameter_server({options})", "--codec", codec, "--ranks", 3]
    check(start, good, tmp_path, flags)


def test_in_step_it_is_gather(good, tmp_path):
    flags = ["train", *TINY, "--ranks", 3, "--codec", "qsgd(bits=4)", "--max-steps", 12]
    good(*flags, "--aggregator", "gather", "--train-dir", "gather")
    good(*flags, "--algorithm", "parameter_server(down=f32)", "--check-replicas", 1, "--train-dir", "served")
    assert summary(tmp_path / "gather")["parameters_sha256"] == summary(tmp_path / "served")["parameters_sha256"]
    good(*flags, "--algorithm", "parameter_server(down=f32)", "--no-overlap", "--train-dir", "apart")
    assert summary(tmp_path / "apart")["parameters_sha256"] == summary(tmp_path / "served")["parameters_sha256"]


@pytest.mark.parametrize("options", MODES)
def test_every_mode_trains_and_is_tested(good, tmp_path, options):
    flags = ["train", *TINY, "--algorithm", f"parameter_server({options})", "--ranks", 3, "--epochs", 9]
    said = good(*flags, "--max-steps", 60, "--check-replicas", 20, "--checkpoint-every", 40, "--train-dir", "run").err
    assert "models go back as" in said
    ended = summary(tmp_path / "run")
    assert ended["steps"] == 60 and ended["aggregator"] == "server"
    assert ended["test_accuracy"] > 0.5
    tested = good("eval", "--model-dir", "run").out.splitlines()[-1]
    assert float(re.search(r"[Ll]oss:? *([0-9.]+)", tested)[1]) == pytest.approx(ended["test_loss"], abs=1e-3)
    good(*flags, "--max-steps", 70, "--resume", "--train-dir", "run")
    assert summary(tmp_path / "run")["steps"] == 70


def test_a_dry_run_says_what_is_sent(good, tmp_path):
    for options in ["mode=sync", "mode=async, count=each", "dedicated=true"]:
        flags = ["train", *TINY, "--ranks", 4, "--codec", "qsgd(bits=4)", "--algorithm", f"parameter_server({options})"]
        most, least = map(int, re.search(r"sends +(\d+) bytes a step at most, (\d+) at least", good(*flags, "--dry-run").out).groups())
        good(*flags, "--max-steps", 8, "--train-dir", options)
        header, *rows = [row.split(",") for row in (tmp_path / options / "steps.csv").read_text().splitlines()]
        sent = {int(row[1]): int(row[header.index("bytes_sent")]) for row in rows if row[0] == "5"}
        # Over tcp each mail has a frame of 24 bytes. A worker sends two: the gradient of one bucket and a note. A server sends
        # models to three workers. A server that waits for no rank, or has no worker, may be ahead of its rank's own step.
        assert sent[3] == least + 2 * 24, (options, sent)
        assert sent[0] == most + 3 * 24 or options != "mode=sync", (options, sent)
        per_step = summary(tmp_path / options)["bytes_per_step"]  # counts what the server sends after its rank's last step
        assert per_step[0] == pytest.approx(most + 3 * 24, rel=0.05) or options == "mode=sync", (options, per_step)


@pytest.mark.parametrize("options", ["mode=async", "mode=async, dedicated=true", "gradients=2", "mode=async, count=each"])
def test_a_slow_rank_makes_fewer_steps(good, tmp_path, options):
    (tmp_path / "slow.toml").write_text("".join(f'[[rank]]\nrank = {rank}\ndelay = "{delay}ms"\n' for rank, delay in enumerate([5, 5, 5, 100])))
    good("train", *TINY, "--algorithm", f"parameter_server({options})", "--ranks", 4, "--checkpoint-every", 6, "--train-dir", "run",
         "--max-steps", 7 if "each" in options else 12, "--eval-freq", 6, "--link", "slow.toml")  # fmt: skip
    run = summary(tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").glob("model_step_*")} == {"model_step_6", f"model_step_{run['steps']}"}
    if "each" in options:
        assert run["steps"] == 7 and "rank_steps" not in run
        check_rows(tmp_path / "run", [7] * 4)
        return
    check_rows(tmp_path / "run", run["rank_steps"])
    assert run["steps"] == 12 and sum(run["rank_steps"]) >= 48
    assert run["rank_steps"][3] < min(run["rank_steps"][:3])
    good("train", "--resume", "--train-dir", "run", "--max-steps", 18, "--link", "")
    again = summary(tmp_path / "run")
    assert (again["first_step"], again["steps"]) == (12, 18)
    assert all(now > before for now, before in zip(again["rank_steps"], run["rank_steps"])) and sum(again["rank_steps"]) >= 72
    check_rows(tmp_path / "run", again["rank_steps"])


def test_a_slow_rank_may_stop_early(start, good, tmp_path):
    """The slow one takes 100 times as long; to catch up would take it longer than the run so far."""
    (tmp_path / "slow.toml").write_text('[[rank]]\nrank = 1\ndelay = "300ms"\n')
    job = start("train", *TINY, "--algorithm", "parameter_server(mode=async)", "--ranks", 2, "--epochs", 100000, "--eval-freq", 1000000,
                "--link", "slow.toml", "--train-dir", "run")  # fmt: skip
    wait_until(lambda: has_step(tmp_path / "run", 500), "steps")
    os.kill(job.rank(1), signal.SIGINT)
    job.finish()
    assert job.status == 128 + signal.SIGINT, job.err
    run = summary(tmp_path / "run")
    assert run["rank_steps"][1] < run["rank_steps"][0] and run["steps"] == sum(run["rank_steps"]) // 2
    check_rows(tmp_path / "run", run["rank_steps"])
    good("train", "--resume", "--train-dir", "run", "--link", "", "--max-steps", run["steps"] + 5)


def test_a_signal_to_one_rank_ends_all(start, tmp_path):
    for options in ["mode=sync", "mode=async", "dedicated=true"]:
        job = start("train", *TINY, "--algorithm", f"parameter_server({options})", "--ranks", 3, "--epochs", 100000,
                    "--eval-freq", 1000000, "--train-dir", options)  # fmt: skip
        wait_until(lambda: has_step(tmp_path / options, 10), "steps")
        os.kill(job.rank(0 if options == "dedicated=true" else 1), signal.SIGTERM)
        job.finish()
        assert job.status == 128 + signal.SIGTERM, job.err
        ended = summary(tmp_path / options)
        assert ended["interrupted_by_signal"] == signal.SIGTERM
        assert (tmp_path / options / f"model_step_{ended['steps']}").is_dir()
        job.nothing_left()


@pytest.mark.parametrize("rank", [0, 2])
def test_a_dead_rank_ends_servers_and_workers(start, tmp_path, rank):
    job = start("train", *TINY, "--algorithm", "parameter_server(dedicated=true)", "--ranks", 3, "--epochs", 100000,
                "--eval-freq", 1000000, "--train-dir", "run")  # fmt: skip
    wait_until(lambda: has_step(tmp_path / "run", 10), "steps")
    os.kill(job.rank(rank), signal.SIGKILL)
    job.finish()
    assert job.status != 0 and f"rank {rank}" in job.err, job.err
    job.nothing_left()


def test_what_does_not_fit_is_refused(run):
    for flags, words in [
        (["--algorithm", "parameter_server(servers=4)"], "servers=4 of 3 ranks"),
        (["--algorithm", "parameter_server(servers=3, dedicated=true)"], "nobody is left to train"),
        (["--algorithm", "parameter_server(servers=2)"], "servers=2 of 1 buckets"),
        (["--algorithm", "parameter_server(mode=asink)"], "mode must be"),
        (["--algorithm", "parameter_server(bound=2)"], "bound is of mode=stale"),
        (["--algorithm", "parameter_server(count=each)"], "count is for workers that do not wait for all others"),
        (["--algorithm", "parameter_server(gradients=3, dedicated=true)"], "gradients=3 of 2 workers"),
        (["--algorithm", "parameter_server(down=signs)"], "for gradients alone"),
        (["--algorithm", "parameter_server(down=topk(2))"], "--algorithm parameter_server(down=topk(2)): --algorithm topk(2): ratio must be"),
        (["--algorithm", "parameter_server", "--codec", "power"], "made by all ranks together"),
        (["--algorithm", "parameter_server", "--optimiser", "onebit-adam"], "servers alone have"),
        (["--algorithm", "parameter_server", "--average-iterates", 5], "--average-iterates: servers"),
        (["--algorithm", "parameter_server", "--aggregator", "gather"], "--aggregator: `parameter_server` has none"),
        (["--algorithm", "parameter_server", "--codec-warmup", "exponential"], "one codec for the whole run"),
        (["--algorithm", "parameter_server", "--topology", "ring"], "exchanges with no neighbours"),
        (["--algorithm", "parameter_server", "--final-average"], "same model on all ranks"),
    ]:
        job = run("train", *TINY, "--ranks", 3, "--max-steps", 2, *flags)
        assert job.status != 0 and words in job.err, (flags, job.err)
        job.nothing_left()


def test_the_rate_shrinks_as_asked(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--algorithm", "parameter_server", "--lr", 0.1, "--lr-shrinkage", 0.95,
         "--lr-shrink-every", 3, "--max-steps", 7, "--train-dir", "run")  # fmt: skip
    header, *rows = [row.split(",") for row in (tmp_path / "run" / "steps.csv").read_text().splitlines()]
    rates = {int(row[0]): float(row[header.index("lr")]) for row in rows}
    assert [rates[step] for step in (0, 3, 6)] == pytest.approx([0.1, 0.095, 0.09025])
