#!/usr/bin/env python3
"""examples/mnist_ddp.py with and without its one line, on two ranks in network namespaces that a cable of a given rate joins.

As root, with the Python of an installed or built package: PYTHONPATH=build/release/python python bench/one_line.py
"""

import argparse
import pathlib
import re
import statistics
import sys
import tempfile

from cable import Cable, CableError

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "mnist_ddp.py"
# Without the line, Gloo's threads may still want the interpreter when it ends, which aborts the process (torch 2.13:
# ~AsyncWork drops Python objects of the thread that asked for it).
LEAVE = "sys.stdout.flush(); os._exit(0)\n"


def measure(cable, script, steps):
    """Loss, milliseconds a step, and bytes that rank 1 sent in a step (rank 0 also sends DDP the first parameters)."""
    before = cable.count(1, "tx_bytes")
    printed = cable.run(sys.executable, script, steps)
    loss, ms = re.search(r"loss (\S+), (\S+) ms", printed[0]).groups()
    return float(loss), float(ms), (cable.count(1, "tx_bytes") - before) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="100mbit", help="of the cable in each direction, as tc has it, or `unshaped`")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=3, help="of runs, alternately without and with the line")
    arguments = parser.parse_args()
    found = {"plain": [], "compressed": []}
    with tempfile.TemporaryDirectory() as folder, Cable(None if arguments.rate == "unshaped" else arguments.rate) as cable:
        plain = pathlib.Path(folder) / "plain.py"
        plain.write_text("".join(line for line in EXAMPLE.open() if "sotto" not in line) + LEAVE)
        for _ in range(arguments.pairs):
            for name, script in (("plain", plain), ("compressed", EXAMPLE)):
                found[name].append(measure(cable, script, arguments.steps))
    for name, runs in found.items():
        loss, ms, sent = (statistics.median(values) for values in zip(*runs))
        found[name] = ms, sent
        print(f"{name:<10} {ms:8.1f} ms a step, {sent / 1000:9.1f} kB sent a step, loss {loss:.3f}")
    print(f"{found['plain'][0] / found['compressed'][0]:.1f} times faster, "
          f"{found['plain'][1] / found['compressed'][1]:.1f} times fewer bytes")


if __name__ == "__main__":
    try:
        main()
    except CableError as error:
        sys.exit(str(error))
