#!/usr/bin/env python3
"""How fast messages between two ranks go over `gloo`, `tcp`, and `tcp` with a secret, which is TLS.

    python bench/transports.py --programs build/release/bin                        the loopback, a cable, 1 Gbit/s, 100 Mbit/s
    python bench/transports.py --programs build/release/bin --link 1gbit --rounds 1
    python bench/transports.py --programs build/release/bin --link 80ms,1% --rounds 3      far away, also with several streams

The contenders take turns. Prints medians over rounds: GB/s of payload in one direction and in both at once, and the time of a
round trip of 100 bytes; in brackets the median of the ratios to Gloo in the same round. All but the loopback need root and
iproute2: two network namespaces, joined by a cable (bench/cable.py) that is not limited, or to that rate. Far links have
200 Mbit/s, that round trip, and lose that share of the packets (bench/far_cable.py).
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from cable import Cable, CableError
from far_cable import FarCable

NEAR = {"loopback": None, "cable": "", "1gbit": "1gbit", "100mbit": "100mbit"}
FAR = {f"{ms}ms,{percent}%": (ms / 1e3, percent / 100) for ms in (20, 80, 200) for percent in (0, 0.1, 1)}
TLS = ["--backend", "tcp", "--secret"]
CONTENDERS = {"gloo": ["--backend", "gloo"], "tcp": ["--backend", "tcp"], "tcp, TLS": TLS}
FAR_CONTENDERS = {"gloo": ["--backend", "gloo"], "tcp, TLS": TLS, **{f"tcp, TLS, {n} streams": [*TLS, "--streams", str(n)] for n in (4, 8, 16)}}


def over_loopback(command):
    variables = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 10000)}
    ranks = [subprocess.Popen(command, env=os.environ | variables | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                              stdout=subprocess.PIPE, text=True) for rank in (0, 1)]  # fmt: skip
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit(f"{command} failed")
    return outputs


def measure(programs, link, flags, secret):
    """GB/s in one direction and in both, and microseconds."""
    size = 1 << 21 if link in FAR else {"100mbit": 1 << 22, "1gbit": 1 << 25}.get(link, 1 << 26)
    if flags[-1] == "tcp" and link != "loopback":
        return None  # it is refused there
    words = [word for flag in flags for word in ([flag, secret] if flag == "--secret" else [flag])]
    command = [str(programs / "bench_transports"), *words, "--bytes", str(size), *(["--repeats", "3"] if link in FAR else [])]
    if link == "loopback":
        text = over_loopback(command)[0]
    else:
        with FarCable("200mbit", *FAR[link]) if link in FAR else Cable(NEAR[link] or None) as cable:
            text = cable.run(*command)[0]
    return [float(number) for number in text.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of sotto and bench_transports")
    parser.add_argument("--link", choices=[*NEAR, *FAR], nargs="+", default=list(NEAR))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| | GB/s, one direction | both at once | round trip, us |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        secret = os.path.join(folder, "secret")
        subprocess.run([arguments.programs / "sotto", "secret", "new", secret], check=True)
        for link in arguments.link:
            contenders = FAR_CONTENDERS if link in FAR else CONTENDERS
            rounds = [{name: measure(arguments.programs, link, flags, secret) for name, flags in contenders.items()} for _ in range(arguments.rounds)]
            for name in contenders:
                if rounds[0][name] is None:
                    continue
                cells = [f"{statistics.median(r[name][i] for r in rounds):.{'1f' if i == 2 else '3g'}} "
                         f"({statistics.median(r[name][i] / r['gloo'][i] for r in rounds):.2f})" for i in range(3)]  # fmt: skip
                print(f"| {link}, {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except CableError as error:
        sys.exit(str(error))
