"""sotto.read_gradient: the files of `sotto train --capture`."""

import subprocess

import pytest
import torch

DEADLINE = 180
NAMES = ["weight", "bias"]


@pytest.fixture(scope="module")
def captured(sotto, tmp_path_factory):
    """A folder with the same gradient in all formats."""
    folder = tmp_path_factory.mktemp("captured")
    for form in ("sotto", "npy", "safetensors"):
        flags = "--model logreg --train-size 64 --test-size 20 --batch-size 8 --max-steps 1".split()
        job = subprocess.run([sotto, "train", *flags, "--train-dir", f"run-{form}", "--capture", f"every=1,dir={form},format={form}"],
                             cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
        assert job.returncode == 0, job.stderr
        (folder / form / f"gradient-000000.{form}").rename(folder / f"gradient-000000.{form}")
    return folder


def test_every_format_is_read(package, captured):
    own = package.read_gradient(captured / "gradient-000000.sotto")
    assert [name.split(".")[-1] for name in own] == NAMES and all(tensor.dtype == torch.float32 for tensor in own.values())
    assert sorted(tensor.dim() for tensor in own.values()) == [1, 2] and any(tensor.abs().sum() > 0 for tensor in own.values())
    other = package.read_gradient(str(captured / "gradient-000000.safetensors"))
    assert list(other) == list(own) and all(torch.equal(other[name], own[name]) for name in own)
    array = package.read_gradient(captured / "gradient-000000.npy")
    assert torch.equal(array["values"], torch.cat([tensor.flatten() for tensor in own.values()]))


def test_bad_files_are_told(package, captured, tmp_path):
    for form in ("sotto", "npy", "safetensors"):
        with pytest.raises(package.FileError, match="missing"):
            package.read_gradient(tmp_path / f"missing.{form}")
        whole = (captured / f"gradient-000000.{form}").read_bytes()
        for length in (0, 7, 60, len(whole) - 4):
            (tmp_path / f"cut.{form}").write_bytes(whole[:length])
            with pytest.raises(package.FileError, match=f"cut.{form}"):
                package.read_gradient(tmp_path / f"cut.{form}")
    with pytest.raises(package.ConfigError, match="ends in .sotto"):
        package.read_gradient(tmp_path / "gradient.txt")
