#!/usr/bin/env python3
"""Step time, bytes and loss of examples/mnist_ddp.py: as it is, without its line of sotto, and with other lines instead.

Two ranks run in network namespaces that are joined by a cable of a given rate. Run it as root, with the installed package
or a build: PYTHONPATH=build/release/python python bench/one_line.py
"""

import argparse
import pathlib
import re
import statistics
import sys
import tempfile

from cable import Cable, CableError

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "mnist_ddp.py"
# Without sotto, a normal exit may abort, because Gloo's threads still use the interpreter (torch 2.13: ~AsyncWork drops
# Python objects of the calling thread).
LEAVE = "sys.stdout.flush(); os._exit(0)\n"
# Without a GPU DDP refuses to register its own bf16 hook, although Gloo can add bf16. A lambda avoids the check.
BF16 = """from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
ddp.register_comm_hook(None, lambda group, bucket: default_hooks.bf16_compress_hook(group, bucket))
"""
SPARSE = 'import sotto; sotto.compress(ddp, "ef | topk(0.01) | qsgd(4)")\n'
LINES = {"plain": "", "bf16": BF16, "line": None, "sparse": SPARSE}  # the replacement of the line; None: keep it


def script_of(line):
    text = "".join(own if line is None or "sotto" not in own else line for own in EXAMPLE.open())
    return text if "sotto" in text else text + LEAVE


def measure(cable, script, steps):
    """(loss, milliseconds per step, bytes per step that rank 1 sent). Rank 0 would include DDP's first parameters."""
    before = cable.count(1, "tx_bytes")
    printed = cable.run(sys.executable, script, steps)
    loss, ms = re.search(r"loss (\S+), (\S+) ms", printed[0]).groups()
    return float(loss), float(ms), (cable.count(1, "tx_bytes") - before) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(LINES), choices=LINES)
    parser.add_argument("--rate", default="100mbit", help="rate of the cable in each direction, as for tc, or `unshaped`")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3, help="rounds in which all lines run in turns")
    arguments = parser.parse_args()
    found = {name: [] for name in arguments.only}
    with tempfile.TemporaryDirectory() as folder, Cable(None if arguments.rate == "unshaped" else arguments.rate) as cable:
        for name in found:
            pathlib.Path(folder, f"{name}.py").write_text(script_of(LINES[name]))
        for _ in range(arguments.rounds):
            for name, runs in found.items():
                runs.append(measure(cable, pathlib.Path(folder, f"{name}.py"), arguments.steps))
    medians = {name: [statistics.median(values) for values in zip(*runs)] for name, runs in found.items()}
    print("| | loss | ms a step | KB sent a step | " + " | ".join(f"{base}'s time and bytes / its own" for base in ("plain", "bf16")
                                                              if base in medians) + " |")  # fmt: skip
    for name, (loss, ms, sent) in medians.items():
        ratios = [f"{medians[base][1] / ms:.1f}, {medians[base][2] / sent:.1f}" for base in ("plain", "bf16") if base in medians]
        print(f"| {name} | {loss:.3f} | {ms:.1f} | {sent / 1000:.1f} | " + " | ".join(ratios) + " |")


if __name__ == "__main__":
    try:
        main()
    except CableError as error:
        sys.exit(str(error))
