#!/usr/bin/env python3
"""A table of the final loss and accuracy of all presets on a small job with high learning rates, for several seeds.

    python bench/presets.py --data-dir DIR

trains LeNet on the first 1,500 images of MNIST, with two ranks of batch 32, for 110 steps. The rates are .05 and .01; if a
preset brings its own optimiser, they are that optimiser's rate and a fifth of it. The result of a finished run becomes a
row of --results, and the run is not repeated; --table only prints the table of the existing rows.
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PRESETS = ["none", "qsgd", "terngrad", "signsgd", "efsignsgd", "signum", "topk-ef", "dgc", "memsgd-randomk", "masking", "demo-dct", "natural",
           "sketchml", "ef | quantile | minmax_sketch", "lss", "atomo-svd", "atomo-entry", "atomo-fourier", "powersgd",
           "fetchsgd", "onebit-adam", "lossless"]  # fmt: skip
RATES = [0.05, 0.01]
OWN_RATES = {name: 1e-3 for name in ("signsgd", "signum", "demo-dct", "onebit-adam")}  # in place of RATES[0]
FLAGS = {"onebit-adam": ["--codec-start-after", "20"]}  # a fifth of the steps
JOB = ["--model", "lenet", "--data", "mnist", "--train-size", "1500", "--ranks", "2", "--threads", "1", "--batch-size", "32",
       "--epochs", "1000", "--max-steps", "110"]  # fmt: skip
COLUMNS = ["preset", "lr", "seed", "accuracy", "loss", "bytes_per_step"]


def rates(preset):
    return [round(OWN_RATES.get(preset, RATES[0]) * rate / RATES[0], 6) for rate in RATES]


class Results:
    """The rows of a CSV file by (preset, lr, seed)."""

    def __init__(self, path):
        self.path, self.rows = pathlib.Path(path), {}
        if self.path.exists():
            with open(self.path) as file:
                self.rows = {(row["preset"], float(row["lr"]), int(row["seed"])): row for row in csv.DictReader(file)}

    def add(self, run, summary):
        ends = [summary["test_accuracy"], summary["test_loss"], sum(summary["bytes_sent"]) / len(summary["bytes_sent"]) / summary["steps"]]
        self.rows[run] = dict(zip(COLUMNS, [*run, f"{ends[0]:.4f}", f"{ends[1]:.4f}", round(ends[2])]))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".tmp")
        with open(partial, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows.values())
        partial.replace(self.path)


def train(arguments, run):
    """The summary of a run, or that of a diverged run when it ended because its numbers were not finite."""
    preset, lr, seed = run
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.sotto, "train", *JOB, "--data-dir", arguments.data_dir, "--test-size", "2000", "--codec", preset]
        command += [*FLAGS.get(preset, []), "--lr", f"{lr:g}", "--seed", str(seed), "--deadline", "3600", "--train-dir", folder]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if "not finite" in done.stderr:
            return {"test_accuracy": 0.1, "test_loss": float("inf"), "bytes_sent": [0], "steps": 1}
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads((pathlib.Path(folder) / "summary.json").read_text())


def print_table(results, seeds):
    print("| preset | rate | test accuracy | loss | rate | test accuracy | loss | KB sent a rank and step |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for preset in PRESETS:
        cells, sent = [f"`{preset}`".replace("|", "\\|") if "|" in preset else preset], "-"
        for lr in rates(preset):
            rows = [row for seed in seeds if (row := results.rows.get((preset, lr, seed)))]
            accuracy = [100 * float(row["accuracy"]) for row in rows]
            spread = f" ({min(accuracy):.1f} .. {max(accuracy):.1f})" if len(rows) > 1 else ""
            cells += [f"{lr:g}"] + ([f"{statistics.mean(accuracy):.1f} %{spread}",
                                     f"{statistics.mean(float(row['loss']) for row in rows):.3f}"] if rows else ["-", "-"])  # fmt: skip
            sent = f"{int(rows[0]['bytes_per_step']) / 1000:.1f}" if rows else sent
        print(f"| {' | '.join(cells)} | {sent} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--data-dir", help="folder of MNIST's files")
    parser.add_argument("--results", default="runs/presets.csv", help="CSV file of the results of finished runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--table", action="store_true", help="only print the table of existing results")
    arguments = parser.parse_args()
    results = Results(arguments.results)
    if not arguments.table:
        if arguments.data_dir is None:
            parser.error("--data-dir: where are MNIST's files?")
        runs = [(preset, lr, seed) for seed in arguments.seeds for preset in PRESETS for lr in rates(preset)]
        for run in [run for run in runs if run not in results.rows]:
            results.add(run, train(arguments, run))
            print(f"{run}: {results.rows[run]['accuracy']}", file=sys.stderr, flush=True)
    print_table(results, arguments.seeds)


if __name__ == "__main__":
    main()
