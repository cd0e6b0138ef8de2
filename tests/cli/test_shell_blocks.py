"""Runs the code blocks of the documentation in sh, as a user pastes them, and reads those in TOML. The blocks of a page run
in order, in one folder.

They run the real programs, with less work (stand_in.py). This machine takes the part of all machines that a block names.
"""

import functools
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

import slurm_cluster
from conftest import DEADLINE
from documents import ROOT, blocks

pytestmark = pytest.mark.slow

HERE = pathlib.Path(__file__).parent
INSTALL = """cmake --install build/release --prefix build/prefix
cmake -S examples -B build/examples -DCMAKE_PREFIX_PATH=$PWD/build/prefix"""
OWN_NETWORK = """cmake -S examples -B build/examples -DCMAKE_PREFIX_PATH=$PWD/build/prefix
cmake --build build/examples --target own_network
sotto train --model "build/examples/own_network.so(width=32)" --ranks 2 --max-steps 20 --train-dir runs/own"""
ELSEWHERE = {OWN_NETWORK: "tests/install/test_own_network.py builds and trains it",
             "pip install -v .": "tests/python/test_package.py installs it, without a network",
             INSTALL: "tests/install/test_install.py installs it, and builds the examples"}
CODECS = next(block for block in blocks("") if block.page == "README.md")


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


class Clone:
    """A folder that looks like a built clone of the repository, with its own home and its own /shared."""

    def __init__(self, folder, build_dir, page):
        self.folder, self.page = folder / "clone", page
        self.shared, home = folder / "shared", folder / "home"
        self.folder.mkdir()
        self.shared.mkdir()
        for name in ("bench", "docs", "examples", "launch"):
            (self.folder / name).symlink_to(ROOT / name)
        programs = self.folder / "build" / "release" / "bin"
        stand_in = f'exec {sys.executable} {HERE / "stand_in.py"}'
        executable(programs / "sotto", f'{stand_in} sotto "$@"')
        for program in (build_dir / "bin").glob("bench_*"):
            # One repetition of what the block names, or of the quickest codec where it names none.
            few = "--elements 10000 --repeats 1" + (" f32" if program.name == "bench_codecs" else "")
            executable(programs / program.name, f'exec {program} "$@" {few}')
        executable(self.folder / "dev", f'{stand_in} dev "$@"')
        (self.folder / "build" / "release" / "python").symlink_to(build_dir / "python")
        version = re.search(r"^torch==(.+)", (ROOT / "requirements.txt").read_text(), re.M)[1]
        scripts = home / ".cache" / "sotto" / f"venv-torch{version}" / "bin"
        executable(scripts / "python", f'{stand_in} python "$@"')
        (scripts / "torchrun").symlink_to(pathlib.Path(sysconfig.get_path("scripts")) / "torchrun")
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("SOTTO_", "OMP_", "SLURM_", "OMPI_", "PMIX_", "PMI_", "PET_", "TORCH"))}
        self.environment |= {
            "HOME": str(home), "PATH": f"{scripts}:{programs}:{os.environ['PATH']}", "STAND_IN_PAGE": page,
            "STAND_IN_SOTTO": str(build_dir / "bin" / "sotto"), "PYTHONPATH": str(build_dir / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}

    def paste(self, text, **variables):
        """Runs `text` in bash; returns its output."""
        command = ["bash", "-euo", "pipefail", "-c", text]
        job = subprocess.run(command, cwd=self.folder, env=self.environment | variables, stdin=subprocess.DEVNULL,
                             text=True, capture_output=True, timeout=5 * DEADLINE)
        assert job.returncode == 0, f"{text}\n{job.stdout[-3000:]}\n{job.stderr[-3000:]}"
        return job.stdout

    def here(self, text, port):
        """The text with this machine's hosts, ports and folders in place of the page's."""
        places = {"10.0.0.1": "127.0.0.1", "29500": str(port), "node1:2,node2:2": "localhost:4",
                  "/shared/run": f"{self.shared}/run-{port}", "/shared/": f"{self.shared}/"}
        return functools.reduce(lambda text, place: text.replace(*place), places.items(), text)


@pytest.fixture(scope="module")
def clone_of(tmp_path_factory, build_dir):
    """The clone for a page, with the files that pages mention: data sets in DIR, and gradients."""
    prepared = Clone(tmp_path_factory.mktemp("page"), build_dir, "docs/results/")
    prepared.paste(PREPARE.format(python=sys.executable, here=HERE))
    clones = {}

    def clone_of(page):
        if page not in clones:
            clones[page] = clone = Clone(tmp_path_factory.mktemp("page"), build_dir, page)
            for made, wanted in ((prepared.folder, clone.folder), (prepared.shared, clone.shared)):
                subprocess.run(["cp", "-an", f"{made}/.", wanted], check=True)  # a hole in a file stays one
        return clones[page]

    return clone_of


PREPARE = """
PYTHONPATH={here} {python} -c 'import pathlib, pictures, stand_in
pictures.write_pictures(pathlib.Path("data/flowers"), 40, 10)
for folder in map(pathlib.Path, ("DIR", "../shared/cifar")):
    stand_in.write_mnist(folder)
    stand_in.write_cifar(folder)'
sotto train --model logreg --batch-size 2 --max-steps 1 --test-size 10 --capture every=1,dir=one
mv one/gradient-000000.safetensors GRADIENT
seq 4000 > shakespeare.txt
mkdir multi30k
for name in train.de train.en test.de test.en; do seq 200 > multi30k/$name; done
for name in a9a housing_scale; do for i in $(seq 600); do echo $((i % 2)) 1:$i; done > $name; done
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm_cluster.of_a_module(tmp_path_factory, nodes=8, cores=8) as cluster:
        yield cluster


def at_once(*texts):
    """A script that runs `texts` at the same time, and fails if one of them does."""
    return "".join(f"(\n{text}) & jobs+=($!)\n" for text in texts) + 'for job in "${jobs[@]}"; do wait "$job"; done\n'


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_sh(block, clone_of, request):
    if block.text.split("  #")[0].strip() in ELSEWHERE:
        pytest.skip(ELSEWHERE[block.text.split("  #")[0].strip()])
    clone = clone_of(block.page)
    (port,) = slurm_cluster.free_ports(1)
    text = clone.here(block.text, port)
    if "--node-rank 0" in text:  # two machines
        clone.paste(at_once(text, text.replace("--node-rank 0", "--node-rank 1")))
    elif text.startswith("RANK=0 "):  # each line is for another machine
        clone.paste(at_once(*(line + "\n" for line in text.splitlines())))
    elif text.startswith("srun "):
        cluster = request.getfixturevalue("cluster")
        clone.paste(text, SLURM_CONF=cluster.environment["SLURM_CONF"])
    elif text.startswith("sbatch "):
        cluster = request.getfixturevalue("cluster")
        slurm = {"SLURM_CONF": cluster.environment["SLURM_CONF"], "SBATCH_WAIT": "1", "INTERFACE": "lo"}
        clone.paste(text, **slurm)
    elif text.startswith("torchrun "):  # its own port instead of torchrun's usual one
        clone.paste(text, PET_STANDALONE="1")
    else:
        clone.paste(text)


def test_the_path_of_the_readme_has_the_programs(clone_of):
    (block,) = [block for block in blocks("sh") if block.page == "README.md" and block.text.startswith("PATH=")]
    clone = clone_of("README.md")
    found = clone.paste(block.text + "command -v sotto\ncommand -v torchrun\n", PATH=os.environ["PATH"]).split()
    assert found == [f"{clone.folder}/build/release/bin/sotto", f"{clone.environment['PATH'].split(':')[0]}/torchrun"]


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_toml(block, sotto, tmp_path):
    (tmp_path / "links.toml").write_text(block.text)
    job = subprocess.run([sotto, "train", "--ranks", "4", "--model", "logreg", "--link", "links.toml", "--dry-run"], cwd=tmp_path,
                         capture_output=True, text=True, timeout=DEADLINE)
    assert job.returncode == 0, job.stderr


@pytest.mark.parametrize("line", CODECS.text.splitlines(), ids=lambda line: re.split(r" {2,}| the same", line)[0])
def test_codecs_of_the_readme(line, sotto):
    codec = re.split(r" {2,}| the same", line)[0]
    job = subprocess.run([sotto, "codec", "describe", codec], capture_output=True, text=True, timeout=DEADLINE)
    assert job.returncode == 0, job.stderr
