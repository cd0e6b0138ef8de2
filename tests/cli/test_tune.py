"""Searches for the best options by short trainings."""

import json
import os
import re
import shlex
import shutil
import signal

import pytest
from conftest import TINY, has_step, summary, wait_until
from terminal import Terminal

pytestmark = pytest.mark.slow

SMALL = TINY  # one rank


def rows(job):
    """The cells of each line of the table, which are two spaces apart or more."""
    table = job.out.split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in table]


def record(folder):
    return json.loads((folder / "tune.json").read_text())["trials"]


def losses(folder):
    """The mean loss over the ranks of each step."""
    head, *lines = (folder / "steps.csv").read_text().splitlines()
    cells = [dict(zip(head.split(","), line.split(","))) for line in lines]
    steps = {int(cell["step"]): [] for cell in cells}
    for cell in cells:
        steps[int(cell["step"])].append(float(cell["loss"]))
    return [sum(of) / len(of) for _, of in sorted(steps.items())]


def test_a_grid(good, tmp_path):
    job = good("tune", "--grid", "lr=2^-9..2^-7", "codec=none,ef | topk(0.5)", "--steps", 21, *SMALL, "--ranks", 2,
               "-o", "search", "--momentum", 0.5)  # fmt: skip
    head, *table = rows(job)
    assert head == ["lr", "codec", "loss", "test accuracy", "steps", "sent a rank and step", "seconds"]
    assert len(table) == 6 and all(row[4] == "21" for row in table)
    scores = [float(row[2]) for row in table]
    assert scores == sorted(scores)
    for trial in record(tmp_path / "search"):
        last = losses(tmp_path / trial["train_dir"])[-3:]  # a tenth, rounded up
        assert trial["scores"] == [pytest.approx(sum(last) / 3, rel=1e-5)]
        lr, codec = trial["options"]["lr"], trial["options"]["codec"]
        assert summary(tmp_path / trial["train_dir"])["lr"] == float(lr)
        assert [lr, codec, f"{trial['scores'][0]:.4f}"] in [row[:3] for row in table]
    assert "6 trials of 21 steps" in job.err and "6/6  lr=" in job.err
    assert "6 runs in search/report.html" in job.out and (tmp_path / "search" / "report.html").exists()


def test_the_best_line_can_be_pasted(good, tmp_path):
    job = good("tune", "--grid", "codec=ef | topk(0.5),none", "--steps", 3, *SMALL, "--lr", 0.125, "--max-steps", 9, "-o", "search")
    best = rows(job)[1][0]
    (line,) = [line for line in job.out.splitlines() if line.startswith("best: ")]
    words = shlex.split(line.removeprefix("best: "))
    assert words[:2] == ["sotto", "train"] and f"--codec={best}" in words + ["--codec=none"]
    good(*words[1:], "--train-dir", "whole")
    whole = summary(tmp_path / "whole")
    assert (whole["codec"], whole["lr"], whole["steps"]) == (best, 0.125, 9)


def test_what_diverges_is_shown_and_never_wins(good, tmp_path):
    job = good("tune", "--grid", "lr=1e30,0.01", "--steps", 4, *SMALL, "-o", "search")
    _, best, worst = rows(job)
    assert best[0] == "0.01" and worst == ["1e30", "diverged"]
    assert "lr=1e30: diverged: " in job.err and "--lr=0.01" in job.out
    again = good("tune", "--grid", "lr=1e30,0.01", "--steps", 4, *SMALL, "-o", "search")
    assert again.out.split("report:")[0] == job.out.split("report:")[0] and "diverged:" not in again.err


def test_all_diverge(run):
    job = run("tune", "--grid", "lr=1e30", "--steps", 4, *SMALL, "-o", "search", "--json")
    assert job.status == 1 and "no trial came to an end: lr=1e30: " in job.err
    (trial,) = json.loads(job.out)
    assert trial["score"] is None and trial["diverged"] and "step" in trial["error"]


def test_what_fails_is_shown_and_tried_again(run, tmp_path):
    command = ["tune", "--grid", "codec=ef | auto,none", "--steps", 4, *SMALL, "-o", "search"]
    for tried in (2, 1):
        job = run(*command)
        assert job.status == 2
        assert rows(job)[1][0] == "none" and rows(job)[2] == ["ef | auto", "failed"]
        assert f"/{tried}  codec=ef | auto: failed: " in job.err and "no memory before it" in job.err
        assert ("codec=none: loss" in job.err) == (tried == 2)


def test_another_command_in_the_folder_is_refused(good, run, tmp_path):
    rest = ["--grid", "lr=0.1,0.2,0.3,0.4", *SMALL, "--train-dir", "search"]
    command = ["tune", "--steps", 2, *rest]
    good(*command)
    same = ["--steps", 2]
    for other, reason in [(["--steps", 3], "has steps 2, this one has 3"),
                          ([*same, "--momentum", 0.5], "has momentum auto, this one has 0.5"),
                          ([*same, "--halving", "--eta", 2], "has halving off, this one has 2"),
                          ([*same, "--metric", "loss"], "has metric auto, this one has loss")]:  # fmt: skip
        job = run("tune", *other, *rest)
        assert job.status == 2 and reason in job.err and "choose a new folder" in job.err
    job = run("train", *SMALL, "--train-dir", "search")
    assert job.status == 2 and "--train-dir search: holds a search of `sotto tune`; choose another folder" in job.err
    (tmp_path / "search" / "tune.json").write_text("{}")
    job = run(*command)
    assert job.status == 1 and "search/tune.json: not the record of a search" in job.err
    (tmp_path / "search" / "tune.json").unlink()
    assert "it holds something else already" in run(*command).err


def test_ctrl_c_and_on(start, good, tmp_path):
    flags = ["tune", "--grid", "lr=2^-9..2^-7", "--steps", 60, *SMALL, "--jobs", 2]
    good(*flags, "-o", "whole")
    job = start(*flags, "-o", "broken")
    wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "broken" / "01-lr-0.001953125", 2), "some steps")
    os.kill(job.process.pid, signal.SIGINT)
    job.finish()
    job.nothing_left()
    assert job.status == 130, job.err
    assert "trials not done; to continue: sotto tune --grid 'lr=2^-9..2^-7' --steps 60 " in job.err, job.err
    assert ("with 3 of 3" in job.err) == (job.out == ""), "no head of a table without rows"
    again = shlex.split(job.err.split("to continue: ")[1])
    assert "continuing in broken" in good(*again[1:]).err
    for one, other in zip(record(tmp_path / "whole"), record(tmp_path / "broken")):
        assert one["scores"] == other["scores"] and len(one["scores"]) == 1
        shas = [summary(tmp_path / trial["train_dir"])["parameters_sha256"] for trial in (one, other)]
        assert shas[0] == shas[1]


def test_the_time_left_counts_later_rounds(sotto, tmp_path):
    """Steps that take as long as their link. The second round has as many steps as half of the first one."""
    screen = Terminal(sotto, "tune", "--grid", "data-seed=1..4", "--halving", "--eta", "2", "--steps", "40", *SMALL, "--ranks", "2", "--link", "1gbit,20ms",
                      "--jobs", "1", "-o", "search", cwd=tmp_path, columns=120)  # fmt: skip
    screen.wait_for("4/4  data-seed=4: loss")
    os.kill(screen.process.pid, signal.SIGINT)
    screen.end()
    left = re.findall(r"3/4 done, about (\d+) s left", screen.text)
    assert left and int(left[-1]) >= 2, left


def test_a_kill_loses_no_trial_that_ended(start, good, tmp_path):
    flags = ["tune", "--grid", "seed=1..3", "--steps", 30, *SMALL, "--jobs", 1, "-o", "search"]
    job = start(*flags)
    wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "search" / "02-seed-2", 2), "some steps")
    os.kill(job.process.pid, signal.SIGKILL)
    job.finish()
    job.nothing_left()
    ended = sum(len(trial["scores"]) for trial in record(tmp_path / "search"))
    assert 1 <= ended <= 2
    assert f"{3 - ended}/{3 - ended}  seed=3: loss" in good(*flags).err


def test_a_killed_trial_is_repeated(good, tmp_path):
    flags = ["tune", "--grid", "seed=1..2", "--steps", 4, *SMALL, "-o", "search"]
    good(*flags)
    there = record(tmp_path / "search")
    (tmp_path / "search" / "02-seed-2" / "summary.json").unlink()
    text = json.loads((tmp_path / "search" / "tune.json").read_text())
    text["trials"][1]["scores"] = []
    (tmp_path / "search" / "tune.json").write_text(json.dumps(text))
    good(*flags)
    assert record(tmp_path / "search") == there


def test_a_trial_without_its_folder_is_repeated(good, tmp_path):
    flags = ["tune", "--grid", "seed=1..2", "--steps", 4, *SMALL, "-o", "search"]
    good(*flags)
    there = record(tmp_path / "search")
    shutil.rmtree(tmp_path / "search" / "02-seed-2")
    job = good(*flags)
    assert record(tmp_path / "search") == there and "1/1  seed=2: loss" in job.err and "seed=1: loss" not in job.err


def test_a_killed_later_round_is_repeated(good, tmp_path):
    flags = ["tune", "--grid", "lr=2^-9..2^-4", "--halving", "--steps", 4, *SMALL, "-o", "search"]
    good(*flags)
    there = record(tmp_path / "search")
    last = next(trial for trial in there if len(trial["scores"]) == 2)
    path = tmp_path / last["train_dir"] / "summary.json"
    path.write_text(json.dumps(summary(path.parent) | {"steps": 4}))
    text = json.loads((tmp_path / "search" / "tune.json").read_text())
    text["trials"][there.index(last)]["scores"].pop()
    (tmp_path / "search" / "tune.json").write_text(json.dumps(text))
    good(*flags)
    assert record(tmp_path / "search") == there and summary(path.parent)["steps"] == 12


def test_what_diverges_in_a_later_round_never_wins(good, run, tmp_path):
    flags = ["tune", "--grid", "lr=2^-9..2^-4", "--halving", "--steps", 4, *SMALL, "-o", "search"]
    first, second = rows(good(*flags))[1:3]
    text = json.loads((tmp_path / "search" / "tune.json").read_text())
    for trial in text["trials"]:
        if trial["options"]["lr"] == first[0]:
            trial |= {"diverged": True, "error": "its loss is not finite"}
    (tmp_path / "search" / "tune.json").write_text(json.dumps(text))
    job = good(*flags)
    assert rows(job)[1] == second and rows(job)[-1][0] == first[0] and rows(job)[-1][1].endswith(", then diverged")
    assert f"--lr={second[0]}" in next(line for line in job.out.splitlines() if line.startswith("best: "))
    for trial in text["trials"]:
        trial |= {"diverged": True, "error": "its loss is not finite"}
    (tmp_path / "search" / "tune.json").write_text(json.dumps(text))
    job = run(*flags)
    assert job.status == 1 and "best: " not in job.out and "no trial came to an end" in job.err


def test_halving_goes_on_as_one_training_would(good, tmp_path):
    flags = [*SMALL, "--schedule", "warmup(steps=4) | cosine", "--momentum", 0.9]
    job = good("tune", "--grid", "lr=10^-5..10^-1", "--steps", 4, "--halving", "--eta", 2, *flags, "-o", "search")
    assert "5 trials of 4 steps, 2 of 8; " in job.err
    trials = record(tmp_path / "search")
    first = [trial["scores"][0] for trial in trials]
    on = [i for i, trial in enumerate(trials) if len(trial["scores"]) == 2]
    assert on == sorted(sorted(range(5), key=lambda i: first[i])[:2])
    table = rows(job)[1:]
    assert [row[3] for row in table] == ["8", "8", "4", "4", "4"]
    best = min(on, key=lambda i: trials[i]["scores"][1])
    assert table[0][0] == trials[best]["options"]["lr"]
    good("train", *flags, "--lr", trials[best]["options"]["lr"], "--max-steps", 8, "--train-dir", "whole", "--threads", 1)
    assert losses(tmp_path / "whole") == losses(tmp_path / trials[best]["train_dir"])


def test_random_trials_and_a_metric(good, tmp_path):
    flags = ["--grid", "lr=0.001..0.5", "batch-size=4..16", "--steps", 3, "--metric", "accuracy", *TINY[:6], "--seed", 5, "--json"]
    trials = json.loads(good("tune", *flags, "--random", 3, "-o", "search").out)
    assert [trial["score"] for trial in trials] == sorted((trial["score"] for trial in trials), reverse=True)
    for trial in trials:
        (only,) = trial["runs"]
        assert trial["score"] == only["score"] == summary(tmp_path / only["train_dir"])["test_accuracy"] and only["seed"] == 5
        assert 0.001 <= float(trial["options"]["lr"]) <= 0.5 and 4 <= int(trial["options"]["batch-size"]) <= 16
    assert f"--lr={trials[0]['options']['lr']}" in trials[0]["command"] and "--seed=5" in trials[0]["command"]


def spread(values):
    mean = sum(values) / len(values)
    return mean, (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5


@pytest.mark.parametrize("flags", [["--seeds", 3], ["seed=1..3"]])
def test_seeds_do_not_compete(good, run, tmp_path, flags):
    command = ["tune", "--grid", "codec=none,int8", *flags, "--steps", 6, *SMALL, "--ranks", 2, "-o", "search"]
    job = good(*command)
    assert "6 trials of 6 steps; 3 seeds of 2; " in job.err and "6/6  codec=" in job.err and ", seed=3: loss " in job.err
    head, *table = rows(job)
    assert head == ["codec", "loss", "test accuracy", "steps", "sent a rank and step", "seconds"] and len(table) == 2
    trials = record(tmp_path / "search")
    assert [trial["options"]["seed"] for trial in trials] == ["1", "2", "3"] * 2
    assert [summary(tmp_path / trial["train_dir"])["seed"] for trial in trials] == [1, 2, 3] * 2
    for row in table:
        mean, deviation = spread([trial["scores"][0] for trial in trials if trial["options"]["codec"] == row[0]])
        assert row[1].split(" ± ")[0] == f"{mean:.4f}" and float(row[1].split(" ± ")[1]) == pytest.approx(deviation, abs=6e-5)
    best, other = (row[0] for row in table)
    (line,) = [line for line in job.out.splitlines() if line.startswith("best: ")]
    assert "--seed=2" not in line and "--seed=3" not in line and ("--codec=int8" in line) == (best == "int8")
    assert f"as good, as far as 3 seeds tell: codec={other}" in job.out, "the codec changes less than the seed"
    found = json.loads(good(*command, "--json").out)
    assert found[0]["options"] == {"codec": best} and [one["seed"] for one in found[0]["runs"]] == [1, 2, 3]
    page = (tmp_path / "search" / "report.html").read_text()
    assert "none (3 runs)" in page and "int8 (3 runs)" in page
    job = run(*command[:3], *command[3 + len(flags):])
    assert job.status == 2 and "choose a new folder" in job.err


def test_a_seed_that_diverges_ends_its_contender(good, tmp_path):
    """Its score is no mean of those that are left."""
    flags = ["tune", "--grid", "lr=0.01,0.02", "--seeds", 2, "--steps", 4, *SMALL, "-o", "search"]
    good(*flags)
    text = json.loads((tmp_path / "search" / "tune.json").read_text())
    text["trials"][1] |= {"scores": [], "diverged": True, "error": "its loss is not finite"}
    (tmp_path / "search" / "tune.json").write_text(json.dumps(text))
    assert [row[:2] for row in rows(good(*flags))[2:]] == [["0.01", "diverged"]]


@pytest.mark.parametrize("arguments, reason", [
    ([], "say what to try, as --grid lr=2^-7..2^-1"),
    (["--grid", "lr"], "--grid lr: expected NAME=VALUES"),
    (["--grid", "lrr=0.1"], "--grid: unknown option `lrr`; did you mean `lr`?"),
    (["--grid", "max-steps=5,6"], "--grid: unknown option `max-steps`"),
    (["--grid", "lr=0.1,fast"], "--grid lr=fast: must be a number, not `fast`"),
    (["--grid", "lr=-1"], "--grid lr=-1: must be in [0, inf)"),
    (["--grid", "batch-size=0.5"], "--grid batch-size=0.5: must be a whole number"),
    (["--grid", "codec=none,topk(2)"], "trial codec=topk(2): --codec topk(2): ratio must be in (0, 1]"),
    (["--grid", "lr=0.1", "codec=nosuch"], "trial lr=0.1, codec=nosuch: --codec nosuch: unknown codec"),
    (["--grid", "lr=0.1", "--lr", "0.2"], "--lr: it is in --grid, too; say lr once"),
    (["--grid", "lr=0.1..0.5"], "a grid cannot have every number of a range; write how many of them, as lr=0.1..0.5/5"),
    (["--grid", "seed=1..100000"], "it has more than 10000 trials; take fewer values, or draw some with --random"),
    (["--grid", "seed=1,2", "--seeds", "2"], "--seeds: seed is in --grid, too; say which seeds once"),
    (["--grid", "lr=0.1,0.2", "seed=1..4", "--halving"], "--halving: one in 3 of 2 trials continues"),
    (["--grid", "lr=0.1..0.2/500", "--seeds", "30"], "more than 333 trials"),
    (["--grid", "lr=1,2", "--random", "3"], "--random 3: there are only 2 different trials"),
    (["--grid", "lr=0.1", "--eta", "2"], "--eta: has no effect without --halving"),
    (["--grid", "lr=2^-5..2^-1", "--halving"], "--halving: one in 3 of 5 trials continues, and a second round needs two of them; try 6 values"),
    (["--grid", "lr=0.1", "--metric", "bleu"], "trial lr=0.1: --metric: unknown metric `bleu`"),
    (["--grid", "model=lenet,gpt-mini"], "trial model=gpt-mini: its task is language, and others have classify"),
    (["--grid", "lr=0.1", "--resume"], "--resume: the same command continues by itself"),
    (["--grid", "lr=0.1", "--capture", "every=1,dir=d"], "--capture: every run would write the same files"),
    (["--grid", "lr=0.1", "--tensorboard", "d"], "--tensorboard: every run would write into the same folder"),
    (["--grid", "lr=0.1", "--metrics-port", 0], "--metrics-port: runs cannot share a port"),
    (["--grid", "lr=0.1", "--backend", "mpi"], "--backend: sotto tune starts its ranks by itself"),
    (["--grid", "lr=0.1", "--steps", "0"], "--steps 0: must be in [1, 1e+09]"),
    (["--grid", "lr=0.1", "--halving", "--final-average", "--algorithm", "push_sum", "--ranks", "2"], "--final-average: every round"),
])  # fmt: skip
def test_all_is_checked_before_anything_starts(run, tmp_path, arguments, reason):
    job = run("tune", *arguments, "-o", "search")
    assert job.status == 2 and reason in job.err, job.err
    assert not (tmp_path / "search").exists()


def test_help_names_what_cannot_vary(run, good):
    (said,) = re.findall(r"for any option of `sotto train` except (.*?)\):", good("tune", "--help").out, re.DOTALL)
    fixed = re.findall(r"--([a-z-]+)", said)
    assert len(fixed) == 7
    for name in fixed:
        job = run("tune", "--grid", f"{name}=1,2")
        assert job.status == 2 and f"--grid: unknown option `{name}`" in job.err, job.err


def test_a_training_that_is_shorter_than_a_trial(good, tmp_path):
    job = good("tune", "--grid", "lr=0.1,0.2", "--", *SMALL, "--epochs", 1, "--train-dir", "search")
    assert job.err.count("ended after 64 of 100 steps: --epochs 1 has no more") == 1
    assert [row[3] for row in rows(job)[1:]] == ["64", "64"]


def test_rounds_longer_than_the_training_are_reported(good):
    job = good("tune", "--grid", "data-seed=1..6", "--halving", "--steps", 2, "--max-steps", 3, *SMALL, "-o", "search")
    assert job.err.count("ended after 3 of 6 steps: --max-steps 3 has no more") == 1


def test_who_is_earlier_at_the_target_is_better(good, tmp_path):
    flags = ["--grid", "lr=1e-9,0.5,0.03", "--steps", 60, "--metric", "accuracy", "--until", "accuracy=0.5", "--eval-freq", 5, *SMALL, "--epochs", 9]
    trials = json.loads(good("tune", *flags, "-o", "search", "--json").out)
    until = [summary(tmp_path / trial["runs"][0]["train_dir"])["until"] for trial in trials]
    assert [one["reached"] for one in until] == [True, True, False] and until[0]["step"] < until[1]["step"]
    record = tmp_path / "search" / "tune.json"
    old = json.loads(record.read_text())
    assert [trial.pop("reached", None) for trial in old["trials"]].count(None) == 1
    record.write_text(json.dumps(old))
    again = json.loads(good("tune", *flags, "-o", "search", "--json").out)
    assert again == trials, "an earlier version did not record who reached the target"


def test_two_searches_in_one_folder(start, run, tmp_path):
    flags = ["tune", "--grid", "lr=0.1", "--steps", 100000, "--epochs", 100000, *SMALL, "-o", "search"]
    job = start(*flags)
    wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "search" / "01-lr-0.1", 2), "some steps")
    second = run(*flags)
    assert second.status == 2 and "--train-dir search: another search is at work there" in second.err
    os.kill(job.process.pid, signal.SIGTERM)
    job.finish()
    assert job.status == 143
