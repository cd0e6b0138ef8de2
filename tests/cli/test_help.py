"""The help texts of the program."""

import re
import subprocess

import pytest

COMMANDS = ["demo", "train", "compare", "tune", "advise", "coordinator", "relay", "report", "watch", "eval", "codec", "analyze", "data", "hosts", "doctor"]


def test_alone_it_prints_its_help(good):
    assert good().out == good("--help").out
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", good().out, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(good, command):
    text = good(command, "--help").out
    assert "Usage: sotto " + command in text
    assert "Example" in text


def test_help_may_stand_in_front(good, run):
    assert good("help").out == good("--help").out
    assert good("help", "train").out == good("train", "--help").out
    assert good("help", "codec", "measure").out == good("codec", "measure", "--help").out
    assert good("help", "codec").out == good("codec").out
    assert run("help", "nosuch").status == 2


def test_words_that_are_spelled_otherwise(good, run):
    """As `--network` and `--dataset`, `--optimizer` is understood."""
    text = good("train", "--model", "logreg", "--ranks", 2, "--optimizer", "adam", "--lr", 0.1, "--dry-run").out
    assert text == good("train", "--model", "logreg", "--ranks", 2, "--optimiser", "adam", "--lr", 0.1, "--dry-run").out
    job = run("train", "--optimizer", "adamm", "--dry-run")
    assert job.status == 2 and "--optimiser adamm: unknown optimiser `adamm`" in job.err


def test_help_of_train_is_grouped_and_lists_models(good):
    text = good("train", "--help").out
    for part in ["What is trained:", "What is sent:", "Training:", "Run folder:", "--model, --network", "  resnet18"]:
        assert part in text
    options = {line[len("Options of "):-1]: text.split(line)[1].split("\nOptions of ")[0] for line in text.splitlines()
               if line.startswith("Options of ")}  # fmt: skip
    assert "depth=18 " in options["resnet"]
    family = next(names for names in options if names.startswith("resnet20, "))
    assert "channels-last=false " in options["alexnet"] and "label-smoothing" not in options["alexnet"]
    assert "width=1 " in options[family] and "depth=" not in options[family], "which is in their names"
    for flag in ["batch-size", "test-batch-size", "max-steps", "epochs", "lr", "lr-shrinkage", "momentum", "network",
                 "dataset", "eval-freq", "train-dir"]:
        assert f"--{flag} " in text


def test_version(good):
    assert re.fullmatch(r"sotto \d+\.\d+\.\d+.*, torch \d+\.\d+.*, (g\+\+|clang) .*, (release|debug)\n", good("--version").out)


def test_doctor(run):
    job = run("doctor")
    topics = {line.split()[1] for line in job.out.splitlines()}
    assert topics >= {"version", "launch", "cores", "threads", "interface", "tcp", "gloo", "memory", "disk"}
    assert job.status == (1 if re.search("^fail", job.out, re.M) else 0)
    assert "1 MiB all-reduce" in job.out


def test_doctor_says_what_would_fail(run):
    job = run("doctor", "--interface", "nosuch0")
    assert job.status == 1
    assert re.search(r"^fail +interface +--interface nosuch0", job.out, re.M)


def test_doctor_looks_at_the_place_to_meet(run):
    assert re.search(r"^ok +master +127.0.0.1 has 1 address$", run("doctor", "--master", "127.0.0.1:29500").out, re.M)
    for master, why in (("foo", "must be HOST:PORT"), ("no-such-host.invalid:29500", "no-such-host.invalid")):
        job = run("doctor", "--master", master)
        assert job.status == 1 and re.search(rf"^fail +master .*{why}", job.out, re.M), job.out


def test_doctor_finds_a_launchers_variables(run):
    job = run("doctor", RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    assert "started by whoever set RANK and WORLD_SIZE: rank 1 of 2" in job.out
    job = run("doctor", RANK="7", WORLD_SIZE="2")
    assert job.status == 1
    assert re.search("^fail +launch", job.out, re.M)


@pytest.mark.parametrize("command", ["--help", "codec list", "codec describe int8", "topology show ring --ranks 4 --json", "doctor"])
def test_output_that_cannot_be_written_is_an_error(sotto, command):
    with open("/dev/full", "w") as full:
        job = subprocess.run([sotto, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)
    assert job.returncode == 1 and job.stderr == "sotto: standard output cannot be written to: No space left on device\n"
