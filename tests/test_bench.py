"""Every script of bench/ has a help text."""

import pathlib
import subprocess
import sys

import pytest

MODULES = {"cable.py", "far_cable.py", "sentence_jobs.py"}  # of the scripts
SCRIPTS = sorted(path for path in (pathlib.Path(__file__).parent.parent / "bench").glob("*.py") if path.name not in MODULES)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help(script):
    job = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, timeout=300)
    assert job.returncode == 0, job.stderr
    assert job.stdout.startswith(f"usage: {script.name}")
