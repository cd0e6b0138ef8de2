#!/usr/bin/env python3
"""Variance against budget: what ATOMO's probabilities cost on a captured gradient, entry-wise and over other bases.

    sotto train --data mnist --data-dir DIR --model lenet --max-steps 101 --capture every=100,dir=gradients
    python bench/atomo_variance.py --sotto build/release/bin/sotto gradients/gradient-000100.sotto

Printed is E|C(x)-x|^2 / |x|^2, measured over --repeats encodings, and the bytes of a message. It fails when, at any
budget, water-filling is worse than truncation, or truncation than equal probabilities, by more than 5 %.
"""

import argparse
import json
import subprocess
import sys

BASES = {"": ["1%", "5%", "10%", "20%"], "dct(64) | ": ["1%", "5%", "10%", "20%"], "svd | ": ["1", "2", "3", "5"]}
LAWS = ["waterfill", "truncate", "uniform"]


def measure(program, codec, file, repeats):
    command = [program, "codec", "measure", "--codec", codec, "--input", file, "--repeats", str(repeats), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    return found["relative_error"] ** 2, found["bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("gradient")
    arguments = parser.parse_args()
    worse = []
    print("| codec | " + " | ".join(LAWS) + " | KB of a message, waterfill |\n| --- |" + " ---: |" * (len(LAWS) + 1))
    for basis, budgets in BASES.items():
        for s in budgets:
            found = [measure(arguments.sotto, f"{basis}atomo(s={s}, p={p}, dense=0)", arguments.gradient, arguments.repeats) for p in LAWS]
            variances = [variance for variance, _ in found]
            sentence = f"{basis}atomo(s={s}, dense=0)".replace("|", "\\|")
            print(f"| {sentence} | " + " | ".join(f"{v:.3f}" for v in variances) + f" | {found[0][1] / 1e3:.1f} |")
            worse += [sentence for a, b in zip(variances, variances[1:]) if a > 1.05 * b]
    if worse:
        sys.exit(f"not in order: {', '.join(worse)}")


if __name__ == "__main__":
    main()
