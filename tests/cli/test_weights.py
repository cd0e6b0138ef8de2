"""Other programs read our checkpoints, and we read their weights."""
import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import torch_twins as twins
from conftest import TINY
from training import about

pytestmark = pytest.mark.slow

CONTEXT = 16
MODEL = f"gpt-mini(layers=2, heads=2, width=32, context={CONTEXT})"
TEXT = ["--data", "text", "--data-dir", "text"]


@pytest.fixture
def text(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "train.txt").write_text("She sells sea shells on the sea shore. " * 40)
    (folder / "test.txt").write_text("She sells sea shells on the sea shore. " * 10)
    return folder


def network():
    transformers = pytest.importorskip("transformers")
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=2, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)).eval()


def loss_in_python(net, text):
    tokens = torch.tensor(list((text / "test.txt").read_bytes()))
    count = (len(tokens) - 1) // CONTEXT
    pieces = torch.stack([tokens[i * CONTEXT : (i + 1) * CONTEXT + 1] for i in range(count)])
    with torch.no_grad():
        logits = net(pieces[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten()).item()


def loss_here(good, folder):
    """The loss of the newest checkpoint, by `sotto eval`."""
    return float(re.findall(r"loss +([\d.e-]+)", good("eval", "--model-dir", folder).out)[-1])


def test_ours_in_hugging_face(good, text, tmp_path):
    good("train", "--model", MODEL, *TEXT, "--max-steps", 30, "--lr", 0.01, "--batch-size", 8, "--train-dir", "run")
    net = network()
    found = net.load_state_dict(load_file(tmp_path / "run" / "model_step_30" / "model.safetensors"), strict=False)
    assert found.missing_keys == ["lm_head.weight"] and not found.unexpected_keys  # tied to the embedding
    net.tie_weights()
    loss = loss_in_python(net, text)
    assert loss < 3, "thirty steps learn this text"
    assert loss_here(good, "run") == pytest.approx(loss, abs=1e-4)  # it has four digits
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["test_loss"] == about(lambda net: loss_in_python(net, text), net)


@pytest.mark.parametrize("body_alone", [False, True])
def test_theirs_here(good, text, tmp_path, body_alone):
    torch.manual_seed(3)
    net = network()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    loss = loss_in_python(net, text)
    (net.transformer if body_alone else net).save_pretrained(tmp_path / "theirs")
    file = "theirs/model.safetensors"

    out = good("import", file, "--model", MODEL, *TEXT, "--train-dir", "run").out
    assert f"{sum(p.numel() for p in net.parameters())} parameters in run" in out
    assert loss_here(good, "run") == pytest.approx(loss, abs=1e-4)

    good("train", "--model", MODEL, *TEXT, "--weights", file, "--lr", 0, "--max-steps", 1, "--ranks", 2, "--batch-size", 2, "--train-dir", "next")
    assert loss_here(good, "next") == pytest.approx(loss, abs=1e-4)


def test_theirs_in_several_files(good, run, text, tmp_path):
    """As Hugging Face writes large models: an index, and files next to it."""
    torch.manual_seed(3)
    net = network()
    loss = loss_in_python(net, text)
    net.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    files = sorted(path.name for path in (tmp_path / "theirs").glob("*.safetensors"))
    index = tmp_path / "theirs" / "model.safetensors.index.json"
    assert len(files) > 1 and index.exists()
    good("import", index, "--model", MODEL, *TEXT, "--train-dir", "run")
    assert loss_here(good, "run") == pytest.approx(loss, abs=1e-4)
    train = ["train", "--model", MODEL, *TEXT, "--lr", 0, "--max-steps", 1, "--ranks", 2, "--batch-size", 2, "--weights"]
    good(*train, index, "--train-dir", "next")
    assert loss_here(good, "next") == pytest.approx(loss, abs=1e-4)

    def refused(words, **changed):
        index.write_text(json.dumps(json.loads(whole) | changed))
        job = run(*train, index, "--dry-run")
        assert job.status == 1 and words in job.err, job.err

    whole = index.read_text()
    names = json.loads(whole)["weight_map"]
    first, second = list(names)[0], next(name for name in names if names[name] != names[list(names)[0]])
    refused(f"tensor {first} is not in {names[second]}, where it should be", weight_map=names | {first: names[second]})
    refused(f"tensor {first}: `../theirs/{files[0]}` is no name of a file beside it", weight_map=names | {first: "../theirs/" + files[0]})
    refused("theirs/gone.safetensors: No such file", weight_map=names | {first: "gone.safetensors"})
    refused("not an index of safetensors files", weight_map=[3])
    index.write_text("{" + whole)
    assert "not an index of safetensors files" in run(*train, index, "--dry-run").err
    index.write_text('{"architectures": ["GPT2"]}')
    assert "it has no `weight_map`, so it is no index of safetensors files" in run(*train, index, "--dry-run").err
    job = run(*train, "theirs", "--dry-run")
    assert job.status == 1 and "theirs: it is a folder; name the file in it" in job.err


def test_a_header_whose_length_begins_as_json_does(good, tmp_path):
    """379 is `{` and a byte that is not zero."""
    good("train", *TINY, "--max-steps", 1, "--train-dir", "run")
    theirs = (tmp_path / "run" / "model_step_1" / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(theirs[:8], "little")
    header = json.loads(theirs[8:end])
    header.pop("__metadata__", None)
    text = json.dumps(header).encode().ljust(379)
    (tmp_path / "w").write_bytes(len(text).to_bytes(8, "little") + text + theirs[end:])
    assert len(text) == 379
    good("train", *TINY, "--weights", "w", "--max-steps", 1, "--train-dir", "again")


@pytest.mark.parametrize("write, words", [
    (lambda path: torch.save({"linear.weight": torch.zeros(3)}, path), "it is a file of torch.save, not of safetensors; convert it in Python"),
    (lambda path: torch.save({"linear.weight": torch.zeros(3)}, path, _use_new_zipfile_serialization=False), "it is a file of torch.save"),
    (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
     "it is a pointer of git-lfs, in place of the file; `git lfs pull` in its folder gets that"),
    (lambda path: path.write_text("<!DOCTYPE html><html></html>"), "it is a page of the web"),
    (lambda path: path.write_bytes(b"\xff" * 100), "not a safetensors file: its first bytes are not the length of a header"),
])  # fmt: skip
def test_other_files_are_named_for_what_they_are(run, tmp_path, write, words):
    write(tmp_path / "w")
    for command in (["train", *TINY, "--weights", "w", "--dry-run"], ["import", "w", "--model", "logreg", "--train-dir", "run"]):
        job = run(*command)
        assert job.status == 1 and "w: " + words in job.err, job.err


@pytest.mark.parametrize("model, twin", [("resnet20", lambda: twins.Resnet(3)), ("vgg11-bn(width=0.125)", lambda: twins.Vgg11(8))])
def test_networks_with_norms(good, tmp_path, model, twin):
    """Our weights in Python and theirs here, with the statistics of batch norms."""
    data = ["--data", "cifar10", "--data-dir", "cifar"]
    good("data", "make", "cifar10", "--data-dir", "cifar")
    good("train", "--model", model, *data, "--train-size", 256, "--test-size", 100, "--batch-size", 16, "--max-steps", 12, "--lr", 0.01, "--train-dir", "run")
    tested = torch.frombuffer(bytearray((tmp_path / "cifar" / "test_batch.bin").read_bytes()), dtype=torch.uint8).reshape(-1, 3073)[:100]
    mean, deviation = (torch.tensor(values)[:, None, None] for values in ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]))
    images, labels = (tested[:, 1:].reshape(-1, 3, 32, 32) / 255 - mean) / deviation, tested[:, 0].long()

    def loss_of(net):
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(net.eval()(images.to(next(net.parameters()).dtype)), labels).item()

    net = twin()
    found = net.load_state_dict(load_file(tmp_path / "run" / "model_step_12" / "model.safetensors"), strict=False)
    assert all(name.endswith("num_batches_tracked") for name in found.missing_keys) and not found.unexpected_keys
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["test_loss"] == about(loss_of, net)

    torch.manual_seed(3)
    net = twin().train()
    for begin in range(0, 100, 10):
        net(images[begin : begin + 10])  # their norms measure
    save_file(net.state_dict(), tmp_path / "theirs.safetensors")
    good("import", "theirs.safetensors", "--model", model, *data, "--test-size", 100, "--train-dir", "imported")
    assert loss_here(good, "imported") == pytest.approx(loss_of(net), abs=1e-4)


def test_export(good, run, tmp_path):
    good("train", *TINY, "--max-steps", 4, "--checkpoint-every", 2, "--train-dir", "run")
    newest = load_file(tmp_path / "run" / "model_step_4" / "model.safetensors")
    assert "weights after 4 steps in w.safetensors" in good("export", "--model-dir", "run", "--out", "w.safetensors").out
    exported = load_file(tmp_path / "w.safetensors")
    assert exported.keys() == newest.keys() and all(exported[name].equal(newest[name]) for name in newest)
    good("export", "--model-dir", "run", "--out", "h", "--type", "bf16", "--step", 2)
    half, earlier = load_file(tmp_path / "h"), load_file(tmp_path / "run" / "model_step_2" / "model.safetensors")
    assert all(half[name].equal(earlier[name].bfloat16()) for name in earlier)

    job = run("export", "--model-dir", "run", "--out", "w", "--step", 3)
    assert job.status == 2 and "no checkpoint of step 3; it has those of 2, 4" in job.err
    job = run("export", "--model-dir", "nowhere", "--out", "w")
    assert job.status == 2 and "nowhere: there is no such folder" in job.err
    inside = "run/model_step_4/model.safetensors"
    job = run("export", "--model-dir", "run", "--out", inside)
    assert job.status == 2 and "is in a checkpoint" in job.err
    good("eval", "--model-dir", "run")


def test_some_tensors_may_be_other_ones(good, run, text, tmp_path):
    """A longer context, which the file's model does not have."""
    good("train", "--model", MODEL, *TEXT, "--max-steps", 2, "--batch-size", 8, "--train-dir", "run")
    file = "run/model_step_2/model.safetensors"
    longer = ["train", "--model", MODEL.replace("context=16", "context=24"), *TEXT, "--batch-size", 8, "--max-steps", 1, "--lr", 0]
    job = run(*longer, "--weights", file, "--train-dir", "refused")
    assert job.status == 2, job.err
    assert "tensor transformer.wpe.weight has the shape 16x32, the model's is 24x32; --weights-except can name tensors that begin without it" in job.err
    said = good(*longer, "--weights", file, "--weights-except", "*.wpe.*, *.ln_f.*", "--train-dir", "next").out
    assert "that the model has not" not in said, "what is left out on purpose is no surprise"
    good(*longer, "--train-dir", "drawn")
    before, after, drawn = (load_file(tmp_path / path) for path in (file, "next/model_step_1/model.safetensors", "drawn/model_step_1/model.safetensors"))
    for name, tensor in after.items():
        assert tensor.equal((drawn if "wpe" in name or "ln_f" in name else before)[name]), name
    for words, flags in [("`*.wqe.*` is the name of no tensor; did you mean transformer.wpe.weight", ["--weights", file, "--weights-except", "*.wqe.*"]),
                         ("a pattern is empty", ["--weights", file, "--weights-except", "*.wpe.*,"]),
                         ("--weights-except: says nothing without --weights", ["--weights-except", "*.wpe.*"])]:  # fmt: skip
        job = run(*longer, *flags, "--train-dir", "refused")
        assert job.status == 2 and words in job.err, job.err


class TestBadWeights:
    @pytest.fixture
    def job(self, run, tmp_path):
        def job(tensors, *more):
            save_file({name: torch.zeros(shape) for name, shape in tensors.items()}, tmp_path / "w")
            return run("train", *TINY, "--weights", "w", "--max-steps", 1, "--train-dir", "run", *more)

        return job

    def test_a_parameter_is_missing(self, job):
        done = job({"linear.weight": (10, 784)})
        assert done.status == 2 and "w: tensor linear.bias is missing" in done.err

    def test_of_another_shape(self, job):
        done = job({"linear.weight": (784, 10), "linear.bias": (10,)})
        assert done.status == 2 and "tensor linear.weight has the shape 784x10, the model's is 10x784" in done.err

    def test_more_than_the_model_has(self, job):
        done = job({"linear.weight": (10, 784), "linear.bias": (10,), "head.x": (2,), "bn.num_batches_tracked": (1,)})
        assert done.status == 0 and "warning: w has 1 tensor that the model has not: head.x" in done.err

    def test_a_dry_run_reads_them(self, job, run):
        done = job({"linear.weight": (10, 784), "linear.bias": (10,), "head.x": (2,), "head.y": (2,)}, "--dry-run")
        assert done.status == 0 and "warning       w has 2 tensors that the model has not: head.x, head.y" in done.out
        done = job({"linear.weight": (784, 10), "linear.bias": (10,)}, "--dry-run")
        assert done.status == 2 and "tensor linear.weight has the shape 784x10" in done.err
        done = run("train", *TINY, "--weights", "nothing", "--dry-run")
        assert done.status == 1 and "nothing: " in done.err

    def test_statistics_are_missing(self, good, run, tmp_path):
        good("train", "--model", "resnet(depth=8)", "--data", "made-cifar", "--train-size", 8, "--test-size", 4, "--batch-size", 4,
             "--max-steps", 1, "--lr", 0, "--train-dir", "run")
        whole = load_file(tmp_path / "run" / "model_step_1" / "model.safetensors")
        save_file({name: value for name, value in whole.items() if "running_var" not in name}, tmp_path / "w")
        job = run("import", "w", "--model", "resnet(depth=8)", "--data", "made-cifar", "--train-dir", "theirs")
        assert job.status == 1 and "tensor bn1.running_var is missing" in job.err

    def test_that_are_no_numbers(self, run, tmp_path):
        save_file({"linear.weight": torch.full((10, 784), torch.nan), "linear.bias": torch.zeros(10)}, tmp_path / "w")
        job = run("import", "w", "--model", "logreg", "--train-dir", "run")
        assert job.status == 1 and "w: tensor linear.weight holds nan" in job.err

    def test_no_such_file(self, run):
        job = run("train", *TINY, "--weights", "nothing", "--train-dir", "run")
        assert job.status == 1 and "nothing: " in job.err

    def test_what_was_imported_cannot_be_resumed(self, job, good, run):
        job({"linear.weight": (10, 784), "linear.bias": (10,)})
        assert "already holds a run" in run("import", "w", "--model", "logreg", "--train-dir", "run").err
        good("import", "w", "--model", "logreg", "--train-dir", "theirs")
        done = run("train", "--train-dir", "theirs", "--resume", *TINY)
        assert done.status == 2 and "imported weights alone" in done.err and "--weights theirs/model_step_0/model.safetensors" in done.err
