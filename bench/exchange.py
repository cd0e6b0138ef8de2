#!/usr/bin/env python3
"""The time of exchanges on slow links, compared with the time of the link alone, and how much of it computing hides.

    python bench/exchange.py --program build/release/bin/bench_exchange                    every table
    python bench/exchange.py --program ... exchange --ranks 4 --link 100mbit --model lenet  one cell of one table

Ranks run in network namespaces, joined by links that `tc` limits in each direction (bench/cable.py). Gradients are
synthetic, and sleeping stands for computing, so that ranks may outnumber cores. Needs root and iproute2.

    exchange  nothing is computed: a step is an exchange in one bucket. Its network time is compared with its bytes divided
              by the rate of the link, plus one latency per round, and with plain sockets that send as many bytes as
              all_reduce round the same ring
    hidden    computing takes twice as long as the exchange: the share of the exchange that it hides
    priority  sync and sync(priority=need); computing takes half as long as the exchange, and as long
    order     all-reduce, SGP and OSGP; computing takes as long as the dense exchange
    slow      rank 1 computes three times as long: steps of the other ranks, compared with those without a slow rank
    emulated  times with --link (emulation) compared with the real link that tc makes
"""

import argparse
import itertools
import json
import os
import socket
import statistics
import sys
import threading
import time

from cable import Cable, CableError

WHOLE = ["--bucket-kib", 1 << 20]
RATES = {"10mbit": 10e6, "100mbit": 100e6, "1gbit": 1e9}
LINKS = {"100mbit": [2, 4, 8], "1gbit": [2, 4]}
MODELS = ["lenet", "resnet18"]
PARAMETERS = {"lenet": 431_080, "resnet18": 11_173_962}  # lenet for one channel, resnet18 for three
EXCHANGES = {  # by name: flags
    "all_reduce": ["--codec", "none", "--aggregator", "all_reduce"],
    "all_reduce, f16": ["--codec", "f16", "--aggregator", "all_reduce"],
    "gather, qsgd(4)": ["--codec", "qsgd(4)", "--aggregator", "gather"],
    "scatter_reduce, qsgd(4)": ["--codec", "qsgd(4)", "--aggregator", "scatter_reduce"],
    "gather, topk(1 %)": ["--codec", "ef | topk(0.01)", "--aggregator", "gather"],
    "scatter_reduce, topk(1 %)": ["--codec", "ef | topk(0.01)", "--aggregator", "scatter_reduce"],
    "sparse, topk(1 %)": ["--codec", "ef | topk(0.01)", "--aggregator", "sparse"],
    "push_sum": ["--algorithm", "push_sum", "--topology", "exponential"],
}
# The number of rounds of messages that depend on each other.
ROUNDS = {"all_reduce": lambda ranks: 2 * (ranks - 1), "scatter_reduce": lambda ranks: 2, "sparse": lambda ranks: 4,
          "gather": lambda ranks: 1, "push_sum": lambda ranks: 1}  # fmt: skip
OVERLAPPED = {  # exchange: {contender: flags}
    "all_reduce": {"all_reduce": EXCHANGES["all_reduce"],
                   "all_reduce, priority=need": ["--algorithm", "sync(priority=need)", *EXCHANGES["all_reduce"]]},
    "scatter_reduce, qsgd(4)": {"scatter_reduce, qsgd(4)": EXCHANGES["scatter_reduce, qsgd(4)"],
                                "the same, priority=need": ["--algorithm", "sync(priority=need)", *EXCHANGES["scatter_reduce, qsgd(4)"]]},
    "push_sum": {"push_sum": EXCHANGES["push_sum"],
                 "push_sum(overlap=true)": ["--algorithm", "push_sum(overlap=true)", "--topology", "exponential"]},
}  # fmt: skip
SLOWED = {  # contenders of the table `slow`
    "all_reduce": EXCHANGES["all_reduce"],
    "push_sum": EXCHANGES["push_sum"],
    "parameter_server, asynchronous": ["--algorithm", "parameter_server(mode=async)"],
    "ad_psgd": ["--algorithm", "ad_psgd", "--topology", "bipartite_exponential"],
}


def measure(program, ranks, link, model, steps, *flags, emulated=False):
    """The parsed JSON lines of all ranks."""
    with Cable(None if emulated else link, ranks) as cable:
        printed = cable.run(program, "--model", model, "--steps", steps, *(["--link", link] if emulated else []), *flags)
    return [json.loads(text.splitlines()[-1]) for text in printed]


class Ring:
    """One rank of a ring of plain sockets, to measure what the link and the kernel do without sotto."""

    def __init__(self, rank, ranks):
        self.listening = socket.create_server((f"10.0.0.{rank + 1}", 29600))
        address = (f"10.0.0.{(rank + 1) % ranks + 1}", 29600)
        for _ in range(300):
            try:
                self.ahead = socket.create_connection(address)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        self.behind = self.listening.accept()[0]
        for end in (self.ahead, self.behind):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def turn(self, data, room):
        """Sends `data` to the next rank while `room` is filled with as much from the previous rank."""
        sending = threading.Thread(target=self.ahead.sendall, args=(data,))
        if len(data) > 1000:
            sending.start()
        else:
            self.ahead.sendall(data)
        view = memoryview(room)
        while view:
            view = view[self.behind.recv_into(view) :]
        if len(data) > 1000:
            sending.join()

    def seconds(self, size, rounds, times):
        data, room, all = bytes(size), bytearray(size), []
        for _ in range(times):
            begin = time.perf_counter()
            for _ in range(rounds):
                self.turn(data, room)
            all.append(time.perf_counter() - begin)
        return statistics.median(all[1:])


def sockets(link, ranks, size, times):
    """(seconds of an all-reduce of this many bytes round the ring, seconds of a round of tiny messages)"""
    with Cable(link, ranks) as cable:
        printed = cable.run(sys.executable, __file__, "--ring", size // ranks, 2 * (ranks - 1), times)
    return (max(values) for values in zip(*(json.loads(text) for text in printed)))


def run_ring(size, rounds, times):
    ring = Ring(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    small = ring.seconds(8, 1, 200)
    print(json.dumps([ring.seconds(size, rounds, times), small]))


def slowest(lines, key="seconds"):
    return max(line[key] for line in lines)


def print_row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells):
    print_row(*cells)
    print_row(*["---"] + ["---:"] * (len(cells) - 1))


def steps_for(model, link):
    return 5 if model == "resnet18" and RATES[link] < 1e9 else 15


def cells(arguments):
    for link, model in itertools.product(arguments.link or LINKS, arguments.model or MODELS):
        for ranks in arguments.ranks or LINKS.get(link, [2]):
            yield link, model, ranks


def exchange(arguments):
    head("link, model, ranks", "exchange", "received, KB", "step, ms", "network, ms", "bytes / rate + latency, ms", "ratio")
    for link, model, ranks in cells(arguments):
        dense = 4 * PARAMETERS[model]
        took, latency = sockets(link, ranks, dense, steps_for(model, link))
        least = 8 * dense * 2 * (ranks - 1) / ranks / RATES[link] + 2 * (ranks - 1) * latency
        print_row(f"{link}, {model}, {ranks}", "plain sockets, as all_reduce", f"{dense * 2 * (ranks - 1) / ranks / 1e3:.1f}", "",
                  f"{took * 1e3:.2f}", f"{least * 1e3:.2f}", f"{took / least:.2f}")  # fmt: skip
        for name, flags in EXCHANGES.items():
            if arguments.only and name not in arguments.only:
                continue
            lines = measure(arguments.program, ranks, link, model, steps_for(model, link), *WHOLE, *flags)
            received = slowest(lines, "bytes_received")
            rounds = ROUNDS[name.split(",")[0]](ranks)
            least = 8 * max(received, slowest(lines, "bytes_sent")) / RATES[link] + rounds * latency
            took = slowest(lines, "network")
            print_row(f"{link}, {model}, {ranks}", name, f"{received / 1e3:.1f}", f"{slowest(lines) * 1e3:.2f}", f"{took * 1e3:.2f}",
                      f"{least * 1e3:.2f}", f"{took / least:.2f}")  # fmt: skip


def hidden(arguments):
    head("link, model, ranks", "exchange", "computing, ms", "exchange, ms", "of it not hidden, ms", "hidden")
    for link, model, ranks in cells(arguments):
        for exchanged, contenders in OVERLAPPED.items():
            alone = slowest(measure(arguments.program, ranks, link, model, 5, *EXCHANGES[exchanged]))
            compute = max(2 * alone, 0.02)
            for name, flags in contenders.items():
                lines = measure(arguments.program, ranks, link, model, 2 * steps_for(model, link), "--compute-ms", compute * 1e3, *flags)
                left = max(0.0, slowest(lines) - compute)
                print_row(f"{link}, {model}, {ranks}", name, f"{compute * 1e3:.1f}", f"{alone * 1e3:.1f}", f"{left * 1e3:.1f}",
                          f"{100 * (1 - left / alone):.0f} %")  # fmt: skip


def priority(arguments):
    head("link, model, ranks", "codec", "computing, ms", "exchange, ms", "ready first, ms", "needed first, ms", "ratio")
    for link, model, ranks in cells(arguments):
        for codec, share in itertools.product(("none", "qsgd(4)"), (0.5, 1)):
            alone = slowest(measure(arguments.program, ranks, link, model, 5, "--codec", codec))
            ready, need = (slowest(measure(arguments.program, ranks, link, model, 10, "--codec", codec, "--compute-ms",
                                           share * alone * 1e3, "--algorithm", expression), "mean_seconds")
                           for expression in ("sync", "sync(priority=need)"))  # fmt: skip
            print_row(f"{link}, {model}, {ranks}", codec, f"{share * alone * 1e3:.0f}", f"{alone * 1e3:.0f}", f"{ready * 1e3:.0f}",
                      f"{need * 1e3:.0f}", f"{ready / need:.2f}")  # fmt: skip


def order(arguments):
    head("link, model, ranks", "computing, ms", "all-reduce, ms", "SGP, ms", "OSGP, ms")
    for link, model, ranks in cells(arguments):
        alone = slowest(measure(arguments.program, ranks, link, model, 5, *EXCHANGES["all_reduce"]))
        times = [slowest(measure(arguments.program, ranks, link, model, steps_for(model, link), "--compute-ms", alone * 1e3, *flags))
                 for flags in (EXCHANGES["all_reduce"], EXCHANGES["push_sum"],
                               ["--algorithm", "push_sum(overlap=true)", "--topology", "exponential"])]  # fmt: skip
        print_row(f"{link}, {model}, {ranks}", f"{alone * 1e3:.0f}", *(f"{time * 1e3:.0f}" for time in times))


def slow(arguments):
    head("link, model, ranks", "algorithm", "alone, ms a step", "with a slow rank, ms", "of the steps kept")
    for link, model, ranks in cells(arguments):
        alone = slowest(measure(arguments.program, ranks, link, model, 5, *EXCHANGES["all_reduce"]))
        for name, flags in SLOWED.items():
            if arguments.only and name not in arguments.only:
                continue
            both = [statistics.mean(line["own_seconds"] for line in measure(
                        arguments.program, ranks, link, model, 5 + steps_for(model, link), "--compute-ms", alone * 1e3, *flags, *more)
                        if line["rank"] != 1) for more in ([], ["--slow-rank", "1", "--slow", "3"])]  # fmt: skip
            print_row(f"{link}, {model}, {ranks}", name, *(f"{time * 1e3:.0f}" for time in both), f"{100 * both[0] / both[1]:.0f} %")


def emulated(arguments):
    head("link, model, ranks", "exchange", "tc, ms", "--link, ms", "ratio")
    for link, model, ranks in cells(arguments):
        for name in ("all_reduce", "scatter_reduce, qsgd(4)", "push_sum"):
            real, made = ([slowest(measure(arguments.program, ranks, link, model, steps_for(model, link), *WHOLE, *EXCHANGES[name], emulated=how))
                           for _ in range(arguments.rounds)] for how in (False, True))  # fmt: skip
            ratio = statistics.median(made) / statistics.median(real)
            print_row(f"{link}, {model}, {ranks}", name, f"{statistics.median(real) * 1e3:.1f}", f"{statistics.median(made) * 1e3:.1f}",
                      f"{ratio:.2f}")  # fmt: skip


TABLES = {"exchange": exchange, "hidden": hidden, "priority": priority, "order": order, "slow": slow, "emulated": emulated}


def main():
    if sys.argv[1:2] == ["--ring"]:
        run_ring(*map(int, sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench_exchange")
    parser.add_argument("table", nargs="*", metavar="TABLE", help=f"one of {', '.join(TABLES)}; default: all")
    parser.add_argument("--link", action="append", choices=RATES)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--ranks", action="append", type=int)
    only = [*EXCHANGES, *(name for name in SLOWED if name not in EXCHANGES)]
    parser.add_argument("--only", action="append", choices=only, metavar="EXCHANGE",
                        help=f"only this row of `exchange` and `slow`: one of {', '.join(only).replace('%', '%%')}")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="rounds of `emulated`, whose medians are printed")
    arguments = parser.parse_args()
    for name in arguments.table or TABLES:
        if name not in TABLES:
            parser.error(f"there is no table {name}; there are {', '.join(TABLES)}")
        print(f"\n{name}\n", flush=True)
        TABLES[name](arguments)


if __name__ == "__main__":
    try:
        main()
    except CableError as error:
        sys.exit(f"exchange.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
