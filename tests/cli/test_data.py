"""sotto data and sotto eval."""

import gzip
import http.server
import lzma
import os
import re
import signal
import threading

import pytest

from conftest import TINY, wait_until

pytestmark = pytest.mark.slow


class Slow(http.server.BaseHTTPRequestHandler):
    """Sends the beginning of a file, then nothing until the test is over."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "9912422")
        self.end_headers()
        self.wfile.write(b"x" * 1000)
        self.wfile.flush()
        self.server.over.wait()


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.asked, server.over = [], threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def test_list(good):
    names = [line.split()[0] for line in good("data", "list").out.splitlines()[1:]]
    assert {"digits", "mnist", "cifar10"} <= set(names)


def test_get_stops_on_a_signal(start, server):
    job = start("data", "get", "mnist", "--data-dir", "mnist", "--url", f"http://127.0.0.1:{server.server_port}")
    wait_until(lambda: server.asked, "a request")
    os.kill(job.process.pid, signal.SIGINT)
    job.finish()
    assert job.status == 130, job.err
    assert "continues from here" in job.err


def test_get_from_nowhere(run):
    job = run("data", "get", "mnist", "--data-dir", "mnist", "--url", "http://127.0.0.1:9")
    assert job.status == 1 and "127.0.0.1" in job.err


def test_show(good, tmp_path):
    good("data", "show", "digits", "--count", 10, "--out", "sheet.pgm")
    content = (tmp_path / "sheet.pgm").read_bytes()
    assert content.startswith(b"P5\n112 84\n255\n")
    pixels = content.split(b"255\n", 1)[1]
    assert len(pixels) == 112 * 84 and max(pixels) == 255 and min(pixels) == 0


# One data set of each file format, what is trained on it, and the number of its files.
MADE = [("mnist", ["--model", "logreg"], 4), ("emnist-letters", ["--model", "logreg"], 4),
        ("text", ["--model", "gpt-mini(layers=1, heads=1, width=8, context=16)"], 2), ("libsvm", ["--model", "svm"], 2),
        ("csv", ["--model", "linreg"], 2),
        ("parallel", ["--model", "transformer-tiny(layers=1, heads=1, width=8, inner=8, beam=2)"], 5)]  # fmt: skip


@pytest.mark.parametrize("name,flags,files", MADE, ids=[name for name, _, _ in MADE])
def test_made_files_are_trained_on(good, tmp_path, name, flags, files):
    sizes = [9000, 900] if name == "text" else [200, 20]
    made = good("data", "make", name, "--data-dir", "made", "--train-size", sizes[0], "--test-size", sizes[1]).out
    assert len(made.splitlines()) == files == len(list((tmp_path / "made").iterdir()))
    told = good("data", "info", name, "--data-dir", "made").out
    assert all(path.name in told for path in (tmp_path / "made").iterdir())
    assert re.search(rf"^train +{sizes[0]} ", told, re.M) and re.search(rf"^test +{sizes[1]} ", told, re.M), told
    good("train", "--data", name, "--data-dir", "made", *flags, "--ranks", 2, "--batch-size", 4, "--max-steps", 2,
         "--train-dir", "run")  # fmt: skip


@pytest.mark.parametrize("name,classes", [("cifar10", 10), ("cifar100", 100)])
def test_made_cifar(good, tmp_path, name, classes):
    good("data", "make", name, "--data-dir", "made")
    told = good("data", "info", name, "--data-dir", "made").out
    assert f"50000 images of 3x32x32 (channels, height, width), {classes} of {classes} classes" in told
    assert "10000 images of 3x32x32" in told


@pytest.mark.parametrize("name, flags", [("mnist", ["--model", "lenet"]), ("cifar10", ["--model", "resnet20"]), ("cifar100", ["--model", "lenet"])])
def test_sets_of_another_size_are_read_and_told(good, run, tmp_path, name, flags):
    good("data", "make", name, "--data-dir", "made", "--train-size", 32, "--test-size", 12)
    if name == "mnist":  # as of digits of 16 x 16
        for part, count in (("train", 32), ("t10k", 12)):
            path = tmp_path / "made" / f"{part}-images-idx3-ubyte"
            path.write_bytes(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (count, 16, 16)) + bytes(range(256)) * count)
    train = ["train", "--data", name, "--data-dir", "made", *flags, "--batch-size", 4, "--max-steps", 2, "--train-dir"]
    said = good(*train, "run").err
    for words in {"mnist": ["images of 16x16 pixels; images of mnist as published have 28x28"], "cifar10": ["32 training examples, and CIFAR-10 as published has 50000", "12 test examples"],
                  "cifar100": ["32 training examples, and CIFAR-100 as published has 50000", "12 test examples"]}[name]:  # fmt: skip
        assert words in said, said
        assert words in good("data", "info", name, "--data-dir", "made").out
    if name == "mnist":
        path.write_bytes(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (12, 8, 16)) + bytes(128 * 12))
        job = run(*train, "other")
        assert job.status == 2 and "images of 16x16 pixels for training and of 8x16 for tests; both need one size" in job.err
    if name == "cifar10":
        job = run("data", "make", name, "--data-dir", "few", "--train-size", 4)
        assert job.status == 2 and "--train-size 4: there are 5 files, and each has an image" in job.err


@pytest.mark.parametrize("name, ending", [
    *((name, ending) for name in ("text", "csv", "libsvm", "cifar10", "parallel") for ending in ("gz", "xz")),
    ("mnist", "gz"),  # IDX files are looked for under this ending alone
])  # fmt: skip
def test_a_packed_file_with_damaged_start_is_refused(good, run, tmp_path, name, ending):
    """Its name says that it is packed. Read as it is, it would be a text."""
    good("data", "make", name, "--data-dir", "made", "--train-size", 5000 if name == "text" else 40, "--test-size", 1000 if name == "text" else 20)
    for path in list((tmp_path / "made").iterdir()):
        packed = bytearray((gzip if ending == "gz" else lzma).compress(path.read_bytes()))
        packed[1] ^= 4
        path.with_name(f"{path.name}.{ending}").write_bytes(packed)
        path.unlink()
    job = run("train", "--data", name, "--data-dir", "made", "--batch-size", 4, "--max-steps", 2, "--train-dir", "run")
    kind = "gzip" if ending == "gz" else "xz"
    assert job.status == 1 and f".{ending}: its name promises {kind} data, but its first bytes are others" in job.err, job.err


def test_packed_cifar(good, tmp_path):
    good("data", "make", "cifar10", "--data-dir", "made", "--train-size", 50, "--test-size", 10)
    for path in (tmp_path / "made").rglob("*.bin"):  # which is soon packed
        path.write_bytes(b"".join(bytes([i % 10]) + bytes([i % 251]) * 3072 for i in range(20)))
    told = good("data", "info", "cifar10", "--data-dir", "made").out.partition("\ntrain ")[2]
    for pack, ending in ((gzip.compress, ".gz"), (lambda content, level: lzma.compress(content, preset=level), ".xz")):
        path = next((tmp_path / "made").rglob("*.bin"))
        path.with_name(path.name + ending).write_bytes(pack(path.read_bytes(), 1))
        path.unlink()
    assert told and good("data", "info", "cifar10", "--data-dir", "made").out.partition("\ntrain ")[2] == told


@pytest.mark.parametrize("tested", [[7], [4, 4, 4]])
def test_few_test_rows_are_no_divergence(good, tmp_path, tested):
    """A guess could hardly do better than their variance, which is 0."""
    (tmp_path / "train.csv").write_text("a,b,target\n" + "".join(f"{i % 5},{i % 3},{i % 5 + i % 3}\n" for i in range(60)))
    (tmp_path / "test.csv").write_text("a,b,target\n" + "".join(f"4,{y - 4},{y}.5\n" for y in tested))
    good("train", "--task", "regress-rows", "--data", "csv", "--data-dir", ".", "--lr", 0.01, "--ranks", 2, "--batch-size", 4, "--epochs", 2)


@pytest.mark.parametrize("header,label", [
    ("size,price", "the first column, since none is called label, target, class, y;"),
    ("size,y", "the column `y`;"),
    ("", "the first column, since none is called label")])
def test_an_error_about_labels_names_their_column(run, tmp_path, header, label):
    (tmp_path / "some.csv").write_text((header and header + "\n") + "".join(f"{i},{i + 0.5}\n" for i in range(20)))
    job = run("train", "--data", "csv", "--data-dir", "some.csv")
    assert job.status == 1 and f"the label is {label}" in job.err, job.err


def test_info_of_what_needs_no_files(good):
    told = good("data", "info", "made-pairs").out
    assert re.search(r"^train +20000 pairs", told, re.M) and "stand-in" not in told and "files" not in told


def test_info_names_the_test_rows_of_a_file(good, tmp_path):
    (tmp_path / "a9a").write_text("1 1:2\n-1 2:1\n")
    (tmp_path / "a9a.t").write_text("1 1:2\n")
    told = good("data", "info", "libsvm", "--data-dir", "a9a").out
    assert re.search(r"^files +a9a +13 B\n +a9a.t +6 B$", told, re.M), told


def test_missing_files_are_named_with_what_downloads_them(run):
    for name in ("cifar10", "cifar100"):
        assert f"`sotto data get {name}` downloads it" in run("data", "info", name, "--data-dir", ".").err


def test_info_of_what_can_be_downloaded(good):
    told = good("data", "info", "mnist").out
    assert "https://" in told and "licence" in told and "--data-dir" in told


@pytest.mark.parametrize("arguments, parts", [
    (["info", "mnits"], ["unknown data set `mnits`", "did you mean `mnist`?"]),
    (["info", "digits", "--data-dir", "."], ["--data-dir .: digits is made, and reads no files"]),
    (["make", "mnist"], ["say where to with --data-dir"]),
    (["make", "digits", "--data-dir", "made"], ["sotto data make: cannot do it for `digits`, only for mnist, "]),
    (["make", "mnits", "--data-dir", "made"], ["unknown data set `mnits`", "did you mean `mnist`?"]),
    (["get", "folder", "--data-dir", "made"],
     ["sotto data get: cannot do it for `folder`, only for mnist, fashion-mnist, kmnist, emnist-balanced, emnist-byclass, "]),
    (["get", "svnh", "--data-dir", "made"], ["unknown data set `svnh`"]),
    (["show", "text", "--data-dir", "made", "--out", "x.pgm"], ["sotto data show: cannot do it for `text`, only for digits, mnist, "]),
    (["show", "digits", "--out", "a.png"], ["--out a.png: use a name that ends in .pgm"]),
    (["prepare", "mnist", "--data-dir", "made"], ["sotto data prepare: cannot do it for `mnist`, only for text, parallel, folder"]),
    (["make", "cifar10", "--data-dir", "made", "--train-size", "4"], ["--train-size 4: there are 5 files, and each has an image"]),
    (["make", "text", "--data-dir", "made", "--languages", "en-de"], ["--languages: is for parallel alone, and not for text"]),
    (["make", "csv", "--data-dir", "made", "--test-set", "valid"], ["--test-set: is for parallel alone, and not for csv"]),
    (["info", "digits", "--languages", "en-de"], ["--languages en-de: is for sentences, and these data are images"]),
    (["info", "made-pairs", "--test-set", "valid"], ["--test-set valid: made-pairs is made, and reads no files"]),
    (["prepare", "text", "--data-dir", ".", "--languages", "en-de"], ["--languages: is for parallel alone, and not for text"]),
    (["prepare", "text", "--data-dir", ".", "--out", "pack"], ["--out: is for folder alone, and not for text"]),
    (["prepare", "parallel", "--data-dir", ".", "--strict"], ["--strict: is for folder alone, and not for parallel"]),
    (["prepare", "parallel", "--data-dir", ".", "--data-threads", 2], ["--data-threads: is for folder alone"]),
    (["prepare", "folder", "--data-dir", ".", "--vocabulary", 99], ["--vocabulary: is for text and parallel alone, and not for folder"]),
    (["make", "parallel", "--data-dir", "made", "--languages", "de"], ["--languages de: say from which language to which"]),
])  # fmt: skip
def test_mistakes_with_made_files(run, tmp_path, arguments, parts):
    job = run("data", *arguments)
    assert job.status == 2 and all(part in job.err for part in parts), job.err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("flags, part", [
    (["--model", "logreg", "--languages", "en-de"], "--languages en-de: is for sentences, and these data are images"),
    (["--model", "logreg", "--test-set", "valid"], "--test-set valid: is for sentences, and these data are images"),
    (["--model", "logreg", "--tokens", "sentencepiece"], "--tokens sentencepiece: is for text, and these data are images"),
    (["--model", "logreg", "--strict"], "--strict: is for pictures in files, and these data are none"),
    (["--model", "logreg", "--data-threads", 2], "--data-threads 2: is for pictures in files, and these data are none"),
    (["--model", "gpt-mini", "--strict"], "--strict: is for images, and these data are text"),
    (["--model", "svm", "--data-threads", 2], "--data-threads 2: is for images, and these data are rows of numbers"),
    (["--model", "transformer-tiny", "--languages", "en-de"], "--languages en-de: made-pairs is made, and reads no files"),
    (["--model", "gpt-mini", "--partition", "shards(2)"], "--partition shards(2): the examples of the task language have no labels"),
])  # fmt: skip
def test_options_of_other_data_are_refused(run, flags, part):
    job = run("train", *flags, "--dry-run")
    assert job.status == 2 and part in job.err, job.err


def test_made_files_overwrite_nothing(good, run, tmp_path):
    good("data", "make", "text", "--data-dir", "made", "--train-size", 500, "--test-size", 50)
    before = (tmp_path / "made" / "train.txt").read_bytes()
    job = run("data", "make", "text", "--data-dir", "made", "--data-seed", 2)
    assert job.status == 1 and "train.txt: is there already" in job.err
    assert (tmp_path / "made" / "train.txt").read_bytes() == before
    assert run("data", "info", "text", "--data-dir", "empty").status == 1


LINE = re.compile(r"step (\d+)  loss \d+\.\d{4}  accuracy (\d+\.\d\d)  top5 (\d+\.\d\d)")


def test_eval_agrees_with_the_run(good):
    said = good("train", *TINY, "--ranks", 2, "--max-steps", 6, "--checkpoint-every", 2, "--train-dir", "run").err
    lines = good("eval", "--model-dir", "run", "--test-size", 100).out.splitlines()
    assert [int(LINE.fullmatch(line)[1]) for line in lines] == [2, 4, 6]
    last = LINE.fullmatch(lines[-1])
    assert f"accuracy {last[2]}  top5 {last[3]}" in said


def test_eval_follows(start, good, tmp_path):
    follower = start("eval", "--model-dir", "run", "--follow", "--poll", 0.1, "--test-size", 50)
    assert follower.process.stderr.readline() == "waiting for a first model_step_N in run, which is not there yet\n"
    good("train", *TINY, "--max-steps", 4, "--checkpoint-every", 2, "--train-dir", "run")
    lines = [follower.process.stdout.readline() for _ in range(2)]
    assert [int(LINE.fullmatch(line.strip())[1]) for line in lines] == [2, 4]
    os.kill(follower.process.pid, signal.SIGINT)
    assert follower.finish().status == 130 and "waiting" not in follower.err


def test_eval_of_a_damaged_checkpoint(good, run, tmp_path):
    """The damaged checkpoint is named, and the others are evaluated."""
    good("train", *TINY, "--max-steps", 8, "--checkpoint-every", 2, "--train-dir", "run")
    path = tmp_path / "run" / "model_step_2" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    (tmp_path / "run" / "model_step_6" / "manifest").unlink()
    job = run("eval", "--model-dir", "run")
    assert job.status == 1 and [int(LINE.fullmatch(line)[1]) for line in job.out.splitlines()] == [4, 8]
    first, second = job.err.splitlines()
    assert "run/model_step_2/model.safetensors" in first and "run/model_step_6/manifest: missing" in second


def test_eval_follows_past_a_damaged_checkpoint(start, good, tmp_path):
    good("train", *TINY, "--max-steps", 4, "--checkpoint-every", 2, "--train-dir", "run")
    (tmp_path / "run" / "model_step_2" / "model.safetensors").write_bytes(b"")
    follower = start("eval", "--model-dir", "run", "--follow", "--poll", 0.1)
    assert "model_step_2" in follower.process.stderr.readline()
    assert follower.process.stdout.readline().startswith("step 4  loss")
    os.kill(follower.process.pid, signal.SIGINT)
    assert follower.finish().status == 130


def test_eval_of_nothing(run, tmp_path):
    (tmp_path / "empty").mkdir()
    job = run("eval", "--model-dir", "empty")
    assert job.status == 2 and "--follow" in job.err
