#!/usr/bin/env python3
"""How fast messages between two ranks go over `gloo`, `tcp`, and `tcp` with a secret, which is TLS.

    python bench/transports.py --programs build/release/bin                        the loopback, a cable, 1 Gbit/s, 100 Mbit/s
    python bench/transports.py --programs build/release/bin --link 1gbit --rounds 1

The contenders take turns. Prints medians over rounds: GB/s of payload in one direction and in both at once, and the time of a
round trip of 100 bytes; in brackets the median of the ratios to Gloo in the same round. All but the loopback need root and
iproute2: two network namespaces, joined by a cable (bench/cable.py) that is not limited, or to that rate.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from cable import Cable, CableError

CONTENDERS = {"gloo": ["--backend", "gloo"], "tcp": ["--backend", "tcp"], "tcp, TLS": ["--backend", "tcp", "--secret"]}
LINKS = {"loopback": None, "cable": "", "1gbit": "1gbit", "100mbit": "100mbit"}


def over_loopback(command):
    variables = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 10000)}
    ranks = [subprocess.Popen(command, env=os.environ | variables | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                              stdout=subprocess.PIPE, text=True) for rank in (0, 1)]  # fmt: skip
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit(f"{command} failed")
    return outputs


def measure(programs, link, contender, secret):
    """GB/s in one direction and in both, and microseconds."""
    size = {"100mbit": 1 << 22, "1gbit": 1 << 25}.get(link, 1 << 26)
    flags = list(CONTENDERS[contender])
    if contender in ("tcp", "tcp, TLS") and link != "loopback" and "--secret" not in flags:
        return None  # it is refused there
    command = [str(programs / "bench_transports"), *flags, *([secret] if "--secret" in flags else []), "--bytes", str(size)]
    if link == "loopback":
        text = over_loopback(command)[0]
    else:
        with Cable(LINKS[link] or None) as cable:
            text = cable.run(*command)[0]
    return [float(number) for number in text.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of sotto and bench_transports")
    parser.add_argument("--link", choices=LINKS, nargs="+", default=list(LINKS))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| | GB/s, one direction | both at once | round trip, us |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        secret = os.path.join(folder, "secret")
        subprocess.run([arguments.programs / "sotto", "secret", "new", secret], check=True)
        for link in arguments.link:
            rounds = [{name: measure(arguments.programs, link, name, secret) for name in CONTENDERS} for _ in range(arguments.rounds)]
            for name in CONTENDERS:
                if rounds[0][name] is None:
                    continue
                cells = [f"{statistics.median(r[name][i] for r in rounds):.{1 if i == 2 else 3}f} "
                         f"({statistics.median(r[name][i] / r['gloo'][i] for r in rounds):.2f})" for i in range(3)]  # fmt: skip
                print(f"| {link}, {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except CableError as error:
        sys.exit(str(error))
