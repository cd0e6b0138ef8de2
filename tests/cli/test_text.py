"""Tasks over texts: tokens, and masked text."""

import json
import math

import pytest

MODEL = {"language": "gpt-mini(layers=1, heads=1, width=8, context=8)", "masked": "bert-mini(layers=1, heads=1, width=8, inner=8, context=8)"}
FEW = ["--batch-size", 4, "--test-size", 20]


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book").write_text("".join(f"line {i} of a book\n" for i in range(900)))
    return "book"


@pytest.mark.parametrize("task", ["language", "masked"])
def test_trains_on_tokens(good, run, tmp_path, task, book):
    said = good("data", "prepare", "text", "--data-dir", book, "--vocabulary", 300).out
    assert said == "300 tokens in book.sentencepiece.model\n"
    training = ["train", "--model", MODEL[task], "--data", "text", "--data-dir", book, *FEW, "--train-dir", "run", "--max-steps"]
    good(*training, 2, "--tokens", "sentencepiece", "--ranks", 2)
    assert "tokens = 'sentencepiece'" in (tmp_path / "run" / "config.toml").read_text()
    good(*training, 4, "--resume")
    line = good("eval", "--model-dir", "run").out.splitlines()[-1]
    assert line.startswith("step 4  loss ")
    last = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert f"loss {last['test_loss']:.4f}" in line
    assert abs(last["test_loss"] - math.log(301)) < 0.5
    refused = run(*training, 6, "--resume", "--tokens", "bytes")
    assert refused.status == 2 and "data" in refused.err


def test_prepare_refuses_what_needs_nothing(run, tmp_path):
    job = run("data", "prepare", "made-text", "--data-dir", "x")
    assert job.status == 2 and "only `text` and `parallel` need it" in job.err
    (tmp_path / "bad").write_bytes(b"good line\n\xff\n" * 50)
    job = run("data", "prepare", "text", "--data-dir", "bad")
    assert job.status == 1 and "bad:2: not UTF-8" in job.err


def test_the_task_follows_from_the_model(good, tmp_path):
    good("train", "--model", MODEL["masked"], *FEW, "--train-size", 40, "--epochs", 1, "--train-dir", "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "task = 'masked'" in (tmp_path / "run" / "config.toml").read_text()
    assert set(summary) >= {"test_loss", "test_accuracy", "test_perplexity"}
