"""Layers in 16 bits: the scale of the loss, and steps that overflow."""

import csv
import re

import pytest

from conftest import TINY, summary

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("amp", ["bf16", "f16"])
def test_16_bits_want_a_network(run, amp):
    job = run("train", "--model", "svm", "--amp", amp, "--max-steps", 1, "--train-dir", "run")
    assert job.status == 2 and f"--amp {amp}: is for networks" in job.err


@pytest.mark.parametrize("flags, message", [
    (["--amp", "f61"], "unknown precision `f61`; did you mean `f16`?"),
    (["--amp", "f16(scale=0.5)"], "scale must be in [1, 1e+30]"),
    (["--amp", "bf16(scale=2)"], "bf16"),
    (["--amp", "f16", "--algorithm", "parameter_server", "--ranks", 2], "`parameter_server` has servers that take every step"),
    (["--amp", "f16", "--optimiser", "onebit-adam", "--codec", "onebit-adam"], "`onebit-adam` counts its first steps"),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(run, flags, message):
    job = run("train", *TINY, "--max-steps", 2, "--train-dir", "run", *flags)
    assert job.status == 2 and message in job.err, job.err


@pytest.mark.parametrize("flags", [
    ["--codec", "ef | topk(0.1)", "--check-replicas", 1], ["--algorithm", "sync(priority=need)", "--codec", "int8", "--check-replicas", 1],
    ["--codec", "ef | qsgd(4)", "--ema", 0.9, "--clip", "norm(1)"], ["--algorithm", "local(h=2)"], ["--algorithm", "d_psgd"],
])  # fmt: skip
def test_steps_that_overflow_are_left_out(good, tmp_path, flags):
    flags = ["train", *TINY, "--ranks", 2, *flags, "--amp", "f16(scale=4e6, every=4)"]
    said = good(*flags, "--train-dir", "whole", "--max-steps", 12).err
    whole = summary(tmp_path / "whole")
    steps_of_its_own = "local(h=2)" in flags or "d_psgd" in flags  # then both ranks' count
    assert 2 < whole["skipped_steps"] < (20 if steps_of_its_own else 10) and whole["test_loss"] < 3
    assert not steps_of_its_own or whole["skipped_steps"] > len(re.findall("is left out", said)), "the lines are rank 0's"
    assert "step 0  is left out: a gradient overflowed; the loss scale is 2" in said
    # The same if the run is resumed between two such steps, and after them.
    for stop in (2, 9, 12):
        good(*flags, "--train-dir", "cut", "--max-steps", stop, *(["--resume"] if stop > 2 else []))
    cut = summary(tmp_path / "cut")
    assert {key: cut[key] for key in ("parameters_sha256", "loss_scale", "skipped_steps", "test_loss")} == {
        key: whole[key] for key in ("parameters_sha256", "loss_scale", "skipped_steps", "test_loss")}  # fmt: skip


def test_no_gradient_is_captured_that_overflowed(good, tmp_path):
    good("train", *TINY, "--max-steps", 12, "--amp", "f16(scale=4e6)", "--capture", "every=1,dir=gradients", "--train-dir", "run")
    skipped = summary(tmp_path / "run")["skipped_steps"]
    found = sorted(path.name for path in (tmp_path / "gradients").iterdir())
    assert 0 < skipped < 12 and found == [f"gradient-{step:06d}.safetensors" for step in range(skipped, 12)]


@pytest.mark.parametrize("model", ["lstm(width=16, context=8)", "gpt-mini(layers=1, heads=2, width=16, context=8)", "bert-mini(layers=1, context=8)",
                                   "transformer-tiny(layers=1)"])  # fmt: skip
def test_models_of_text_compute_in_float16(good, tmp_path, model):
    flags = ["train", "--model", model, "--train-size", 256, "--test-size", 32, "--batch-size", 4, "--max-steps", 3]
    good(*flags, "--amp", "f16", "--train-dir", "halves")
    good(*flags, "--train-dir", "floats")
    assert first_loss(tmp_path / "halves") == pytest.approx(first_loss(tmp_path / "floats"), rel=1e-3)
    halves, floats = (summary(tmp_path / name) for name in ("halves", "floats"))
    assert halves["skipped_steps"] < 3 and halves["parameters_sha256"] != floats["parameters_sha256"]


def rows(folder):
    with open(folder / "steps.csv") as file:
        return list(csv.DictReader(file))


def first_loss(folder):
    return float(rows(folder)[0]["loss"])


def test_overflows_without_end_are_an_error(run):
    job = run("train", *TINY, "--epochs", 10, "--lr", 1e30, "--amp", "f16", "--ranks", 2, "--train-dir", "run")
    assert job.status == 1
    assert "gradients overflow float16 at step" in job.err and "is scaled no more; bfloat16, a smaller learning rate" in job.err


def test_a_dry_run_counts_what_is_agreed(good, tmp_path):
    flags = ["train", *TINY, "--max-steps", 4, "--ranks", 2, "--codec", "int8", "--amp", "f16"]
    told = re.search(r"a rank sends +(\d+) bytes a step", good(*flags, "--dry-run").out)
    good(*flags, "--train-dir", "run")
    assert {row["bytes_sent"] for row in rows(tmp_path / "run") if row["step"] != "0"} == {told[1]}
