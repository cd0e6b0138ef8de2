"""`python -m sotto`: commands of the program for those who have the package alone. test_elastic_function.py has a job that its
coordinator leads."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def run(environment):
    return lambda *command: subprocess.run([str(part) for part in command], env=environment, text=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("arguments", [
    ["codec", "list"], ["codec", "list", "--json"], ["codec", "describe", "ef | topk(0.01)"], ["coordinator", "--help"],
    ["relay", "--help"], ["relay"], ["secret"], ["secret", "new"],
    ["coordinator", "--ranks", "4:2"], ["codec", "list", "--waht"], ["codec", "describe", "tokp"],
], ids=" ".join)
def test_it_says_what_the_program_says(run, sotto, arguments):
    ours, theirs = run(sys.executable, "-m", "sotto", *arguments), run(sotto, *arguments)
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


@pytest.mark.parametrize("program", ["package", "program"])
def test_output_that_is_lost(environment, sotto, program):
    command = [*([sys.executable, "-m", "sotto"] if program == "package" else [sotto]), "codec", "list"]
    with open("/dev/full", "w") as full:
        said = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert said.returncode == 1 and said.stderr == "sotto: standard output cannot be written to: No space left on device\n"
    read, write = os.pipe()
    os.close(read)
    said = subprocess.run(command, env=environment, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert said.returncode in (0, -signal.SIGPIPE) and said.stderr == ""


def test_doctor(run):
    said = run(sys.executable, "-m", "sotto", "doctor")
    assert said.returncode == 0, said.stdout + said.stderr
    topics = [line[6:16].strip() for line in said.stdout.splitlines()]
    assert {"version", "launch", "cores", "interface", "tcp", "disk"} <= set(topics) and "a megabyte summed" in said.stdout
    said = run(sys.executable, "-m", "sotto", "doctor", "--interface", "none0")
    assert said.returncode == 1 and "fail  interface   interface='none0': there are lo" in said.stdout


def test_doctor_finds_half_a_launcher(environment):
    said = subprocess.run([sys.executable, "-m", "sotto", "doctor"], env=environment | {"RANK": "1"}, text=True, capture_output=True, timeout=120)
    assert said.returncode == 1 and "fail  launch      RANK=1, but WORLD_SIZE, MASTER_ADDR, MASTER_PORT not" in said.stdout


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_what_is_there(run, arguments):
    said = run(sys.executable, "-m", "sotto", *arguments)
    assert said.returncode == 0
    for command in ("coordinator", "doctor", "codec list", "codec describe", "`./dev build`"):
        assert command in said.stdout


@pytest.mark.parametrize("arguments", [["train"], ["codec"], ["codec", "measure"], ["coordinate"]], ids=" ".join)
def test_other_commands_are_refused(run, arguments):
    said = run(sys.executable, "-m", "sotto", *arguments)
    assert said.returncode == 2 and said.stdout == ""
    assert said.stderr.startswith(f"sotto: {arguments[0]}") and "has coordinator, relay, secret, doctor, codec list and codec describe" in said.stderr
