"""Twenty steps of `sotto train` have the losses of PyTorch, from the same weights, on the same examples."""
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import torch_twins as twins
from conftest import summary
from training import BATCH, STEPS, Training, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cifar(tmp_path_factory):
    """A folder of files in CIFAR-10's format, and the examples of each file."""
    folder = tmp_path_factory.mktemp("cifar")
    records = np.random.default_rng(5).integers(0, 256, (10_000, 3073), dtype=np.uint8)
    records[:, 0] %= 10
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder, records


@pytest.fixture
def images(cifar):
    return some_images(cifar, BATCH)


def some_images(cifar, batch):
    """The flags of a run whose training examples are the first ones, and the batches of each step."""
    folder, records = cifar
    first = records[:batch]
    pixels = torch.from_numpy(first[:, 1:].astype(np.float32)).reshape(batch, 3, 32, 32) / 255
    mean, deviation = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2470, 0.2435, 0.2616])
    pixels = (pixels - mean[:, None, None]) / deviation[:, None, None]
    labels = torch.from_numpy(first[:, 0].astype(np.int64))
    flags = ["--data", "cifar10", "--data-dir", folder, "--train-size", batch, "--test-size", 10]
    return flags, [(pixels.contiguous(memory_format=torch.channels_last), labels)] * STEPS


def made(twin):
    """A network in channels-last order, as in sotto, so that the same loops run."""
    torch.manual_seed(1)
    return twin().to(memory_format=torch.channels_last)


def classes(net, pixels, labels):
    return F.cross_entropy(net(pixels).float(), labels)


# Deep networks with norms magnify rounding, so they train at small rates.
@pytest.mark.parametrize("model, twin, lr", [
    ("lenet", twins.Lenet, 0.01), ("fc(hidden1=48, hidden2=24)", twins.FullyConnected, 0.01), ("logreg", twins.Logreg, 0.001),
    ("resnet(depth=8)", lambda: twins.Resnet(1), 2e-4), ("resnet(depth=18, width=0.125)", lambda: twins.Resnet18(8), 3e-5),
    ("vgg11-bn(width=0.125)", lambda: twins.Vgg11(8), 1e-5), ("alexnet", twins.Alexnet, 0.01),
    ("densenet-bc(depth=10, growth=8)", lambda: twins.Densenet(1, 8), 3e-4),
])  # fmt: skip
def test_models_of_images(good, images, tmp_path, model, twin, lr):
    flags, batches = images
    net = made(twin)
    ours = train(good, tmp_path, net, ["--model", model, *flags, "--optimiser", "sgd(momentum=0.9)"], lr)
    Training(net, batches, classes, lambda p: torch.optim.SGD(p, lr, 0.9)).is_that_of(ours)


@pytest.mark.parametrize("model, twin, lr", [("lenet", twins.Lenet, 0.01), ("resnet(depth=8)", lambda: twins.Resnet(1), 1e-3)])
def test_bfloat16_is_that_of_autocast(good, images, tmp_path, model, twin, lr):
    flags, batches = images
    sgd = lambda p: torch.optim.SGD(p, lr, 0.9)  # noqa: E731
    ours = train(good, tmp_path, made(twin), ["--model", model, *flags, "--optimiser", "sgd(momentum=0.9)", "--amp", "bf16"], lr)
    Training(made(twin), batches, classes, sgd, layers=torch.bfloat16).is_that_of(ours)
    floats = Training(made(twin), batches, classes, sgd).losses
    assert max(abs(a / b - 1) for a, b in zip(ours, floats)) > 1e-4, "it differs from floats'"


@pytest.mark.sample(1)
@pytest.mark.parametrize("text, lr, every, make", [
    ("sgd(momentum=0.9)", 0.01, 5, lambda p: torch.optim.SGD(p, 0.01, 0.9)),
    ("adam(eps=0.1)", 0.01, 100, lambda p: torch.optim.Adam(p, 0.01, eps=0.1)),  # a smaller one magnifies rounding
])  # fmt: skip
def test_float16_is_that_of_autocast_with_a_scaler(good, cifar, tmp_path, text, lr, every, make):
    batch = 4  # processors convert 16-bit floats slowly
    flags, batches = some_images(cifar, batch)
    net = made(twins.Lenet)
    ours = train(good, tmp_path, net, ["--model", "lenet", *flags, "--optimiser", text, "--amp", f"f16(scale=16777216, every={every})"], lr, batch=batch)
    theirs = Training(net, batches, classes, make, layers=torch.float16, scale={"init_scale": 2**24, "growth_interval": every})
    told = summary(tmp_path / "run")
    assert 2 < theirs.scaler.skipped == told["skipped_steps"] < 15 and told["loss_scale"] == theirs.scaler.get_scale()
    theirs.is_that_of(ours)


def gpt():
    transformers = pytest.importorskip("transformers")
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=16, n_embd=32, n_layer=2, n_head=2, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0))


@pytest.mark.parametrize("model, twin, logits", [
    ("gpt-mini(layers=2, heads=2, width=32, context=16)", gpt, lambda net, tokens: net(tokens).logits),
    ("lstm(width=24, context=16)", lambda: twins.Lstm(24), lambda net, tokens: net(tokens)),
])  # fmt: skip
def test_language_models(good, root, tmp_path, monkeypatch, model, twin, logits):
    monkeypatch.syspath_prepend(root / "tools")
    from wire.draws import philox

    context, augment = 16, 11
    folder = tmp_path / "text"
    folder.mkdir()
    tokens = np.random.default_rng(2).integers(97, 123, (BATCH + 1) * context, dtype=np.uint8)
    for name in ("train.txt", "test.txt"):
        (folder / name).write_bytes(tokens.tobytes())
    torch.manual_seed(1)
    net = twin()
    arguments = ["--model", model, "--data", "text", "--data-dir", "text", "--optimiser", "adamw(weight-decay=0.1)"]
    ours = train(good, tmp_path, net, arguments, 0.003)

    def pieces(epoch):  # each epoch cuts the text at other places
        cut = philox([0, 0, epoch, augment << 24], [1, 0])[0] * context >> 32
        return torch.stack([torch.from_numpy(tokens[at : at + context + 1].astype(np.int64)) for at in range(cut, cut + BATCH * context, context)])

    def loss(net, pieces):
        return F.cross_entropy(logits(net, pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())

    batches = [(pieces(epoch),) for epoch in range(STEPS)]
    Training(net, batches, loss, lambda p: torch.optim.AdamW(p, 0.003, weight_decay=0.1)).is_that_of(ours)


def pieces_of(model):
    """The tokens of a small SentencePiece model: the file begins with a message for each token, which begins with its text."""
    data, pieces = model.read_bytes(), []
    while data[0] == 10 and data[2] == 10:
        pieces.append(data[4 : 4 + data[3]].decode())
        data = data[2 + data[1] :]
    return pieces


@pytest.mark.parametrize("smoothing", [0, 0.1])
def test_transformer(good, tmp_path, smoothing):
    transformers = pytest.importorskip("transformers")
    draws, letters = np.random.default_rng(4), "abcdefghijklmnop"
    # Sentences of about the same length, so that they are one batch and some are padded.
    sources, targets = ([" ".join(draws.choice(list(letters), draws.integers(4, 7))) for _ in range(BATCH)] for _ in range(2))
    folder = tmp_path / "pairs"
    folder.mkdir()
    for split in ("train", "test"):
        (folder / f"{split}.de").write_text("\n".join(sources) + "\n")
        (folder / f"{split}.en").write_text("\n".join(targets) + "\n")
    vocabulary = 4 + 2 * len(letters) + 1  # marks, words, and what they are made of
    good("data", "prepare", "parallel", "--data-dir", "pairs", "--vocabulary", vocabulary)
    pieces = pieces_of(folder / "sentencepiece.model")
    assert len(pieces) == vocabulary
    torch.manual_seed(1)
    net = transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=vocabulary, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, dropout=0, activation_function="relu", scale_embedding=True, max_position_embeddings=16,
        share_encoder_decoder_embeddings=True, pad_token_id=0, decoder_start_token_id=2))  # fmt: skip
    model = f"transformer-tiny(layers=2, heads=4, width=32, inner=48, context=16, dropout=0, label-smoothing={smoothing})"
    arguments = ["--model", model, "--data", "parallel", "--data-dir", "pairs", "--optimiser", "adamw(weight-decay=0.1)"]
    ours = train(good, tmp_path, net, arguments, 0.003)

    def filled(sentences, begins):
        tokens = [[2] * begins + [pieces.index("\u2581" + word) for word in line.split()] + [3] for line in sentences]
        return torch.tensor([line + [0] * (max(map(len, tokens)) - len(line)) for line in tokens])

    source, target = filled(sources, False), filled(targets, True)

    def loss(net, source, target, label_smoothing=smoothing):
        logits = net(input_ids=source, attention_mask=source.ne(0), decoder_input_ids=target[:, :-1]).logits
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0, label_smoothing=label_smoothing)

    plain = lambda *batch: loss(*batch, label_smoothing=0)  # noqa: E731
    adamw = lambda p: torch.optim.AdamW(p, 0.003, weight_decay=0.1)  # noqa: E731
    Training(net, [(source, target)] * STEPS, loss, adamw, told=plain).is_that_of(ours)


ROWS, FEATURES = BATCH, 40


@pytest.fixture
def rows(tmp_path):
    """Sparse rows, their labels, and the flags that read them."""
    generator = np.random.default_rng(3)
    dense = (generator.random((ROWS, FEATURES)) < 0.2) * generator.normal(size=(ROWS, FEATURES)).round(3)
    labels = np.where(generator.random(ROWS) < 0.5, -1, 1)
    lines = [" ".join([str(label)] + [f"{i + 1}:{value}" for i, value in enumerate(row) if value])
             for label, row in zip(labels, dense)]  # fmt: skip
    lines.append(f"1 {FEATURES}:0.5")  # so that the last feature occurs
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "train.libsvm").write_text("\n".join(lines[:ROWS]) + "\n")
    (folder / "test.libsvm").write_text("\n".join(lines) + "\n")
    flags = ["--data", "libsvm", "--data-dir", "rows"]
    return flags, torch.from_numpy(dense.astype(np.float32)), torch.from_numpy(labels.astype(np.float32))


LOSSES = {
    "logreg": lambda out, labels: F.softplus(-labels * out).mean(),
    "svm": lambda out, labels: F.relu(1 - labels * out).mean(),
    "linreg": lambda out, labels: F.mse_loss(out, labels),
}


def train_rows(good, folder, rows, arguments, lr, make_optimiser, scheduler=None, kind="logreg", **options):
    flags, examples, labels = rows
    torch.manual_seed(1)
    net = twins.Linear(FEATURES)
    ours = train(good, folder, net, ["--model", kind, *flags, *arguments], lr, **options)

    def loss(net, examples, labels):
        return LOSSES[kind](net(examples), labels)

    theirs = Training(net, [(examples, labels)] * STEPS, loss, lambda p: make_optimiser(p, lr), scheduler)
    theirs.is_that_of(ours)
    return theirs


@pytest.mark.parametrize("kind", LOSSES)
def test_linear_models(good, rows, tmp_path, kind):
    train_rows(good, tmp_path, rows, ["--optimiser", "sgd(momentum=0.9)"], 0.05, lambda p, lr: torch.optim.SGD(p, lr, 0.9), kind=kind)


OPTIMISERS = [
    ("sgd(momentum=0)", 0.5, lambda p, lr: torch.optim.SGD(p, lr)),
    ("sgd(momentum=0.9, nesterov=true, weight-decay=0.01)", 0.1, lambda p, lr: torch.optim.SGD(p, lr, 0.9, weight_decay=0.01, nesterov=True)),
    ("sgd(momentum=0.9, dampening=0.5)", 0.1, lambda p, lr: torch.optim.SGD(p, lr, 0.9, dampening=0.5)),
    ("adam(eps=0.01, weight-decay=0.01)", 0.01, lambda p, lr: torch.optim.Adam(p, lr, eps=0.01, weight_decay=0.01)),
    ("adam(beta1=0.5, beta2=0.6, amsgrad=true)", 0.05, lambda p, lr: torch.optim.Adam(p, lr, (0.5, 0.6), amsgrad=True)),
    ("adamw(eps=0.001, weight-decay=0.1)", 0.01, lambda p, lr: torch.optim.AdamW(p, lr, eps=0.001, weight_decay=0.1)),
    ("adagrad(weight-decay=0.01, lr-decay=0.1)", 0.1, lambda p, lr: torch.optim.Adagrad(p, lr, weight_decay=0.01, lr_decay=0.1)),
]


@pytest.mark.parametrize("text, lr, make", OPTIMISERS, ids=[text for text, _, _ in OPTIMISERS])
def test_optimisers(good, rows, tmp_path, text, lr, make):
    train_rows(good, tmp_path, rows, ["--optimiser", text], lr, make)


SCHEDULES = torch.optim.lr_scheduler
SCHEDULED = [
    ("step(every=5, factor=0.5)", lambda o: SCHEDULES.StepLR(o, 5, 0.5)),
    ("milestones(at=4/11, factor=0.3)", lambda o: SCHEDULES.MultiStepLR(o, [4, 11], 0.3)),
    ("cosine", lambda o: SCHEDULES.CosineAnnealingLR(o, STEPS)),
    ("polynomial(power=2)", lambda o: SCHEDULES.PolynomialLR(o, STEPS, 2)),
    ("warmup(steps=6, from=0.25) | constant", lambda o: SCHEDULES.LambdaLR(o, lambda n: min(1, 0.25 + 0.75 * (n + 1) / 6))),
    ("warmup(steps=6) | inverse-sqrt", lambda o: SCHEDULES.LambdaLR(o, lambda n: min((n + 1) / 6, (6 / (n + 1)) ** 0.5))),
    ("warmup(steps=6, from=0.1, form=exponential) | constant", lambda o: SCHEDULES.LambdaLR(o, lambda n: 0.1 ** (1 - min(1, (n + 1) / 6)))),
    ("inverse-sqrt(unit=epoch)", lambda o: SCHEDULES.LambdaLR(o, lambda n: (n + 1) ** -0.5)),  # an epoch is one step here
    ("time-decay(rate=0.2)", lambda o: SCHEDULES.LambdaLR(o, lambda n: 1 / (1 + 0.2 * n))),
    ("one-cycle(rise=0.4, div=10)", lambda o: SCHEDULES.OneCycleLR(o, 0.3, STEPS, pct_start=0.4, div_factor=10, cycle_momentum=False)),
]


@pytest.mark.parametrize("text, make", SCHEDULED, ids=[text for text, _ in SCHEDULED])
def test_schedules(good, rows, tmp_path, text, make):
    sgd = lambda p, lr: torch.optim.SGD(p, lr, 0.9)  # noqa: E731
    train_rows(good, tmp_path, rows, ["--optimiser", "sgd(momentum=0.9)", "--schedule", text], 0.3, sgd, lambda optimiser, net: make(optimiser))


def test_a_plateau(good, rows, tmp_path):
    _, examples, labels = rows
    tested, tested_labels = torch.cat([examples, 0.5 * (torch.arange(FEATURES) == FEATURES - 1)[None]]), torch.cat([labels, torch.ones(1)])

    class EverySecondStep:
        def __init__(self, optimiser, net):
            self.net, self.steps = net, itertools.count(1)
            self.scheduler = SCHEDULES.ReduceLROnPlateau(optimiser, factor=0.5, patience=0, threshold=0.3)

        def step(self):
            if next(self.steps) % 2 == 0:
                with torch.no_grad():
                    self.scheduler.step(LOSSES["logreg"](self.net(tested.to(self.net.weight.dtype)), tested_labels))

    schedule = "plateau(metric=loss, factor=0.5, patience=0, threshold=0.3)"
    theirs = train_rows(good, tmp_path, rows, ["--optimiser", "sgd(momentum=0.9)", "--schedule", schedule], 0.3, lambda p, lr: torch.optim.SGD(p, lr, 0.9),
                        EverySecondStep, evaluates=2)
    assert 0.3 / 1024 < theirs.optimiser.param_groups[0]["lr"] < 0.3, "it fell"
