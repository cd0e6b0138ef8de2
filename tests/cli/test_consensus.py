"""consensus.csv: how far the models of the ranks are apart, at each evaluation."""

import csv
import json
import re
import shutil

import pytest

from conftest import TINY, summary


def rows(folder):
    with open(folder / "consensus.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_distance_is_recorded_and_drawn(good, tmp_path):
    run = tmp_path / "run"
    good("train", *TINY, "--ranks", 2, "--max-steps", 12, "--eval-freq", 4, "--checkpoint-every", 8, "--algorithm", "local(h=6)", "--train-dir", "run")
    whole = rows(run)
    assert [row["step"] for row in whole] == ["4", "8", "12"]
    with open(run / "evaluations.csv") as file:
        tested = [row for row in csv.DictReader(file) if row["split"] == "test"]
    for name in ("epoch", "seconds", "bytes_sent"):
        assert [row[name] for row in whole] == [row[name] for row in tested]
    assert float(whole[0]["consensus_distance"]) > 0, "4 steps apart"
    result = summary(run)
    assert float(whole[-1]["consensus_distance"]) == result["consensus_distance"]
    assert [float(whole[-1][f"accuracy_{rank}"]) for rank in range(2)] == result["rank_accuracy"]

    for folder in run.glob("model_step_*"):  # continues from step 8, as if it had been killed
        if int(folder.name.rpartition("_")[2]) > 8:
            shutil.rmtree(folder)
    good("train", "--train-dir", "run", "--resume")
    again = rows(run)
    assert [{**row, "seconds": ""} for row in again] == [{**row, "seconds": ""} for row in whole]

    good("report", "run", "-o", "page.html")
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', (tmp_path / "page.html").read_text(), re.DOTALL)[1])
    line = next(plot for plot in data["plots"] if plot["id"] == "consensus")["lines"][0]
    assert line["steps"] == [4, 8, 12]
    assert line["mean"] == pytest.approx([float(row["consensus_distance"]) for row in again], rel=1e-6)


def test_one_model_has_none(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", 2, "--train-dir", "run")
    assert not (tmp_path / "run" / "consensus.csv").exists()
    good("report", "run", "-o", "page.html")
    assert '"id":"consensus"' not in (tmp_path / "page.html").read_text()
