"""The examples learn on two ranks; those for other packages run with the real packages. tests/cli/test_shell_blocks.py starts
one by torchrun."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

DEADLINE = 300  # seconds for one example
RUNS = {  # each sends at least this many times fewer bytes
    "all_reduce": 5, "diloco": 25, "gossip": None, "local_sgd": 12, "accelerate_loop": 20, "compiled": 20,
    "huggingface_trainer": 20, "lightning_module": 20}


@pytest.fixture(scope="module")
def process(root, environment, tmp_path_factory):
    """A process with variables of torchrun, which imports all packages once, and becomes two ranks for each example."""
    cache = tmp_path_factory.mktemp("cache")
    own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache),
           "TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1",
           "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    process = subprocess.Popen([sys.executable, root / "tests" / "python" / "example_rank.py"], text=True,
                               env=environment | own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture
def run(process, tmp_path):
    """Runs a script with arguments; returns the output of rank 0."""

    def run(*command):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
        logs = [tmp_path / f"{command[0].stem}.{rank}" for rank in range(2)]
        print(json.dumps([[*map(str, command)], port, str(tmp_path), [*map(str, logs)]]), file=process.stdin, flush=True)
        ended = process.stdout.readline() if select.select([process.stdout], [], [], DEADLINE)[0] else "not in time"
        texts = [log.read_text() if log.exists() else "" for log in logs]
        assert ended == "0 0\n", "\n".join([ended, *texts])
        return texts[0]

    return run


@pytest.mark.parametrize("name", RUNS)
def test_an_example_learns(root, run, name):
    script = root / "examples" / f"{name}.py"
    assert re.search(rf"torchrun --nproc-per-node \d examples/{name}\.py", script.read_text().splitlines()[0])
    assert len(script.read_text().splitlines()) <= 30
    text = run(script)
    accuracies = [float(found) for found in re.findall(r"(?:accuracy|model) ([0-9.]+)[;,]", text)]
    assert accuracies and min(accuracies) > 0.9, text
    if RUNS[name] is not None:
        assert float(re.search(r"; ([0-9.]+) times", text).group(1)) > RUNS[name], text


@pytest.fixture
def plain(root, tmp_path):
    """The example of the README without its one line."""
    lines = (root / "examples" / "mnist_ddp.py").read_text().splitlines(keepends=True)
    without = [line for line in lines if "sotto" not in line]
    assert (len(lines), len(without)) == (31, 30)
    # A normal exit may abort, because Gloo's threads may still use the interpreter (torch 2.13).
    (tmp_path / "plain.py").write_text("".join([*without, "sys.stdout.flush(); os._exit(0)\n"]))
    return tmp_path / "plain.py"


def test_the_example_learns_with_and_without_its_line(root, plain, run):
    for script in (plain, root / "examples" / "mnist_ddp.py"):
        assert float(run(script, 60).split()[1].rstrip(",")) < 0.5  # the loss begins at ln 10 = 2.3


def test_every_example_is_tried(root):
    elsewhere = {"elastic", "jax_training", "mnist_ddp", "numpy_regression", "ray_tune", "restarts"}  # other tests, and above
    assert {path.stem for path in (root / "examples").glob("*.py")} == RUNS.keys() | elsewhere
