"""--partition: ranks with different data."""

import re

import pytest

from conftest import TINY, summary
from test_bad_input import refused


def table(text):
    """The counts of the classes of each rank, from the report."""
    rows = [[int(cell) for cell in line.split()] for line in re.findall(r"^(?:\[0\] )?( +\d+(?: +\d+)+)$", text, re.M)]
    return {row[0]: row[2:] for row in rows}


def test_the_report(good):
    text = good("train", *TINY, "--ranks", 4, "--partition", "shards(2)", "--dry-run").out
    assert re.search(r"partition shards\(2\): a rank has 128 examples, of \d to \d of the 10 labels", text)
    counts = table(text)
    assert sorted(counts) == [0, 1, 2, 3] and all(sum(row) == 128 for row in counts.values())
    assert sum(sum(row) for row in counts.values()) == 512
    assert "partition" not in good("train", *TINY, "--ranks", 4, "--dry-run").out
    run = good("train", *TINY, "--ranks", 4, "--partition", "shards(2)", "--max-steps", 2, "--train-dir", "run")
    assert table(run.err) == counts
    assert "partition shards" not in run.out


def test_a_server_has_no_examples(good):
    text = good("train", *TINY, "--ranks", 3, "--algorithm", "parameter_server(dedicated=true)", "--partition", "shards(1)",
                "--max-steps", 2, "--train-dir", "run").err  # fmt: skip
    assert sorted(table(text)) == [1, 2]


def test_iid_is_the_default(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", 3, "--train-dir", "default")
    good("train", *TINY, "--ranks", 2, "--max-steps", 3, "--partition", "iid", "--train-dir", "iid")
    good("train", *TINY, "--ranks", 2, "--max-steps", 3, "--partition", "dirichlet(0.1)", "--train-dir", "other")
    hashes = {name: summary(tmp_path / name)["parameters_sha256"] for name in ("default", "iid", "other")}
    assert hashes["default"] == hashes["iid"] != hashes["other"]


def test_a_resumed_run_has_the_same_data(good, run, tmp_path):
    flags = ["train", *TINY, "--ranks", 2, "--codec", "ef | topk(0.01)", "--epochs", 9, "--partition", "dirichlet(0.2)"]
    good(*flags, "--max-steps", 50, "--train-dir", "parts")  # an epoch has 32 steps
    good(*flags, "--max-steps", 90, "--train-dir", "whole")
    assert "partition = 'dirichlet(0.2)'" in (tmp_path / "parts" / "config.toml").read_text()
    refused(run("train", "--train-dir", "parts", "--resume", "--max-steps", 90, "--partition", "iid"),
            "dealt by dirichlet(alpha=0.2)")  # fmt: skip
    good("train", "--train-dir", "parts", "--resume", "--max-steps", 90)
    assert summary(tmp_path / "parts")["parameters_sha256"] == summary(tmp_path / "whole")["parameters_sha256"]


def test_rows(good, tmp_path):
    lines = [f"{'+1' if i % 3 == 0 else '-1'} {i % 20 + 1}:1\n" for i in range(400)]
    (tmp_path / "rows").write_text("".join(lines))
    text = good("train", "--model", "logreg", "--data", "libsvm", "--data-dir", "rows", "--ranks", 2, "--batch-size", 4,
                "--partition", "shards(1)", "--max-steps", 3, "--train-dir", "run").err  # fmt: skip
    counts = table(text)
    assert sorted(sum(row) for row in counts.values()) == [180, 180] and any(0 in row for row in counts.values())


@pytest.mark.parametrize("arguments, parts", [
    (["--partition", "shard(2)"], ["--partition", "did you mean `shards`?"]),
    (["--partition", "shards(0)"], ["--partition shards(0): n must be in [1, 1e+06]"]),
    (["--partition", "dirichlet(alpha=0)"], ["--partition dirichlet(alpha=0): alpha must be in [1e-06, 1e+06]"]),
    (["--partition", "iid(1)"], ["--partition iid(1): `iid` takes no arguments"]),
    (["--partition", "shards(300)", "--ranks", "2"], ["--partition shards(300): 512 training examples cannot be cut into 300 shards"]),
])  # fmt: skip
def test_refused(run, arguments, parts):
    refused(run("train", *TINY, "--dry-run", *arguments), *parts)


@pytest.mark.parametrize("model", ["gpt-mini", "transformer-tiny"])
def test_without_labels(run, model):
    refused(run("train", "--model", model, "--partition", "shards(2)"), "--partition shards(2): the examples of the task", "no labels")
