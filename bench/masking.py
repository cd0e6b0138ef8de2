#!/usr/bin/env python3
"""The masking tables: a share of each tensor's gradient is sent, the rest is lost, or kept and sent later.

    python bench/masking.py --data-dir DIR --runs runs/masking

trains mnist-cnn once for each share, on one node and on two, with the rest lost and kept, and prints the tables as
markdown. The result of a finished run becomes a row of --results, and the run is not repeated; an interrupted run resumes
from the last checkpoint in its folder below --runs. --table only prints the tables of the existing rows. The published
column is for 20000 steps in all, divided among the nodes; --steps is that number for these runs. Batch 100, learning rate
.001 times the nodes, momentum .9.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
import threading

PUBLISHED = {
    1: {"100": 0.9908, "10": 0.9887, "5": 0.9873, "3": 0.9868, "2": 0.9852, "1": 0.9828, "0.9": 0.9835, "0.5": 0.9832,
        "0.3": 0.9752, "0.2": 0.9452, "0.1": 0.4099, "0": 0.2211},
    2: {"100": 0.9908, "95": 0.9905, "80": 0.9905, "70": 0.9898, "50": 0.9893, "30": 0.9882, "1": 0.9753, "0.5": 0.9765,
        "0.2": 0.9452, "0.1": 0.2385, "0": 0.1386},
}  # fmt: skip
# If dropped values are lost, the optimiser makes the momentum. If they are kept, the memory makes it before it holds
# values back (momentum correction), and does not clear it where values are sent (masking=false), so that sending
# everything equals momentum in the optimiser.
WAYS = {"lost": ("", "0.9"), "kept": ("momentum(0.9, masking=false) | ", "0")}
COLUMNS = ["nodes", "percent", "way", "steps", "accuracy", "loss", "bytes_per_step"]
RUNS = sorted(((nodes, percent, way) for nodes in PUBLISHED for percent in PUBLISHED[nodes] for way in WAYS),
              key=lambda run: float(run[1]))  # the smallest shares first, where accuracy drops


def share(percent):
    return f"{100 - float(percent):g}%"


class Results:
    """The results of finished runs by (nodes, percent, way), kept in a CSV file that is rewritten for each new row."""

    def __init__(self, path, steps):
        self.path, self.steps, self.rows, self.lock = pathlib.Path(path), steps, {}, threading.Lock()
        if not self.path.exists():
            return
        with open(self.path) as file:
            for row in csv.DictReader(file):
                if int(row["steps"]) != steps:
                    sys.exit(f"{path}: its runs are of {row['steps']} steps; give --steps {row['steps']}, or other --results")
                self.rows[int(row["nodes"]), row["percent"], row["way"]] = row

    def add(self, run, summary):
        nodes, percent, way = run
        with self.lock:
            self.rows[run] = dict(zip(COLUMNS, [nodes, percent, way, self.steps, f"{summary['test_accuracy']:.4f}",
                                                f"{summary['test_loss']:.4f}", summary["bytes_per_step"][0]]))
            text = [",".join(COLUMNS)] + [",".join(str(self.rows[run][c]) for c in COLUMNS) for run in RUNS if run in self.rows]
            partial = self.path.with_suffix(".tmp")
            partial.write_text("\n".join(text) + "\n")
            partial.replace(self.path)


def train(arguments, results, run):
    if run in results.rows:
        return
    nodes, percent, way = run
    folder = pathlib.Path(arguments.runs) / f"{nodes}-{percent}-{way}"
    memory, momentum = WAYS[way]
    steps = arguments.steps // nodes
    threads = max(1, arguments.cores // arguments.jobs // nodes)
    command = [arguments.sotto, "train", "--model", "mnist-cnn", "--data", "mnist", "--data-dir", arguments.data_dir]
    command += ["--ranks", str(nodes), "--threads", str(threads), "--batch-size", "100", "--lr", str(0.001 * nodes)]
    command += ["--momentum", momentum, "--codec", f"{memory}threshold(drop={share(percent)}, dense=0)"]
    command += ["--epochs", "1000", "--max-steps", str(steps), "--eval-freq", str(steps), "--checkpoint-every", "250"]
    command += ["--deadline", "3600", "--train-dir", str(folder)]
    if (folder / "config.toml").exists():  # the run may have ended before its first checkpoint
        command.append("--resume")
    if not (folder / "summary.json").exists():
        print(f"{folder.name}: begins", file=sys.stderr, flush=True)
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    results.add(run, json.loads((folder / "summary.json").read_text()))
    print(f"{folder.name}: done, {len(results.rows)} of {len(RUNS)}", file=sys.stderr, flush=True)


def cells(results, nodes, percent, way):
    row = results.rows.get((nodes, percent, way))
    sent = [] if nodes == 1 else ["-" if row is None else f"{int(row['bytes_per_step']) / 1000:.1f}"]  # a single node sends nothing
    return (["-", "-"] if row is None else [row["accuracy"], row["loss"]]) + sent


def print_table(results, nodes):
    way = "accuracy | loss |" + (" KB a step |" if nodes > 1 else "")
    print(f"| sent, % | published | lost: {way} kept: {way}")
    print("| ---: |" + " ---: |" * (5 if nodes == 1 else 7))
    for percent, published in PUBLISHED[nodes].items():
        row = [percent, f"{published:.4f}"]
        for way in WAYS:
            row += cells(results, nodes, percent, way)
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--data-dir", help="folder of MNIST's files")
    parser.add_argument("--results", default="docs/results/masking.csv", help="CSV file of the results of finished runs")
    parser.add_argument("--runs", default="runs/masking", help="folder of the runs")
    parser.add_argument("--steps", type=int, default=4000, help="steps of all nodes together")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--table", action="store_true", help="only print the tables of existing results")
    arguments = parser.parse_args()
    results = Results(arguments.results, arguments.steps)
    if not arguments.table:
        if arguments.data_dir is None:
            parser.error("--data-dir: where are MNIST's files?")
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for job in [pool.submit(train, arguments, results, run) for run in RUNS]:
                job.result()
    for nodes in PUBLISHED:
        print(f"\n{'One node' if nodes == 1 else 'Two nodes'}:\n")
        print_table(results, nodes)


if __name__ == "__main__":
    main()
