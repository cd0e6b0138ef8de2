"""launch/ray on a Ray cluster of two nodes on this machine, where Ray is installed."""

import importlib.util
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from conftest import DEADLINE, has_step, wait_until
from test_elastic import members

pytestmark = pytest.mark.slow

RAY = pathlib.Path(__file__).resolve().parents[2] / "launch" / "ray"
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'ray[default]')")
OPTIONS = "--model logreg --train-size 512 --test-size 100 --batch-size 8 --epochs 100000 --eval-freq 1000 --link 1gbit,3ms --deadline 20".split()


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


@needs_ray
def test_a_lost_node_and_its_ranks_come_back(cluster, sotto, tmp_path):
    first, lost = cluster.add_node(num_cpus=2), cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    folder = tmp_path / "run"
    job = subprocess.Popen([sys.executable, RAY / "train.py", "--address", cluster.address, "--ranks", "1:3", "--sotto", sotto,
                            "--", *OPTIONS, "--train-dir", folder])  # fmt: skip

    def until(condition, what):
        wait_until(lambda: job.poll() is not None or ((folder / "membership.csv").exists() and condition()), what)
        assert job.poll() is None, what

    try:
        until(lambda: len(members(folder)[-1][2]) == 3, "three ranks")
        until(lambda: has_step(folder, members(folder)[-1][1] + 20), "20 steps")
        before = len(members(folder))
        cluster.remove_node(lost, allow_graceful=False)
        until(lambda: len(members(folder)) > before, "the others to continue")
        assert len(members(folder)[-1][2]) < 3
        cluster.add_node(num_cpus=2)
        until(lambda: len(members(folder)[-1][2]) == 3, "three ranks again")
        job.send_signal(signal.SIGINT)
        assert job.wait(timeout=DEADLINE) == 143
    finally:
        job.kill()
    assert list(folder.glob("model_step_*")), "a checkpoint"


@needs_ray
@pytest.mark.parametrize("options, error", [(["--ranks", "2"], "must be MIN:MAX"), (["--ranks", "3:2"], "3 is more than 2"), (["--ranks", "1:1", "--", "--lr", "x"], "--lr")])  # fmt: skip
def test_what_is_refused(cluster, sotto, options, error):
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    job = subprocess.run([sys.executable, RAY / "train.py", "--address", cluster.address, "--sotto", sotto, *options], capture_output=True, text=True, timeout=DEADLINE)
    assert job.returncode == 2 and error in job.stdout + job.stderr


@needs_ray
def test_the_file_for_ec2_has_what_ray_wants():
    import yaml
    from ray.autoscaler._private.util import prepare_config, validate_config

    text = (RAY / "ec2.yaml").read_text()
    validate_config(prepare_config(yaml.safe_load(text)))
    assert re.findall(r"\S*FILL\b", text.split("cluster_name")[1]) == ["ami-FILL", "ami-FILL", "fs-FILL"]
