"""sotto codec."""

import array
import json
import struct

import pytest

from conftest import TINY


def test_list(good):
    rows = {tuple(line.split()[:2]): line.split() for line in good("codec", "list").out.splitlines()}
    assert rows["ef", "memory"] and rows["topk", "preset"] and rows["topk", "select"] and rows["zstd", "code"]
    assert rows["f32", "quantise"][2:4] == ["exact", "yes"]
    assert rows["qsgd", "quantise"][2:4] == ["unbiased", "no"]
    assert rows["topk", "select"][2:4] == ["contraction", "no"]


def test_describe_says_something_of_everything_in_the_list(good):
    for line in good("codec", "list").out.splitlines()[1:]:
        assert line.split()[0] in good("codec", "describe", line.split()[0]).out


def test_describe_a_sentence(good):
    text = good("codec", "describe", "ef | topk(0.01) | f16").out
    assert "ef (memory)" in text and "topk (select)" in text and "f16 (quantise)" in text and "contract" in text


def test_an_aggregator_in_a_sentence(good, run):
    text = good("codec", "describe", "power(2) | f16").out
    assert "ef (memory)" in text and "power (aggregator)" in text and "min_rate=2" in text
    assert "sentence   ef | power(rank=2, start=0, min_rate=2) | f16" in text
    assert "power(1)" in good("codec", "describe", "powersgd").out
    job = run("codec", "measure", "--codec", "power(1)")
    assert job.status == 2 and "needs other ranks" in job.err


def test_measure_json(good):
    measure = ["codec", "measure", "--codec", "ef | topk(0.01)", "--elements", 100000, "--threads", 2, "--json"]
    found = json.loads(good(*measure).out)
    assert set(found) == {"codec", "threads", "elements", "bytes", "ratio", "relative_error", "encode_gbps", "decode_gbps", "memcpy_gbps"}
    assert found["threads"] == 2
    assert found["elements"] == 100000 and found["codec"].startswith("topk(ratio=0.01")
    assert found["ratio"] == pytest.approx(400000 / found["bytes"])
    assert 0 < found["relative_error"] < 1
    assert min(found[key] for key in ("encode_gbps", "decode_gbps", "memcpy_gbps")) > 0


def test_measure_of_what_is_exact(good):
    found = json.loads(good("codec", "measure", "--codec", "none", "--elements", 1000, "--json").out)
    assert found["relative_error"] == 0 and 4000 < found["bytes"] < 4100


def test_measure_prints_a_table(good):
    head, row = good("codec", "measure", "--codec", "int8", "--elements", 5000).out.splitlines()
    assert "encode GB/s" in head and row.startswith("int8")


def test_measure_a_file(good, run, tmp_path):
    values = array.array("f", [1, -2, 3, -4] * 100)
    (tmp_path / "a.f32").write_bytes(values.tobytes())
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (20, 20), }"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values.tobytes())
    for name in ["a.f32", "a.npy"]:
        found = json.loads(good("codec", "measure", "--codec", "f16", "--input", tmp_path / name, "--json").out)
        assert found["elements"] == 400 and found["relative_error"] == 0
    (tmp_path / "bad.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-4])
    job = run("codec", "measure", "--codec", "f16", "--input", "bad.npy")
    assert job.status == 1 and "bad.npy" in job.err
    job = run("codec", "measure", "--codec", "f16", "--input", "./missing.npy")
    assert job.status == 1 and "missing.npy" in job.err
    (tmp_path / "nan.f32").write_bytes(array.array("f", [1, float("nan")]).tobytes())
    job = run("codec", "measure", "--codec", "qsgd", "--input", "nan.f32")
    assert job.status == 1 and "values" in job.err


def test_a_captured_gradient_is_measured_and_advised_upon(good, run, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", 5, "--capture", "every=2,dir=gradients", "--train-dir", "run")
    files = sorted(path.name for path in (tmp_path / "gradients").iterdir())
    assert files == ["gradient-000000.sotto", "gradient-000002.sotto", "gradient-000004.sotto"]
    first = f"gradients/{files[0]}"
    advice = {row["tensor"]: row for row in json.loads(good("codec", "advise-basis", first, "--json").out)}
    assert len(advice) == 2  # weight and bias
    assert all(row["entries"] > 0 and row["advice"] in ("entries", "svd", "dct") for row in advice.values())
    assert "advice" in good("codec", "advise-basis", first).out
    measured = json.loads(good("codec", "measure", "--codec", "svd", "--input", first, "--json").out)
    assert measured["relative_error"] < 1e-5
    for text, reason in [("every=2", "dir=DIR is missing"), ("dir=x", "every=N is missing"), ("every=0,dir=x", "every must be in"),
                         ("every=2,dir=x,rank=1", "`rank` is unknown"), ("often", "every=N,dir=DIR")]:  # fmt: skip
        job = run("train", *TINY, "--capture", text)
        assert job.status == 2 and f"--capture {text}" in job.err and reason in job.err
    job = run("codec", "advise-basis", "gradients")
    assert job.status != 0 and "gradients" in job.err
