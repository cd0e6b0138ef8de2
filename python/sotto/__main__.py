"""`python -m sotto COMMAND`, which pip installs as `sotto`, too: those commands of the program that the package has."""

import argparse
import os
import sys
from pathlib import Path

HELP = """sotto: train neural networks over slow links.

Usage: sotto COMMAND [OPTIONS]        sotto COMMAND --help says more

Commands of the Python package:
  coordinator     let the ranks of a job of sotto.elastic come and go
  relay           join the connections of ranks that cannot reach each other, such as ranks behind NAT
  secret          make the secret that keeps connections private
  doctor          check this machine: torch, launcher, threads, network interfaces, space
  codec list      list what a codec, such as "ef | topk(0.01)", is made of
  codec describe  describe a codec, or one of its stages

All other commands, such as `train`, are in the program that `./dev build` makes of sotto's source.
"""


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] == "doctor":
        parser = argparse.ArgumentParser("sotto doctor", description="Checks what training on several ranks needs of this machine.")
        parser.add_argument("--interface", help="network interface that training will use")
        from sotto import doctor

        return 0 if doctor(parser.parse_args(arguments[1:]).interface) else 1
    program = Path(__file__).parent / "program"
    try:
        os.execv(program, ["sotto", *arguments])
    except OSError as error:
        print(f"sotto: {program} does not start: {error.strerror}; install sotto again", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
