"""Ranks that srun starts, the job scripts of launch/slurm, and jobs that go back into the queue, on a Slurm that the
tests set up (slurm_cluster.py). Where that is not possible, all of this is skipped, and pytest -rs says why."""

import os
import pathlib
import re
import signal

import pytest

import slurm_cluster
from conftest import TINY, has_step, name_of, summary, wait_until
from test_elastic import members

pytestmark = pytest.mark.slow

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "launch" / "slurm"
LENET = "--model lenet --train-size 64 --test-size 20 --batch-size 2 --max-steps 4 --deadline 60".split()
ALGORITHMS = {"ar": "sync", "sgp": "push_sum", "osgp": "push_sum(overlap=true)", "d_psgd": "d_psgd", "elastic": "sync", "ad_psgd": "ad_psgd"}
TWO_NODES = ["--nodes=2", "--ntasks-per-node=2"]
ONE_NODE = ["--nodes=1", "--ntasks-per-node=4"]  # Open MPI believes that nodes of one host name share their memory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm_cluster.of_a_module(tmp_path_factory, nodes=2, cores=4) as cluster:
        yield cluster


@pytest.fixture
def with_mpi(build_dir):
    if not (build_dir / "bin" / "comm_mpi_ranks").exists():
        pytest.skip("the MPI backend was not built (Debian: apt-get install openmpi-bin libopenmpi-dev)")


@pytest.fixture
def submit(cluster, sotto, tmp_path):
    """Submits a script of launch/slurm; returns the number of the job."""

    def submit(script, *arguments, **variables):
        variables |= {"SOTTO": str(sotto), "SOTTO_LAUNCH": str(SCRIPTS), "TRAIN_DIR": "run"}
        options = [a for a in arguments if a in (*TWO_NODES, *ONE_NODE)]
        flags = [a for a in arguments if a not in options]
        job = cluster.run("sbatch", "--parsable", "--output=log", *options, SCRIPTS / f"{script}.sbatch", *flags, cwd=tmp_path, **variables)
        assert job.returncode == 0, job.stderr
        return job.stdout.strip()

    return submit


def ended(cluster, job):
    """The state and exit status of a job, once it has both."""
    wait_until(lambda: not cluster.run("squeue", "-h", "-j", job).stdout.strip(), f"job {job} to end")
    shown = cluster.run("scontrol", "show", "job", job).stdout
    return re.search(r"JobState=(\w+)", shown)[1], int(re.search(r"ExitCode=(\d+):", shown)[1])


@pytest.mark.parametrize("nodes", [TWO_NODES, ONE_NODE])
def test_srun_gives_the_same_parameters(cluster, sotto, good, tmp_path, nodes):
    flags = ["train", *TINY, "--max-steps", 6, "--check-replicas", 1, "--codec", "ef | topk(0.1)", "--train-dir"]
    job = cluster.run("srun", *nodes, sotto, *flags, "slurm", cwd=tmp_path, OMP_NUM_THREADS="1")  # as our job scripts set it
    assert job.returncode == 0, job.stderr
    assert "test accuracy" in job.stdout
    good(*flags, "own", "--ranks", 4, "--threads", 1)
    found, own = summary(tmp_path / "slurm"), summary(tmp_path / "own")
    assert found["ranks"] == 4 and found["steps"] == 6
    assert found["parameters_sha256"] == own["parameters_sha256"] and found["bytes_sent"] == own["bytes_sent"]


def test_a_job_script_may_use_our_launcher(cluster, sotto, tmp_path):
    wrapped = f"{sotto} train {' '.join(TINY)} --max-steps 2 --ranks 2 --train-dir run"
    job = cluster.run("sbatch", "--parsable", "--ntasks=2", "--output=log", "--wrap", wrapped, cwd=tmp_path).stdout.strip()
    assert ended(cluster, job) == ("COMPLETED", 0), (tmp_path / "log").read_text()
    assert summary(tmp_path / "run")["ranks"] == 2


def test_every_script_is_tried():
    assert {script.stem.rsplit("_", 1)[0] for script in SCRIPTS.glob("*.sbatch")} == set(ALGORITHMS)


@pytest.mark.parametrize("script", sorted(script.stem for script in SCRIPTS.glob("*_eth.sbatch")))
def test_over_ethernet(cluster, submit, tmp_path, script):
    job = submit(script, *TWO_NODES, *LENET, INTERFACE="lo")
    assert ended(cluster, job) == ("COMPLETED", 0), (tmp_path / "log").read_text()
    found = summary(tmp_path / "run")
    assert found["algorithm"] == ALGORITHMS[script.removesuffix("_eth")] and found["backend"] == "gloo"
    assert found["ranks"] == 4 and found["steps"] == 4
    assert found["lr"] == pytest.approx(0.05 * 4 * 2 / 256)  # the model's rate is for 256 examples; a step has 4 * 2


def test_no_wait_for_a_failed_coordinator(start_other, sotto, tmp_path):
    """They would, for ten minutes. In place of srun a script runs one task."""
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n')
    srun.chmod(0o755)
    variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "elastic", "SLURM_NTASKS": "2", "LEAST": "3", "SOTTO": str(sotto), "SOTTO_LAUNCH": str(SCRIPTS)}
    job = start_other("bash", SCRIPTS / "elastic_eth.sbatch", *TINY, PATH=f"{tmp_path}:{os.environ['PATH']}", **variables).finish()
    assert job.status == 2 and "--ranks 3:2: 3 is more than 2" in job.err and "joining" not in job.err, job.err


@pytest.mark.parametrize("lost", ["a rank", "a node", "a silent node"])
def test_the_others_go_on(cluster, submit, tmp_path, lost):
    flags = [*TINY[:-1], 20, "--epochs", 100000, "--eval-freq", 1000000, "--max-steps", 1500, "--link", "1gbit,3ms"]
    job = submit("elastic_eth", *TWO_NODES, *flags, LEAST="2", INTERFACE="lo")
    folder, log = tmp_path / "run", tmp_path / "log"

    def until(condition, what):
        wait_until(lambda: condition() or not cluster.run("squeue", "-h", "-j", job).stdout.strip(), what)
        assert condition(), log.read_text()

    until(lambda: (folder / "membership.csv").exists() and len(members(folder)[-1][2]) == 4, "four ranks")
    until(lambda: has_step(folder, members(folder)[-1][1] + 20), "20 steps")
    if lost == "a rank":
        os.kill(rank_of(tmp_path, 3), signal.SIGKILL)
        until(lambda: len(members(folder)[-1][2]) == 3, "the others to continue")
        assert ended(cluster, job) == ("COMPLETED", 0), log.read_text()
        assert "rank 3 was killed by signal 9 (SIGKILL); generation" in log.read_text()
    else:
        with cluster.without(2, signal.SIGKILL if lost == "a node" else signal.SIGSTOP):
            until(lambda: len(members(folder)[-1][2]) == 2, "the others to continue")
            assert ended(cluster, job) == ("COMPLETED", 0), log.read_text()
    assert summary(folder)["steps"] == 1500


def rank_of(folder, number):
    """The process of that rank of a job with a coordinator that runs in this folder."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder and name_of(process.name) == f"sotto-rank{number}":
                return int(process.name)
        except OSError:
            pass
    raise AssertionError(f"rank {number} does not run")


# There is no InfiniBand here, so UCX must use TCP instead of verbs, and Open MPI must allow that.
WITHOUT_VERBS = {"UCX_TLS": "tcp,sm,self", "OMPI_MCA_opal_common_ucx_tls": "any", "OMPI_MCA_opal_common_ucx_devices": "any"}


@pytest.mark.parametrize("script, variables", [
    *((script.stem, WITHOUT_VERBS) for script in sorted(SCRIPTS.glob("*_ib.sbatch"))),
    ("ar_eth", {"BACKEND": "mpi", "INTERFACE": "lo"}),
])  # fmt: skip
def test_over_mpi(cluster, submit, with_mpi, tmp_path, script, variables):
    job = submit(script, *ONE_NODE, *LENET, **variables)
    assert ended(cluster, job) == ("COMPLETED", 0), (tmp_path / "log").read_text()
    found = summary(tmp_path / "run")
    assert found["algorithm"] == ALGORITHMS[script.rsplit("_", 1)[0]] and found["backend"] == "mpi"
    assert found["ranks"] == 4 and found["steps"] == 4


@pytest.mark.parametrize("script", ["ar_eth", "osgp_eth"])
def test_a_job_out_of_time_is_requeued(cluster, submit, good, tmp_path, script):
    flags = [*TINY, "--epochs", 100000, "--eval-freq", 1000000]
    job = submit(script, *TWO_NODES, *flags)
    log = tmp_path / "log"

    def comes_to(step):
        waiting = "PENDING", "CONFIGURING", "RUNNING", "COMPLETING"
        wait_until(lambda: has_step(tmp_path / "run", step) or
                   not cluster.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip().startswith(waiting), f"step {step}")
        assert has_step(tmp_path / "run", step), log.read_text()

    comes_to(3)
    cluster.run("scancel", "--signal=USR1", job)  # as Slurm does with --signal=USR1@90
    wait_until(lambda: "resumed from" in log.read_text(), "the job to continue")
    first = int(re.search(r"resumed from run/model_step_(\d+)", log.read_text())[1])
    assert f"out of time; job {job} goes back into the queue" in log.read_text()
    assert summary(tmp_path / "run")["interrupted_by_signal"] == 10 and summary(tmp_path / "run")["steps"] == first
    comes_to(first + 2)
    cluster.run("scancel", "--signal=TERM", job)  # SIGTERM ends the job for good
    assert ended(cluster, job) == ("FAILED", 143), log.read_text()

    found = summary(tmp_path / "run")
    algorithm = ["--algorithm", ALGORITHMS[script.removesuffix("_eth")]]
    if script != "ar_eth":
        algorithm += ["--topology", "directed_exponential"]
    good("train", *flags, *algorithm, "--lr-scale", "--ranks", 4, "--threads", 1, "--max-steps", found["steps"], "--train-dir", "straight")
    assert found["steps"] > first and found["first_step"] == first
    assert summary(tmp_path / "straight")["parameters_sha256"] == found["parameters_sha256"]
    rows = [tuple(row.split(",")[:2]) for row in (tmp_path / "run" / "steps.csv").read_text().splitlines()[1:]]
    assert sorted(rows) == sorted((str(s), str(r)) for s in range(found["steps"]) for r in range(4))
