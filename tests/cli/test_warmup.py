"""Ratios that fall from epoch to epoch, and memories that make the momentum or keep the rate."""

import pytest

from conftest import TINY, summary

# 16 steps an epoch: 50 % in the first, 20 % in the second.
def flags(codec="momentum(0.8) | topk(0.02)", warmup="list(50%/20%)"):
    return ["train", *TINY, "--ranks", 4, "--epochs", 5, "--codec", codec, "--codec-warmup", warmup]


def bytes_of(folder):
    """By step, what rank 0 sent."""
    names, *rows = [row.split(",") for row in (folder / "steps.csv").read_text().splitlines()]
    at = {name: i for i, name in enumerate(names)}
    return [int(row[at["bytes_sent"]]) for row in sorted(rows, key=lambda r: int(r[at["step"]])) if row[at["rank"]] == "0"]


def test_the_ratio_falls_from_epoch_to_epoch(good, tmp_path):
    job = good(*flags(), "--max-steps", 50, "--train-dir", "run", "--check-replicas", 1)
    sent = bytes_of(tmp_path / "run")
    assert len(sent) == 50
    assert len(set(sent[:16])) == 1 or max(sent[:16]) < 1.1 * min(sent[:16])
    assert min(sent[:16]) > 1.5 * max(sent[16:32]) and min(sent[16:32]) > 3 * max(sent[32:])
    for line in ("step 0  codec momentum(0.8) | topk(ratio=0.5", "step 16  codec momentum(0.8) | topk(ratio=0.2",
                 "step 32  codec momentum(0.8) | topk(ratio=0.02"):
        assert line in job.err, job.err
    found = summary(tmp_path / "run")
    assert found["codec_warmup"] == "list(50%/20%)"
    assert "from step 16: momentum(m=0.8, " in found["method"] and "topk(ratio=0.02" in found["method"]
    assert 'momentum = 0.0' in (tmp_path / "run" / "config.toml").read_text().replace("momentum = 0\n", "momentum = 0.0\n")


@pytest.mark.parametrize("codec", ["momentum(0.8, nesterov=true) | topk(0.02) | qsgd(bits=4)", "memsgd | topk(0.02)"])
def test_a_resume_before_at_and_behind_a_border(good, tmp_path, codec):
    said = [*flags(codec), "--schedule", "step(every=5, factor=0.7)"]
    good(*said, "--max-steps", 36, "--train-dir", "whole")
    for first in (15, 16, 17, 32):
        good(*said, "--max-steps", first, "--train-dir", f"at{first}")
        good(*said, "--max-steps", 36, "--train-dir", f"at{first}", "--resume")
        assert summary(tmp_path / f"at{first}")["parameters_sha256"] == summary(tmp_path / "whole")["parameters_sha256"], first


def test_another_warm_up_does_not_resume(good, run):
    good(*flags(), "--max-steps", 5, "--train-dir", "run")
    job = run(*flags(warmup="list(50%)"), "--max-steps", 9, "--train-dir", "run", "--resume")
    assert job.status == 2 and "codec" in job.err and "from step 16" in job.err, job.err


def test_the_optimiser_leaves_momentum_to_the_memory(good, tmp_path):
    """None of its own is said, so it has none; and where all is sent, one is as good as the other."""
    said = ["train", *TINY, "--ranks", 2, "--max-steps", 20, "--lr", 0.05]
    good(*said, "--codec", "momentum(0.5) | f32", "--train-dir", "before")
    good(*said, "--momentum", 0.5, "--train-dir", "after")
    before, after = summary(tmp_path / "before"), summary(tmp_path / "after")
    assert before["test_loss"] == pytest.approx(after["test_loss"], rel=1e-4)
    good(*said, "--momentum", 0, "--train-dir", "without")
    assert summary(tmp_path / "without")["test_loss"] != pytest.approx(after["test_loss"], rel=1e-3)


def test_a_comparison_leaves_it_to_each_codec(good):
    job = good("compare", *TINY, "--ranks", 2, "--max-steps", 3, "--codecs", "none", "momentum | topk(0.1)", "demo | dct(64) | topk(0.1)")
    assert "failed" not in job.out, job.out
