#!/usr/bin/env python3
"""Which codec to begin with: final losses, step times and bytes of codecs and of DDP's hooks, with two ranks.

    python bench/codec_choice.py --job gpt --data FILE                   losses; FILE: a megabyte of English text, or that as .xz
    python bench/codec_choice.py --job gpt --data FILE --speed 3         speeds, as root, on a machine with nothing else to do

Jobs: `gpt`, a transformer of 3.3 million parameters that predicts bytes, AdamW; `lenet`, LeNet on MNIST (--data: its
folder), SGD with momentum; `lenet-adamw`, the same with AdamW. Two processes of one thread, batches of 4 x 64 bytes or of
64 images per rank. The loss is measured after the last step on text or images that are not trained on.

With --speed N the ranks run in network namespaces, joined by a cable of 100 Mbit/s, and all contenders take some steps in
turns, N times. A contender that begins dense, or with a larger ratio, is measured without this beginning. Bytes are those
that the kernel counts on the cable. A finished run becomes a row of --results and is not repeated; without --data the
table of the existing rows is printed.

Run it with the installed package or a build: PYTHONPATH=build/release/python python bench/codec_choice.py ...
"""

import argparse
import csv
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time

from cable import Cable, CableError

HOOKS = ["DDP fp32", "DDP fp16", "DDP bf16", "DDP PowerSGD"]
STEPS = {"gpt": 100, "lenet": 300, "lenet-adamw": 300}
RATES = {"gpt": 1e-3, "lenet": 0.05, "lenet-adamw": 1e-3}
# A contender: a hook of DDP, LocalSGD, DiLoCo or a codec, and its other settings (`besides`): `rate`, a factor on the
# learning rate; `dense`, steps before the codec; `ratios`, [first step, ratio] pairs for these steps in place of dense ones;
# `every`, local steps between exchanges; `signs`, an optimiser whose steps have one size.
CONTENDERS = {
    "gpt": [*((hook, {}) for hook in HOOKS), ("qsgd(4) | rans", {}), ("int8", {}),
            ("ef | sign(block=128)", {}), ("ef | sign(block=128)", {"dense": 20}),
            ("ef | power(4)", {}), ("ef | power(4)", {"dense": 20}),
            ("ef | topk(0.25) | qsgd(4)", {}), ("ef | topk(0.1) | qsgd(4)", {}), ("ef | topk(0.05) | qsgd(4)", {}),
            ("ef | topk(0.01) | qsgd(4)", {}),
            ("ef | topk(0.05) | qsgd(4)", {"dense": 30}), ("ef | topk(0.01) | qsgd(4)", {"dense": 30}),
            ("ef | topk(0.05) | qsgd(4)", {"rate": 0.5}), ("ef | topk(0.05) | qsgd(4)", {"rate": 2}),
            ("ef | topk(0.05) | qsgd(4)", {"ratios": [[0, 0.25], [30, 0.1]], "dense": 60}),
            ("demo-dct", {"signs": True}), ("LocalSGD, ef | int8", {"every": 8}), ("DiLoCo, ef | int8", {"every": 20})],
    "lenet": [*((hook, {}) for hook in HOOKS), ("qsgd(4) | rans", {}), ("int8", {}), ("ef | sign(block=128)", {"rate": 0.4}),
              ("ef | power(4)", {}), ("ef | topk(0.05) | qsgd(4)", {}), ("ef | topk(0.01) | qsgd(4)", {}),
              ("LocalSGD, ef | int8", {"every": 8})],
    "lenet-adamw": [*((hook, {}) for hook in HOOKS), ("qsgd(4) | rans", {}), ("int8", {}), ("ef | sign(block=128)", {}),
                    ("ef | power(4)", {}), ("ef | topk(0.05) | qsgd(4)", {}), ("ef | topk(0.01) | qsgd(4)", {})],
}  # fmt: skip
COLUMNS = ["job", "contender", "besides", "seed", "loss", "accuracy", "ms", "bytes"]


def name_of(contender, besides):
    return ", ".join([contender, words(besides)] if besides else [contender])


def words(besides):
    """`besides` in words, for the table."""
    say = {"rate": "{} times the rate", "dense": "{} dense steps first", "every": "every {} steps", "signs": "steps of one size",
           "ratios": "ratio {}"}  # fmt: skip
    besides = dict(besides)
    if "ratios" in besides:
        phases = [f"{ratio:g} from step {step}" for step, ratio in besides["ratios"]]
        besides["ratios"] = ", ".join([*phases, f"its own from step {besides.pop('dense')}"])
    return "; ".join(say[key].format(value) for key, value in besides.items())


# A rank ---------------------------------------------------------------------------------------------------------------


class Training:
    """The training of one contender."""

    def __init__(self, job, contender, besides, seed, data, settled):
        """`settled`: without dense steps or larger ratios at the beginning."""
        import torch
        import torch.distributed as dist
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
        from torch.nn.parallel import DistributedDataParallel

        import codec_choice_jobs
        import sotto

        torch.manual_seed(seed)
        net = codec_choice_jobs.Gpt() if job == "gpt" else codec_choice_jobs.lenet()
        rate, self.signs = RATES[job] * besides.get("rate", 1), besides.get("signs", False)
        if job == "lenet" or self.signs:
            self.optimiser = torch.optim.SGD(net.parameters(), lr=rate, momentum=0 if self.signs else 0.9)
        else:
            self.optimiser = torch.optim.AdamW(net.parameters(), lr=rate)
        self.data, self.net, self.local = data, net, None
        self.draw = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
        if "every" in besides:
            kind, codec = contender.split(", ")
            self.model, self.local = net, getattr(sotto, kind)(net, self.optimiser, every=besides["every"], codec=codec)
            return
        # torch's PowerSGD hook aborts or hangs on Gloo with several buckets.
        self.model = ddp = DistributedDataParallel(net, bucket_cap_mb=1000 if contender == "DDP PowerSGD" else None)
        if contender == "DDP fp16":
            ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif contender == "DDP bf16":
            # Without a GPU DDP refuses to register its own bf16 hook, although Gloo can add bf16. A lambda avoids the check.
            ddp.register_comm_hook(dist.group.WORLD, lambda group, bucket: default_hooks.bf16_compress_hook(group, bucket))
        elif contender == "DDP PowerSGD":
            start = 2 if settled else 10
            ddp.register_comm_hook(powerSGD_hook.PowerSGDState(None, 4, start_powerSGD_iter=start), powerSGD_hook.powerSGD_hook)
        elif not contender.startswith("DDP"):
            dense, ratios = (0, []) if settled else (besides.get("dense", 0), besides.get("ratios", []))
            if ratios:
                phases = [(step, re.sub(r"topk\([0-9.]+\)", f"topk({ratio})", contender)) for step, ratio in ratios]
                sotto.compress(ddp, schedule=[*phases, (dense, contender)])
            else:
                sotto.compress(ddp, contender, start_after=dense)

    def step(self):
        from torch.nn.functional import cross_entropy

        x, y = self.data.batch(self.draw)
        self.optimiser.zero_grad()
        cross_entropy(self.model(x).flatten(0, -2), y.flatten()).backward()
        if self.signs:
            for parameter in self.model.parameters():
                parameter.grad.sign_()
        self.optimiser.step()

    def test(self):
        """(loss, accuracy) on the test data."""
        import contextlib

        import torch

        found = []
        with torch.no_grad(), self.local.average() if self.local else contextlib.nullcontext():
            for x, y in self.data.tests():
                scores = self.net(x).flatten(0, -2)
                found.append((torch.nn.functional.cross_entropy(scores, y.flatten()).item(),
                              (scores.argmax(1) == y.flatten()).double().mean().item()))  # fmt: skip
        return [statistics.mean(values) for values in zip(*found)]

    def times(self, every, skipped=4, groups=3):
        """(milliseconds per step, as the median over groups of `every` steps; bytes sent per step)."""
        every = every or 4
        for _ in range(max(skipped, every)):
            self.step()
        sent, took = bytes_sent(), []
        for _ in range(groups):
            begin = time.perf_counter()
            for _ in range(every):
                self.step()
            took.append(1e3 * (time.perf_counter() - begin) / every)
        return statistics.median(took), (bytes_sent() - sent) / every / groups


def bytes_sent():
    return int(pathlib.Path("/sys/class/net/eth0/statistics/tx_bytes").read_text())


def be_a_rank(arguments):
    import torch
    import torch.distributed as dist

    from codec_choice_jobs import Digits, Text

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data = (Text if arguments.job == "gpt" else Digits)(arguments.data)
    for contender, besides, seed in json.loads(arguments.be_a_rank):
        training = Training(arguments.job, contender, besides, seed, data, settled=arguments.speed)
        row = [arguments.job, contender, json.dumps(besides), seed]
        if arguments.speed:
            row += ["", "", *(f"{value:.1f}" for value in training.times(besides.get("every")))]
        else:
            for _ in range(arguments.steps):
                training.step()
            loss, accuracy = training.test()
            row += [f"{loss:.4f}", f"{accuracy:.4f}", "", ""]
        if dist.get_rank() == 0:
            with open(arguments.results, "a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(row)
            print(*row[1:], file=sys.stderr, flush=True)
        del training
        dist.barrier()
    os._exit(0)  # a normal exit may abort, because Gloo's threads still use the interpreter (torch 2.13)


# All of them ----------------------------------------------------------------------------------------------------------


def read_rows(arguments):
    if not os.path.exists(arguments.results):
        return []
    with open(arguments.results) as file:
        return [row for row in csv.DictReader(file, COLUMNS) if row["job"] == arguments.job]


def run_losses(arguments, command, runs):
    done = {(row["contender"], row["besides"], int(row["seed"])) for row in read_rows(arguments) if row["loss"]}
    runs = [run for run in runs if (run[0], json.dumps(run[1]), run[2]) not in done]
    if not runs:
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo",
                 "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "MKL_NUM_THREADS": "1"}  # fmt: skip
    ranks = [subprocess.Popen([*command, "--be-a-rank", json.dumps(runs)], env=os.environ | variables | {"RANK": str(rank)})
             for rank in range(2)]  # fmt: skip
    if any([rank.wait() for rank in ranks]):
        sys.exit("a rank failed; see above")


def run_speeds(arguments, command, runs):
    runs = [(contender, besides, 1) for contender, besides, seed in runs if seed == arguments.seeds[0]]
    settled = []  # distinct contenders without the settings that do not change step times
    for contender, besides, seed in runs:
        run = (contender, {key: value for key, value in besides.items() if key in ("every", "signs")}, seed)
        if run not in settled:
            settled.append(run)
    with Cable("100mbit") as cable:
        for _ in range(arguments.speed):
            cable.run(*command, "--speed", "1", "--be-a-rank", json.dumps(settled))


def print_table(arguments):
    rows = read_rows(arguments)

    def found(column, contender, besides):
        """The values of a column by (seed, 0) or, for speeds, by (seed, round)."""
        mine = [row for row in rows if row[column] and row["contender"] == contender and row["besides"] == json.dumps(besides)]
        return {(row["seed"], i if row["ms"] else 0): float(row[column]) for i, row in enumerate(mine)}

    def middle(column, contender, besides):
        settled = {key: value for key, value in besides.items() if key in ("every", "signs")}
        values = found(column, contender, settled).values()
        return statistics.median(values) if values else None

    print("| | held-out loss | above DDP fp32 | accuracy | KB a step | bf16's / it | ms a step | bf16's / it |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    base = found("loss", "DDP fp32", {})
    for contender, besides in CONTENDERS[arguments.job]:
        loss, cells = found("loss", contender, besides), ["-", "-", "-"]
        if loss:
            values = loss.values()
            spread = f" ({min(values):.3f} .. {max(values):.3f})" if len(values) > 1 else ""
            above = statistics.mean(value - base[seed] for seed, value in loss.items() if seed in base)
            accuracy = statistics.mean(found("accuracy", contender, besides).values())
            cells = [f"{statistics.mean(values):.3f}{spread}", f"{above:.3f}", f"{100 * accuracy:.1f} %"]
        for column, unit in (("bytes", 1000), ("ms", 1)):
            value, bf16 = middle(column, contender, besides), middle(column, "DDP bf16", {})
            cells += [f"{value / unit:.0f}", f"{bf16 / value:.2f}"] if value and bf16 else ["-", "-"]
        name = contender if besides.get("every") or contender in HOOKS else f"`{contender}`"
        name = ", ".join([name, words(besides)] if besides else [name]).replace("|", "\\|")
        print(f"| {' | '.join([name, *cells])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", choices=CONTENDERS, required=True)
    parser.add_argument("--data", metavar="PATH", help="the text, or MNIST's folder")
    parser.add_argument("--only", default="", metavar="REGEX", help="only contenders whose name matches")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, help="default: 100, or 300 for LeNet")
    parser.add_argument("--speed", type=int, default=0, metavar="ROUNDS", help="measure speeds in this many rounds")
    parser.add_argument("--results", default="runs/codec_choice.csv", help="CSV file of the results of finished runs")
    parser.add_argument("--be-a-rank", metavar="RUNS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.steps = arguments.steps or STEPS[arguments.job]
    if arguments.be_a_rank:
        be_a_rank(arguments)
    if arguments.data:
        pathlib.Path(arguments.results).parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "--job", arguments.job, "--data", arguments.data, "--steps", str(arguments.steps),
                   "--results", arguments.results]  # fmt: skip
        contenders = [c for c in CONTENDERS[arguments.job] if re.search(arguments.only, name_of(*c))]
        runs = [(*contender, seed) for seed in arguments.seeds for contender in contenders]
        (run_speeds if arguments.speed else run_losses)(arguments, command, runs)
    print_table(arguments)


if __name__ == "__main__":
    try:
        main()
    except CableError as error:
        sys.exit(str(error))
