"""The tables of a run folder: docs/training.md names their columns."""

import pathlib
import re

from conftest import TINY

# The columns that follow the documented ones: metrics of the task, and the goal of each rank.
MORE = {"evaluations.csv": r"(,[a-z0-9]+)+", "consensus.csv": ",accuracy_0,accuracy_1"}


def test_docs_name_every_column(good, tmp_path):
    flags = ["--ranks", 2, "--max-steps", 2, "--algorithm", "local(h=2)", "--codec", "int8", "--measure-errors", 1]
    good("train", *TINY, *flags, "--train-dir", "run")
    text = (pathlib.Path(__file__).parents[2] / "docs" / "training.md").read_text()
    said = dict(re.findall(r"^\| `(\w+\.csv)` \| `([a-z0-9_,]+)`", text, re.MULTILINE))
    found = {path.name: path.read_text().splitlines()[0] for path in (tmp_path / "run").glob("*.csv")}
    assert said.keys() == found.keys()
    for name, columns in said.items():
        assert re.fullmatch(columns + MORE.get(name, ""), found[name]), name
