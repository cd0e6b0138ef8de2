"""Disks that are full or read-only, too few descriptors or processes: the error names what is missing, and nothing is lost."""

import os
import shutil
import subprocess

import pytest

from conftest import summary, wait_until
from fault_moments import whole_checkpoints

pytestmark = pytest.mark.slow

SMALL = ["train", "--model", "lenet", "--train-size", 512, "--test-size", 16, "--batch-size", 8, "--deadline", 60, "--ranks", 2, "--no-keep-best"]
OFTEN = [*SMALL, "--checkpoint-every", 5]
STEPS = 40


@pytest.fixture
def disk(tmp_path):
    """A disk with room for a few checkpoints."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], capture_output=True).returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def one_error(job):
    told = [line for line in job.err.splitlines() if line.startswith("sotto: ")]
    assert len(told) == 1, job.err
    return told[0]


def goes_on(good, tmp_path, folder):
    """A resumed run ends as one that was never disturbed."""
    made = whole_checkpoints(folder)
    said = good("train", "--resume", "--train-dir", folder, "--max-steps", STEPS).err
    assert f"resumed from {folder}/model_step_{made[-1]}\n" in said and "left aside" not in said, said
    good(*SMALL, "--train-dir", "undisturbed", "--max-steps", STEPS)
    assert summary(folder)["parameters_sha256"] == summary(tmp_path / "undisturbed")["parameters_sha256"]


def test_a_full_disk(run, good, tmp_path, disk):
    job = run(*OFTEN, "--max-steps", STEPS, "--train-dir", disk / "run")
    assert job.status == 1
    assert "No space left on device" in one_error(job) and f"{disk}/run/" in one_error(job), job.err
    assert not list((disk / "run").glob("*.tmp")), "room is given back"
    made = whole_checkpoints(disk / "run")
    assert made
    shutil.copytree(disk / "run", tmp_path / "run")
    goes_on(good, tmp_path, tmp_path / "run")


def test_a_disk_that_becomes_read_only(start, good, tmp_path, disk):
    link = ["--link", "1gbit,5ms"]
    job = start(*SMALL, *link, "--checkpoint-every", 20, "--epochs", 100000, "--eval-freq", 100000, "--train-dir", disk / "run")
    wait_until(lambda: job.process.poll() is not None or whole_checkpoints(disk / "run"), "a checkpoint")
    # Files that are open keep the disk writable, so a read-only view of it is laid over the folder.
    subprocess.run(["mount", "--bind", disk, disk], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", disk], check=True)
    try:
        job.finish()
        job.nothing_left()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    assert job.status == 1
    assert "Read-only file system" in one_error(job) and f"{disk}/run" in one_error(job), job.err
    made = whole_checkpoints(disk / "run")
    said = good("train", "--resume", "--train-dir", disk / "run", "--max-steps", made[-1] + 2).err
    assert f"resumed from {disk}/run/model_step_{made[-1]}\n" in said and "left aside" not in said, said


@pytest.mark.sample(1)
@pytest.mark.parametrize("descriptors", [20, 16, 24, 28, 32, 40])
def test_too_few_descriptors(start_other, good, sotto, tmp_path, descriptors):
    good(*SMALL, "--train-dir", "run", "--max-steps", 5)
    job = start_other("prlimit", f"--nofile={descriptors}", sotto, *SMALL, "--train-dir", "run", "--resume", "--max-steps", STEPS).finish()
    job.nothing_left()
    if job.status != 0:
        assert descriptors < 40 and "Too many open files" in one_error(job), job.err
    goes_on(good, tmp_path, tmp_path / "run")


# Users without any other process: the limit counts all threads of a user, and is no limit for root.
USER = 54321


@pytest.mark.sample(1)
@pytest.mark.parametrize("processes", [4, 1, 2, 8, 10, 12, 24])
def test_too_few_processes(start_other, good, sotto, tmp_path, processes):
    user = USER + processes
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--securebits=+no_setuid_fixup",
              "--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"]  # which opens the files of root  # fmt: skip
    if os.geteuid() != 0 or not shutil.which("setpriv") or subprocess.run([*become, sotto, "--help"], capture_output=True).returncode != 0:
        pytest.skip("the program cannot be run as another user here")
    good(*SMALL, "--train-dir", "run", "--max-steps", 5)
    job = start_other("prlimit", f"--nproc={processes}", *become, sotto, *SMALL, "--train-dir", "run", "--resume", "--max-steps", STEPS).finish()
    job.nothing_left()
    if job.status != 0:
        assert "Resource temporarily unavailable" in one_error(job), job.err
    else:
        assert processes > 4
    goes_on(good, tmp_path, tmp_path / "run")
