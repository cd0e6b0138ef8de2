"""`--csv-format sgp`: the files that the programs of Stochastic Gradient Push write, and their scripts plot."""

import csv
import math
import re
import shutil
import statistics

import pytest

from conftest import TINY, summary

HEAD = ("Epoch,itr,BT(s),avg:BT(s),std:BT(s),NT(s),avg:NT(s),std:NT(s),DT(s),avg:DT(s),std:DT(s),"
        "Loss,avg:Loss,Prec@1,avg:Prec@1,Prec@5,avg:Prec@5,val")
EPOCH = 16  # steps: 512 examples, 2 ranks of batches of 8, --accumulate 2
ARGUMENTS = [*TINY, "--ranks", 2, "--accumulate", 2, "--csv-format", "sgp", "--csv-tag", "A-", "--train-dir", "run"]


def read(path):
    """The lines before the table, and its rows, as their script reads it: it skips four lines."""
    lines = path.read_text().splitlines()
    assert lines[4] == HEAD
    return lines[:4], [{key: float(value) for key, value in row.items()} for row in csv.DictReader(lines[4:])]


def check(tmp_path, epochs):
    with open(tmp_path / "run" / "steps.csv") as file:
        steps = list(csv.DictReader(file))
    with open(tmp_path / "run" / "evaluations.csv") as file:
        tested = [row for row in csv.DictReader(file) if row["split"] == "test"]
    for rank in range(2):
        head, table = read(tmp_path / "run" / f"A-out_r{rank}_n2.csv")
        assert head[:2] == ["BEGIN-TRAINING", "World-Size,2"] and head[3] == "Batch-Size,8"
        mine = [row for row in steps if row["rank"] == str(rank)]
        made = [row for row in table if row["itr"] >= 0]
        assert [(row["Epoch"], row["itr"]) for row in made] == [(epoch, itr) for epoch in range(epochs) for itr in range(EPOCH)]
        assert [row["Loss"] for row in made] == pytest.approx([float(row["loss"]) for row in mine], abs=6e-5)
        for name, of in (("BT(s)", lambda row: float(row["step_ms"])), ("DT(s)", lambda row: float(row["data_ms"])),
                         ("NT(s)", lambda row: float(row["compute_ms"]) - float(row["data_ms"]))):  # fmt: skip
            times = [of(row) / 1e3 for row in mine]
            assert [row[name] for row in made] == pytest.approx(times, abs=3e-6)
            assert made[-1][f"avg:{name}"] == pytest.approx(statistics.fmean(times), abs=5e-6), "over the whole run"
            assert made[-1][f"std:{name}"] == pytest.approx(statistics.stdev(times), abs=5e-6)
        last = made[-EPOCH:]
        for name in ("Loss", "Prec@1", "Prec@5"):
            assert last[-1][f"avg:{name}"] == pytest.approx(statistics.fmean(row[name] for row in last), abs=2e-3), "over the epoch"
        assert all(0 <= row["Prec@1"] <= row["Prec@5"] <= 100 and math.isclose(row["Prec@1"] % 6.25, 0, abs_tol=1e-3) for row in made)
        ends = [(index, row) for index, row in enumerate(table) if row["itr"] < 0]
        assert [row["Epoch"] for _, row in ends] == list(range(epochs)) and all(row["Loss"] == -1 for _, row in ends)
        assert [row["val"] for _, row in ends] == pytest.approx([100 * float(row["accuracy"]) for row in tested], abs=6e-4)
        assert [index for index, _ in ends] == [(EPOCH + 1) * epoch + EPOCH for epoch in range(epochs)]
        assert {row["val"] for row in made} == {-1}


def test_files_of_each_rank(good, tmp_path):
    good("train", *ARGUMENTS, "--epochs", 2)
    check(tmp_path, 2)


def test_a_resumed_run_goes_on_in_its_files(good, tmp_path):
    good("train", *ARGUMENTS, "--epochs", 3, "--checkpoint-every", EPOCH + 3)
    for folder in (tmp_path / "run").glob("model_step_*"):  # continues from there, as if it had been killed
        if int(folder.name.rpartition("_")[2]) > EPOCH + 3:
            shutil.rmtree(folder)
    with open(tmp_path / "run" / "A-out_r0_n2.csv", "a") as file:
        file.write("1,4,9")
    good("train", "--train-dir", "run", "--resume")
    assert summary(tmp_path / "run")["first_step"] == EPOCH + 3
    check(tmp_path, 3)


def test_ranks_with_different_models_have_different_accuracies(good, tmp_path):
    good("train", *ARGUMENTS, "--epochs", 1, "--algorithm", "local(h=1000)", "--partition", "shards(1)")
    ends = [read(tmp_path / "run" / f"A-out_r{rank}_n2.csv")[1][-1]["val"] for rank in range(2)]
    assert ends[0] != ends[1]


def test_what_has_no_accuracy_is_refused(run, tmp_path):
    job = run("train", "--model", "linreg", "--max-steps", 2, "--csv-format", "sgp", "--train-dir", "run")
    assert job.status == 2 and "--csv-format sgp: its columns are accuracies, which the task regress-rows does not have" in job.err
    job = run("train", *TINY, "--csv-format", "sgp", "--csv-tag", "a/b", "--max-steps", 2)
    assert job.status == 2 and "--csv-tag a/b" in job.err
    job = run("train", *TINY, "--csv-format", "sgp", "--csv-tag", "a" * 300, "--max-steps", 2, "--train-dir", "long")
    assert job.status == 2 and "at most 200 bytes" in job.err and not (tmp_path / "long").exists()
    job = run("train", *TINY, "--csv-tag", "a", "--max-steps", 2)
    assert job.status == 2 and "--csv-tag a: says nothing without --csv-format sgp" in job.err


def lines_of(svg):
    """The points of each polyline, in units of the drawing."""
    return [[tuple(map(float, point.split(","))) for point in line.split()] for line in re.findall(r'<polyline points="([^"]*)"', svg)]


def test_figures_like_theirs(good, run, tmp_path):
    for ranks in (1, 2, 4):
        for algorithm in ("sync", "push_sum"):
            good("train", *TINY, "--ranks", ranks, "--algorithm", algorithm, "--epochs", 2, "--train-dir", f"{algorithm}-{ranks}")
    folders = [f"{algorithm}-{ranks}" for algorithm in ("sync", "push_sum") for ranks in (1, 2, 4)]
    assert good("report", *folders, "--like", "sgp").out.startswith("6 runs in report.svg")
    svg = (tmp_path / "report.svg").read_text()
    for text in ("Training error", "Validation error", "epochs", "iterations", "time (s)", "Time per iteration", "Speed-up", ">sync<", ">push_sum<", ">push_sum, 2 ranks<"):
        assert text in svg, text
    lines = lines_of(svg)
    assert [len(line) for line in lines] == [2] * 4 * 6 + [3] * 2 * 2, "evaluations of each run; numbers of ranks of each algorithm"
    times, gains = lines[24:26], lines[26:28]
    for folder, line in (("sync", times[0]), ("push_sum", times[1])):
        seconds = [summary(tmp_path / f"{folder}-{ranks}")["ms_per_step"] for ranks in (1, 2, 4)]
        for i, j in ((0, 1), (1, 2), (0, 2)):
            if abs(seconds[i] - seconds[j]) > 0.5 * max(seconds):  # the figure may have another mean of such noisy times
                assert (line[i][1] - line[j][1]) * (seconds[i] - seconds[j]) <= 0, "more time lies higher"
    assert len({line[0] for line in gains}) == 1, "all begin at the same gain of 1"
    with open(tmp_path / "sync-2" / "evaluations.csv") as file:
        errors = [1 - float(row["accuracy"]) for row in csv.DictReader(file) if row["split"] == "test"]
    line = lines[6 + 1]  # of the validation error against epochs
    assert (line[0][1] - line[1][1]) * (errors[0] - errors[1]) <= 0, "more error lies higher"
    good("train", "--model", "linreg", "--max-steps", 4, "--train-dir", "rows")
    job = run("report", "rows", "--like", "sgp")
    assert job.status == 2 and "--like sgp: rows: its task regress-rows has no accuracy" in job.err
