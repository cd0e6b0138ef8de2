#!/usr/bin/env python3
"""Variance against budget: what ATOMO's probabilities cost on a captured gradient, entry-wise and over other bases.

    sotto train --data mnist --data-dir DIR --model lenet --max-steps 101 --capture every=100,dir=gradients
    python bench/atomo_variance.py --sotto build/release/bin/sotto gradients/gradient-000100.safetensors
    python bench/atomo_variance.py --least gradients/*.safetensors

Prints the variance E|C(x)-x|^2 / |x|^2, measured over --repeats encodings, and the bytes of a message. Fails when, at
any budget, water-filling is worse than truncation, or truncation than equal probabilities, by more than 5 %. With --least
it prints the variance of `svd | atomo(s=3)` over all matrices of each file, and the least variance that is possible with
singular vectors, from numpy's decomposition (the package `safetensors` reads the files); it fails when the first is more than
1.1 times the second.
"""

import argparse
import json
import subprocess
import sys

BASES = {"": ["1%", "5%", "10%", "20%"], "dct(64) | ": ["1%", "5%", "10%", "20%"], "svd | ": ["1", "2", "3", "5"]}
LAWS = ["waterfill", "truncate", "uniform"]


def measure(program, codec, file, repeats, *more):
    command = [program, "codec", "measure", "--codec", codec, "--input", file, "--repeats", str(repeats), "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    return found["relative_error"] ** 2, found["bytes"]


def matrices(file):
    """Yields (name, values as rows x columns) of each tensor in a captured gradient."""
    from safetensors.numpy import load_file

    for name, values in load_file(file).items():
        if values.ndim > 1:
            yield name, values.reshape(values.shape[0], -1)


def least_variance(matrix, s):
    """(least variance of atomo over singular vectors, square of the matrix's norm). Values that are sent with
    probability 1 have no variance; the others have sum^2 / (their expected number) - sum of squares."""
    import numpy as np

    sigma = np.linalg.svd(matrix.astype(float), compute_uv=False)
    certain = 0
    while certain < len(sigma) and sigma[certain] * (s - certain) > sigma[certain:].sum():
        certain += 1
    rest = sigma[certain:]
    return (rest.sum() ** 2 / (s - certain) - (rest**2).sum() if s > certain else 0.0), (sigma**2).sum()


def beside_least(arguments):
    above = []
    print("| gradient | matrices | variance | least | times | of the worst matrix |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for file in arguments.gradient:
        found = least = norm = worst = 0.0
        count = 0
        for name, matrix in matrices(file):
            best, square = least_variance(matrix, 3)
            relative, _ = measure(arguments.sotto, "svd | atomo(s=3)", file, arguments.repeats, "--tensor", name)
            found, least, norm, count = found + relative * square, least + best, norm + square, count + 1
            worst = max(worst, relative * square / best)
        print(f"| {file} | {count} | {found / norm:.3f} | {least / norm:.3f} | {found / least:.2f} | {worst:.2f} |", flush=True)
        above += [file] if found > 1.1 * least else []
    if above:
        sys.exit(f"above 1.1 of the least: {', '.join(above)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--least", action="store_true", help="compare svd | atomo(s=3) with the least possible variance")
    parser.add_argument("gradient", nargs="+")
    arguments = parser.parse_args()
    if arguments.least:
        return beside_least(arguments)
    (arguments.gradient,) = arguments.gradient
    worse = []
    print("| codec | " + " | ".join(LAWS) + " | KB of a message, waterfill |\n| --- |" + " ---: |" * (len(LAWS) + 1))
    for basis, budgets in BASES.items():
        for s in budgets:
            found = [measure(arguments.sotto, f"{basis}atomo(s={s}, p={p}, dense=0)", arguments.gradient, arguments.repeats) for p in LAWS]
            variances = [variance for variance, _ in found]
            expression = f"{basis}atomo(s={s}, dense=0)".replace("|", "\\|")
            print(f"| {expression} | " + " | ".join(f"{v:.3f}" for v in variances) + f" | {found[0][1] / 1e3:.1f} |")
            worse += [expression for a, b in zip(variances, variances[1:]) if a > 1.05 * b]
    if worse:
        sys.exit(f"not in order: {', '.join(worse)}")


if __name__ == "__main__":
    main()
