"""What a run captures of its gradients and memories, and the errors of its codec that it measures."""

import csv
import re
import shutil

import numpy as np
import pytest

from conftest import TINY, summary


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def vector(folder, name):
    return np.load(folder / f"{name}.npy")


def test_every_rank_captures_gradient_and_memory(good, tmp_path):
    """Without bias and momentum: memory = what was held back before + the gradient - what was sent."""
    flags = [*TINY, "--ranks", 2, "--max-steps", 5, "--codec", "ef | topk(0.25, dense=0)", "--train-dir"]
    good("train", *flags, "run", "--capture", "every=1,dir=seen,ranks=all,memory=true,format=npy")
    assert names(tmp_path / "seen") == [f"{kind}-{step:06d}-r{rank}.npy" for kind in ("gradient", "memory")
                                        for step in range(5) for rank in range(2)]  # fmt: skip
    good("train", *flags, "plain")
    assert summary(tmp_path / "run")["parameters_sha256"] == summary(tmp_path / "plain")["parameters_sha256"], "no bit depends on it"
    first = [vector(tmp_path / "seen", f"gradient-000000-r{rank}") for rank in range(2)]
    assert not np.array_equal(*first), "ranks have their own batches"
    for rank in range(2):
        held = np.zeros_like(first[0])
        for step in range(5):
            offered = held + vector(tmp_path / "seen", f"gradient-{step:06d}-r{rank}")
            held = vector(tmp_path / "seen", f"memory-{step:06d}-r{rank}")
            kept = held != 0
            assert np.array_equal(held[kept], offered[kept]), "what was not sent is held as it was"
            sent = np.count_nonzero(offered) - np.count_nonzero(kept)
            assert 0 < sent <= 0.25 * len(held) + 2 and np.abs(offered[kept]).max() <= np.abs(offered).max()


@pytest.mark.parametrize("codec", ["momentum | topk(0.1)", "memsgd | topk(0.1)", "demo | topk(0.1)"])
def test_every_memory_is_captured(good, tmp_path, codec):
    good("train", *TINY, "--max-steps", 2, "--codec", codec, "--train-dir", "run", "--buckets", "1KiB",
         "--capture", "every=1,dir=seen,memory=true,format=npy")  # fmt: skip
    held = [vector(tmp_path / "seen", f"memory-00000{step}") for step in range(2)]
    assert np.count_nonzero(held[0]) > 0 and not np.array_equal(*held)
    gradient = vector(tmp_path / "seen", "gradient-000000")
    if not codec.startswith("demo"):
        kept = held[0] != 0
        assert np.array_equal(held[0][kept], gradient[kept]), "the layout of both is the model's"


def test_formats_hold_the_same(good, tmp_path):
    for form in ("npy", "safetensors"):
        good("train", *TINY, "--max-steps", 1, "--train-dir", f"run-{form}", "--capture", f"every=1,dir=seen-{form},format={form}")
        shutil.copytree(tmp_path / f"seen-{form}", tmp_path / "seen", dirs_exist_ok=True)
    assert names(tmp_path / "seen") == [f"gradient-000000.{form}" for form in ("npy", "safetensors")]
    measured = [good("codec", "measure", "--codec", "f16", "--repeats", 1, "--csv", "--input", f"seen/gradient-000000.{form}").out
                for form in ("safetensors", "npy")]
    cells = [row.splitlines()[1].split('",')[1].split(",")[1:5] for row in measured]
    assert (cells[0][0], cells[0][3]) == (cells[1][0], cells[1][3]), "elements and error; .npy has one tensor"
    safetensors = pytest.importorskip("safetensors.numpy")
    tensors = safetensors.load_file(tmp_path / "seen" / "gradient-000000.safetensors")
    assert np.array_equal(np.concatenate([tensor.ravel() for tensor in tensors.values()]), vector(tmp_path / "seen", "gradient-000000"))


def test_the_limit_ends_it_with_a_remark(good, tmp_path):
    job = good("train", *TINY, "--max-steps", 6, "--train-dir", "run", "--capture", "every=1,dir=seen,format=npy,limit=100KB")
    found = names(tmp_path / "seen")
    assert 0 < len(found) < 6 and found == [f"gradient-{step:06d}.npy" for step in range(len(found))]
    assert sum(path.stat().st_size for path in (tmp_path / "seen").iterdir()) <= 100_000
    assert f"no more gradients from step {len(found)} on" in job.err
    assert summary(tmp_path / "run")["steps"] == 6


@pytest.mark.parametrize(("text", "more", "reason"), [
    ("every=1,dir=d,ranks=two", [], "ranks must be one or all"),
    ("every=1,dir=d,memory=maybe", [], "memory"),
    ("every=1,dir=d,format=csv", [], "format must be safetensors or npy"),
    ("every=1,dir=d,dir=e", [], "dir is given twice"),
    ("every=1,dir=d,limit=7", [], "limit must be a size"),
    ("every=1,dir=d,limit=-7GB", [], "limit"),
    ("every=1,dir=d,memory=true", [], "--codec none holds nothing back"),
    ("every=1,dir=d,memory=true", ["--codec", "ef | topk(0.1)", "--ranks", 2, "--algorithm", "ad_psgd"], "own speed"),
    ("every=1,dir=d,memory=true", ["--codec", "ef | topk(0.1)", "--ranks", 4, "--aggregator", "hierarchical", "--group-size", 2], "splits it"),
])  # fmt: skip
def test_what_cannot_be_captured_is_refused(run, tmp_path, text, more, reason):
    job = run("train", *TINY, "--max-steps", 2, "--train-dir", "run", *more, "--capture", text)
    assert job.status == 2 and "--capture" in job.err and reason in job.err, job.err
    assert not list((tmp_path / "d").glob("*")) and not (tmp_path / "run" / "config.toml").exists()


def test_an_impossible_folder_leaves_no_run(run, tmp_path):
    (tmp_path / "file").write_text("")
    job = run("train", *TINY, "--max-steps", 2, "--train-dir", "run", "--capture", "every=1000,dir=file")
    assert job.status == 1 and "file: " in job.err and not (tmp_path / "run").exists()


def test_gradients_of_two_runs_are_not_mixed(good, run, tmp_path):
    flags = ["train", *TINY, "--capture", "every=2,dir=seen", "--train-dir"]
    good(*flags, "run", "--max-steps", 3)
    job = run(*flags, "other", "--max-steps", 3, "--seed", 2)
    assert job.status == 2 and "--capture: seen holds the gradients of another run already" in job.err
    good(*flags, "run", "--max-steps", 5, "--resume")
    assert sorted(path.name for path in (tmp_path / "seen").iterdir()) == [f"gradient-00000{step}.safetensors" for step in (0, 2, 4)]


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_errors_are_measured_in_a_run(good, run, tmp_path):
    flags = [*TINY, "--ranks", 2, "--codec", "ef | topk(0.1, dense=0)", "--measure-errors", 2, "--train-dir"]
    good("train", *flags, "run", "--max-steps", 5, "--capture", "every=2,dir=seen,format=npy")
    found = rows(tmp_path / "run" / "codec_errors.csv")
    assert [int(row["step"]) for row in found] == [0, 2, 4]
    for row in found:
        x = vector(tmp_path / "seen", f"gradient-{int(row['step']):06d}").astype(np.float64)
        error, cosine = float(row["square_error"]), float(row["cosine"])
        assert 0 < error < 1 and error == pytest.approx(1 - cosine**2, rel=1e-6), "a selection is a projection"
        assert error >= 1 - np.sort(x**2)[::-1][: len(x) // 10 + 2].sum() / (x**2).sum() - 1e-9
        assert float(row["negative_small_max"]) == 1 and int(row["elements"]) >= len(x)
        assert float(row["ratio"]) == pytest.approx(4 * int(row["elements"]) / int(row["bytes"]), rel=1e-5)
    # The run continues from its checkpoint, of step 5; a cut line and repeated rows are left out.
    with open(tmp_path / "run" / "codec_errors.csv", "a") as file:
        file.write(re.sub(r"^\d+", "6", ",".join(found[0].values())) + "\n8,1")
    good("train", *flags, "run", "--max-steps", 9, "--resume")
    assert [int(row["step"]) for row in rows(tmp_path / "run" / "codec_errors.csv")] == [0, 2, 4, 6, 8]
    assert rows(tmp_path / "run" / "codec_errors.csv")[:3] == found
    assert list(dict.fromkeys(row["step"] for row in rows(tmp_path / "run" / "tensor_bytes.csv"))) == ["0", "2", "4", "6", "8"]
    job = run("train", *TINY, "--max-steps", 2, "--codec", "power(rank=1)", "--measure-errors", 1, "--train-dir", "other")
    assert job.status == 2 and "--measure-errors 1: `power" in job.err


@pytest.mark.parametrize("ranks", ["one", "all"])
def test_an_error_between_steps_leaves_a_checkpoint(good, run, tmp_path, ranks):
    flags = ["train", *TINY, "--ranks", 2, "--train-dir", "run", "--capture", f"every=1,dir=seen,ranks={ranks}"]
    good(*flags, "--max-steps", 2)
    name = "gradient-000003.safetensors" if ranks == "one" else "gradient-000003-r1.safetensors"
    (tmp_path / "seen" / name).mkdir()  # in the way
    job = run(*flags, "--max-steps", 200, "--resume")
    assert job.status == 1 and name in job.err, job.err
    assert 2 < max(int(path.name.split("_")[-1]) for path in (tmp_path / "run").glob("model_step_*")) < 200
