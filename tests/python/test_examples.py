"""The examples of ways for ranks to agree, as their first lines say to start them."""

import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("name", "least"), [("all_reduce", 5), ("diloco", 25), ("gossip", None), ("local_sgd", 12)])
def test_an_example_learns(root, environment, tmp_path, name, least):
    script = root / "examples" / f"{name}.py"
    assert f"torchrun --nproc-per-node 4 examples/{name}.py" in script.read_text().splitlines()[0]
    assert len(script.read_text().splitlines()) <= 30
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", script], cwd=tmp_path,
        env=environment | {"GLOO_SOCKET_IFNAME": "lo"}, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    accuracies = [float(found) for found in re.findall(r"(?:accuracy|model) ([0-9.]+)[;,]", result.stdout)]
    assert accuracies and min(accuracies) > 0.9, result.stdout
    if least is not None:
        assert float(re.search(r"; ([0-9.]+) times", result.stdout).group(1)) > least, result.stdout
