"""sotto.read_gradient: the files of `sotto train --capture`."""

import json
import struct
import subprocess

import pytest
import torch

DEADLINE = 180
NAMES = ["weight", "bias"]


@pytest.fixture(scope="module")
def captured(sotto, tmp_path_factory):
    """A folder with the same gradient in all formats."""
    folder = tmp_path_factory.mktemp("captured")
    for form in ("npy", "safetensors"):
        flags = "--model logreg --train-size 64 --test-size 20 --batch-size 8 --max-steps 1".split()
        job = subprocess.run([sotto, "train", *flags, "--train-dir", f"run-{form}", "--capture", f"every=1,dir={form},format={form}"],
                             cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
        assert job.returncode == 0, job.stderr
        (folder / form / f"gradient-000000.{form}").rename(folder / f"gradient-000000.{form}")
    return folder


def test_every_format_is_read(package, captured):
    own = package.read_gradient(str(captured / "gradient-000000.safetensors"))
    assert [name.split(".")[-1] for name in own] == NAMES and all(tensor.dtype == torch.float32 for tensor in own.values())
    assert sorted(tensor.dim() for tensor in own.values()) == [1, 2] and any(tensor.abs().sum() > 0 for tensor in own.values())
    theirs = pytest.importorskip("safetensors.torch").load_file(captured / "gradient-000000.safetensors")
    assert set(theirs) == set(own) and all(torch.equal(theirs[name], own[name]) for name in own)
    array = package.read_gradient(captured / "gradient-000000.npy")
    assert torch.equal(array["values"], torch.cat([tensor.flatten() for tensor in own.values()]))


def test_bad_files_are_told(package, captured, tmp_path):
    for form in ("npy", "safetensors"):
        with pytest.raises(package.FileError, match="missing"):
            package.read_gradient(tmp_path / f"missing.{form}")
        whole = (captured / f"gradient-000000.{form}").read_bytes()
        for length in (0, 7, 60, len(whole) - 4):
            (tmp_path / f"cut.{form}").write_bytes(whole[:length])
            with pytest.raises(package.FileError, match=f"cut.{form}"):
                package.read_gradient(tmp_path / f"cut.{form}")
    with pytest.raises(package.ConfigError, match="ends in .safetensors"):
        package.read_gradient(tmp_path / "gradient.txt")
    with pytest.raises(package.ConfigError, match="path=None: wants a path"):
        package.read_gradient(None)


@pytest.mark.parametrize(("change", "why"), [
    ({"data_offsets": [-8, 8]}, "from -8 to 8"), ({"data_offsets": [0, 12]}, "from 0 to 12 of 8"),
    ({"data_offsets": [8, 0]}, "from 8 to 0 of 8"), ({"data_offsets": [0, 4]}, "from 0 to 4 of 8"),
    ({"data_offsets": [0.0, 8]}, "from 0.0 to 8"), ({"shape": [-1]}, r"shape \[-1\]"), ({"shape": [3]}, "what"),
    ({"shape": 2}, "not int"), ({"dtype": "I64"}, "x is of type 'I64'; known are F64, F32, F16, BF16"), ({}, ""),
], ids=str)
def test_damaged_safetensors(package, tmp_path, change, why):
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | change}).encode()
    path = tmp_path / "gradient.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<ff", 1, 2))
    if not change:
        assert package.read_gradient(path)["x"].tolist() == [1, 2]
        return
    with pytest.raises(package.FileError, match=f"gradient.safetensors: no whole file of safetensors: .*{why}"):
        package.read_gradient(path)
