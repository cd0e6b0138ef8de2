#!/usr/bin/env python3
"""examples/mnist_ddp.py as it is, without its one line, and with others in its place: a step, what is sent, and the loss.

Two ranks in network namespaces that a cable of a given rate joins. As root, with the Python of an installed or built
package: PYTHONPATH=build/release/python python bench/one_line.py
"""

import argparse
import pathlib
import re
import statistics
import sys
import tempfile

from cable import Cable, CableError

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "mnist_ddp.py"
# Without sotto, Gloo's threads may still want the interpreter when it ends, which aborts the process (torch 2.13:
# ~AsyncWork drops Python objects of the thread that asked for it).
LEAVE = "sys.stdout.flush(); os._exit(0)\n"
# DDP refuses its bf16 hook by name without a GPU, though Gloo adds such numbers.
BF16 = """from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
ddp.register_comm_hook(None, lambda group, bucket: default_hooks.bf16_compress_hook(group, bucket))
"""
SPARSE = 'import sotto; sotto.compress(ddp, "ef | topk(0.01) | qsgd(4)")\n'
LINES = {"plain": "", "bf16": BF16, "line": None, "sparse": SPARSE}  # what stands in place of the line; None: the line


def script_of(line):
    text = "".join(own if line is None or "sotto" not in own else line for own in EXAMPLE.open())
    return text if "sotto" in text else text + LEAVE


def measure(cable, script, steps):
    """Loss, milliseconds a step, and bytes that rank 1 sent in a step (rank 0 also sends DDP the first parameters)."""
    before = cable.count(1, "tx_bytes")
    printed = cable.run(sys.executable, script, steps)
    loss, ms = re.search(r"loss (\S+), (\S+) ms", printed[0]).groups()
    return float(loss), float(ms), (cable.count(1, "tx_bytes") - before) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(LINES), choices=LINES)
    parser.add_argument("--rate", default="100mbit", help="of the cable in each direction, as tc has it, or `unshaped`")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3, help="in which all of them run in turns")
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
