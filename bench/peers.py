#!/usr/bin/env python3
"""One table of sotto's codecs and of comparable Python packages, on one thread.

    python bench/peers.py build/release/bin/bench_codecs [its arguments]

Missing packages are installed into a separate environment, ~/.cache/sotto/venv-peers, never into the project's; torch
comes from the Python that runs this script. hivemind's block-wise int8 is bitsandbytes' quantize_blockwise in blocks of
4096, so only bitsandbytes is installed, not hivemind with its twenty dependencies.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time
import venv
import warnings

PEERS = {"pypiquant": "4.1.0", "cffi": "2.0.0", "pycparser": "2.23", "bitsandbytes": "0.45.5"}
ELEMENTS = 25_000_000
REPEATS = 9  # for the peers; bench_codecs has its own flag


def peers_python():
    """The interpreter of the environment. It is made when it does not exist or belongs to another Python."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    folder = cache / "sotto" / "venv-peers"
    python, stamp = folder / "bin" / "python", folder / "complete"
    import torch

    site = pathlib.Path(torch.__file__).parent.parent
    wanted = f"{sorted(PEERS.items())} {site}"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {', '.join(PEERS)} in {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    pins = [f"{name}=={version}" for name, version in PEERS.items()]
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check", *pins], check=True)
    own = next((folder / "lib").glob("python*/site-packages"))
    (own / "torch_of_the_project.pth").write_text(f"{site}\n")
    stamp.write_text(wanted)
    return python


def measure(copy, encode, decode):
    """The median seconds of the three functions, which run in turns; the first round warms up."""
    times = [[], [], []]
    for repeat in range(REPEATS + 1):
        for action, list_ in zip((copy, encode, decode), times):
            begin = time.perf_counter()
            action()
            if repeat > 0:
                list_.append(time.perf_counter() - begin)
    return [statistics.median(t) for t in times]


def peers(values, out):
    """(name, encode, decode-add, bytes per value) of each peer. decode-add decodes the result of the last encode."""
    import torch

    def torch_int8():
        scale = float(values.abs().max()) / 127
        state = {}

        def encode():
            state["q"] = torch.quantize_per_tensor(values, scale, 0, torch.qint8)

        return "torch.quantize_per_tensor, range given", encode, lambda: out.add_(state["q"].dequantize()), 1.0

    def torch_half():
        half = torch.empty_like(values, dtype=torch.float16)
        return "torch, copy to float16", lambda: half.copy_(values), lambda: out.add_(half), 2.0

    def piquant(bits, mode):
        import piquant as pq

        context = pq.Context(1)
        kind = {8: pq.DataType.UINT8, 4: pq.DataType.UINT4}[bits]
        packed = torch.empty(values.numel() * bits // 8 + 64, dtype=torch.uint8)
        state = {}

        def encode():
            n = values.numel()
            state["p"] = context.compute_quant_params_ptr_float32(values.data_ptr(), kind, n)
            context.quantize_ptr(
                values.data_ptr(), pq.DataType.F32, packed.data_ptr(), kind, n, *state["p"], getattr(pq.RoundMode, mode)
            )

        def decode():
            context.dequantize_ptr(
                packed.data_ptr(), kind, out.data_ptr(), pq.DataType.F32, values.numel(), *state["p"], pq.ReduceOp.ADD
            )

        return f"pypiquant int{bits}, {mode.lower()}", encode, decode, bits / 8

    def blockwise():
        from bitsandbytes.functional import dequantize_blockwise, quantize_blockwise

        state = {}

        def encode():
            state["q"] = quantize_blockwise(values, blocksize=4096, nested=False)

        return "hivemind's block-wise int8 (bitsandbytes)", encode, lambda: out.add_(dequantize_blockwise(*state["q"])), 1.0

    makers = [torch_half, torch_int8, blockwise]
    makers += [lambda b=b, m=m: piquant(b, m) for b in (8, 4) for m in ("NEAREST", "STOCHASTIC")]
    for make in makers:
        try:
            yield make()
        except Exception as error:  # a peer that cannot run here also gets a line in the table
            yield f"{make.__name__}: {type(error).__name__}: {error}".splitlines()[0], None, None, 0


def run_peers():
    import torch

    warnings.simplefilter("ignore")  # torch's deprecation warnings
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(ELEMENTS, generator=generator) * 0.01
    out = torch.zeros(ELEMENTS)
    copied = torch.zeros(ELEMENTS)
    norm = float(values.double().norm())
    for name, encode, decode, size in peers(values, out):
        if encode is None:
            print(f"{'':<9} | {name}", flush=True)
            continue
        encode()
        out.zero_()
        decode()
        error = float((out.double() - values.double()).norm()) / norm
        copy, encoded, decoded = measure(lambda: copied.copy_(values), encode, decode)
        gb = ELEMENTS * 4e-9

        def speed(seconds):
            return f"{gb / seconds:>6.2f} {copy / seconds:>6.2f}x"

        print(
            f"{'gaussian':<9} | {ELEMENTS:>9} | {name:<43} | {speed(encoded):<28} | {speed(decoded):<28} | {size:>8.4f} | "
            f"{error:>10.2e} | {gb / copy:>6.2f}",
            flush=True,
        )


def main():
    if sys.argv[1:] == ["--peers-only"]:
        run_peers()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="bench_codecs")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the program")
    arguments = parser.parse_args()
    python = peers_python()
    subprocess.run([arguments.program, *arguments.arguments, "--threads", "1"], check=True)
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    subprocess.run([python, __file__, "--peers-only"], check=True, env=environment)


if __name__ == "__main__":
    main()
