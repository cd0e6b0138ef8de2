"""Options of steps: clipping, groups of tensors, means of iterates."""

import csv

import pytest

from conftest import TINY, summary


def weights(folder):
    return summary(folder)["parameters_sha256"]


def losses(folder):
    """The loss before each step, by step and rank."""
    with open(f"{folder}/steps.csv") as file:
        return {(row["step"], row["rank"]): row["loss"] for row in csv.DictReader(file)}


def train(good, folder, *flags, ranks=1, steps=12):
    good("train", *TINY, "--ranks", ranks, "--max-steps", steps, "--train-dir", folder, *flags)
    return weights(folder)


def test_for_one_rank_both_clippings_agree(good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = train(good, "plain")
    assert train(good, "far", "--clip", "norm(1e6)") == plain
    for way in ["norm(0.5)", "value(0.01)"]:
        after = train(good, f"after-{way}", "--clip", way)
        assert after == train(good, f"before-{way}", "--clip", way[:-1] + ", when=before)") != plain


def test_clipping_is_per_rank_or_of_the_mean(good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    after = train(good, "after", "--clip", "norm(0.5)", ranks=2)
    before = train(good, "before", "--clip", "norm(0.5, when=before)", ranks=2)
    assert before != after
    assert train(good, "apart", "--clip", "norm(0.5)", "--no-overlap", ranks=2) == after
    assert train(good, "early", "--clip", "norm(0.5, when=before)", "--no-overlap", ranks=2) == before
    value = train(good, "value", "--clip", "value(0.01)", ranks=2)
    assert train(good, "need", "--clip", "value(0.01)", "--algorithm", "sync(priority=need)", "--buckets", "1KiB", ranks=2) == value


@pytest.mark.parametrize("flags,message", [
    (["--clip", "norm(1)", "--algorithm", "local"], "--clip norm(1): ranks of `local` step along their own gradients"),
    (["--clip", "norm(1)", "--algorithm", "parameter_server", "--ranks", 2], "its norm is known when all of it is"),
    (["--clip", "nrom(1)"], "did you mean `norm`?"),
    (["--clip", "norm(0)"], "most must be in [1e-30, inf)"),
    (["--group", "*.bais: weight-decay=0"], "--group: `*.bais` is the name of no tensor"),
    (["--group", "*.bias"], "--group *.bias: no `:`"),
    (["--group", "*.bias: weight-deca=0"], "did you mean `weight-decay`?"),
    (["--ema", 0.9, "--average-iterates", 5], "--average-iterates and --ema: only one mean is kept"),
    (["--ema", 1], "--ema"),
    (["--ema", 0.9, "--algorithm", "parameter_server", "--ranks", 2], "--ema and --average-iterates: servers alone see all iterates"),
    (["--ema", 0.9, "--algorithm", "push_sum", "--ranks", 2, "--node-size", 2], "--ema: `push_sum` between nodes"),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(run, flags, message):
    job = run("train", *TINY, "--max-steps", 2, "--train-dir", "run", *flags)
    assert job.status == 2 and message in job.err, job.err


def test_a_dry_run_refuses_a_pattern_of_nothing(run):
    job = run("train", *TINY, "--dry-run", "--group", "*.bais: weight-decay=0")
    assert job.status == 2 and "is the name of no tensor" in job.err, job.err


def test_a_pattern_without_match_is_a_warning(good):
    group = ["--group", "*.bias,*norm*: weight-decay=0"]
    assert "warning       --group: `*norm*` is the name of no tensor" in good("train", *TINY, "--dry-run", *group).out
    assert "warning: --group: `*norm*` is the name of no tensor" in good("train", *TINY, "--max-steps", 1, *group, "--train-dir", "run").err


def test_groups_are_recorded_and_resumed(good, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = "*.bias: weight-decay=0, momentum=0.5"
    whole = train(good, "whole", "--weight-decay", 0.1, "--group", group, ranks=2)
    assert whole != train(good, "plain", "--weight-decay", 0.1, ranks=2)
    train(good, "run", "--weight-decay", 0.1, "--group", group, ranks=2, steps=5)
    assert f'group = "{group}"' in (tmp_path / "run" / "config.toml").read_text().replace("'", '"')
    job = run("train", "--train-dir", "run", "--resume", "--max-steps", 12, "--group", "")
    assert job.status == 2 and "it was written with optimiser sgd(momentum=0.9, nesterov=false, dampening=0); *.bias: " in job.err, job.err
    good("train", "--train-dir", "run", "--resume", "--max-steps", 12)
    assert weights("run") == whole


@pytest.mark.parametrize("algorithm", ["slowmo(h=2)", "diloco(h=2)"])
def test_an_outer_step_leaves_no_mean_of_iterates(run, algorithm):
    job = run("train", *TINY, "--ranks", 2, "--algorithm", algorithm, "--ema", 0.9, "--max-steps", 2, "--train-dir", "run")
    assert job.status == 2 and "--ema" in job.err and "outer step" in job.err


def test_a_moving_average_is_what_is_evaluated(good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain, ema = train(good, "plain", ranks=2), train(good, "ema", "--ema", 0.9, ranks=2)
    assert losses("ema") == losses("plain") and ema != plain, "training does not change, but its checkpoints do"
    assert abs(summary("ema")["test_loss"] - summary("plain")["test_loss"]) > 1e-3
    loss = float(good("eval", "--model-dir", "ema").out.split("loss ")[1].split()[0])
    assert loss == pytest.approx(summary("ema")["test_loss"], abs=1e-4)
    train(good, "run", "--ema", 0.9, ranks=2, steps=5)
    good("train", "--train-dir", "run", "--resume", "--max-steps", 12)
    assert summary("run")["test_loss"] == summary("ema")["test_loss"] and weights("run") == ema
