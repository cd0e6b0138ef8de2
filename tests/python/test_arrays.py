"""numpy, JAX and other arrays in a program that has not imported torch, and ranks that sotto.init brings together."""

import array
import collections
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import types

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.slow

RANK = pathlib.Path(__file__).parent / "array_rank.py"
DEADLINE = 300  # seconds


@pytest.fixture
def address():
    with socket.socket() as reserved:  # until the test ends; it does not listen
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{reserved.getsockname()[1]}"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_text(os.urandom(32).hex() + "\n")
    return path


@pytest.fixture
def run(environment):
    """Runs processes at once; returns what they print."""

    def run(commands):
        jobs = [subprocess.Popen([sys.executable, *map(str, command)], env=environment | own, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True) for command, own in commands]
        found = [job.communicate(timeout=DEADLINE) for job in jobs]
        assert all(job.returncode == 0 for job in jobs), found
        return [out for out, _ in found]

    return run


@pytest.fixture
def ranks(run, address):
    return lambda scenario, secret="": [json.loads(out) for out in run([([RANK, scenario, rank, 2, address, secret], {}) for rank in range(2)])]


VALUES = torch.arange(-6.0, 6).reshape(3, 4)


@pytest.mark.parametrize("given", [
    VALUES.numpy(), np.asfortranarray(VALUES.numpy()), VALUES.numpy()[::-1][::-1], VALUES.numpy().astype(">f4"), VALUES.numpy().T.copy().T,
    np.frombuffer(VALUES.numpy().tobytes(), np.float32).reshape(3, 4)], ids=["plain", "fortran", "views", "big endian", "strides", "readonly"])
def test_messages_are_those_of_tensors(package, given):
    codec = package.Codec("topk(0.5) | qsgd(4) | rans")
    message = codec.encode(VALUES, seed=3)
    assert codec.encode(given, seed=3) == message and codec.ratio(given) == codec.ratio(VALUES)
    decoded = codec.decode(message, like="numpy")
    assert isinstance(decoded, np.ndarray) and np.array_equal(decoded, codec.decode(message, like="torch").numpy())


def test_types_of_arrays(package):
    import ml_dtypes

    codec = package.Codec("none")
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        values = np.arange(5).astype(dtype)
        decoded = codec.decode(codec.encode(values), like="numpy")
        assert decoded.dtype == dtype and np.array_equal(decoded, values)
    assert codec.decode(codec.encode(array.array("f", [1, 2]))).tolist() == [1, 2]
    for wrong, said in ((np.ones(3), "an array of float64 cannot be encoded"), (np.array(["a"]), "cannot be encoded"), ([1.0], "not list"),
                        (np.array([object()]), "an array of object"), (None, "not NoneType"), (b"abcd", "an array of uint8")):
        with pytest.raises(package.ConfigError, match=said):
            codec.encode(wrong)
    with pytest.raises(package.ConfigError, match="like='jax': one of torch, numpy"):
        codec.decode(codec.encode(np.ones(2, np.float32)), like="jax")


@pytest.mark.parametrize("has_secret", [False, True], ids=["plain", "secret"])
def test_trees_are_averaged(ranks, secret, has_secret):
    one, two = ranks("averages", secret if has_secret else "")
    assert one["form"] == two["form"] == ["dict", "list", "Layer", None, "jaxlib", "float16"]
    assert one["same"] and two["same"] and one["bits"] == two["bits"] and [one["states"], two["states"]] == [2, 0]
    assert one["stats"] == two["stats"] == [7, True]  # loading a state does not take back what was counted
    (mine, mean), (others, _) = one["own"], two["own"]
    assert mean == two["own"][1] == pytest.approx(((np.array(mine) + np.array(others)) / 2).tolist())


def test_two_hosts_are_encrypted(environment, cable, secret):
    """Two network namespaces stand for two hosts."""
    jobs = [subprocess.Popen(["ip", "netns", "exec", name, sys.executable, RANK, "averages", str(rank), "2", f"{cable.addresses[0]}:29500", secret],
                             env=environment, stdout=subprocess.PIPE, text=True) for rank, name in enumerate(cable.names)]
    one, two = (json.loads(job.communicate(timeout=DEADLINE)[0]) for job in jobs)
    assert one["encrypts"] and two["encrypts"] and one["bits"] == two["bits"]


def test_single_arrays(ranks):
    one, two = ranks("singles")
    assert one["gossip"][:4] == two["gossip"][:4] == [[[0.5] * 3] * 2, [0.5] * 4, [0.5, 1], [0.5] * 3]
    assert [one["gossip"][4], two["gossip"][4]] == [[0] * 3, [1] * 3] and "cannot be written to; average() returns a new one" in one["said"]
    for answer in (one, two):
        assert [answer[name] for name in ("sum", "max", "avg", "big endian")] == [[1, 2**41], [1, 7], [0.5, 0.5], [0.5]]


def test_what_one_rank_refuses(ranks):
    one, two = ranks("refusals")
    assert two[0] == ["ConfigError", "gradients: value of float32 and shape [4] is not value of float32 and shape [3], which the example had"]
    assert "codec='tokp': unknown codec" in two[1][1] and two[2][0] == "NumericError"
    assert [kind for kind, _ in one] == ["CommError", "CommError", "ConfigError"] and all("rank 1" in said for _, said in one), one


def test_forms_of_mappings(package):
    ones = np.ones(2, np.float32)
    tree = collections.defaultdict(list, {"b": ones, "a": types.MappingProxyType({"c": [ones, None]})})
    with package.init():
        mean = package.Averager(tree, rules={"a.c.0": "int8"}).average(tree)
    assert list(mean) == ["b", "a"] and mean["new"] == [] and type(mean["a"]) is types.MappingProxyType and mean["a"]["c"][1] is None
    with package.init(), pytest.raises(package.ConfigError, match="at a.0 is str 'text'"):
        package.Averager({"a": ("text",)})


def test_init_says_what_is_wrong(package, monkeypatch, tmp_path):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for arguments, said in (
        ((0,), "say size, address, too"), ((2, 2, "localhost:1"), "rank=2, size=2: a rank is below"), ((0, 2, "localhost"), "wants \"HOST:PORT\""),
        ((0, 2), "address=None: wants"), ((0, 0), "a rank is below"), ((-1, 2, "localhost:1"), "rank=-1: wants a whole number"),
    ):
        with pytest.raises(package.ConfigError, match=said):
            package.init(*arguments)
    with pytest.raises(package.ConfigError, match="there is no"):
        package.init(0, 1, secret=tmp_path / "there is no")
    with pytest.raises(package.CommError, match="is rank 0 running there"):
        package.init(1, 2, "127.0.0.1:9", timeout=0.2)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(package.ConfigError, match="WORLD_SIZE, MASTER_ADDR, MASTER_PORT is not set"):
        package.init()


def test_a_cell_of_a_notebook(package):
    """One process, run again and again."""
    for _ in range(2):
        ranks = package.init()
        assert (ranks.rank, ranks.size) == (0, 1)
        averager = package.Averager([np.ones(3, np.float32)], "qsgd(4)", group=ranks)
        assert averager.average([np.array([0, 2, 0], np.float32)])[0].tolist() == [0, 2, 0]
        assert package.aggregate(np.arange(3), "sum").tolist() == [0, 1, 2]
        ranks.close()
    with pytest.raises(package.ConfigError, match="these ranks were closed"):
        package.Averager(np.ones(3, np.float32), group=ranks)
    with pytest.raises(package.ConfigError, match=r"needs torch.distributed.init_process_group\(...\) or sotto.init\(...\) first"):
        package.Averager(np.ones(3, np.float32))


def test_the_rest_needs_torch(environment):
    """In a process in which torch cannot be imported."""
    script = ("import sys; sys.modules['torch'] = None\nimport sotto\nsotto.Codec\n"
              "try:\n    sotto.compress\nexcept ImportError as error:\n    print(error)")
    assert subprocess.run([sys.executable, "-c", script], env=environment, text=True, capture_output=True, check=True).stdout == (
        "sotto.compress needs PyTorch: pip install torch\n")


@pytest.mark.parametrize("name, pattern", [("numpy_regression", r"(\d\d)\.\d% right, [56]\.\d times fewer bytes\n"),
                                           ("jax_training", r"(?s).*loss 0\.0(\d\d)  3\.\d times fewer bytes\n")])
def test_examples(run, root, address, name, pattern):
    host, port = address.split(":")
    outs = run([([root / "examples" / f"{name}.py"], {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": host, "MASTER_PORT": port})
                for rank in range(2)])
    found = re.fullmatch(pattern, outs[0])
    assert found and outs[1] == "", outs
    assert int(found[1]) > 80 if name == "numpy_regression" else int(found[1]) < 90, outs
