"""The choice of `auto` is printed once, recorded, and kept by a resume."""

import re
import shutil

from conftest import TINY, summary


def test_the_aggregator(good, tmp_path):
    flags = ["train", *TINY, "--ranks", 3, "--codec", "qsgd(bits=4)", "--train-dir", "run", "--check-replicas", 1]
    first = good(*flags, "--max-steps", 3)
    found = summary(tmp_path / "run")
    pattern = (r"aggregator: gather, [\d.]+ KiB a rank and step, against [\d.]+ KiB for scatter_reduce, "
               r"whose second encoding makes 1\.\d\d steps of one")
    assert re.fullmatch(pattern, found["remark"]), found["remark"]
    assert found["aggregator"] == "gather" and first.err.count(found["remark"]) == 1
    good(*flags, "--max-steps", 5, "--resume")
    assert summary(tmp_path / "run")["remark"] == found["remark"]


def test_many_ranks(good):
    job = good("train", *TINY, "--ranks", 9, "--codec", "qsgd(bits=4)", "--dry-run")
    assert "aggregator    scatter_reduce\nchosen        aggregator: scatter_reduce, " in job.out


def test_a_linear_codec(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", 1, "--train-dir", "run")
    assert summary(tmp_path / "run")["remark"] == "aggregator: all_reduce, as `f32` can be summed on the way"


def test_the_codec(good, run, tmp_path):
    # A step without a codec sends 32 KB, which takes 125 ms on this link; f16 sends half of that, qsgd a sixth, and with
    # rans an eighth.
    flags = ["train", *TINY, "--ranks", 2, "--codec", "auto", "--link", "2mbit", "--train-dir", "run"]
    first = good(*flags, "--max-steps", 30)
    found = summary(tmp_path / "run")
    pattern = r"codec: qsgd\(bits=4\) \| rans [\d.]+ ms a step, against none [\d.]+, threshold\(0\) [\d.]+, f16 [\d.]+, qsgd\(bits=4\) [\d.]+; aggregator: .*"
    assert re.fullmatch(pattern, found["remark"]), found["remark"]
    assert found["method"] == "auto(quality=high)" and first.err.count(found["remark"]) == 1
    good(*flags, "--max-steps", 32, "--resume")
    assert summary(tmp_path / "run")["remark"] == found["remark"]
    assert summary(tmp_path / "run")["bytes_per_step"][0] < 8000, "a resumed run begins with what was chosen"
    job = run("train", *TINY, "--ranks", 2, "--codec", "auto", "--dry-run")
    assert job.status == 2 and "measures the link" in job.err


def test_a_codec_with_a_memory(good, run, tmp_path):
    """Over a slow link the sparsest candidate wins, and a resumed run has its memory: the same bits as without a stop."""
    flags = ["train", *TINY, "--ranks", 2, "--codec", "auto(quality=medium)", "--link", "500kbit", "--check-replicas", 1]
    good(*flags, "--max-steps", 24, "--checkpoint-every", 17, "--train-dir", "whole")
    found = summary(tmp_path / "whole")
    assert re.match(r"codec: ef \| (topk\(0.25\) \| qsgd\(bits=4\)|power\(4\)) [\d.]+ ms a step, against none [\d.]+", found["remark"]), found["remark"]
    assert found["method"] == "ef | auto(quality=medium)"
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed", ignore=shutil.ignore_patterns("model_step_24", "*.json", ".lock"))
    good("train", "--train-dir", "resumed", "--resume")
    again = summary(tmp_path / "resumed")
    assert again["remark"] == found["remark"] and again["parameters_sha256"] == found["parameters_sha256"]
