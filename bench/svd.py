#!/usr/bin/env python3
"""Time of the singular triplets of ResNet-18's gradient, compared with torch.linalg.svd of the same matrices; one thread.

    OMP_NUM_THREADS=1 python bench/svd.py --sotto build/release/bin/sotto

The gradient is captured from a step of `sotto train`. Speeds are bytes of float input per second, and multiples of memcpy.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

CODECS = ["svd | topk(count=3)", "svd(rank=64, exact=64) | atomo(s=3)", "svd | atomo(s=3)"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(arguments.sotto, "train", "--model", "resnet18", "--data", "made-cifar", "--train-size", "64", "--test-size", "16",
            "--batch-size", "16", "--max-steps", "1", "--capture", f"every=1,dir={folder}", "--train-dir", str(folder / "run"))  # fmt: skip
        file = str(folder / "gradient-000000.safetensors")
        shapes = [row["shape"] for row in json.loads(run(arguments.sotto, "codec", "advise-basis", file, "--json"))]
        matrices = [torch.randn(shape[0], int(torch.tensor(shape[1:]).prod())) for shape in shapes if len(shape) > 1]
        begin = time.perf_counter()
        for matrix in matrices:
            torch.linalg.svd(matrix, full_matrices=False)
        whole = time.perf_counter() - begin
        print(f"torch.linalg.svd of {len(matrices)} matrices: {1e3 * whole:.0f} ms")
        print("| codec | encode | faster than torch.linalg.svd | decode-add, of memcpy | bytes | relative error |")
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        for codec in CODECS:
            found = json.loads(run(arguments.sotto, "codec", "measure", "--codec", codec, "--input", file,
                                   "--repeats", str(arguments.repeats), "--json"))  # fmt: skip
            seconds = 4e-9 * found["elements"] / found["encode_gbps"]
            cells = [codec.replace("|", "\\|"), f"{1e3 * seconds:.1f} ms", f"{whole / seconds:.0f} times",
                     f"{found['decode_gbps'] / found['memcpy_gbps']:.2f}", f"{found['bytes']}", f"{found['relative_error']:.2f}"]  # fmt: skip
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
