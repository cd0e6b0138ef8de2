"""`sotto eval` on other data than the run's: it refuses those whose numbers stand for something else."""

import random

import pytest

from conftest import summary
from pictures import write_pictures

ROWS = [(label, 3 * label + random.Random(i).random(), i % 7) for i, label in ((i, i % 2) for i in range(60))]


def write_rows(path, names, order):
    """Columns of ROWS, in this order, under these names."""
    path.write_text("\n".join(([names] if names else []) + [",".join(str(row[i]) for i in order) for row in ROWS]) + "\n")


@pytest.fixture
def trained(good, tmp_path):
    write_rows(tmp_path / "train.csv", "label,size,day", (0, 1, 2))
    write_rows(tmp_path / "test.csv", "label,size,day", (0, 1, 2))
    good("train", "--model", "logreg", "--data", "csv", "--data-dir", ".", "--batch-size", 6, "--max-steps", 20, "--train-dir", "run")
    return summary(tmp_path / "run")


@pytest.mark.parametrize("names,order,fits", [
    ("label,size,day", (0, 1, 2), True), ("LABEL,Size,Day", (0, 1, 2), True), (None, (0, 1, 2), True),
    ("label,day,size", (0, 2, 1), False), ("size,label,day", (1, 0, 2), False),
])  # fmt: skip
def test_columns_have_names(good, run, tmp_path, trained, names, order, fits):
    write_rows(tmp_path / "other.csv", names, order)
    (tmp_path / "other.csv.t").write_text((tmp_path / "other.csv").read_text())
    job = run("eval", "--model-dir", "run", "--data-dir", "other.csv")
    if fits:
        assert job.status == 0 and f"loss {trained['test_loss']:.4f}" in job.out, job.out + job.err
    else:
        assert job.status == 2, job.out
        assert "--data-dir other.csv: these data have 2 features: " in job.err and "and the run was trained with 2 features: label (label),size,day" in job.err


def test_last_features_may_be_missing(good, run, tmp_path):
    rows = [f"{1 if i % 2 else -1} 1:{i % 3} 2:{i % 2} 9:{i % 5}" for i in range(40)]
    for name, lines in {"train.libsvm": rows, "test.libsvm": rows, "few": [line.split(" 9:")[0] for line in rows], "many": [f"{line} 12:1" for line in rows]}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.t").write_text("\n".join(lines) + "\n")
    good("train", "--model", "logreg", "--data", "libsvm", "--data-dir", ".", "--batch-size", 4, "--max-steps", 20, "--train-dir", "run")
    zeros = [line.split(" 9:")[0] + " 9:0" for line in rows]
    (tmp_path / "zeros").write_text("\n".join(zeros) + "\n")
    (tmp_path / "zeros.t").write_text("\n".join(zeros) + "\n")
    found = [good("eval", "--model-dir", "run", "--data-dir", name).out for name in ("few", "zeros")]
    assert found[0] == found[1]
    job = run("eval", "--model-dir", "run", "--data-dir", "many")
    assert job.status == 2 and "--data-dir many: 12 features, and the model has 9" in job.err, job.err


def test_classes_have_names(good, run, tmp_path):
    write_pictures(tmp_path / "pictures")
    good("train", "--model", "fc", "--data", "folder", "--data-dir", "pictures", "--image-size", 8, "--batch-size", 4, "--max-steps", 2, "--train-dir", "run")
    first = sorted(folder.name for folder in (tmp_path / "pictures" / "train").iterdir())[0]
    for split in (tmp_path / "pictures").iterdir():
        (split / first).rename(split / "zz")
    job = run("eval", "--model-dir", "run", "--data-dir", "pictures")
    assert job.status == 2 and "these data have the classes " in job.err and f"the run was trained with the classes {first}, " in job.err, job.err


def test_tokens_are_of_a_vocabulary(good, run, tmp_path):
    for name, words in (("one", "the quick brown fox jumps over it"), ("other", "a lazy dog sleeps under that tree")):
        (tmp_path / name).write_text("".join(f"{words} {i}\n" for i in range(400)))
        good("data", "prepare", "text", "--data-dir", name, "--vocabulary", 300)
    good("train", "--model", "gpt-mini(layers=1, heads=1, width=8, context=8)", "--data", "text", "--tokens", "sentencepiece", "--data-dir", "one",
         "--batch-size", 4, "--max-steps", 2, "--train-dir", "run")  # fmt: skip
    good("eval", "--model-dir", "run", "--data-dir", "one")
    job = run("eval", "--model-dir", "run", "--data-dir", "other")
    assert job.status == 2 and "these data have the vocabulary " in job.err, job.err
    (tmp_path / "other.sentencepiece.model").write_bytes((tmp_path / "one.sentencepiece.model").read_bytes())
    good("eval", "--model-dir", "run", "--data-dir", "other")
