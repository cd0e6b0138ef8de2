"""Ratios that fall from epoch to epoch, and memories that keep the momentum or the rate."""

import pytest

from conftest import TINY, summary

pytestmark = pytest.mark.slow

# An epoch has 16 steps: 50 % are sent in the first epoch, 20 % in the second.
def flags(codec="momentum(0.8) | topk(0.02)", warmup="list(50%/20%)"):
    return ["train", *TINY, "--ranks", 4, "--epochs", 5, "--codec", codec, "--codec-warmup", warmup]


def bytes_of(folder):
    """The bytes that rank 0 sent, by step."""
    names, *rows = [row.split(",") for row in (folder / "steps.csv").read_text().splitlines()]
    at = {name: i for i, name in enumerate(names)}
    return [int(row[at["bytes_sent"]]) for row in sorted(rows, key=lambda r: int(r[at["step"]])) if row[at["rank"]] == "0"]


def test_the_ratio_falls_from_epoch_to_epoch(good, tmp_path):
    job = good(*flags(), "--aggregator", "gather", "--max-steps", 50, "--train-dir", "run", "--check-replicas", 1)
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
    assert found["optimiser"].startswith("sgd(momentum=0, "), "the memory makes it"


@pytest.mark.parametrize("codec", ["momentum(0.8, nesterov=true) | topk(0.02) | qsgd(bits=4)", "memsgd | topk(0.02)"])
def test_a_resume_before_at_and_behind_a_border(good, tmp_path, codec):
    said = [*flags(codec), "--schedule", "step(every=5, factor=0.7)"]
    good(*said, "--max-steps", 36, "--train-dir", "whole")
    for first in (15, 16, 17, 32):
        good(*said, "--max-steps", first, "--train-dir", f"at{first}")
        good(*said, "--max-steps", 36, "--train-dir", f"at{first}", "--resume")
        assert summary(tmp_path / f"at{first}")["parameters_sha256"] == summary(tmp_path / "whole")["parameters_sha256"], first


@pytest.mark.parametrize("codec", ["momentum(0.9) | sampled_topk(0.02)", "momentum(0.9) | randomk(0.02)",
                                   "fetch(0.02, momentum=0.9) | dct(8)"])
def test_ratio_one_is_momentum_without_codec(good, tmp_path, codec):
    said = ["train", *TINY, "--ranks", 2, "--epochs", 5, "--max-steps", 15, "--lr", 0.05]
    good(*said, "--codec", codec, "--codec-warmup", "list(100%)", "--train-dir", "warm")
    good(*said, "--momentum", 0.9, "--train-dir", "dense")
    warm, dense = summary(tmp_path / "warm"), summary(tmp_path / "dense")
    assert warm["test_loss"] == pytest.approx(dense["test_loss"], rel=1e-3)


def test_a_preset_warns_of_its_default_rate(good, tmp_path):
    said = ["train", *TINY, "--ranks", 2, "--max-steps", 2]
    assert "--codec dgc: at its default rate it lost" in good(*said, "--codec", "dgc", "--train-dir", "dgc").err
    tried = good(*said, "--codec", "dgc", "--dry-run")
    assert "--codec dgc: at its default rate it lost" in tried.out + tried.err
    for other in (["--codec", "dgc", "--lr", 0.01], ["--codec", "qsgd"], ["--codec", "momentum | sampled_topk(0.1%)"]):
        assert "at its default rate" not in good(*said, *other, "--train-dir", other[1][:4] + str(len(other))).err


def test_a_presets_rate_scales_with_the_models(good, tmp_path):
    for codec in ("none", "efsignsgd"):
        good("train", *TINY, "--max-steps", 2, "--codec", codec, "--train-dir", codec)
    assert summary(tmp_path / "efsignsgd")["lr"] == summary(tmp_path / "none")["lr"] / 2


def test_a_too_long_warm_up_is_shortened(good):
    """A recipe of the README, with the default of three epochs."""
    said = ["train", *TINY, "--ranks", 4, "--codec", "dgc", "--codec-warmup", "exponential"]
    job = good(*said)
    assert "4 epochs of warm-up do not fit into 48 steps of 16 an epoch: each of its ratios lasts 9 steps" in job.err, job.err
    for step, ratio in ((0, "0.25"), (9, "0.0625"), (19, "0.015625"), (28, "0.00390625"), (38, "0.001")):
        assert f"step {step}  codec momentum | sampled_topk(ratio={ratio}," in job.err, job.err
    dry = good(*said, "--dry-run").out
    assert "remark" in dry and "do not fit" in dry, dry


def test_another_warm_up_does_not_resume(good, run):
    good(*flags(), "--max-steps", 5, "--train-dir", "run")
    job = run(*flags(warmup="list(50%)"), "--max-steps", 9, "--train-dir", "run", "--resume")
    assert job.status == 2 and "codec" in job.err and "from step 16" in job.err, job.err


def test_the_optimiser_leaves_momentum_to_the_memory(good, tmp_path):
    """No momentum is given for the optimiser, so it has none. Where all is sent, both kinds of momentum are equal."""
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


def test_of_sketches(good, tmp_path):
    """The warm-up changes the share that a step moves; the sketches of momentum and error go over."""
    codec = "fetch(0.05, momentum=0.5) | count_sketch(rows=3, columns=30%)"
    job = good(*flags(codec, "list(30%)"), "--max-steps", 20, "--train-dir", "run", "--check-replicas", 1)
    assert "step 16  codec fetch(ratio=0.05, momentum=0.5" in job.err, job.err


def dense_first(codec, steps):
    return ["train", *TINY, "--ranks", 3, "--codec", codec, "--codec-start-after", steps]


def test_the_codec_starts_after_dense_steps(good, tmp_path):
    said = dense_first("ef | topk(0.02)", 5)
    job = good(*said, "--max-steps", 9, "--train-dir", "whole", "--check-replicas", 1)
    for line in ("step 0  codec ef | f32\n", "step 5  codec ef | topk(0.02)\n"):
        assert line in job.err, job.err
    sent = bytes_of(tmp_path / "whole")
    assert len(set(sent[:5])) == 1 and sent[4] > 5 * max(sent[5:]), sent
    for first in (4, 5, 6):
        good(*said, "--max-steps", first, "--train-dir", f"at{first}")
        good(*said, "--max-steps", 9, "--train-dir", f"at{first}", "--resume")
        assert summary(tmp_path / f"at{first}")["parameters_sha256"] == summary(tmp_path / "whole")["parameters_sha256"], first
    dry = good(*said, "--dry-run").out
    assert "from step     5\n" in dry, dry


def test_dense_steps_have_the_memory_s_momentum(good, tmp_path):
    said = ["train", *TINY, "--ranks", 2, "--max-steps", 12, "--lr", 0.05]
    good(*said, "--codec", "momentum(0.9) | topk(0.02)", "--codec-start-after", 12, "--train-dir", "before")
    good(*said, "--momentum", 0.9, "--train-dir", "after")
    before, after = summary(tmp_path / "before"), summary(tmp_path / "after")
    assert before["test_loss"] == pytest.approx(after["test_loss"], rel=1e-4)


def test_dense_steps_of_an_optimiser(good, run, tmp_path):
    said = dense_first("onebit-adam", 6) + ["--max-steps", 9]
    job = good(*said, "--train-dir", "flag")
    assert "step 0  codec ef | f32\n" in job.err and "step 6  codec onebit-adam\n" in job.err, job.err
    good("train", *TINY, "--ranks", 3, "--codec", "onebit-adam", "--optimiser", "onebit-adam(warmup=6)", "--max-steps", 9,
         "--train-dir", "option")
    assert summary(tmp_path / "flag")["optimiser"].startswith("onebit-adam(warmup=6, ")
    assert summary(tmp_path / "flag")["parameters_sha256"] == summary(tmp_path / "option")["parameters_sha256"]
    job = run(*said, "--optimiser", "onebit-adam(warmup=6)")
    assert job.status == 2 and "--codec-start-after 6: the optimiser `onebit-adam(warmup=6)` says it, too" in job.err, job.err


@pytest.mark.parametrize("codec,variance", [("ef | randomk(0.01, unbiased=true)", 98.2), ("momentum | atomo(s=1%)", 99),
                                            ("memsgd | qsgd(bits=2)", 7.54), ("ef | randomk(0.6, unbiased=true)", None)])
def test_a_memory_before_an_expanding_codec_warns(good, codec, variance):
    said = ["train", *TINY, "--ranks", 2, "--codec", codec, "--max-steps", 3]
    for text in (good(*said).err, good(*said, "--dry-run").out):
        assert ("warning" in text) == (variance is not None), text
        assert variance is None or f"with a variance of up to {variance} |x|^2" in text, text


@pytest.mark.parametrize("said,step", [(["--codec", "onebit-adam"], 100), (["--codec", "lss", "--codec-start-after", 500], 500)])
def test_a_run_that_never_compresses_says_so(good, said, step):
    said = ["train", *TINY, "--ranks", 2, *said, "--max-steps", 3]
    assert f"warning: the codec would begin at step {step}, and this run ends at step 3" in good(*said).err
    assert f"from step     {step}: the run ends before" in good(*said, "--dry-run").out
