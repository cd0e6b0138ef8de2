"""The package as a user gets it: an sdist, its wheel, a fresh environment; and what it saves on a cable."""

import os
import pathlib
import socket
import subprocess
import sys
import tarfile

import pytest

pytestmark = pytest.mark.slow

DEADLINE = 1200  # seconds, for a build without a compiler cache


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=DEADLINE, **options)
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


def run_example(python, script, environment, folder, steps):
    """Runs an example on two ranks; returns the output of rank 0."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ranks = [subprocess.Popen([python, script, str(steps)], cwd=folder, text=True, stdout=subprocess.PIPE,
                              env=environment | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                                 "MASTER_PORT": str(port)})
             for rank in range(2)]
    try:
        out = [process.communicate(timeout=DEADLINE)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0]
    return out[0]


@pytest.mark.usefixtures("cable")  # skips where no cable can be made
def test_the_line_saves_bytes_on_a_cable(root, environment):
    out = run(sys.executable, root / "bench" / "one_line.py", "--only", "plain", "line", "--rate", "unshaped", "--rounds", 1, "--steps", 8,
              env=environment)
    fewer = float(out.splitlines()[-1].split(",")[1].split()[0])
    assert fewer > 6, out


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """A wheel built from the unpacked sdist, with the compiler and flags of the build under test, for the compiler cache."""
    folder = tmp_path_factory.mktemp("package")
    run(sys.executable, "-c", "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])", folder, cwd=root)
    [sdist] = folder.glob("sotto-*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder,
        "-C", "cmake.define.SOTTO_WARNINGS_ARE_ERRORS=ON", ".", cwd=source,
        env=os.environ | {"CC": "cc", "CXX": "c++", "CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1",
                          "CMAKE_BUILD_PARALLEL_LEVEL": "2"})
    [wheel] = folder.glob("sotto-*.whl")
    return wheel


def test_a_wheel_works_in_a_new_environment(wheel, root, environment, tmp_path):
    """The environment finds the installed torch through a .pth file."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    torch = pathlib.Path(run(sys.executable, "-c", "import torch; print(torch.__file__)").strip()).parent.parent
    [packages] = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    (packages / "torch.pth").write_text(f"{torch}\n")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel)
    clean = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    where = run(python, "-c", "import sotto; print(sotto.__file__)", env=clean, cwd=tmp_path)
    assert where.startswith(str(packages))
    names = {path.name for path in (packages / "sotto").iterdir()}
    assert {"__init__.py", "libsotto.so", "program", "py.typed"} <= names
    listed = run(packages.parent.parent.parent / "bin" / "sotto", "codec", "list", env=clean, cwd=tmp_path)
    assert "topk" in listed
    assert "loss" in run_example(python, root / "examples" / "mnist_ddp.py", clean, tmp_path, 3)
