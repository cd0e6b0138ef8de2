#!/usr/bin/env python3
"""Measures steps by model, link and codec, and what `sotto advise` predicts for them: the tables of docs/results/links.md.

    python bench/advice.py --sotto build/release/bin/sotto --record docs/results/links.csv         all: 20 minutes, on an idle machine
    python bench/advice.py --sotto SOTTO --model lenet --link 1gbit,1ms --codec none --record one.csv

Two ranks compute with one thread each, as two hosts of one core. A step is the median over the steps and ranks of a run. What the record
has is not measured again. Prints milliseconds, measured and predicted.
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import tempfile

CODECS = ["none", "f16", "qsgd(bits=4) | rans", "ef | power(2)", "ef | topk(0.01) | qsgd(bits=4)", "auto(quality=medium)"]
LINKS = ["10gbit,0.1ms", "1gbit,1ms", "100mbit,1ms", "20mbit,20ms"]
MODELS = {
    "lenet": ["--data", "digits", "--batch-size", "64"],
    "resnet20": ["--data", "made-cifar", "--batch-size", "16", "--lr", "0.001"],
    "gpt-mini": ["--data", "made-text", "--batch-size", "4"],
    "mlp": ["--data", "digits", "--batch-size", "64", "--lr", "0.001"],
}
TOO_LONG = {("mlp", "20mbit,20ms")}  # a dense step takes 21 s
FIELDS = ["model", "link", "codec", "predicted", "measured"]
# Steps that are not counted: memory is allocated, aggregators choose; `auto` tries six codecs up to six times.
SKIPPED, SKIPPED_BY_AUTO = 5, 45


def call(*arguments):
    job = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if job.returncode != 0:
        raise SystemExit(job.stderr[-2000:])
    return job.stdout


def predict(sotto, job, codecs):
    found = json.loads(call(sotto, "advise", *job, "--ranks-per-host", 2, "--codecs", *codecs, "--json"))
    return {row["codec"]: row["ms_per_step"] for row in found["codecs"]}


def measure(sotto, job, codec, steps):
    """The median time of a step, over ranks and steps."""
    skipped = SKIPPED_BY_AUTO if codec.startswith("auto") else SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        call(sotto, "train", *job, "--codec", codec, "--max-steps", steps + skipped, "--epochs", 1000, "--eval-freq", 10**6,
             "--test-size", 16, "--train-dir", f"{folder}/run")  # fmt: skip
        with open(f"{folder}/run/steps.csv") as file:
            return statistics.median(float(row["step_ms"]) for row in csv.DictReader(file) if int(row["step"]) >= skipped)


def read(record):
    if not record.exists():
        return {}
    with open(record) as file:
        return {(row["model"], row["link"], row["codec"]): row for row in csv.DictReader(file)}


def measure_link(arguments, model, link):
    """Adds to the record what it lacks of this model and link."""
    done = read(arguments.record)
    codecs = [codec for codec in arguments.codec if (model, link, codec) not in done]
    if not codecs:
        return
    job = ["--model", model, *MODELS[model], "--ranks", 2, "--threads", 1, "--link", link]
    known = [codec for codec in codecs if not codec.startswith("auto")]
    predicted = predict(arguments.sotto, job, known) if known else {}
    for codec in codecs:
        steps = max(5, min(60, int(1e3 * arguments.seconds / predicted.get(codec, 300))))
        ms = measure(arguments.sotto, job, codec, steps)
        row = dict(zip(FIELDS, [model, link, codec, f"{predicted[codec]:.1f}" if codec in predicted else "", f"{ms:.1f}"]))
        begins = not arguments.record.exists()
        with open(arguments.record, "a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if begins:
                writer.writeheader()
            writer.writerow(row)
        print(f"{model}, {link}, {codec}: {ms:.1f} ms", flush=True)


def table(arguments):
    """A line for each model and link: `measured (predicted)`, the quickest in bold."""
    rows = read(arguments.record)
    names = ["`" + codec.replace("|", "\\|") + "`" for codec in arguments.codec]
    print("\n| model | link | " + " | ".join(names) + " |\n| --- | --- |" + " ---: |" * len(names))
    for model in arguments.model:
        for link in arguments.link:
            found = [rows[model, link, codec] for codec in arguments.codec if (model, link, codec) in rows]
            if len(found) < len(arguments.codec):
                continue
            least = min(float(row["measured"]) for row in found)
            cells = [("**{}**" if float(row["measured"]) == least else "{}").format(row["measured"]) + (f" ({row['predicted']})" if row["predicted"] else "")
                     for row in found]  # fmt: skip
            print(f"| {model} | {link} | " + " | ".join(cells) + " |")
    ratios = sorted(float(row["predicted"]) / float(row["measured"]) for row in rows.values() if row["predicted"])
    if not ratios:
        return
    within = sum(0.85 <= ratio <= 1.15 for ratio in ratios)
    print(f"\npredicted / measured: {ratios[0]:.2f} to {ratios[-1]:.2f}, median {statistics.median(ratios):.2f}, {within} of {len(ratios)} within 15 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", required=True)
    parser.add_argument("--record", type=pathlib.Path, required=True, help="a CSV file, to which it adds a row for each run")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--link", nargs="+", default=LINKS)
    parser.add_argument("--codec", nargs="+", default=CODECS)
    parser.add_argument("--seconds", type=float, default=3, help="that the counted steps of a run should take")
    arguments = parser.parse_args()
    for model in arguments.model:
        for link in arguments.link:
            if (model, link) not in TOO_LONG:
                measure_link(arguments, model, link)
    table(arguments)


if __name__ == "__main__":
    main()
