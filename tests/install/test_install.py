"""An independent project can use what `cmake --install` installs."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from headers import public_headers

pytestmark = pytest.mark.slow

HERE = pathlib.Path(__file__).parent


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **options)
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def prefix(root, tmp_path_factory):
    """An installation of the part that needs no torch.

    It is built from a copy. The folders of source and build have the same relative places as in the build under test, so that a compiler cache knows all files.
    """
    source = tmp_path_factory.mktemp("source")
    shutil.copy(root / "CMakeLists.txt", source)
    for folder in ("adapters", "app", "cmake", "sotto"):
        shutil.copytree(root / folder, source / folder)
    build = source / "build" / "release"
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DSOTTO_BUILD_TORCH=OFF", "-DSOTTO_BUILD_TESTS=OFF",
        "-DSOTTO_BUILD_BENCH=OFF", "-DSOTTO_BUILD_PYTHON=OFF")
    run("cmake", "--build", build, env=os.environ | {"CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1"})
    run("cmake", "--install", build, "--prefix", prefix)
    return prefix


def test_a_consumer_builds_and_runs(prefix, tmp_path):
    run("cmake", "-G", "Ninja", "-S", HERE, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    text = run(tmp_path / "consumer")
    # One element of 1000 is sent: a header, an index and a float.
    match = re.fullmatch(r"(\d+) bytes, element 7 is -6, element 8 is 0\n", text)
    assert match and 32 < int(match.group(1)) < 60, text


def test_the_examples_build_and_run(prefix, root, tmp_path):
    run("cmake", "-G", "Ninja", "-S", root / "examples", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "gossiper") == "rank 0 has 3.5 after 3 rounds\n"
    assert run(tmp_path / "average", "127.0.0.1", "29500", "0", "1") == "0 1\n"
    assert run(tmp_path / "aggregate") == "mean 2.5, largest 4\n"
    # After 1000 steps, a twentieth of 2.5 is still held back. A dense step would send 60,000 bytes.
    match = re.fullmatch(r"the mean is (\S+)\n(\d+) bytes a step\n", run(tmp_path / "averager"))
    assert match and 2.3 < float(match[1]) < 2.5 and int(match[2]) < 2000, match


def test_headers_of_torch_are_left_out(prefix):
    folder = prefix / "include"
    found = [str(path.relative_to(folder)) for path in folder.rglob("*.h") if "detail" not in path.parts]
    assert sorted(found) == sorted(public_headers("SOTTO_PUBLIC_HEADERS"))


def test_nothing_of_the_build_leaks_out(prefix, root, tmp_path_factory):
    exported = "".join(path.read_text() for path in prefix.rglob("*.cmake"))
    assert "sotto::core" in exported
    assert str(root) not in exported
    assert str(tmp_path_factory.getbasetemp()) not in exported
    assert "-Werror" not in exported
    assert "sotto_options" not in exported
