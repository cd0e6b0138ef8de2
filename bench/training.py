#!/usr/bin/env python3
"""Compares steps of `sotto train` on one rank with steps of the same model in eager PyTorch, by the same threads.

    python bench/training.py --sotto build/release/bin/sotto                   everything: a quarter of an hour on an idle machine
    python bench/training.py --sotto ... --model resnet20 gpt-mini --rounds 5  some models

Both train on examples in memory, with the same optimiser and batch; --rounds times in turns. Prints medians over steps
and rounds of examples a second (of tokens, for models of text), the median of the ratios within a round, and the
largest resident memory of a process. PyTorch runs models of images in both memory formats; the faster one counts.
Needs a Python with torch, and transformers for gpt-mini, bert-mini and transformer-tiny.
"""

import argparse
import csv
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST = 3  # steps that are not counted
CONTEXT = 128
WORDS = 31  # of a sentence to translate, so that no place is a pad
SYMBOLS = 3997  # the words; a vocabulary has each with and without a space before it
VOCABULARY = 4 + 1 + 2 * SYMBOLS
# For each model: its name in sotto, its data, the batch, the steps of a run, and the count of one example.
MODELS = {
    "lenet": ("lenet", "digits", 64, 100, 1),
    "resnet20": ("resnet20", "made-cifar", 64, 15, 1),
    "resnet18": ("resnet18", "made-cifar", 32, 8, 1),
    "vgg11-bn": ("vgg11-bn", "made-cifar", 64, 10, 1),
    "alexnet": ("alexnet", "made-cifar", 64, 20, 1),
    "densenet-bc": ("densenet-bc(depth=40, growth=12)", "made-cifar", 32, 8, 1),
    "gpt-mini": ("gpt-mini", "made-text", 16, 20, CONTEXT),
    "lstm": (f"lstm(context={CONTEXT})", "made-text", 16, 15, CONTEXT),
    "bert-mini": (f"bert-mini(context={CONTEXT}, dropout=0)", "made-text", 8, 15, CONTEXT),
    "transformer-tiny": ("transformer-tiny(dropout=0, beam=1)", "parallel", 32, 15, WORDS + 1),
}


# PyTorch's side: this file again, in another process ------------------------------------------------------------------------


def network(name):
    sys.path.insert(0, str(ROOT / "tests" / "cli"))
    import torch_twins as twins

    if name in ("gpt-mini", "bert-mini", "transformer-tiny"):
        import transformers

        if name == "transformer-tiny":
            return transformers.MarianMTModel(transformers.MarianConfig(
                vocab_size=VOCABULARY, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
                encoder_ffn_dim=512, decoder_ffn_dim=512, dropout=0, activation_function="relu", scale_embedding=True,
                share_encoder_decoder_embeddings=True, pad_token_id=0, decoder_start_token_id=2, max_position_embeddings=256))

        if name == "gpt-mini":
            return transformers.GPT2LMHeadModel(transformers.GPT2Config(
                vocab_size=256, n_positions=CONTEXT, n_embd=128, n_layer=6, n_head=4, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0))
        return transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=257, max_position_embeddings=CONTEXT, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
            intermediate_size=1024, hidden_dropout_prob=0, attention_probs_dropout_prob=0))
    return {"lenet": lambda: twins.Lenet(1, 28), "resnet20": lambda: twins.Resnet(3), "resnet18": twins.Resnet18, "vgg11-bn": twins.Vgg11,
            "alexnet": twins.Alexnet, "densenet-bc": lambda: twins.Densenet(6, 12), "lstm": lambda: twins.Lstm(200)}[name]()


def step_of(name, batch, channels_last):
    """A network, and a function that computes its loss on one batch."""
    import torch
    import torch.nn.functional as F

    net = network(name)
    if MODELS[name][4] == 1:
        images = torch.randn(batch, *((1, 28, 28) if name == "lenet" else (3, 32, 32)))
        labels = torch.randint(0, 10, (batch,))
        if channels_last:
            net, images = net.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
        return net, lambda: F.cross_entropy(net(images), labels)
    if name == "transformer-tiny":
        source, target = torch.randint(4, VOCABULARY, (batch, WORDS + 1)), torch.randint(4, VOCABULARY, (batch, WORDS + 2))
        seen = torch.ones_like(source)

        def translation_loss():
            logits = net(input_ids=source, attention_mask=seen, decoder_input_ids=target[:, :-1]).logits
            return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1)

        return net, translation_loss
    tokens = torch.randint(0, 256, (batch, CONTEXT + 1))
    if name == "bert-mini":  # 15 % of the places are predicted, as in sotto
        hidden = torch.full((batch, CONTEXT), -100)
        places = torch.rand(batch, CONTEXT).argsort(1)[:, : round(0.15 * CONTEXT)]
        hidden.scatter_(1, places, tokens[:, :-1].gather(1, places))
        return net, lambda: net(tokens[:, :-1], labels=hidden).loss
    if name == "lstm":
        return net, lambda: F.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    return net, lambda: F.cross_entropy(net(tokens[:, :-1]).logits.flatten(0, 1), tokens[:, 1:].flatten())


def run_twin(name, threads, channels_last):
    import torch

    torch.set_num_threads(threads)
    _, _, batch, steps, tokens = MODELS[name]
    net, loss_of = step_of(name, batch, channels_last)
    net.train()
    text = tokens > 1
    optimiser = torch.optim.AdamW(net.parameters(), 1e-3) if text else torch.optim.SGD(net.parameters(), 1e-3, 0.9)
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        optimiser.zero_grad()
        loss = loss_of()
        loss.backward()
        optimiser.step()
        loss.item()
        times.append(time.perf_counter() - begin)
    print(statistics.median(times[FIRST:]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


# Measuring ------------------------------------------------------------------------------------------------------------------


def of_torch(name, threads):
    """Seconds a step and KB of memory, in the faster format."""
    found = []
    for layout in (["--channels-last"], []) if MODELS[name][4] == 1 else ([],):
        command = [sys.executable, __file__, "--twin", name, "--threads", str(threads), *layout]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TRANSFORMERS_VERBOSITY": "error"}
        job = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seconds, kilobytes = job.stdout.split()
        found.append((float(seconds), int(kilobytes)))
    return min(found)


def write_pairs(program, folder, count):
    """Writes sentences whose words are one token each, and their vocabulary."""
    draws = random.Random(1)
    words = [chr(0x4E00 + i) for i in range(SYMBOLS)]
    for language in ("de", "en"):
        drawn = [word for _ in range(1 + 2 * count * WORDS // SYMBOLS) for word in draws.sample(words, SYMBOLS)]
        lines = [" ".join(drawn[at : at + WORDS]) for at in range(0, len(drawn) - WORDS + 1, WORDS)]
        for split in ("train", "test"):
            pathlib.Path(folder, f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    subprocess.run([program, "data", "prepare", "parallel", "--data-dir", folder, "--vocabulary", str(VOCABULARY)],
                   capture_output=True, check=True)  # fmt: skip


def of_sotto(program, name, threads):
    model, data, batch, steps, _ = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "train", "--model", model, "--data", data, "--batch-size", batch, "--max-steps", steps, "--lr", 1e-3, "--threads",
                   threads, "--train-size", 4 * batch, "--test-size", 16, "--epochs", steps, "--eval-freq", 10 * steps, "--train-dir", folder]
        if data == "parallel":
            write_pairs(program, folder, 4 * batch)
            command += ["--data-dir", folder]
        log = open(os.path.join(folder, "log"), "w")
        job = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        _, status, usage = os.wait4(job.pid, 0)  # of the launcher and of the rank that it waited for
        if status:
            raise SystemExit(open(log.name).read())
        with open(os.path.join(folder, "steps.csv")) as file:
            times = [float(row["step_ms"]) / 1e3 for row in csv.DictReader(file)]
    return statistics.median(times[FIRST:]), usage.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotto", default="build/release/bin/sotto", help="the program")
    parser.add_argument("--model", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--twin", help=argparse.SUPPRESS)
    parser.add_argument("--channels-last", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.twin:
        return run_twin(options.twin, options.threads, options.channels_last)
    print("| model | batch | a second | sotto | PyTorch | ratio | peak MB, sotto | PyTorch |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in options.model:
        model, _, batch, _, tokens = MODELS[name]
        rounds = [(of_sotto(options.sotto, name, options.threads), of_torch(name, options.threads)) for _ in range(options.rounds)]
        ours, theirs = (statistics.median(round[side][0] for round in rounds) for side in (0, 1))
        ratio = statistics.median(torch[0] / sotto[0] for sotto, torch in rounds)
        memory = [max(round[side][1] for round in rounds) / 1024 for side in (0, 1)]
        rate = batch * tokens
        print(f"| `{model}` | {batch} | {'tokens' if tokens > 1 else 'images'} | {rate / ours:,.0f} | {rate / theirs:,.0f} | "
              f"{ratio:.2f} | {memory[0]:.0f} | {memory[1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
