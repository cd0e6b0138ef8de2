#!/usr/bin/env python3
"""Compares the steps that `sotto advise` predicts with those that `sotto train` measures over the same emulated links.

    python bench/advice.py --sotto build/release/bin/sotto                           two models, three links
    python bench/advice.py --sotto SOTTO --model lenet --link 1gbit --ranks 2

All ranks share the cores of this machine, and compute with one thread each: `advise` is told so. Prints milliseconds, medians over the steps of a run, and their ratio.
"""

import argparse
import csv
import json
import statistics
import subprocess
import tempfile

CODECS = ["none", "qsgd(bits=4) | rans", "ef | power(2)"]
LINKS = ["1gbit,1ms", "100mbit,1ms", "20mbit,20ms"]
MODELS = {"lenet": ["--data", "digits", "--batch-size", "64"], "resnet20": ["--data", "made-cifar", "--batch-size", "16", "--lr", "0.001"]}
SKIPPED = 10  # steps, in which memory is allocated and aggregators choose


def call(*arguments):
    job = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if job.returncode != 0:
        raise SystemExit(job.stderr[-2000:])
    return job.stdout


def measured(sotto, job, codec, steps):
    """The median time of a step, over ranks and steps."""
    with tempfile.TemporaryDirectory() as folder:
        call(sotto, "train", *job, "--codec", codec, "--max-steps", steps + SKIPPED, "--epochs", 1000, "--eval-freq", 10**6,
             "--test-size", 16, "--train-dir", f"{folder}/run")  # fmt: skip
        with open(f"{folder}/run/steps.csv") as file:
            return statistics.median(float(row["step_ms"]) for row in csv.DictReader(file) if int(row["step"]) >= SKIPPED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", required=True)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--link", nargs="+", default=LINKS)
    parser.add_argument("--codec", nargs="+", default=CODECS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--seconds", type=float, default=3, help="that the steps of a run should take")
    arguments = parser.parse_args()
    print("| model | ranks | link | codec | predicted | measured | predicted / measured |\n| --- | ---: | --- | --- | ---: | ---: | ---: |")
    for model in arguments.model:
        for ranks in arguments.ranks:
            for link in arguments.link:
                job = ["--model", model, *MODELS[model], "--ranks", ranks, "--threads", 1, "--link", link]
                found = json.loads(call(arguments.sotto, "advise", *job, "--ranks-per-host", ranks, "--codecs", *arguments.codec, "--json"))
                predicted = {row["codec"]: row["ms_per_step"] for row in found["codecs"]}
                for codec in arguments.codec:
                    ms = measured(arguments.sotto, job, codec, max(10, min(60, int(1e3 * arguments.seconds / predicted[codec]))))
                    print(f"| {model} | {ranks} | {link} | `{codec.replace('|', chr(92) + '|')}` | {predicted[codec]:.1f} | {ms:.1f} | {predicted[codec] / ms:.2f} |", flush=True)


if __name__ == "__main__":
    main()
