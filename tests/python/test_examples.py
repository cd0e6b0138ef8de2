"""The examples learn on two ranks; those for other packages run with the real packages. tests/cli/test_shell_blocks.py starts
one by torchrun."""

import json
import re
import socket
import subprocess
import sys
import threading

import pytest

DEADLINE = 300  # seconds for one example
RUNS = {  # each sends at least this many times fewer bytes
    "all_reduce": 5, "diloco": 25, "gossip": None, "local_sgd": 12, "accelerate_loop": 20, "compiled": 20,
    "huggingface_trainer": 20, "lightning_module": 20}


@pytest.fixture(scope="module")
def ranks(root, environment, tmp_path_factory):
    """Two processes with the variables of torchrun, which import all packages once."""
    cache = tmp_path_factory.mktemp("cache")
    own = {"GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache),
           "TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1",
           "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    processes = [
        subprocess.Popen([sys.executable, root / "tests" / "python" / "example_rank.py"], text=True,
                         env=environment | own | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for rank in range(2)]
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", RUNS)
def test_an_example_learns(root, ranks, tmp_path, name):
    script = root / "examples" / f"{name}.py"
    assert re.search(rf"torchrun --nproc-per-node \d examples/{name}\.py", script.read_text().splitlines()[0])
    assert len(script.read_text().splitlines()) <= 30
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    logs = [tmp_path / str(rank) for rank in range(2)]
    for process, log in zip(ranks, logs):
        print(json.dumps([str(script), port, str(tmp_path), str(log)]), file=process.stdin, flush=True)
    statuses = []
    readers = [threading.Thread(target=lambda out=process.stdout: statuses.append(out.readline()), daemon=True)
               for process in ranks]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(DEADLINE)
    texts = [log.read_text() if log.exists() else "" for log in logs]
    assert statuses == ["0\n", "0\n"], "\n".join(texts)
    accuracies = [float(found) for found in re.findall(r"(?:accuracy|model) ([0-9.]+)[;,]", texts[0])]
    assert accuracies and min(accuracies) > 0.9, texts[0]
    if RUNS[name] is not None:
        assert float(re.search(r"; ([0-9.]+) times", texts[0]).group(1)) > RUNS[name], texts[0]


def test_every_example_is_tried(root):
    elsewhere = {"elastic", "mnist_ddp", "ray_tune", "restarts"}  # test_elastic_function.py, test_package.py, tests/cli
    assert {path.stem for path in (root / "examples").glob("*.py")} == RUNS.keys() | elsewhere
