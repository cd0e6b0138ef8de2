"""The example for users of Ray Tune. Its trials need no Ray; the whole runs where Ray is installed."""

import importlib.util
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys

import pytest
from conftest import DEADLINE

pytestmark = pytest.mark.slow

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ray_tune.py"


@pytest.fixture
def environment(sotto, tmp_path, monkeypatch):
    """sotto is on the PATH, and the folder is empty."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sotto").symlink_to(sotto)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)


def test_a_trial(environment, tmp_path):
    trial = runpy.run_path(str(EXAMPLE))["trial"]
    result = trial({"lr": 0.05, "momentum": 0, "codec": "ef | topk(0.01)"})
    assert 0 < result["loss"] < 2.3  # better than guessing
    words = shlex.split(result["command"])
    assert words[:2] == ["sotto", "train"] and {"--lr=0.05", "--codec=ef | topk(0.01)", "--model=mlp"} <= set(words)
    os.rename("search", "first")
    assert trial({"lr": 1e30, "momentum": 0, "codec": "none"})["loss"] == float("inf")


def test_it_is_short():
    lines = EXAMPLE.read_text().splitlines()
    assert len(lines) <= 20 and max(map(len, lines)) <= 140


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'ray[tune]')")
def test_a_search(environment):
    job = subprocess.run([sys.executable, EXAMPLE, "2"], capture_output=True, text=True, timeout=5 * DEADLINE)
    assert re.search(r"^loss \d+\.\d+: sotto train --", job.stdout, re.M), job.stderr
