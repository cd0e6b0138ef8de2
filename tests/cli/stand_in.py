"""Stands in for `sotto`, `python` and `./dev` when a test runs code blocks of the documentation. It runs the real sotto, with
less work; of a Python script it only lets the arguments be read.

The test gives the path of sotto in STAND_IN_SOTTO, and the page in STAND_IN_PAGE. On pages of results and speeds, a training
is only tried with --dry-run.
"""

import argparse
import gzip
import os
import pathlib
import re
import runpy
import shlex
import shutil
import signal
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONLY_PARSED = os.environ["STAND_IN_PAGE"].startswith(("docs/results/", "docs/performance.md", "launch/"))
NOBODY = "http://127.0.0.1:9/"  # no server listens at this port


def sotto(*arguments):
    return subprocess.run([os.environ["STAND_IN_SOTTO"], *arguments]).returncode


def with_flag(arguments, flag, value):
    """The arguments with the flag set to `value`; the flag is added where it is missing."""
    if flag in arguments:
        at = arguments.index(flag)
        return [*arguments[: at + 1], value, *arguments[at + 2 :]]
    return [*arguments, flag, value]


def of_list(arguments, flag, default):
    """The values of a flag that takes several, and the arguments without that flag."""
    if flag not in arguments:
        return [default], arguments
    at = arguments.index(flag)
    end = next((i for i in range(at + 1, len(arguments)) if arguments[i].startswith("--")), len(arguments))
    return arguments[at + 1 : end], arguments[:at] + arguments[end:]


def capture(arguments):
    """Captures the first step of a small model, and copies its files to the names of the last capture of the real run."""
    every, folder = re.fullmatch(r"every=(\d+),dir=([^\s,]+)\S*", arguments[arguments.index("--capture") + 1]).groups()
    small = {"--max-steps": "1", "--batch-size": "2", "--test-size": "10"}
    if "resnet18" in arguments:
        small["--model"] = "resnet(depth=18, width=0.25)"
    for flag, value in small.items():
        arguments = with_flag(arguments, flag, value)
    status = sotto(*arguments)
    if status == 0:
        for path in pathlib.Path(folder).glob("*-000000*"):
            shutil.copy(path, path.with_name(path.name.replace("000000", f"{int(every):06}")))
    return status


def train(arguments):
    if "--dry-run" in arguments:
        return sotto(*arguments)
    if ONLY_PARSED and "--capture" in arguments:
        return capture(arguments)
    if ONLY_PARSED and "SLURM_PROCID" in os.environ:  # every rank would try the whole job: only rank 0 does, with two ranks
        rank = os.environ["SLURM_PROCID"]
        for name in [name for name in os.environ if name.startswith("SLURM_")]:
            del os.environ[name]
        return sotto(*arguments, "--ranks", "2", "--dry-run") if rank == "0" else 0
    if ONLY_PARSED:
        return sotto(*arguments, "--dry-run")
    steps = "101" if "--capture" in arguments else "5" if "--resume" in arguments else "3"
    return sotto(*with_flag(with_flag(arguments, "--max-steps", steps), "--test-size", "20"))


def compare(arguments):
    if not ONLY_PARSED:
        return sotto(*with_flag(with_flag(arguments, "--max-steps", "2"), "--test-size", "20"))
    codecs, rest = of_list(arguments, "--codecs", "none")
    algorithms, rest = of_list(rest, "--algorithms", "sync")
    rest = [a for a in rest[1:] if a not in ("--markdown", "--json")]
    trials = [["train", *rest, "--codec", codec, "--algorithm", algorithm] for codec in codecs for algorithm in algorithms]
    # A dry run cannot tell how much an algorithm sends where that depends on time: such an algorithm makes one step.
    return max(sotto(*trial, *(["--max-steps", "1", "--test-size", "10"] if "ad_psgd" in trial[-1] or "async" in trial[-1]
                               else ["--dry-run"])) for trial in trials)


def tune(arguments):
    """Two trials of a search, or one."""
    return sotto(*with_flag(with_flag(arguments, "--steps", "2"), "--test-size", "20"), "--random", "1" if ONLY_PARSED else "2")


def analyze(arguments):
    """Without what takes longest: singular values, and many messages to merge."""
    merges, rest = of_list(arguments, "--merge", None)
    return sotto(*rest, "--no-spectra", "--repeats", "1", *(["--merge", merges[0]] if merges[0] else []))


def advise(arguments):
    """Two ranks, one codec."""
    return sotto(*with_flag(with_flag(arguments, "--ranks", "2"), "--batch-size", "2"), "--codecs", "f16")


def data_get(arguments):
    """Checks that sotto understands the command, though no server answers; then writes files of the same form."""
    asked = subprocess.run([os.environ["STAND_IN_SOTTO"], *arguments, "--url", NOBODY], text=True, capture_output=True)
    if asked.returncode != 1 or NOBODY not in asked.stderr:
        print(asked.stderr, file=sys.stderr)
        return 1
    write_mnist(pathlib.Path(arguments[arguments.index("--data-dir") + 1]))
    return 0


def write_mnist(folder, train=2048, test=100):
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", train), ("t10k", test)):
        labels = bytes(i % 10 for i in range(count))
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz", "wb", compresslevel=1) as images:
            images.write(struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(bytes([25 * y] * 784) for y in labels))
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + labels)


def write_cifar(folder):
    """Files of the right size, full of zeros."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        with open(folder / name, "wb") as file:
            file.truncate(10_000 * 3073)


def evaluate(arguments):
    """`eval --follow` is interrupted after its first line."""
    process = subprocess.Popen([os.environ["STAND_IN_SOTTO"], *arguments], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    return 0 if line.startswith("step ") and process.returncode == 128 + signal.SIGINT else 1


def measure(arguments):
    if "--input" not in arguments:
        arguments = with_flag(arguments, "--elements", "65536")
    return sotto(*with_flag(arguments, "--repeats", "1"))


def hosts(arguments):
    """This machine takes the part of all hosts; what they need in addition to sotto is not looked for."""
    ssh = shlex.join(["sh", "-c", 'for last; do :; done; exec sh -c "$last"', "ssh"])
    return sotto(*arguments[:3], "--ssh", ssh)


def prepare_pairs(arguments):
    """A vocabulary for a few words."""
    return sotto(*with_flag(arguments, "--vocabulary", "20"))


def be_sotto(arguments):
    if arguments[:3] == ["data", "prepare", "parallel"]:
        return prepare_pairs(arguments)
    if arguments[:2] == ["data", "get"]:
        return data_get(arguments)
    if arguments[:2] in (["codec", "measure"], ["codec", "sweep"]):
        return measure(arguments)
    if arguments[0] == "eval" and "--follow" in arguments:
        return evaluate(arguments)
    less = {"train": train, "compare": compare, "tune": tune, "advise": advise, "analyze": analyze, "hosts": hosts}.get(arguments[0])
    return less(arguments) if less else sotto(*arguments)


def be_python(arguments):
    """Runs a script until it has read its arguments."""
    script, *rest = arguments
    parse = argparse.ArgumentParser.parse_args

    def parse_args(self, *how):
        parse(self, *how)
        sys.exit(0)

    argparse.ArgumentParser.parse_args = parse_args
    sys.argv = [script, *rest]
    sys.path.insert(0, str(pathlib.Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")
    return 1  # the script has read no arguments


def be_dev(arguments):
    """Checks that ./dev knows the command, and that the benchmark exists; runs nothing."""
    commands = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    known = re.findall(r"^  (\w+) ", commands, re.M)
    benchmarks = {"peers", *(path.stem for path in (ROOT / "bench").glob("*.cpp"))}
    wrong = arguments[0] not in known or (arguments[0] == "bench" and len(arguments) > 1 and arguments[1] not in benchmarks)
    print(f"./dev {' '.join(arguments)}", "is not known" if wrong else "")
    return int(wrong)


if __name__ == "__main__":
    sys.exit({"sotto": be_sotto, "python": be_python, "dev": be_dev}[sys.argv[1]](sys.argv[2:]))
