"""Pictures in a folder for each class, as a user sees them."""

import csv

import pytest

from conftest import summary
from pictures import write_pictures

FLAGS = ["--data", "folder", "--data-dir", "flowers", "--image-size", 16, "--model", "logreg", "--batch-size", 6]


@pytest.fixture
def flowers(tmp_path):
    return write_pictures(tmp_path / "flowers")


def losses(folder):
    with open(folder / "steps.csv") as file:
        return [row["loss"] for row in csv.DictReader(file)]


def test_train_and_eval(good, flowers, tmp_path):
    said = good("train", *FLAGS, "--ranks", 2, "--epochs", 8, "--train-dir", "run").err
    assert "warning" not in said
    assert summary(tmp_path / "run")["test_accuracy"] > 0.9, "each class has its own colour"
    job = good("eval", "--model-dir", "run")
    assert f"accuracy {100 * summary(tmp_path / 'run')['test_accuracy']:.2f}" in job.out and job.err == ""


def test_threads_change_nothing(good, flowers, tmp_path):
    for threads in (1, 3):
        good("train", *FLAGS, "--max-steps", 8, "--data-threads", threads, "--train-dir", f"with{threads}")
    good("train", *FLAGS, "--max-steps", 8, "--augment", "none", "--train-dir", "unchanged")
    assert losses(tmp_path / "with1") == losses(tmp_path / "with3") != losses(tmp_path / "unchanged")


def test_broken_pictures_are_named_counted_and_skipped(run, good, flowers):
    bad = flowers / "train" / "asters" / "3.png"
    bad.write_bytes(bad.read_bytes()[:-20])
    (flowers / "val" / "crocuses" / "1.png").write_bytes(b"<html>")
    said = good("train", *FLAGS, "--max-steps", 2, "--train-dir", "run").err
    assert "warning: 1 of 24 pictures of flowers/train cannot be decoded and are left out; with --strict they are an error" in said
    assert "warning: flowers/train/asters/3.png: truncated" in said
    assert "warning: flowers/val/crocuses/1.png: it is neither JPEG nor PNG" in said
    again = good("eval", "--model-dir", "run").err
    assert "crocuses/1.png" in again and "asters" not in again, "eval reads test data alone"
    job = run("train", *FLAGS, "--strict", "--max-steps", 2, "--train-dir", "strict")
    assert job.status == 1 and "flowers/train/asters/3.png: truncated" in job.err


def test_info_names_classes_and_broken_pictures(good, run, flowers, tmp_path):
    (flowers / "train" / "bluebells" / "2.png").write_bytes(b"<html>")
    good("data", "prepare", "folder", "--data-dir", "flowers", "--out", "pack")
    for place in ["flowers", "pack"]:
        job = good("data", "info", "folder", "--data-dir", place)
        told = job.out
        assert ("checking: 0 of 32 pictures\n" in job.err) == (place == "pack"), job.err
        assert "asters: 8, bluebells: 7, crocuses: 8" in told and "asters: 3, bluebells: 3, crocuses: 3" in told, told
        assert "1 of 24 pictures of " in told and "flowers/train/bluebells/2.png: it is neither JPEG nor PNG" in told, told
    with open(tmp_path / "pack", "r+b") as file:
        file.seek(50)
        file.write(b"XX")
    job = run("data", "info", "folder", "--data-dir", "pack")
    assert job.status == 1 and "its checksum is wrong: the pack is damaged" in job.err
    assert "examples   asters  bluebells  crocuses" in good("train", *FLAGS, "--partition", "shards(1)", "--dry-run").out


@pytest.mark.parametrize("spoil, status, words", [
    (lambda folder: (folder / "train" / "empty").mkdir(), 1, ["flowers/train/empty", "no pictures"]),
    (lambda folder: (folder / "val" / "roses").mkdir(), 1, ["flowers/val/roses", "no class of this name"]),
    (lambda folder: (folder / "val" / "asters" / "x.gif").touch(), 1, ["flowers/val/asters/x.gif", "is no picture"]),
    (lambda folder: folder.rename(folder.parent / "gone"), 1, ["flowers/train", "no such folder"]),
])  # fmt: skip
def test_what_does_not_fit_is_named(run, flowers, spoil, status, words):
    spoil(flowers)
    job = run("train", *FLAGS, "--max-steps", 2, "--train-dir", "run")
    assert job.status == status and all(word in job.err for word in words), job.err


def test_options_for_pictures_are_refused_elsewhere(run):
    for flag, value in [("--image-size", 64), ("--augment", "resized-crop")]:
        job = run("train", "--data", "digits", "--model", "logreg", "--max-steps", 1, flag, value)
        assert job.status == 2 and f"{flag} {value}" in job.err, job.err
    job = run("train", "--data", "made-text", "--model", "gpt-mini", "--max-steps", 1, "--image-size", 64)
    assert job.status == 2 and "--image-size 64: is for images" in job.err, job.err


def test_another_size_is_another_run(run, good, flowers):
    good("train", *FLAGS, "--max-steps", 2, "--train-dir", "run")
    job = run("train", "--resume", "--train-dir", "run", "--image-size", 20, "--max-steps", 4)
    assert job.status != 0 and "folder at 16" in job.err, job.err


def test_show(good, flowers, tmp_path):
    good("data", "show", "folder", "--data-dir", "flowers", "--image-size", 32, "--count", 4, "--out", "sheet.pgm")
    assert (tmp_path / "sheet.pgm").read_bytes().startswith(b"P5\n64 64\n255\n")


def test_a_pack_gives_the_same(run, good, flowers, tmp_path):
    (flowers / "train" / "asters" / "3.png").write_bytes(b"")
    job = good("data", "prepare", "folder", "--data-dir", "flowers", "--out", "flowers.pack")
    assert "23 pictures to train with and 9 for tests" in job.out
    assert "warning: flowers/train/asters/3.png: it is empty" in job.err and "these 1 pictures" in job.err
    good("train", *FLAGS, "--max-steps", 6, "--train-dir", "folder")
    packed = [*FLAGS[:3], "flowers.pack", *FLAGS[4:]]
    said = good("train", *packed, "--max-steps", 6, "--train-dir", "pack").err
    assert losses(tmp_path / "folder") == losses(tmp_path / "pack")
    assert "warning: flowers/train/asters/3.png: it is empty" in said

    content = bytearray((tmp_path / "flowers.pack").read_bytes())
    content[200] ^= 1
    (tmp_path / "flowers.pack").write_bytes(content)
    job = run("train", *packed, "--max-steps", 6, "--train-dir", "damaged")
    assert job.status == 1 and "flowers.pack: train/" in job.err and "checksum is wrong" in job.err


def test_prepare_says_what_it_needs(run, flowers, tmp_path):
    for arguments, words in [(["digits"], "cannot do it for `digits`"), (["folder"], "--data-dir"),
                             (["folder", "--data-dir", "flowers"], "--out FILE")]:  # fmt: skip
        job = run("data", "prepare", *arguments)
        assert job.status == 2 and words in job.err, job.err
    (flowers / "val" / "asters" / "0.png").write_bytes(b"x")
    job = run("data", "prepare", "folder", "--data-dir", "flowers", "--out", "pack", "--strict")
    assert job.status == 1 and "flowers/val/asters/0.png" in job.err and not (tmp_path / "pack").exists()
