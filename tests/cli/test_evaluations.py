"""evaluations.csv, the best checkpoint and --until, as a user sees them."""

import csv
import os
import re
import signal

import pytest

from conftest import TINY, has_step, summary, wait_until
from terminal import Terminal

pytestmark = pytest.mark.slow

FLAGS = ["train", *TINY, "--ranks", 2]  # 32 steps an epoch
SLOW_TESTS = "train --model resnet20 --data digits --train-size 64 --batch-size 8 --threads 1".split()
ALGORITHMS = [
    ("sync", []), ("push_sum", []), ("d_psgd", ["--topology", "ring"]), ("local(h=3)", []), ("parameter_server", []),
    ("parameter_server(mode=async)", []), ("ad_psgd", ["--topology", "star"]), ("ad_psgd(count=each)", ["--topology", "star"]),
]  # fmt: skip


def rows_of(folder, split=None):
    with open(folder / "evaluations.csv") as file:
        return [row for row in csv.DictReader(file) if split in (None, row["split"])]


def steps_of(folder):
    return sorted(int(p.name.split("_")[-1]) for p in folder.glob("model_step_*") if p.name[-1].isdigit())


def without_time(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_each_epoch_has_a_row_of_each_split(good, tmp_path):
    good(*FLAGS, "--epochs", 3, "--train-dir", "run")
    rows = rows_of(tmp_path / "run")
    assert list(rows[0]) == ["step", "epoch", "seconds", "bytes_sent", "split", "loss", "accuracy", "top5"]
    assert [(row["step"], float(row["epoch"]), row["split"]) for row in rows] == [
        (step, epoch, split) for step, epoch in [("32", 1), ("64", 2), ("96", 3)] for split in ("train", "test")]  # fmt: skip
    ended = summary(tmp_path / "run")
    assert float(rows[-1]["accuracy"]) == ended["test_accuracy"] and float(rows[-1]["loss"]) == ended["test_loss"]
    with open(tmp_path / "run" / "steps.csv") as file:
        steps = list(csv.DictReader(file))
    for row in rows:
        done = [step for step in steps if int(step["step"]) < int(row["step"])]
        assert int(row["bytes_sent"]) == sum(int(step["bytes_sent"]) for step in done)
        own = [float(step["step_ms"]) / 1e3 for step in done if step["rank"] == "0"]  # no checkpoint, and no evaluation
        assert float(row["seconds"]) == pytest.approx(sum(own), abs=1e-6 * len(own) + 1e-3)
        epoch = [float(step["loss"]) for step in done if int(step["step"]) >= int(row["step"]) - 32]
        assert row["split"] == "test" or float(row["loss"]) == pytest.approx(sum(epoch) / len(epoch), rel=1e-5)
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds) and 0 < seconds[0] < seconds[-1] < ended["seconds"]
    assert float(rows[-2]["accuracy"]) > float(rows[0]["accuracy"]), "training gets better at what it trains"


def test_the_best_is_kept_and_named(good, tmp_path):
    job = good(*FLAGS, "--epochs", 8, "--eval-freq", 8, "--checkpoint-minutes", "1e-9", "--train-dir", "run")
    rows = rows_of(tmp_path / "run", "test")
    best = max(rows, key=lambda row: float(row["accuracy"]))  # of equal rows, the first one
    step = int(best["step"])
    assert summary(tmp_path / "run")["best"] == {"step": step, "accuracy": float(best["accuracy"]), "checkpoint": f"model_step_{step}"}
    assert f"best accuracy {100 * float(best['accuracy']):.2f} % after {step} steps; run/model_step_{step}" in job.out
    made = steps_of(tmp_path / "run")
    assert step in made and made[-1] == 256 and len(made) <= 4, "the best, the clock's last two, and the one at the end"
    line = re.search(rf"^step {step}  .*accuracy ([0-9.]+)", good("eval", "--model-dir", "run").out, re.MULTILINE)
    assert line and float(line[1]) == pytest.approx(100 * float(best["accuracy"]))


def test_it_can_be_left(good, tmp_path):
    job = good(*FLAGS, "--epochs", 4, "--eval-freq", 8, "--no-keep-best", "--train-dir", "run")
    assert steps_of(tmp_path / "run") == [128]
    best = summary(tmp_path / "run")["best"]
    assert ("checkpoint" in best) == (best["step"] == 128) == ("without a checkpoint" not in job.out)


@pytest.mark.parametrize("algorithm, flags", ALGORITHMS, ids=[name for name, _ in ALGORITHMS])
def test_a_run_ends_when_its_target_is_reached(good, tmp_path, algorithm, flags):
    job = good("train", *TINY, *flags, "--ranks", 3, "--algorithm", algorithm, "--epochs", 1000, "--eval-freq", 10,
               "--until", "accuracy=0.5", "--train-dir", "run")  # fmt: skip
    rows = rows_of(tmp_path / "run", "test")
    assert [float(row["accuracy"]) >= 0.5 for row in rows] == [False] * (len(rows) - 1) + [True]
    ended, last = summary(tmp_path / "run"), rows[-1]
    assert ended["until"] == {"metric": "accuracy", "value": 0.5, "reached": True, "step": int(last["step"]),
                              "seconds": pytest.approx(float(last["seconds"]), abs=1e-3), "bytes_sent": int(last["bytes_sent"])}  # fmt: skip
    assert ended["steps"] == int(last["step"]) and ended["interrupted_by_signal"] == 0
    assert f"accuracy=0.5 reached after {last['step']} steps" in job.out
    assert ended["steps"] in steps_of(tmp_path / "run")
    assert int(last["bytes_sent"]) > 0


def test_a_falling_target_is_reached(good, tmp_path):
    flags = [*FLAGS, "--epochs", 2, "--eval-freq", 8]
    good(*flags, "--train-dir", "free")
    losses = [float(row["loss"]) for row in rows_of(tmp_path / "free", "test")]
    least = losses.index(min(losses))
    good(*flags, "--until", f"loss={losses[least]!r}", "--train-dir", "run")
    assert summary(tmp_path / "run")["until"]["step"] == 8 * (least + 1)
    assert without_time(rows_of(tmp_path / "run")) == without_time(rows_of(tmp_path / "free"))[: 2 * (least + 1)]


def test_a_target_that_is_not_reached_is_said(good, tmp_path):
    job = good(*FLAGS, "--max-steps", 12, "--until", "accuracy=100%", "--train-dir", "run")
    assert "accuracy=1 not reached" in job.out
    assert summary(tmp_path / "run")["until"] == {"metric": "accuracy", "value": 1.0, "reached": False}


def test_a_run_ends_with_the_exact_mean(good, tmp_path):
    good(*FLAGS, "--algorithm", "push_sum", "--epochs", 1000, "--eval-freq", 10, "--until", "accuracy=0.5", "--final-average",
         "--train-dir", "run")  # fmt: skip
    good("train", "--resume", "--train-dir", "run", "--until", "", "--max-steps", summary(tmp_path / "run")["steps"] + 1, "--final-average")
    assert summary(tmp_path / "run")["consensus_distance"] < 1e-6


@pytest.mark.parametrize("until, words", [
    ("acuracy=0.9", "did you mean `accuracy`? known: loss, accuracy, top5"),
    ("accuracy", "say at which value, as accuracy=0.97"),
    ("accuracy=97", "must be in [0, 1]"),
    ("loss=low", "must be a number"),
])  # fmt: skip
def test_what_no_run_can_reach_is_refused(run, until, words):
    job = run(*FLAGS, "--until", until, "--train-dir", "run")
    assert job.status == 2 and "--until" in job.err and words in job.err, job.err


def test_a_resumed_run_goes_on_with_the_rows(start, good, tmp_path):
    flags = [*FLAGS, "--epochs", 1000, "--eval-freq", 8]
    job = start(*flags, "--checkpoint-every", 12, "--train-dir", "killed")
    wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "killed", 60), "some steps")
    assert job.process.poll() is None, job.finish().err
    os.kill(job.process.pid, signal.SIGKILL)
    job.finish()
    job.nothing_left()
    newest = steps_of(tmp_path / "killed")[-1]
    before = [row for row in rows_of(tmp_path / "killed") if int(row["step"]) <= newest]
    last = newest + 20
    good(*flags, "--resume", "--max-steps", last, "--train-dir", "killed")
    good(*flags, "--max-steps", last, "--train-dir", "whole")
    killed, whole = rows_of(tmp_path / "killed"), rows_of(tmp_path / "whole")
    assert killed[: len(before)] == before
    assert without_time(killed) == without_time(whole), "also what was trained before the checkpoint, within an evaluation"
    assert [float(row["seconds"]) for row in killed] == sorted(float(row["seconds"]) for row in killed)
    for name in ("best", "until"):
        assert summary(tmp_path / "killed")[name] == summary(tmp_path / "whole")[name]


def broken_off(sotto, tmp_path, progress, *flags):
    """What a terminal shows of a command that gets a signal after a part of an evaluation."""
    screen = Terminal(sotto, *[str(flag) for flag in flags], cwd=tmp_path, columns=100)
    screen.wait_for(progress)
    os.kill(screen.process.pid, signal.SIGINT)
    assert screen.end() == 128 + signal.SIGINT, screen.text
    return screen.text


def test_a_signal_ends_an_evaluation_of_a_checkpoint(sotto, good, tmp_path):
    good(*SLOW_TESTS, "--test-size", 10, "--max-steps", 1, "--train-dir", "run")
    shown = broken_off(sotto, tmp_path, " of 10000 examples are evaluated", "eval", "--model-dir", "run", "--test-size", 0,
                       "--eval-batch-size", 10)  # fmt: skip
    assert "accuracy" not in shown, shown


@pytest.mark.parametrize("algorithm", ["sync", "local(h=2)"])
def test_a_resumed_run_makes_an_interrupted_evaluation(sotto, good, tmp_path, algorithm):
    flags = [*SLOW_TESTS, "--ranks", 2, "--test-size", 2500, "--eval-freq", 2, "--algorithm", algorithm]
    shown = broken_off(sotto, tmp_path, "step 2  1", *flags, "--max-steps", 3, "--train-dir", "run")
    assert "step 2  the evaluation is left out, since a signal stops the run" in shown and "accuracy" not in shown, shown
    assert rows_of(tmp_path / "run") == [] and steps_of(tmp_path / "run") == [2]
    ended = summary(tmp_path / "run")
    assert (ended["interrupted_by_signal"], ended["steps"], ended["test_accuracy"]) == (signal.SIGINT, 2, None)
    assert "evaluations.csv lacks" not in good("report", "run", "-o", "page.html").err
    good("train", "--resume", "--train-dir", "run")
    good(*flags, "--max-steps", 3, "--train-dir", "whole")
    assert without_time(rows_of(tmp_path / "run")) == without_time(rows_of(tmp_path / "whole"))
    assert summary(tmp_path / "run")["parameters_sha256"] == summary(tmp_path / "whole")["parameters_sha256"]


def test_the_last_evaluation_can_be_broken_off(sotto, good, tmp_path):
    flags = [*SLOW_TESTS, "--ranks", 2, "--test-size", 2500]
    broken_off(sotto, tmp_path, "step 3  1", *flags, "--max-steps", 3, "--train-dir", "run")
    before = summary(tmp_path / "run")
    assert before["interrupted_by_signal"] == signal.SIGINT and before["test_loss"] is None and rows_of(tmp_path / "run") == []
    job = good("train", "--resume", "--train-dir", "run")
    assert "nothing was left to do" in job.err and "summary.json got the test, and else stays as it was" in job.err
    tested = {"interrupted_by_signal": 0, "best": summary(tmp_path / "run")["best"], "rank_accuracy": [], "consensus_distance": 0}
    tested |= {f"test_{name}": float(rows_of(tmp_path / "run", "test")[0][name]) for name in ("loss", "accuracy", "top5")}
    assert summary(tmp_path / "run") == before | tested and tested["best"]["step"] == 3


def test_a_target_stays_reached(good, tmp_path):
    flags = [*FLAGS, "--epochs", 1000, "--eval-freq", 8, "--train-dir", "run"]
    good(*flags, "--until", "accuracy=0.5")
    ended = summary(tmp_path / "run")
    job = good("train", "--resume", "--train-dir", "run")
    assert "accuracy=0.5 is reached" in job.err and "nothing was left to do" in job.err
    assert summary(tmp_path / "run") == ended and len(rows_of(tmp_path / "run", "test")) == ended["steps"] // 8
    rows = rows_of(tmp_path / "run", "test")
    good("train", "--resume", "--train-dir", "run", "--until", "loss=100")
    assert summary(tmp_path / "run") == ended | {"until": {
        "metric": "loss", "value": 100.0, "reached": True, "step": 8, "seconds": pytest.approx(float(rows[0]["seconds"])), "bytes_sent": int(rows[0]["bytes_sent"])}}  # fmt: skip
    good("train", "--resume", "--train-dir", "run", "--until", "accuracy=0.7")
    assert summary(tmp_path / "run")["steps"] > ended["steps"]
    steps = [int(row["step"]) for row in rows_of(tmp_path / "run", "test")]
    assert steps == sorted(set(steps))


def test_a_file_that_is_no_record_is_refused(good, run, tmp_path):
    good(*FLAGS, "--max-steps", 8, "--eval-freq", 4, "--train-dir", "run")
    (tmp_path / "run" / "evaluations.csv").write_text("step,loss\n1,2\n")
    job = run("train", "--resume", "--train-dir", "run", "--max-steps", 12)
    assert job.status == 1 and "evaluations.csv:1: its columns are not" in job.err, job.err
    (tmp_path / "run" / "evaluations.csv").unlink()
    good("train", "--resume", "--train-dir", "run", "--max-steps", 12)
    assert [row["step"] for row in rows_of(tmp_path / "run", "test")] == ["8", "12"], "the one that was due at step 8 is made again"


def test_tables_say_what_a_target_took(good):
    table = good("compare", *FLAGS[1:], "--codecs", "none", "int8", "--epochs", 1000, "--eval-freq", 8, "--until", "accuracy=0.5").out
    assert "accuracy=0.5" in table.splitlines()[0]
    assert len(re.findall(r"after \d+ steps, [0-9.]+ s, [0-9.]+ [KMG]?B sent by all ranks", table)) == 2, table


def test_translations_keep_the_order_of_the_data(good, tmp_path):
    """A model that knows its few pairs by heart."""
    words = "eins zwei drei vier", "one two three four"
    folder = tmp_path / "pairs"
    folder.mkdir()
    for language, text in zip(("de", "en"), words):
        for split, lines in (("train", 4 * text.split()), ("test", 2 * text.split()[::-1])):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    good("data", "prepare", "parallel", "--data-dir", "pairs", "--vocabulary", 24)
    good("train", "--model", "transformer-tiny(dropout=0)", "--data", "parallel", "--data-dir", "pairs", "--batch-size", 4, "--max-steps", 100,
         "--epochs", 1000, "--eval-freq", 1000, "--lr", 0.001, "--train-dir", "run")  # fmt: skip
    good("eval", "--model-dir", "run", "--texts", "texts")
    assert (tmp_path / "texts" / "step_100.txt").read_text() == (folder / "test.en").read_text()


def test_a_classifier_makes_no_text(good, run):
    good("train", *TINY, "--max-steps", 1, "--train-dir", "run")
    job = run("eval", "--model-dir", "run", "--texts", "texts")
    assert job.status == 2 and "--texts texts: the model of this run makes no text; translations are texts" in job.err, job.err
