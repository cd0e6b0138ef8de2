#!/usr/bin/env python3
"""Trains every model for twenty steps on made data, on two ranks with `qsgd(bits=4)`, and with DDP.

    python bench/models.py                       everything: an hour on two idle cores
    python bench/models.py --model resnet20 svm  some models

Each rank, and each process of DDP over Gloo, has an equal share of the cores. Prints parameters, the loss of the first and
the last step, examples (of texts: tokens) a second of both ranks from the median of the last ten steps, and the largest
resident memory of a rank. Needs a Python with torch and transformers, and torchvision for images of 224x224.
"""

import argparse
import csv
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANKS, STEPS, LAST = 2, 20, 10
CONTEXT, PAIR_TOKENS = 128, 8  # tokens of a text, and of a made sentence with its mark
THIN, IMAGENET = [20, 32, 44, 56, 110], [f"vgg{d}{norm}" for norm in ("", "-bn") for d in (11, 13, 16, 19)]
TINY = {"lenet": 64, "fc": 64, "mnist-cnn": 64, "mlp": 64, "logreg": 64}
# Of each model: what sotto calls it, its task, its data, and the batch of a rank.
MODELS = {
    **{name: (name, "classify", "digits", batch) for name, batch in TINY.items()},
    **{f"resnet{depth}": (f"resnet{depth}", "classify", "made-cifar", 32) for depth in THIN},
    **{name: (name, "classify", "made-cifar", 16) for name in ("resnet18", "resnet34")},
    "densenet-bc": ("densenet-bc", "classify", "made-cifar", 8),
    **{name: (name, "classify", "made-images", 4) for name in ("resnet50", "resnet101", "resnet152", "densenet121")},
    "alexnet": ("alexnet", "classify", "made-images", 16),
    **{name: (name, "classify", "made-images", 2) for name in IMAGENET},
    "gpt-mini": ("gpt-mini", "language", "made-text", 16),
    "gpt2": (f"gpt2(context={CONTEXT})", "language", "made-text", 2),
    "lstm": ("lstm", "language", "made-text", 16),
    "bert-mini": (f"bert-mini(context={CONTEXT}, dropout=0)", "masked", "made-text", 8),
    "bert-base": (f"bert-base(context={CONTEXT}, dropout=0)", "masked", "made-text", 2),
    **{f"transformer-{size}": (f"transformer-{size}(dropout=0, beam=1)", "translate", "made-pairs", batch)
       for size, batch in (("tiny", 64), ("base", 32), ("big", 16))},
    "logreg of rows": ("logreg", "classify-rows", "made-rows", 64),
    "svm": ("svm", "classify-rows", "made-rows", 64),
    "linreg": ("linreg", "regress-rows", "made-rows", 64),
}  # fmt: skip
TOKENS = {"language": CONTEXT, "masked": CONTEXT, "translate": PAIR_TOKENS}
FEATURES, ROW = 1_000_000, 100
# Instead of the usual .1, which is too much for so few steps of so few images.
RATES = {**{name: 1e-3 for name in MODELS if name.startswith("resnet") or name.endswith("-bn")}, "resnet152": 1e-4, "densenet121": 1e-4, "linreg": 1e-2}


# PyTorch's side: this file again, in two processes --------------------------------------------------------------------------


def image_network(name):
    import torch_twins as twins
    from torch import nn

    def layers(block, widths, counts):
        for i, (before, width, count) in enumerate(zip([widths[0], *widths], widths, counts)):
            yield f"layer{i + 1}", nn.Sequential(block(before, width, 2 if i else 1), *(block(width, width, 1) for _ in range(count - 1)))

    def with_layers(net, *arguments):
        for layer, module in layers(*arguments):
            setattr(net, layer, module)
        return net

    def dense(*sizes):
        parts = [part for before, after in zip(sizes, sizes[1:]) for part in (nn.Linear(before, after), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *parts[:-1])

    small = {
        "lenet": lambda: twins.Lenet(1, 28), "fc": lambda: dense(784, 800, 500, 10), "mlp": lambda: dense(784, 3232, 3232, 10),
        "logreg": lambda: dense(784, 10), "resnet18": twins.Resnet18, "densenet-bc": lambda: twins.Densenet(16, 12),
        "mnist-cnn": lambda: nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
                                           nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Dropout(0.4), nn.Linear(1024, 10)),
        "resnet34": lambda: with_layers(twins.Resnet18(), twins.Projecting, [64, 128, 256, 512], [3, 4, 6, 3]),
        **{f"resnet{depth}": lambda depth=depth: with_layers(twins.Resnet(3), twins.Block, [16, 32, 64], 3 * [(depth - 2) // 6]) for depth in THIN},
    }  # fmt: skip
    if name in small:
        return small[name]()
    import torchvision

    return getattr(torchvision.models, name.replace("-", "_"))(num_classes=10)


def text_network(name):
    import transformers

    if name == "lstm":
        import torch_twins as twins

        return twins.Lstm(200)
    family, size = name.split("-") if "-" in name else (name, "")
    if family.startswith("gpt"):
        sizes = {"n_embd": 128, "n_layer": 6, "n_head": 4} if size else {}
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=256, n_positions=CONTEXT, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, **sizes))  # fmt: skip
    if family == "bert":
        sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024} if size == "mini" else {}
        return transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=257, max_position_embeddings=CONTEXT, hidden_dropout_prob=0, attention_probs_dropout_prob=0, **sizes))  # fmt: skip
    width, layers, heads, inner = {"tiny": (256, 3, 4, 512), "base": (512, 6, 8, 2048), "big": (1024, 6, 16, 4096)}[size]
    return transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=100, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=heads, decoder_attention_heads=heads,
        encoder_ffn_dim=inner, decoder_ffn_dim=inner, dropout=0, activation_function="relu", scale_embedding=True,
        share_encoder_decoder_embeddings=True, pad_token_id=0, decoder_start_token_id=2, max_position_embeddings=256))  # fmt: skip


def job_of(name):
    """A network, a function of it that gives the loss of a batch, and its optimiser."""
    import torch
    import torch.nn.functional as F

    _, task, data, batch = MODELS[name]
    if task == "classify":
        shape = {"digits": (1, 28, 28), "made-cifar": (3, 32, 32), "made-images": (3, 224, 224)}[data]
        images, labels = torch.randn(batch, *shape).contiguous(memory_format=torch.channels_last), torch.randint(0, 10, (batch,))
        net = image_network(name).to(memory_format=torch.channels_last)
        return net, lambda net: F.cross_entropy(net(images), labels), torch.optim.SGD(net.parameters(), 0.001, momentum=0.9)
    if task.endswith("rows"):
        net = torch.nn.EmbeddingBag(FEATURES, 1, mode="sum", sparse=True)
        columns, labels = torch.randint(0, FEATURES, (batch, ROW)), torch.randint(0, 2, (batch,)) * 2.0 - 1
        losses = {"logreg": lambda x: F.softplus(-labels * x), "svm": lambda x: F.relu(1 - labels * x), "linreg": lambda x: (x - labels) ** 2}
        loss = losses[MODELS[name][0]]
        return net, lambda net: loss(net(columns)[:, 0]).mean(), torch.optim.Adagrad(net.parameters(), 0.1)
    net = text_network(name)
    optimiser = torch.optim.AdamW(net.parameters(), 1e-3)
    if task == "translate":
        source, target = torch.randint(4, 100, (batch, PAIR_TOKENS)), torch.randint(4, 100, (batch, PAIR_TOKENS + 1))
        ones = torch.ones_like(source)

        def translation_loss(net):
            logits = net(input_ids=source, attention_mask=ones, decoder_input_ids=target[:, :-1]).logits
            return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)

        return net, translation_loss, optimiser
    tokens = torch.randint(0, 256, (batch, CONTEXT + 1))
    seen, wanted = tokens[:, :-1], tokens[:, 1:]
    if task == "masked":  # 15 % of the places are predicted, as there
        wanted = torch.full((batch, CONTEXT), -100)
        places = torch.rand(batch, CONTEXT).argsort(1)[:, : round(0.15 * CONTEXT)]
        wanted.scatter_(1, places, seen.gather(1, places))

    def loss(net):
        out = net(seen)
        return F.cross_entropy((out if name == "lstm" else out.logits).flatten(0, 1), wanted.flatten())

    return net, loss, optimiser


def run_twin(name, threads, rank, meeting):
    import torch
    import torch.distributed as dist

    sys.path.insert(0, str(ROOT / "tests" / "cli"))  # torch_twins
    torch.set_num_threads(threads)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    net, loss_of, optimiser = job_of(name)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        optimiser.zero_grad()
        loss = loss_of(ddp)
        loss.backward()
        optimiser.step()
        loss.item()
        times.append(time.perf_counter() - begin)
    print(statistics.median(times[-LAST:]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    dist.barrier()  # Gloo may terminate a process whose peer ends first
    dist.destroy_process_group()


# Measuring ------------------------------------------------------------------------------------------------------------------


def of_torch(name, threads):
    """Seconds a step, and KB of memory of the larger process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TRANSFORMERS_VERBOSITY": "error", "GLOO_SOCKET_IFNAME": "lo"}
        jobs = [subprocess.Popen([sys.executable, __file__, "--twin", name, "--threads", str(threads), "--rank", str(rank), "--meeting", f"{folder}/store"],
                                 env=environment, stdout=subprocess.PIPE, text=True) for rank in range(RANKS)]  # fmt: skip
        found = [job.communicate()[0].split() for job in jobs]
    if any(job.returncode for job in jobs):
        raise SystemExit(f"{name}: DDP failed")
    return statistics.mean(float(seconds) for seconds, _ in found), max(int(kilobytes) for _, kilobytes in found)


def of_sotto(program, name, threads):
    """Seconds a step, KB of memory of the larger rank, parameters, first and last loss."""
    model, task, data, batch = MODELS[name]
    examples = RANKS * batch
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "train", "--task", task, "--model", model, "--data", data, "--codec", "qsgd(bits=4)", "--ranks", RANKS, "--threads", threads,
                   "--batch-size", batch, "--max-steps", STEPS, "--epochs", STEPS, "--train-size", 4 * examples, "--test-size", examples,
                   "--eval-freq", 10 * STEPS, "--no-keep-best", "--train-dir", f"{folder}/run"]  # fmt: skip
        log = open(f"{folder}/log", "w+")
        if name in RATES:
            command += ["--lr", RATES[name]]
        job = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        _, status, usage = os.wait4(job.pid, 0)  # of the launcher and of the ranks that it waited for
        if status:
            raise SystemExit(f"{name}: " + pathlib.Path(log.name).read_text())
        with open(f"{folder}/run/steps.csv") as file:
            rows = [row for row in csv.DictReader(file) if row["rank"] == "0"]
        parameters = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())["parameters"]
    times = [float(row["step_ms"]) / 1e3 for row in rows]
    return statistics.median(times[-LAST:]), usage.ru_maxrss, parameters, float(rows[0]["loss"]), float(rows[-1]["loss"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--model", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--threads", type=int, default=max(1, os.cpu_count() // RANKS), help="of a rank")
    for hidden in ("--twin", "--meeting"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.twin:
        return run_twin(options.twin, options.threads, options.rank, options.meeting)
    print("| model | parameters | data | batch | loss, first | last | a second | sotto | DDP | ratio | peak MB, sotto | DDP |")
    print("| --- | ---: | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in options.model:
        model, task, data, batch = MODELS[name]
        ours, memory, parameters, first, last = of_sotto(options.sotto, name, options.threads)
        theirs, their_memory = of_torch(name, options.threads)
        unit = "tokens" if task in TOKENS else "rows" if task.endswith("rows") else "images"
        rate = RANKS * batch * TOKENS.get(task, 1)
        print(f"| `{model}` | {parameters:,} | {data} | {batch} | {first:.4f} | {last:.4f} | {unit} | {rate / ours:,.0f} | {rate / theirs:,.0f} | "
              f"{theirs / ours:.2f} | {memory / 1024:.0f} | {their_memory / 1024:.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
