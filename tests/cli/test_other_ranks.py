"""--resume with another number of ranks than wrote the checkpoint."""

import csv
import shutil

import pytest

from conftest import summary

pytestmark = pytest.mark.slow

# With 8 a batch, 520 examples leave a remainder of 8 on 2 ranks, and on 4.
FLAGS = ["train", *"--model logreg --train-size 520 --test-size 100 --deadline 60".split()]
EXAMPLES, BATCH = 520, 8


def rows(folder, name="steps.csv", **wanted):
    with open(folder / name) as file:
        return [row for row in csv.DictReader(file) if all(row[key] == str(value) for key, value in wanted.items())]


def go(good, folder, stages, *flags):
    """Each stage has its number of ranks, its last step, and its flags; all but the first resume."""
    before = None
    for ranks, last, *own in stages:
        own += [] if "--batch-size" in own else ["--batch-size", BATCH]
        job = good(*FLAGS, *flags, "--train-dir", folder, "--ranks", ranks, "--max-steps", last, *own, *(["--resume"] if before else []))
        if before:
            assert f"rank count changed from {before} to {ranks}: " in job.err
        before = ranks
    return folder


def losses(folder):
    return {row["epoch"]: float(row["loss"]) for row in rows(folder, "evaluations.csv", split="test")}


@pytest.mark.parametrize("option, value", [("--batch-size", BATCH), ("--accumulate", 1)])
def test_the_same_global_batch_changes_no_step(good, tmp_path, option, value):
    """Data, momentum and schedule continue where they were. Sums of two batches and of four differ in their last bits."""
    flags = ["--epochs", 2, "--momentum", 0.9, "--schedule", "warmup(steps=6) | cosine", "--train-dir"]
    whole = tmp_path / "whole"
    good(*FLAGS, *flags, whole, "--ranks", 4, "--batch-size", BATCH)
    once, twice = (option, value), (option, 2 * value)
    run = go(good, tmp_path / "run", [(4, 7, *once), (2, 20, *twice), (4, "auto", *once)], *flags[:-1])
    assert [row["lr"] for row in rows(run, rank=0)] == [row["lr"] for row in rows(whole, rank=0)]
    assert [row["epoch"] for row in rows(run, rank=0)] == [row["epoch"] for row in rows(whole, rank=0)]
    found, wanted = losses(run), losses(whole)
    for epoch in ("1.0000", "2.0000"):
        assert found[epoch] == pytest.approx(wanted[epoch], rel=1e-5)


def test_an_epoch_has_each_example_once(good, tmp_path):
    run = go(good, tmp_path / "run", [(4, 5), (2, 15), (4, "auto")], "--epochs", 2, "--codec", "ef | topk(0.1)", "--schedule", "polynomial")
    steps = rows(run)
    for epoch in (0, 1):
        read = BATCH * sum(epoch <= float(row["epoch"]) < epoch + 1 for row in steps)
        assert EXAMPLES - 4 * BATCH < read <= EXAMPLES
    # Five steps of 4 x 8, ten of 2 x 8, and the rest of the epoch, again by 32.
    assert [len(rows(run, step=step)) for step in range(17)] == 5 * [4] + 10 * [2] + 2 * [4]
    assert float(rows(run, step=15, rank=0)[0]["epoch"]) == pytest.approx((5 * 32 + 10 * 16) / 512, abs=1e-4)
    # The rate falls with the epochs, not with the steps.
    for row in steps:
        assert float(row["lr"]) == pytest.approx(float(steps[0]["lr"]) * (1 - float(row["epoch"]) / 2), rel=0.05, abs=1e-4)
    assert list(losses(run)) == ["0.3125", "0.6250", "1.0000", "2.0000"]
    assert len(rows(run, "evaluations.csv", split="test", step=summary(run)["steps"])) == 1
    spent = [int(row["bytes_sent"]) for row in rows(run, "evaluations.csv", split="test")]
    assert spent == sorted(spent) and spent[-1] == sum(int(row["bytes_sent"]) for row in steps)


def test_then_a_resume_has_the_same_bits(good, tmp_path):
    """Also with phases of a codec, whose steps the first start has planned."""
    how = ["--epochs", 8, "--codec", "ef | topk(0.1)", "--codec-warmup", "list(50%/20%)", "--checkpoint-every", 5]
    whole = go(good, tmp_path / "whole", [(4, 10), (2, 30)], *how)
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    shutil.rmtree(run / "model_step_30")
    job = good(*FLAGS, *how, "--train-dir", run, "--ranks", 2, "--batch-size", BATCH, "--max-steps", 30, "--resume")
    assert "model_step_25" in job.err and "rank count" not in job.err
    assert summary(run)["parameters_sha256"] == summary(whole)["parameters_sha256"]
    for rank in (0, 1):
        assert [row["loss"] for row in rows(run, rank=rank)] == [row["loss"] for row in rows(whole, rank=rank)]


@pytest.mark.parametrize("how", [
    ["--algorithm", "sync(priority=need)", "--codec", "ef | topk(0.1)"],
    ["--codec", "ef | topk(0.1)", "--aggregator", "hierarchical(group=2)"],
    ["--codec", "power(2)"],
    ["--codec", "onebit-adam", "--optimiser", "onebit-adam(warmup=9)", "--lr", "0.001"],
    ["--algorithm", "local(4)", "--codec", "ef | topk(0.1)"],
    ["--algorithm", "slowmo(h=4)", "--codec", "ef | topk(0.1)", "--momentum", "0.9"],
    ["--algorithm", "diloco(h=4, shards=1)", "--lr", "0.001", "--ema", "0"],
    ["--algorithm", "push_sum", "--momentum", "0.9"],
    ["--algorithm", "push_sum(overlap=true)"],
    ["--algorithm", "d_psgd"],
    ["--algorithm", "ad_psgd", "--topology", "star"],
    ["--algorithm", "ad_psgd(count=each)", "--topology", "star"],
    ["--algorithm", "choco", "--codec", "topk(0.2)"],
], ids=lambda how: how[1])  # fmt: skip
def test_of_codecs_and_algorithms(good, tmp_path, how):
    run = go(good, tmp_path / "run", [(4, 10), (2, 18), (4, 30)], *how, "--epochs", 4, "--eval-freq", 10)
    first, *_, last = losses(run).values()
    assert last < first < 2.5
    seen = [row["loss"] for row in rows(run) if 10 <= int(row["step"]) < 18]
    assert len(set(seen)) == len(seen) > 0, "each rank has its own examples"


def test_the_loss_scale_goes_on(good, tmp_path):
    """One that began again at 4e6 would leave out steps again."""
    run, how = tmp_path / "run", ["--amp", "f16(scale=4e6)", "--codec", "ef | topk(0.1)"]
    go(good, run, [(4, 12)], *how)
    before = summary(run)
    assert 0 < before["skipped_steps"] < 12 and before["loss_scale"] < 4e6
    good(*FLAGS, *how, "--train-dir", run, "--ranks", 2, "--batch-size", BATCH, "--max-steps", 18, "--resume")
    after = summary(run)
    assert after["steps"] == 18
    assert {key: after[key] for key in ("loss_scale", "skipped_steps")} == {key: before[key] for key in ("loss_scale", "skipped_steps")}


@pytest.mark.parametrize("flags, named", [
    (["--algorithm", "parameter_server"], "`parameter_server`"),
    (["--algorithm", "push_sum", "--node-size", 2], "`push_sum` between nodes"),
])  # fmt: skip
def test_algorithms_that_cannot_say_what_to_do(good, run, flags, named, tmp_path):
    good(*FLAGS, "--ranks", 4, "--max-steps", 4, *flags, "--train-dir", "run")
    job = run(*FLAGS, "--ranks", 2, *flags, "--train-dir", "run", "--resume")
    assert job.status == 2 and job.err.count("sotto: ") == 1, job.err
    assert f"written with ranks 4, this run has 2, and {named} cannot continue with another number" in job.err
    weights = job.err.split("from the mean model with ")[1].split()
    assert weights == ["--weights", "run/model_step_4/model.safetensors"]
    good(*FLAGS, "--ranks", 2, *flags, *weights, "--max-steps", 2, "--train-dir", "other")


class TestOfADamagedCheckpoint:
    @pytest.fixture
    def folder(self, good, tmp_path):
        good(*FLAGS, "--ranks", 4, "--max-steps", 4, "--checkpoint-every", 2, "--codec", "ef | topk(0.1)", "--batch-size", BATCH,
             "--train-dir", "run")  # fmt: skip
        return tmp_path / "run"

    @pytest.mark.parametrize("rank", [1, 3])
    def test_a_part_of_whom_nobody_is_now(self, good, folder, rank):
        path = folder / "model_step_4" / f"rank_{rank}"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
        job = good("train", "--train-dir", "run", "--resume", "--ranks", 2, "--max-steps", 6)
        assert f"left aside: cannot use run/model_step_4/rank_{rank}: the checksum does not match" in job.err
        assert "resumed from run/model_step_2" in job.err and "rank count changed from 4 to 2" in job.err

    def test_a_part_that_is_missing_in_all(self, run, folder):
        for step in (2, 4):
            (folder / f"model_step_{step}" / "rank_2").unlink()
        job = run("train", "--train-dir", "run", "--resume", "--ranks", 3, "--max-steps", 6)
        assert job.status == 1 and "no checkpoint is whole" in job.err and "model_step_4/rank_2: missing" in job.err

    def test_other_options_are_refused_as_ever(self, run, folder):
        job = run("train", "--train-dir", "run", "--resume", "--ranks", 2, "--model", "fc")
        assert job.status == 2 and "was written with model logreg" in job.err
        job = run("train", "--train-dir", "run", "--resume", "--ranks", 4, "--batch-size", 2 * BATCH)
        assert job.status == 2 and f"was written with batch-size {BATCH}, this run has {2 * BATCH}" in job.err
