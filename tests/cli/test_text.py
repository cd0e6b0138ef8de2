"""Tasks over texts: tokens, and masked text."""

import json
import math
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from training import BATCH, STEPS, Training, train

MODEL = {"language": "gpt-mini(layers=1, heads=1, width=8, context=8)", "masked": "bert-mini(layers=1, heads=1, width=8, inner=8, context=8)"}
FEW = ["--batch-size", 4, "--test-size", 20]


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book").write_text("".join(f"line {i} of a book\n" for i in range(900)))
    return "book"


@pytest.mark.parametrize("task", ["language", "masked"])
def test_trains_on_tokens(good, run, tmp_path, task, book):
    said = good("data", "prepare", "text", "--data-dir", book, "--vocabulary", 300).out
    assert said == "300 tokens in book.sentencepiece.model\n"
    training = ["train", "--model", MODEL[task], "--data", "text", "--data-dir", book, *FEW, "--train-dir", "run", "--max-steps"]
    good(*training, 2, "--tokens", "sentencepiece", "--ranks", 2)
    assert "tokens = 'sentencepiece'" in (tmp_path / "run" / "config.toml").read_text()
    good(*training, 4, "--resume")
    line = good("eval", "--model-dir", "run").out.splitlines()[-1]
    assert line.startswith("step 4  loss ")
    last = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert f"loss {last['test_loss']:.4f}" in line
    assert abs(last["test_loss"] - math.log(301)) < 0.5
    refused = run(*training, 6, "--resume", "--tokens", "bytes")
    assert refused.status == 2 and "data" in refused.err


CONTEXT, AUGMENT, HIDE = 16, 11, 12


class Draws:
    """The random numbers of sotto/core/random.h."""

    def __init__(self, philox, seed, purpose, index):
        numbers = (n for block in range(1 << 20) for n in philox([block, 0, index & 0xFFFFFFFF, index >> 32 | purpose << 24], [seed, 0]))
        self.numbers = numbers

    def below(self, bound):
        while True:
            product = next(self.numbers) * bound
            if product & 0xFFFFFFFF >= (1 << 32) % bound:
                return product >> 32


def hide(tokens, mask, draws):
    """The piece as the model sees it, and the tokens to find: -100 where there is nothing to find."""
    shown, wanted, left = list(tokens), [-100] * len(tokens), max(1, (15 * len(tokens) + 50) // 100)
    for i, token in enumerate(tokens):
        if draws.below(len(tokens) - i) < left:
            left -= 1
            wanted[i] = token
            way = draws.below(100)
            shown[i] = mask if way < 80 else draws.below(mask) if way < 90 else token
    return shown, wanted


def test_masked_text_has_the_losses_of_hugging_face(good, root, tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(root / "tools")
    from wire.draws import philox

    folder = tmp_path / "text"
    folder.mkdir()
    text = np.random.default_rng(2).integers(97, 123, (BATCH + 1) * CONTEXT, dtype=np.uint8)
    for name in ("train.txt", "test.txt"):
        (folder / name).write_bytes(text.tobytes())
    torch.manual_seed(1)
    net = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=257, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, max_position_embeddings=CONTEXT,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, pad_token_id=None))  # fmt: skip
    arguments = ["--model", f"bert-mini(layers=2, heads=2, width=32, inner=48, context={CONTEXT}, dropout=0)", "--data", "text",
                 "--data-dir", "text", "--optimiser", "adamw(weight-decay=0.1)"]  # fmt: skip
    ours = train(good, tmp_path, net, arguments, 0.003)

    def batch(cut, seed, epoch):
        pieces = [hide(text[cut + i * CONTEXT : cut + (i + 1) * CONTEXT].tolist(), 256, Draws(philox, seed, HIDE, epoch << 32 | i)) for i in range(BATCH)]
        return [torch.tensor(part) for part in zip(*pieces)]

    batches = [batch(Draws(philox, 1, AUGMENT, epoch).below(CONTEXT), 1, epoch) for epoch in range(STEPS)]
    adamw = lambda p: torch.optim.AdamW(p, lr=0.003, weight_decay=0.1)  # noqa: E731
    Training(net, batches, lambda net, shown, wanted: net(shown, labels=wanted).loss, adamw).is_that_of(ours)

    # Our weights load in Hugging Face. Evaluations always hide the same places.
    found = net.load_state_dict(load_file(tmp_path / "run" / f"model_step_{len(ours)}" / "model.safetensors"), strict=False)
    assert set(found.missing_keys) == {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"} and not found.unexpected_keys
    shown, wanted = batch(0, 0, 0)
    with torch.no_grad():
        theirs = net.eval()(shown, labels=wanted)
    right = (theirs.logits.argmax(2) == wanted)[wanted >= 0].float().mean().item()
    line = re.fullmatch(r"step 20  loss (\S+)  accuracy (\S+)  ppl \S+", good("eval", "--model-dir", "run").out.strip())
    assert float(line[1]) == pytest.approx(theirs.loss.item(), abs=1e-4)
    assert float(line[2]) == pytest.approx(100 * right, abs=0.01)


def test_prepare_refuses_what_needs_nothing(run, tmp_path):
    job = run("data", "prepare", "made-text", "--data-dir", "x")
    assert job.status == 2 and "cannot do it for `made-text`, only for text, parallel, folder" in job.err
    (tmp_path / "bad").write_bytes(b"good line\n\xff\n" * 50)
    job = run("data", "prepare", "text", "--data-dir", "bad")
    assert job.status == 1 and "bad:2: not UTF-8" in job.err


def test_the_task_follows_from_the_model(good, tmp_path):
    good("train", "--model", MODEL["masked"], *FEW, "--train-size", 40, "--epochs", 1, "--train-dir", "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "task = 'masked'" in (tmp_path / "run" / "config.toml").read_text()
    assert set(summary) >= {"test_loss", "test_accuracy", "test_perplexity"}
