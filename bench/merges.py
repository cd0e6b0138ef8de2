#!/usr/bin/env python3
"""A table of what it takes to add up messages: one by one, or merged before they are decoded (`clusters(shared=true)`).

    python bench/merges.py                          made vectors of 4 million values: ten minutes of one core
    python bench/merges.py --gradients gradients    what `sotto train --ranks 4 --capture every=10,dir=gradients,ranks=all` wrote

A made vector has a part that all ranks have in common and one of its own, of like size, both with long tails. Times have
one thread, and opening the messages is part of them. The errors are those of the sum, relative to that of the vectors.
"""

import argparse
import csv
import json
import pathlib
import struct
import subprocess
import tempfile

import numpy as np

CODECS = ["clusters(c=5, buckets=2000, shared=true)", "clusters(c=5, decode=centre, shared=true)",
          "clusters(c=8, buckets=2000, shared=true)", "clusters(c=4, decode=centre, shared=true)",
          "clusters(c=2, decode=centre, shared=true)"]  # fmt: skip
MADE = 16  # vectors: as many as `sotto analyze` makes messages of


def make(folder, values):
    """Files as `sotto train --capture` writes them, with format=safetensors."""
    common = np.random.default_rng(0).standard_t(4, values)
    for rank in range(MADE):
        own = np.random.default_rng(1 + rank).standard_t(4, values)
        data = (common + own).astype(np.float32).tobytes()
        header = {"__metadata__": {"step": "0"}, "w": {"dtype": "F32", "shape": [values], "data_offsets": [0, len(data)]}}
        text = json.dumps(header).encode()
        (folder / f"gradient-000000-r{rank}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--gradients", type=pathlib.Path, help="a folder of captures, in place of made vectors")
    parser.add_argument("--values", type=int, default=4_000_000, help="of a made vector")
    parser.add_argument("--messages", type=int, nargs="+", default=[4, 16, 64, 256, 1024])
    parser.add_argument("--codecs", nargs="+", default=CODECS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        gradients = arguments.gradients or folder
        if not arguments.gradients:
            make(folder, arguments.values)
        command = [arguments.sotto, "analyze", gradients, "--repeats", "1", "--csv", folder / "tables", "--codec", *arguments.codecs]
        subprocess.run([*map(str, command), "--merge", *map(str, arguments.messages)], check=True, stdout=subprocess.DEVNULL)
        with open(folder / "tables" / "merges.csv") as file:
            rows = list(csv.DictReader(file))
    print("| codec | messages | ms one by one | merged | times as fast | error one by one | merged |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for number, row in enumerate(rows):
        codec = arguments.codecs[number // len(arguments.messages)]
        each, merged = float(row["seconds"]), float(row["merged_seconds"] or "nan")
        errors = f"{float(row['error']):.3f} | {float(row['merged_error'] or 'nan'):.3f}"
        print(f"| `{codec}` | {row['messages']} | {1e3 * each:,.0f} | {1e3 * merged:,.0f} | {each / merged:.1f} | {errors} |")


if __name__ == "__main__":
    main()
