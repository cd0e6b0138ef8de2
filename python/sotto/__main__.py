"""`python -m sotto COMMAND`, which pip installs as `sotto`, too: those commands of the program that the package has."""

import sys

from sotto import _C
from sotto._errors import ConfigError, Error

HELP = """sotto: train neural networks over slow links.

Usage: sotto COMMAND [OPTIONS]        sotto COMMAND --help says more

Commands of the Python package:
  coordinator     let the ranks of a job of sotto.elastic come and go
  doctor          check this machine: network interfaces, threads, torch, transports, space
  codec list      list what a codec, such as "ef | topk(0.01)", is made of
  codec describe  describe a codec, or one of its stages

All other commands, such as `train`, are in the program that `./dev build` makes of sotto's source.
"""


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(HELP, end="")
        return 0
    try:
        return _C.run_command(arguments)
    except Error as error:
        print(f"sotto: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1


if __name__ == "__main__":
    sys.exit(main())
