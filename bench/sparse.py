#!/usr/bin/env python3
"""A table of bytes and accuracy of codecs for sparse gradients: logistic regression with 10^6 features.

    python bench/sparse.py                  made rows of 100 features each, two ranks of batch 64, five epochs
    python bench/sparse.py --batch-size 512

The first row is what is sent without a codec of ours: a 64-bit index and a float for each value that is not zero, as in
a sparse tensor of torch, or in SketchML's own baseline of 32-bit keys and doubles. Its bytes are counted
from the values that `threshold(0)` sends of a captured gradient; all others are bytes that the ranks sent.
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import tempfile

CODECS = ["threshold(0)", "sketchml", "threshold(0) | quantile(bins=64) | minmax_sketch", "threshold(0) | clusters",
          "threshold(0) | clusters(c=5, buckets=200)", "threshold(0) | clusters(c=2, buckets=40)"]  # fmt: skip
PAIR = 12  # bytes


def train(arguments, codec, seed):
    """Mean bytes of a rank and step, the best test accuracy, and the values that are not zero in a gradient."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        command = [arguments.sotto, "train", "--model", "logreg", "--data", "made-rows", "--ranks", "2", "--threads", "1",
                   "--batch-size", str(arguments.batch_size), "--epochs", str(arguments.epochs), "--seed", str(seed),
                   "--codec", codec, "--train-dir", str(folder / "run")]  # fmt: skip
        if codec == CODECS[0]:
            command += ["--capture", f"every=20,dir={folder / 'gradients'}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary = json.loads((folder / "run" / "summary.json").read_text())
        with open(folder / "run" / "evaluations.csv") as file:
            accuracy = max(float(row["accuracy"]) for row in csv.DictReader(file) if row["split"] == "test")
        return statistics.mean(summary["bytes_sent"]) / summary["steps"], accuracy, [count(arguments, path) for path in (folder / "gradients").glob("*")]


def count(arguments, gradient):
    """How many values of a captured gradient are not zero: a float of 32 bits takes two bytes more than one of 16."""
    command = [arguments.sotto, "codec", "measure", "--input", gradient, "--repeats", "1", "--json", "--codec"]
    job = subprocess.run([*command, "threshold(0) | f32", "threshold(0) | f16"], check=True, capture_output=True, text=True)
    floats, halves = (row["bytes"] for row in json.loads(job.stdout))
    return (floats - halves) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    print("| codec | bytes a rank and step | bits a value | times less than pairs | times less than `threshold(0)` | test accuracy |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    pairs = exact = values = 0
    for codec in CODECS:
        runs = [train(arguments, codec, seed) for seed in range(1, arguments.seeds + 1)]
        sent, accuracy = statistics.mean(run[0] for run in runs), [100 * run[1] for run in runs]
        reached = f"{statistics.mean(accuracy):.2f} % ({min(accuracy):.2f} .. {max(accuracy):.2f})"
        if codec == CODECS[0]:
            values = statistics.mean(value for run in runs for value in run[2])
            exact, pairs = sent, PAIR * values
            print(f"| pairs of {PAIR} bytes | {pairs:,.0f} | {8 * PAIR} | 1 | {exact / pairs:.2f} | |")
        name = f"`{codec}`".replace("|", "\\|")
        print(f"| {name} | {sent:,.0f} | {8 * sent / values:.1f} | {pairs / sent:.1f} | {exact / sent:.1f} | {reached} |", flush=True)


if __name__ == "__main__":
    main()
