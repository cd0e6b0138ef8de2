"""The examples, as their first lines say to start them; those for other packages with the real ones."""

import re
import subprocess
import sys

import pytest

RUNS = [  # examples, how many ranks they are started on, and how many times fewer bytes they send at least
    ("all_reduce", 4, 5), ("diloco", 4, 25), ("gossip", 4, None), ("local_sgd", 4, 12), ("accelerate_loop", 2, 20),
    ("compiled", 2, 20), ("huggingface_trainer", 2, 20), ("lightning_module", 2, 20)]


@pytest.mark.parametrize(("name", "ranks", "least"), RUNS, ids=[name for name, *_ in RUNS])
def test_an_example_learns(root, environment, tmp_path, name, ranks, least):
    script = root / "examples" / f"{name}.py"
    assert f"torchrun --nproc-per-node {ranks} examples/{name}.py" in script.read_text().splitlines()[0]
    assert len(script.read_text().splitlines()) <= 30
    own = {"GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), script], cwd=tmp_path,
        env=environment | own, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    accuracies = [float(found) for found in re.findall(r"(?:accuracy|model) ([0-9.]+)[;,]", result.stdout)]
    assert accuracies and min(accuracies) > 0.9, result.stdout
    if least is not None:
        assert float(re.search(r"; ([0-9.]+) times", result.stdout).group(1)) > least, result.stdout


def test_every_example_is_tried(root):
    elsewhere = {"mnist_ddp"}  # tests/python/test_package.py
    assert {path.stem for path in (root / "examples").glob("*.py")} == {name for name, *_ in RUNS} | elsewhere
