"""kill -9 of a whole job and --resume give the same bits as a run that nobody disturbed."""

import csv
import os
import signal

import pytest

from conftest import TINY, summary, wait_until

pytestmark = pytest.mark.slow

CODECS = ["none", "qsgd(bits=4)", "ef | topk(0.01)", "int8", "svd(exact=4) | atomo(s=3)"]


def newest(folder):
    steps = [int(p.name.rsplit("_", 1)[1]) for p in folder.glob("model_step_*") if not p.name.endswith(".tmp")]
    return max(steps, default=0)


def check(start, good, tmp_path, flags):
    flags = ["train", *flags, "--epochs", 100000, "--eval-freq", 1000000]
    job = start(*flags, "--checkpoint-every", 7, "--train-dir", "killed")
    wait_until(lambda: job.process.poll() is not None or newest(tmp_path / "killed") > 0, "a checkpoint")
    assert job.process.poll() is None, job.finish().err
    os.kill(job.process.pid, signal.SIGKILL)  # the ranks die with it
    job.finish()
    job.nothing_left()

    last = newest(tmp_path / "killed") + 9
    assert "resumed from" in good(*flags, "--resume", "--max-steps", last, "--train-dir", "killed").err
    good(*flags, "--max-steps", last, "--train-dir", "whole")
    killed, whole = summary(tmp_path / "killed"), summary(tmp_path / "whole")
    assert killed["steps"] == whole["steps"] == last
    assert killed["parameters_sha256"] == whole["parameters_sha256"]
    tested = [key for key in whole if key.startswith("test_")]
    assert tested and [killed[key] for key in tested] == [whole[key] for key in tested]
    # Steps that the killed job made after its checkpoint have one row each, not two.
    rows = [row.split(",")[:2] for row in (tmp_path / "killed" / "steps.csv").read_text().splitlines()[1:]]
    assert sorted(map(tuple, rows)) == sorted((str(s), str(r)) for s in range(last) for r in range(whole["ranks"]))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("codec", CODECS)
def test_bits_are_the_same(start, good, tmp_path, codec, ranks):
    check(start, good, tmp_path, [*TINY, "--codec", codec, "--ranks", ranks])


@pytest.mark.parametrize("task", [
    ["--task", "regress", "--model", "logreg"],
    ["--model", "gpt-mini(layers=1, heads=2, width=16, context=8, dropout=0.1)"],
    ["--model", "lstm(width=16, context=8)"],
    ["--model", "bert-mini(layers=1, heads=1, width=8, inner=8, context=8)"],
    ["--model", "transformer-tiny(layers=1, heads=2, width=16, inner=16)"],
    ["--model", "svm"],
    ["--model", "linreg"],
], ids=lambda task: task[-1].split("(")[0])  # fmt: skip
def test_of_every_task(start, good, tmp_path, task):
    check(start, good, tmp_path, [*task, *TINY[2:], "--codec", "ef | topk(0.01)", "--ranks", 2])


def test_of_scatter_reduce(start, good, tmp_path):
    check(start, good, tmp_path, [*TINY, "--codec", "ef | topk(0.01)", "--aggregator", "scatter_reduce", "--ranks", 3])


def test_of_the_order_of_need(start, good, tmp_path):
    flags = [*"--model lenet --train-size 96 --test-size 20 --batch-size 4 --deadline 60".split(), "--accumulate", 2,
             "--codec", "ef | topk(0.01)", "--ranks", 3]  # fmt: skip
    check(start, good, tmp_path, [*flags, "--algorithm", "sync(priority=need)"])
    steps = summary(tmp_path / "whole")["steps"]
    good("train", *flags, "--epochs", 100000, "--eval-freq", 1000000, "--max-steps", steps, "--train-dir", "sync")
    assert summary(tmp_path / "sync")["parameters_sha256"] == summary(tmp_path / "whole")["parameters_sha256"]


def test_the_order_of_need_counts_all(good, tmp_path):
    flags = ["train", *TINY, "--algorithm", "sync(priority=need)", "--codec", "ef | topk(0.1)", "--ranks", 3, "--max-steps", 8,
             "--buckets", "1KiB"]  # fmt: skip
    rows = {}
    for name, more in {"rare": [], "each": ["--check-replicas", 1], "eval": ["--eval-freq", 2, "--checkpoint-every", 3]}.items():
        good(*flags, *more, "--train-dir", name)
        with open(tmp_path / name / "steps.csv") as file:
            rows[name] = list(csv.DictReader(file))
    assert all(float(row["network_ms"]) > 0 for row in rows["each"])
    sums = {name: [sum(int(row["bytes_sent"]) for row in table if row["rank"] == str(rank)) for rank in range(3)]
            for name, table in rows.items()}  # fmt: skip
    assert sums["rare"] == sums["each"] == sums["eval"], "what is on its way after a step is in some row"
    assert summary(tmp_path / "rare")["remark"].startswith("aggregator: ")


def test_of_power(start, good, tmp_path):
    check(start, good, tmp_path, [*TINY, "--codec", "power(2)", "--codec-start-after", 3, "--ranks", 2])


def test_of_a_warm_up_of_the_optimiser(start, good, tmp_path):
    check(start, good, tmp_path, [*TINY, "--codec", "onebit-adam", "--optimiser", "onebit-adam(warmup=9)", "--ranks", 2])


def test_of_convolutions_and_dropout(start, good, tmp_path):
    flags = "--model mnist-cnn --train-size 64 --test-size 20 --batch-size 2 --accumulate 2 --nesterov --weight-decay 0.001"
    check(start, good, tmp_path, [*flags.split(), "--codec", "ef | topk(0.01) | f16", "--ranks", 2,
                                  "--schedule", "warmup(steps=5) | cosine"])


def test_config_replays_a_run(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--codec", "qsgd(bits=4)", "--max-steps", 5, "--seed", 3, "--train-dir", "first")
    good("train", "--config", "first/config.toml", "--train-dir", "second")
    first, second = summary(tmp_path / "first"), summary(tmp_path / "second")
    assert first["parameters_sha256"] == second["parameters_sha256"]
    good("train", "--config", "first/config.toml", "--train-dir", "third", "--seed", 4)
    third = summary(tmp_path / "third")
    assert third["seed"] == 4 and third["parameters_sha256"] != first["parameters_sha256"]


def test_config_with_mistakes(good, run, tmp_path):
    good("train", *TINY, "--max-steps", 1, "--train-dir", "first")
    text = (tmp_path / "first" / "config.toml").read_text()
    for bad, part in [(text + "epocs = 3\n", "did you mean `epochs`?"), (text.replace("epochs = 3", "epochs = 0"), "epochs must be in"),
                      (text.replace("epochs = 3", "epochs = \"3\""), "epochs must be a whole number"), (text + "[", "bad.toml:")]:
        (tmp_path / "bad.toml").write_text(bad)
        job = run("train", "--config", "bad.toml")
        assert job.status == 2 and part in job.err and "bad.toml" in job.err, job.err


def test_config_allows_another_codec_and_optimiser(good, tmp_path):
    """Rate and momentum that were not given are the defaults of the new codec and optimiser."""
    good("train", *TINY, "--ranks", 2, "--max-steps", 2, "--train-dir", "first")
    assert "# With these: optimiser sgd(momentum=0.9, " in (tmp_path / "first" / "config.toml").read_text()
    for name, flags, wanted in [("dgc", ["--codec", "dgc"], "dgc("), ("adam", ["--optimiser", "adam"], "adam("),
                                ("memory", ["--codec", "momentum | topk(0.1)"], "sgd(momentum=0, "), ("signum", ["--codec", "signum"], "signum(")]:
        good("train", "--config", "first/config.toml", *flags, "--train-dir", name)
        assert summary(tmp_path / name)["optimiser"].startswith(wanted)
    assert summary(tmp_path / "adam")["lr"] == 0.001 and summary(tmp_path / "dgc")["lr"] == summary(tmp_path / "first")["lr"]


@pytest.mark.parametrize("first,then,differs", [
    ([], ["--momentum", 0], "optimiser sgd(momentum=0.9"),
    ([], ["--nesterov"], "optimiser sgd(momentum=0.9, nesterov=false"),
    (["--optimiser", "adam"], ["--optimiser", "adam(beta2=0.9)"], "optimiser adam(beta1=0.9, beta2=0.999"),
    (["--codec", "onebit-adam"], ["--codec", "onebit-adam", "--codec-start-after", 3], "optimiser onebit-adam(warmup=100"),
    (["--codec", "ef | topk(0.1)"], ["--codec", "ef | topk(0.1)", "--codec-start-after", 3], "codec ef | topk"),
    ([], ["--average-iterates", 10], "average-iterates 0"),
    (["--average-iterates", 10], ["--average-iterates", 20], "average-iterates 10"),
    (["--amp", "bf16"], ["--amp", "none"], "amp bf16, this run has none"),
    (["--amp", "f16"], ["--amp", "none"], "amp f16, this run has none"),
])
def test_what_a_resume_may_not_change(good, run, first, then, differs):
    said = ["train", *TINY, "--ranks", 2, "--train-dir", "run"]
    good(*said, *first, "--max-steps", 2)
    job = run(*said, *then, "--max-steps", 4, "--resume")
    assert job.status == 2 and "it was written with" in job.err and differs in job.err, job.err


def test_other_training_data_are_noticed(good, run, tmp_path):
    rows = ["1 1:0.5 3:1", "-1 2:1"] * 20
    (tmp_path / "a").write_text("\n".join(rows))
    said = ["train", "--model", "svm", "--data", "libsvm", "--data-dir", "a", "--batch-size", 4, "--train-dir", "run"]
    good(*said, "--max-steps", 2)
    (tmp_path / "a").write_text("\n".join(["1 1:0.25 3:1", *rows[1:]]))
    job = run(*said, "--max-steps", 4, "--resume")
    assert job.status == 2 and "it was written with training-data 36 examples, hash" in job.err
    (tmp_path / "a").write_text("\n".join(rows))
    good(*said, "--max-steps", 4, "--resume")


def test_another_evaluation_is_refused(good, run, tmp_path):
    """Evaluations of other data would be compared with earlier ones, and one might become the best."""
    rows = ["1 1:0.5 3:1", "-1 2:1"] * 20
    for name in ["train.libsvm", "test.libsvm"]:
        (tmp_path / name).write_text("\n".join(rows))
    said = ["train", "--model", "svm", "--data", "libsvm", "--data-dir", ".", "--batch-size", 4, "--train-dir", "run"]
    good(*said, "--max-steps", 2)
    before = (tmp_path / "run" / "evaluations.csv").read_text()
    job = run(*said, "--max-steps", 4, "--resume", "--test-size", 39)
    assert job.status == 2 and "it was written with test-data 40 examples, hash" in job.err, job.err
    (tmp_path / "test.libsvm").write_text("\n".join([*rows[:30], "1 2:1", *rows[31:]]))
    job = run(*said, "--max-steps", 4, "--resume")
    assert job.status == 2 and "this run has 40 examples, hash" in job.err, job.err
    assert (tmp_path / "run" / "evaluations.csv").read_text() == before
    (tmp_path / "test.libsvm").write_text("\n".join(rows))
    good(*said, "--max-steps", 4, "--resume")


def test_a_complete_run_without_summary_ends_at_once(good, tmp_path):
    said = ["train", *TINY, "--max-steps", 2, "--train-dir", "run"]
    good(*said)
    (tmp_path / "run" / "summary.json").unlink()  # as after a kill between the last checkpoint and the summary
    assert "nothing was left to do: the run ends after 2 steps" in good(*said, "--resume").err


def test_what_a_resume_may_change(good, tmp_path):
    said = ["train", *TINY, "--ranks", 2, "--train-dir", "run"]
    good(*said, "--max-steps", 2)
    good(*said, "--max-steps", 4, "--resume", "--lr", 0.001, "--weight-decay", 0.1)
    assert summary(tmp_path / "run")["optimiser"].count("weight-decay=0.1") == 1 and summary(tmp_path / "run")["lr"] == 0.001


def test_the_mean_of_iterates_is_what_is_evaluated(good, tmp_path):
    said = ["train", *TINY, "--ranks", 2, "--average-iterates", 5, "--train-dir", "run", "--checkpoint-every", 10, "--eval-freq", 10]
    job = good(*said, "--max-steps", 20)
    lines = [line for line in good("eval", "--model-dir", "run").out.splitlines()]
    assert len(lines) == 2
    for line in lines:
        step, rest = line.split("  loss ")
        accuracy = rest.split("  ", 1)[1]
        assert any(f"{step}  test loss " in row and row.endswith(accuracy) for row in job.err.splitlines()), (line, job.err)
    loss = float(lines[-1].split("loss ")[1].split()[0])
    assert loss == pytest.approx(summary(tmp_path / "run")["test_loss"], abs=1e-4)
    good("train", *TINY, "--ranks", 2, "--max-steps", 20, "--train-dir", "last")
    assert abs(summary(tmp_path / "last")["test_loss"] - loss) > 1e-3, "the last iterate is another one"
    good(*said, "--max-steps", 24, "--resume")
