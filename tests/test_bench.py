"""Every script of bench/ has a help text, and finds what it takes from the tests."""

import pathlib
import runpy
import subprocess
import sys

import pytest
import torch

MODULES = {"cable.py", "far_cable.py", "codec_choice_jobs.py"}  # of the scripts
SCRIPTS = sorted(path for path in (pathlib.Path(__file__).parent.parent / "bench").glob("*.py") if path.name not in MODULES)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help(script):
    job = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, timeout=300)
    assert job.returncode == 0, job.stderr
    assert job.stdout.startswith(f"usage: {script.name}")


@pytest.mark.parametrize("script, maker, names", [
    ("training.py", "network", ["lenet", "resnet20", "resnet18", "vgg11-bn", "alexnet", "densenet-bc", "lstm"]),
    ("models.py", "image_network", ["lenet", "resnet18", "resnet20", "resnet34", "densenet-bc"])])
def test_networks_of_pytorch_can_be_made(script, maker, names, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    make = runpy.run_path(str(SCRIPTS[0].parent / script))[maker]
    with torch.device("meta"):
        assert all(make(name) is not None for name in names)
