#!/usr/bin/env python3
"""Steps of DistributedDataParallel on a GPU across a slow link: with NCCL alone, with DDP's own hooks, and with sotto's.

    PYTHONPATH=build/release/python python bench/cuda.py --rate 1gbit

Two ranks in two network namespaces share the GPU, and a cable that `tc` limits joins them; NCCL takes them for ranks of
two hosts. They train a transformer for language of 27 million parameters, in bfloat16 by torch.autocast. Contenders run
in turns, --rounds times. Prints medians over steps and rounds, and what rank 1 sent. Without a GPU it runs on the CPU, over
Gloo, to be tried. Needs root, iproute2, and a Python with torch.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

from cable import Cable, CableError

CONTENDERS = ["ddp fp32", "ddp bf16", "ddp powersgd", "none", "bf16", "int8", "qsgd(bits=4)", "power(2)",
              "ef | sampled_topk(0.01)"]  # fmt: skip
WORDS, LENGTH, SKIPPED = 8192, 128, 3


def network(torch, layers):
    nn = torch.nn

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, 512), nn.Parameter(0.02 * torch.randn(LENGTH, 512))
            layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.out = nn.Linear(512, WORDS)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

        def forward(self, x):
            return self.out(self.layers(self.words(x) + self.places, self.mask, is_causal=True))

    return Language()


def be_a_rank(contender, steps, batch, layers):
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    torch.manual_seed(1)
    net = network(torch, layers).to(device)
    ddp = DistributedDataParallel(net)
    if contender == "ddp bf16":
        ddp.register_comm_hook(None, lambda group, bucket: default_hooks.bf16_compress_hook(group, bucket))
    elif contender == "ddp powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif contender != "ddp fp32":
        import sotto

        sotto.compress(ddp, contender, threads=4)
    optimiser = torch.optim.AdamW(ddp.parameters(), 1e-4)
    draw = torch.Generator().manual_seed(dist.get_rank())
    times = []
    for _ in range(steps + SKIPPED):
        words = torch.randint(WORDS, (batch, LENGTH + 1), generator=draw).to(device)
        begin = time.perf_counter()
        optimiser.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            found = ddp(words[:, :-1])
        torch.nn.functional.cross_entropy(found.float().flatten(0, 1), words[:, 1:].flatten()).backward()
        optimiser.step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    print("step", statistics.median(times[SKIPPED:]), flush=True)
    dist.barrier()  # a rank that exits early makes the other one fail
    os._exit(0)  # a normal exit may abort, because Gloo's threads still use the interpreter (torch 2.13)


def measure(cable, contender, arguments):
    """Milliseconds a step, and megabytes that rank 1 sent in a step."""
    before = cable.count(1, "tx_bytes")
    command = [sys.executable, pathlib.Path(__file__).resolve(), "--be-a-rank", contender, "--steps", arguments.steps,
               "--batch", arguments.batch, "--layers", arguments.layers]  # fmt: skip
    lines = cable.run("sh", "-c", 'NCCL_HOSTID=$RANK exec "$@"', "rank", *command)[0].splitlines()
    ms = float(next(line for line in lines if line.startswith("step ")).split()[1])
    return ms, (cable.count(1, "tx_bytes") - before) / 1e6 / (arguments.steps + SKIPPED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="1gbit", help="rate of the cable in each direction, as for tc, or `unshaped`")
    parser.add_argument("--only", nargs="+", default=CONTENDERS, metavar="CONTENDER", help="of DDP, or codecs of sotto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32, help="sequences of a rank")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--be-a-rank", metavar="CONTENDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.be_a_rank:
        be_a_rank(arguments.be_a_rank, arguments.steps, arguments.batch, arguments.layers)
    os.environ |= {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_DISABLE": "1"}
    found = {contender: [] for contender in arguments.only}
    with Cable(None if arguments.rate == "unshaped" else arguments.rate) as cable:
        for _ in range(arguments.rounds):
            for contender, runs in found.items():
                runs.append(measure(cable, contender, arguments))
    print(f"{arguments.rate}, {arguments.rounds} rounds\n| | ms a step | lowest .. highest | MB a step | of {arguments.only[0]} |")
    print("| --- | --- | --- | --- | --- |")
    for contender, runs in found.items():
        times = [ms for ms, _ in runs]
        ratios = [ms / base for (ms, _), (base, _) in zip(runs, found[arguments.only[0]])]
        print(f"| `{contender}` | {statistics.median(times):.1f} | {min(times):.1f} .. {max(times):.1f} | "
              f"{statistics.median(sent for _, sent in runs):.1f} | {statistics.median(ratios):.3f} |")  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except CableError as error:
        sys.exit(str(error))
