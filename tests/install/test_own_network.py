"""The program trains a user's own network, built against an installed sotto with LibTorch."""

import json
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow

FLAGS = "--train-size 64 --test-size 20 --batch-size 4 --ranks 2 --epochs 9 --deadline 60".split()


@pytest.fixture(scope="module")
def library(root, build_dir, tmp_path_factory):
    """examples/own_network.so, with the LibTorch of the build: it needs no path, and no Python that has torch."""
    prefix, build = tmp_path_factory.mktemp("prefix"), tmp_path_factory.mktemp("build")
    for command in (["cmake", "--install", build_dir, "--prefix", prefix],
                    ["cmake", "-G", "Ninja", "-S", root / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON"],
                    ["cmake", "--build", build, "--target", "own_network"]):  # fmt: skip
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    shutil.rmtree(prefix)  # the installation is no longer needed
    return build / "own_network.so"


@pytest.fixture
def train(sotto, tmp_path):
    def train(*arguments, status=0):
        result = subprocess.run([str(part) for part in (sotto, *arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert result.returncode == status, result.stderr
        return result

    return train


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_it_is_trained_resumed_and_evaluated(library, train, tmp_path):
    shutil.copy(library, tmp_path / "mine.so")
    flags = ["train", "--model", "./mine.so(width=4)", *FLAGS, "--codec", "ef | topk(0.1)"]
    train(*flags, "--max-steps", 12, "--train-dir", "whole")
    train(*flags, "--max-steps", 5, "--train-dir", "parts")
    assert f"model = '{tmp_path}/mine.so(width=4)'" in (tmp_path / "parts" / "config.toml").read_text()
    train("train", "--train-dir", "parts", "--resume", "--max-steps", 12)
    whole = summary(tmp_path / "whole")
    assert whole["parameters_sha256"] == summary(tmp_path / "parts")["parameters_sha256"]
    width = 4
    assert whole["parameters"] == (9 + 1) * width + (9 * width + 1) * 2 * width + (2 * width * 49 + 1) * 10
    assert "step 12 " in train("eval", "--model-dir", "whole").stdout

    with open(tmp_path / "mine.so", "ab") as file:  # the file now differs, but works the same
        file.write(b"\n")
    said = train("train", "--train-dir", "parts", "--resume", "--max-steps", 13, status=2).stderr
    assert "it was written with model-library " in said
    assert "another build of" in train("eval", "--model-dir", "whole", status=2).stderr
    (tmp_path / "mine.so").unlink()
    assert "there is no such library as" in train("train", "--train-dir", "parts", "--resume", status=2).stderr


def test_it_learns(library, train, tmp_path):
    train("train", "--model", f"{library}(width=8)", "--train-size", 2048, "--test-size", 200, "--batch-size", 32, "--ranks", 1, "--lr", 0.05,
          "--epochs", 2, "--train-dir", "run")  # fmt: skip
    assert summary(tmp_path / "run")["test_accuracy"] > 0.7


def test_other_tasks_and_mistakes(library, train, tmp_path):
    text = train("train", "--model", library, "--task", "regress", "--dry-run").stdout
    assert f"model         {library}, " in text
    for arguments, part in [(["--model", f"{library}(wdith=3)"], "unknown option `wdith`; did you mean `width`?"),
                            (["--model", f"{library}(width=x)"], "width must be a whole number, not `x`"),
                            (["--model", "./nothing.so"], "there is no such library as"),
                            (["--model", library, "--task", "language"], "unknown model"),
                            (["--model", f"{library}(width=4"], "expected `,` or `)`")]:  # fmt: skip
        result = train("train", *arguments, *FLAGS, status=2)
        assert part in result.stderr, result.stderr
        assert result.stderr.count("sotto: ") == 1, result.stderr
