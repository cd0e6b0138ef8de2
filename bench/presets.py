#!/usr/bin/env python3
"""Tables of the results of all presets on six small jobs of unlike data, sizes and models, at four learning rates.

    python bench/presets.py --mnist DIR --cifar10 DIR --text FILE --a9a FILE

trains each preset on each job, with several seeds, at its own defaults and at a quarter, half and twice that rate. The
result of a finished run becomes a row of --results, and the run is not repeated; --table only prints the tables of the
existing rows. Codecs as arguments take the place of the presets, and --algorithms of the way in which ranks train.
--seeds and --factors choose fewer runs. Half an hour of two cores for one seed at four rates.
"""

import argparse
import concurrent.futures
import csv
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading

PRESETS = ["none", "qsgd", "terngrad", "signsgd", "efsignsgd", "signum", "topk-ef", "dgc", "memsgd-randomk", "masking", "demo-dct", "natural",
           "sketchml", "lss", "atomo-svd", "atomo-entry", "atomo-fourier", "powersgd", "fetchsgd", "onebit-adam", "lossless"]  # fmt: skip
FACTORS = [1, 0.5, 0.25, 2]
# Its data, and the flags of each job. The data of `fc` are generated.
JOBS = {
    "lenet": ("mnist", "--model lenet --data mnist --train-size 1500 --test-size 2000 --batch-size 32 --max-steps 110"),
    "fc": ("", "--model fc --data digits --train-size 3000 --test-size 2000 --batch-size 16 --max-steps 100"),
    "logreg": ("mnist", "--model logreg --data mnist --train-size 4000 --test-size 5000 --batch-size 32 --max-steps 120"),
    "resnet": ("cifar10", "--model resnet(depth=8,width=0.5) --data cifar10 --train-size 3000 --test-size 1000 --batch-size 16 --max-steps 100"),
    "rows": ("a9a", "--model logreg --task classify-rows --data libsvm --batch-size 64 --max-steps 200"),
    "gpt": ("text", "--model gpt-mini(layers=2,width=64,heads=2,context=32) --data text --batch-size 8 --max-steps 120"),
}
COMMON = ["--threads", "1", "--epochs", "1000", "--eval-freq", "1000000", "--deadline", "600"]
SHORT = {"onebit-adam": ["--codec-start-after", "20"]}  # a fifth of the steps
# They bring SGD, for which the rate of a model of text, which is AdamW's, says nothing.
SGD = ["dgc", "memsgd-randomk", "fetchsgd", "atomo-", "velocity | "]
COLUMNS = ["job", "codec", "algorithm", "ranks", "factor", "seed", "lr", "accuracy", "loss", "bytes_per_step"]
KEY = COLUMNS[:6]


def goes_with(job, codec):
    return job != "gpt" or not any(codec.startswith(name) for name in SGD)


class Results:
    """The rows of a CSV file by KEY."""

    def __init__(self, path):
        self.path, self.rows, self.lock = pathlib.Path(path), {}, threading.Lock()
        if self.path.exists():
            with open(self.path) as file:
                self.rows = {tuple(row[name] for name in KEY): row for row in csv.DictReader(file)}

    def add(self, row):
        with self.lock:
            self.rows[tuple(row[name] for name in KEY)] = row
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(".tmp")
            with open(partial, "w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(self.rows.values())
            partial.replace(self.path)

    def by_seed(self, column, **wanted):
        """The values of the runs that have finished, by seed."""
        rows = [row for row in self.rows.values() if all(row[name] == value for name, value in wanted.items())]
        return {row["seed"]: float(row[column]) for row in rows if row[column] != ""}


def train(options, job, codec, algorithm, ranks, factor, seed, lr):
    """A row: the end of a run. A run that ended because its numbers were not finite has the results of guessing."""
    data, flags = JOBS[job]
    with tempfile.TemporaryDirectory() as folder:
        command = [options.sotto, "train", *flags.split(), *COMMON, "--ranks", ranks, "--seed", str(seed), "--train-dir", folder]
        command += ["--data-dir", getattr(options, data)] if data else []
        name, _, more = codec.partition(" --")
        command += ["--codec", name, *(["--" + more.split()[0], *more.split()[1:]] if more else []), *SHORT.get(codec, [])]
        command += ["--algorithm", algorithm] + (["--lr", f"{lr:g}"] if lr else [])
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        row = dict(zip(KEY, (job, codec, algorithm, ranks, f"{factor:g}", str(seed))))
        if re.search(r"not finite|loss is -?(nan|inf)", done.stderr):
            return row | {"lr": lr or "", "accuracy": "0" if job == "gpt" else "0.5" if job == "rows" else "0.1", "loss": "inf", "bytes_per_step": ""}
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        end = json.loads((pathlib.Path(folder) / "summary.json").read_text())
    accuracy = f"{end['test_accuracy']:.4f}" if "test_accuracy" in end else ""
    sent = round(statistics.mean(end["bytes_sent"]) / end["steps"])
    return row | {"lr": end["lr"], "accuracy": accuracy, "loss": f"{end['test_loss']:.4f}", "bytes_per_step": sent}


def lost(results, seeds, job, codec, algorithm, ranks, factor, base):
    """Points that a run ends below `base` = (codec, algorithm) at its default rate, and the number of seeds that both have.

    A point is a hundredth of accuracy; of a text, of its loss. None: not run.
    """
    column = "loss" if job == "gpt" else "accuracy"
    ours = results.by_seed(column, job=job, codec=codec, algorithm=algorithm, ranks=ranks, factor=f"{factor:g}")
    dense = results.by_seed(column, job=job, codec=base[0], algorithm=base[1], ranks=ranks, factor="1")
    both = [seed for seed in map(str, seeds) if seed in ours and seed in dense]
    if not both:
        return None, 0
    ours, dense = (statistics.mean(found[seed] for seed in both) for found in (ours, dense))
    return 100 * ((ours - dense) / dense if job == "gpt" else dense - ours), len(both)


def cells(row):
    """The points of each job, relative to dense training, and their mean."""
    found = [points for points, _ in row if points is not None]
    text = ["-" if points is None else "diverges" if math.isinf(points) else f"{-points + 0.0:+.1f}" for points, _ in row]
    return [*text, f"{-statistics.mean(found) + 0.0:+.1f}" if found else "-"]


def seeds_text(counts):
    return f"{min(counts)} to {max(counts)} seeds" if min(counts) < max(counts) else f"{max(counts)} seeds"


def print_table(title, head, rows):
    print(f"\n{title}\n")
    print(f"| {' | '.join(head)} |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    for codec, *row in rows:
        print(f"| `{codec}` | {' | '.join(row)} |".replace(" | ", " \\| ", codec.count(" | ")))


def print_tables(results, options):
    base = (options.base, options.algorithms[0])
    for ranks in options.ranks:
        for algorithm in options.algorithms:
            first, second, counts = [], [], {1: [], "best": []}
            for codec in options.codecs:
                rows = {factor: [lost(results, options.seeds, job, codec, algorithm, ranks, factor, base) for job in options.jobs]
                        for factor in options.factors}  # fmt: skip
                if not any(n for _, n in rows[1]):
                    continue
                mean = {factor: statistics.mean([points for points, _ in row if points is not None] or [math.inf])
                        for factor, row in rows.items() if [n > 0 for _, n in row] == [n > 0 for _, n in rows[1]]}  # fmt: skip
                best = min(mean, key=mean.get, default=1)
                first.append([codec, *cells(rows[1])])
                second.append([codec, f"{best:g}", f"{len(mean)}", *cells(rows[best])])
                counts[1] += [n for _, n in rows[1] if n]
                counts["best"] += [n for _, n in rows[best] if n]
            what = f"{algorithm}, {ranks} ranks: points relative to `{base[0]}` with {base[1]} at its default rates"
            print_table(f"{what}; {seeds_text(counts[1])}", ["codec", *options.jobs, "mean"], first)
            if len(options.factors) > 1:
                print_table(f"The same at the best of several rates; {seeds_text(counts['best'])}",
                            ["codec", "rate", "of", *options.jobs, "mean"], second)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codecs", nargs="*", default=PRESETS, help="presets, or codecs, with further flags after them")
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--mnist", help="folder of MNIST's files")
    parser.add_argument("--cifar10", help="folder of CIFAR-10's files")
    parser.add_argument("--text", help="a text of about a megabyte")
    parser.add_argument("--a9a", help="the file a9a of LIBSVM's data sets")
    parser.add_argument("--results", default="runs/presets.csv", help="CSV file of the results of finished runs")
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--algorithms", nargs="+", default=["sync"])
    parser.add_argument("--base", default="none", help="codec of the first algorithm, with which all are compared")
    parser.add_argument("--ranks", nargs="+", default=["2"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--factors", type=float, nargs="+", default=FACTORS)
    parser.add_argument("--at-a-time", type=int, default=1, help="runs")
    parser.add_argument("--table", action="store_true", help="only print the tables of existing results")
    options = parser.parse_args()
    results = Results(options.results)
    if options.table:
        return print_tables(results, options)
    for job in options.jobs:
        data = JOBS[job][0]
        if data and getattr(options, data) is None:
            parser.error(f"--{data}: where is it? The job {job} needs it; or leave that out with --jobs")

    def run(job, codec, algorithm, ranks, factor, seed):
        key = (job, codec, algorithm, ranks, f"{factor:g}", str(seed))
        if key in results.rows:
            return
        lr = None
        if factor != 1:
            default = list(results.by_seed("lr", **dict(zip(KEY, (*key[:4], "1")))).values())
            if not default:
                return print(f"{key}: its run at the default rate is missing", file=sys.stderr)
            lr = factor * default[0]
        results.add(train(options, job, codec, algorithm, ranks, factor, seed, lr))
        row = results.rows[key]
        print(f"{' '.join(key)}: {row['accuracy']} {row['loss']}", file=sys.stderr, flush=True)

    for factor in options.factors:
        for seed in options.seeds:
            runs = [(job, codec, algorithm, ranks, factor, seed) for codec in options.codecs for algorithm in options.algorithms
                    for ranks in options.ranks for job in options.jobs if goes_with(job, codec)]  # fmt: skip
            with concurrent.futures.ThreadPoolExecutor(options.at_a_time) as pool:
                list(pool.map(lambda each: run(*each), runs))
    print_tables(results, options)


if __name__ == "__main__":
    main()
