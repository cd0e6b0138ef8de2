"""sotto codec."""

import array
import csv
import json
import struct
import xml.etree.ElementTree
import zipfile

import pytest

from conftest import TINY

pytestmark = pytest.mark.slow


def test_list(good):
    rows = {tuple(line.split()[:2]): line.split() for line in good("codec", "list").out.splitlines()}
    assert rows["ef", "memory"] and rows["topk-ef", "preset"] and rows["topk", "select"] and rows["zstd", "code"]
    assert rows["f32", "quantise"][2:4] == ["exact", "yes"] and rows["f32", "quantise"][4] == "4.000"
    assert 0.12 < float(rows["sign", "quantise"][4]) < 0.2
    assert rows["qsgd", "quantise"][2:4] == ["unbiased", "no"]
    assert rows["topk", "select"][2:4] == ["contraction", "no"]


def test_list_fits_a_terminal(good):
    lines = good("codec", "list").out.splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[0].split() == ["name", "kind", "contract", "linear", "bytes/element", "paper"]
    rows = {tuple(line.split()[:2]): line.split(maxsplit=5) for line in lines}
    assert rows["powersgd", "preset"][2:5] == ["biased", "yes", "0.125"] and "NeurIPS 2019" in rows["powersgd", "preset"][5]
    assert rows["fetchsgd", "preset"][2:5] == ["biased", "yes", "2.000"] and rows["terngrad", "quantise"][2] == "biased"
    assert rows["vote", "aggregator"][2:] == ["-"] * 4 and rows["int4", "quantise"][5] == "none"
    found = {(entry["name"], entry["kind"]): entry for entry in json.loads(good("codec", "list", "--json").out)}
    assert len(found) == len(lines) - 1
    assert found["topk-ef", "preset"]["what"] in good("codec", "list", "--what").out


def test_describe_a_codec(good):
    text = good("codec", "describe", "ef | topk(0.01) | f16").out
    assert "ef (memory)" in text and "topk (select)" in text and "f16 (quantise)" in text and "contract" in text


def test_describe_a_codecs_memory(good):
    text = good("codec", "describe", "momentum(m=0.5) | topk(0.01)").out
    assert "masking=true" in text and "Lin et al." in text
    assert "codec      momentum(m=0.5, nesterov=false, masking=true, clip=0, mean=false) | topk(ratio=0.01," in text
    assert "codec      momentum(m=0.5, nesterov=false, masking=true, clip=0, mean=false) | f32" in good("codec", "describe", "momentum(m=0.5)").out
    assert "codec      ef | topk(ratio=0.01," in good("codec", "describe", "topk-ef").out


def test_an_aggregator_as_codec(good, run):
    text = good("codec", "describe", "power(2) | f16").out
    assert "ef (memory)" in text and "power (aggregator)" in text and "min_rate=2" in text
    assert "codec      ef | power(rank=2, min_rate=2) | f16" in text
    text = good("codec", "describe", "powersgd").out
    assert "power(4)" in text and "contract   biased" in text and "32000 for a segment of 1000 x 1000 floats" in text
    assert " 4000 for a segment" in good("codec", "describe", "power(1) | f16").out
    text = good("codec", "describe", "fetchsgd").out
    assert "contract   biased" in text and "2000000 for a segment of 1000 x 1000 floats" in text
    job = run("codec", "measure", "--codec", "power(1)")
    assert job.status == 2 and "needs other ranks" in job.err


def test_describe_aggregators_and_optimisers(good, run):
    assert "--aggregator vote" in good("codec", "describe", "vote").out
    assert "group=" in good("codec", "describe", "hierarchical").out
    text = good("codec", "describe", "signum").out
    assert "signum (preset)" in text and "signum (optimiser)" in text and "--optimiser signum" in text
    assert "did you mean `gather`?" in run("codec", "describe", "gahter").err


def test_measure_json(good):
    measure = ["codec", "measure", "--codec", "ef | topk(0.01)", "--elements", 100000, "--threads", 2, "--json"]
    found = json.loads(good(*measure).out)
    assert set(found) == {"codec", "threads", "elements", "bytes", "ratio", "relative_error", "encode_gbps", "decode_gbps", "memcpy_gbps"}
    assert found["threads"] == 2
    assert found["elements"] == 100000 and found["codec"].startswith("topk(ratio=0.01")
    assert found["ratio"] == pytest.approx(400000 / found["bytes"])
    assert 0 < found["relative_error"] < 1
    assert min(found[key] for key in ("encode_gbps", "decode_gbps", "memcpy_gbps")) > 0


def test_measure_a_matrix(good, run):
    atomo = ["codec", "measure", "--codec", "svd | atomo(s=3)", "--elements", 65536, "--json"]
    vector, matrix = (json.loads(good(*atomo, *rows).out)["ratio"] for rows in ([], ["--rows", 256]))
    assert vector == pytest.approx(1, abs=0.01) and matrix > 20
    job = run(*atomo, "--rows", 3)
    assert job.status == 2 and "--rows 3: 65536 elements are no whole rows" in job.err


def test_measure_several_as_csv(good):
    text = good("codec", "measure", "--codec", "ef | topk(0.01)", "int8", "--input", "generated", "--elements", 10000, "--csv").out
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["codec"].split("(")[0] for row in rows] == ["topk", "int8"]
    keys = ["encode_gbps", "decode_gbps", "memcpy_gbps", "bytes", "relative_error", "elements", "threads"]
    assert all(float(row[key]) > 0 for row in rows for key in keys)
    found = json.loads(good("codec", "measure", "--codec", "ef | topk(0.01)", "int8", "--elements", 10000, "--json").out)
    assert [str(entry["bytes"]) for entry in found] == [row["bytes"] for row in rows]


def test_sweep(good, tmp_path):
    sweep = ["codec", "sweep", "--codec", "qsgd(bits={})", "--values", "1..3", "8", "--elements", 20000, "--csv"]
    rows = list(csv.DictReader(good(*sweep, "--plot", "plot.svg").out.splitlines()))
    assert [row["value"] for row in rows] == ["1", "2", "3", "8"]
    assert [row["codec"].split(",")[0] for row in rows] == ["qsgd(bits=1", "qsgd(bits=2", "qsgd(bits=3", "qsgd(bits=8"]
    errors = [float(row["relative_error"]) for row in rows]
    assert errors == sorted(errors, reverse=True)
    sizes = [int(row["bytes"]) for row in rows]
    assert sizes == sorted(sizes)
    labels = {text.text for text in xml.etree.ElementTree.parse(tmp_path / "plot.svg").iter("{http://www.w3.org/2000/svg}text")}
    assert {"1", "2", "3", "8", "qsgd(bits={})", "relative error"} <= labels
    found = json.loads(good("codec", "sweep", "--codec", "topk({})", "--values", "0.001..0.1/3", "--elements", 20000, "--json").out)
    assert [entry["value"] for entry in found] == ["0.001", "0.01", "0.1"]


@pytest.mark.parametrize("pickle, reason", [
    (b"\x80\x02}r\xff\xff\xff\x7f.", "its pickle of 9 bytes has a memo of 2147483647 entries"),  # 32 GiB of it
    (b"\x80\x02}j\xff\xff\xff\x7f.", "has a memo of 2147483647 entries"),
    (b"\x80\x02X\xff\xff\xff\xffab.", "truncated pickle"),
    (b"\x80\x02}q\x00", "truncated pickle"),
    (b"\x80\x02\xff.", "opcode 0xff"),
])  # fmt: skip
def test_numbers_of_a_pickle_are_not_believed(run, tmp_path, pickle, reason):
    torch = pytest.importorskip("torch")
    torch.save(torch.ones(3), tmp_path / "good.pt")
    with zipfile.ZipFile(tmp_path / "good.pt") as good, zipfile.ZipFile(tmp_path / "bad.pt", "w") as bad:
        for item in good.infolist():
            bad.writestr(item.filename, pickle if item.filename.endswith("data.pkl") else good.read(item))
    job = run("codec", "measure", "--codec", "int8", "--input", "bad.pt")
    assert job.status == 1 and reason in job.err, job.err


def test_a_number_beyond_floats_is_shown(run, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.tensor([1, 1e300], dtype=torch.float64)}, tmp_path / "a.pt")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<2d", 1, 1e300))
    for name in ("a.pt", "a.npy"):
        job = run("codec", "measure", "--codec", "int8", "--input", name)
        assert job.status == 1 and "holds 1e+300, which no float32 can hold" in job.err, job.err


def test_a_long_codec_is_shortened_in_errors(run):
    for codec in ("topk(0.01) | " + "qsgdd" * 20000, "topk(" + "1" * 100000 + "x)", "ef | " * 20000 + "topk(7)"):
        job = run("codec", "measure", "--codec", codec)
        assert job.status == 2 and len(job.err) < 3000, len(job.err)


def test_measure_a_file_of_torch_save(good, run, tmp_path):
    torch = pytest.importorskip("torch")
    values = torch.arange(-200, 200, dtype=torch.float32).view(20, 20)

    def measured(what):
        torch.save(what, tmp_path / "a.pt")
        return json.loads(good("codec", "measure", "--codec", "f16", "--input", "a.pt", "--json").out)

    for what, elements in [(values, 400), (values.t(), 400), (values.half(), 400), (values.double()[3:5], 40),
                           ([values, values[0]], 420), ({"weight": values, "bias": values[1]}, 420),
                           (dict(torch.nn.Linear(3, 4).state_dict()), 16), (torch.nn.Parameter(values), 400)]:  # fmt: skip
        found = measured(what)
        assert found["elements"] == elements and found["relative_error"] < 1e-3
    torch.save(torch.ones(40, 1) @ torch.ones(1, 40), tmp_path / "a.pt")  # its shape is kept: a matrix of rank one
    found = json.loads(good("codec", "measure", "--codec", "svd | topk(count=1)", "--input", "a.pt", "--json").out)
    assert found["relative_error"] < 1e-3 and found["bytes"] < 600

    def refused(reason):
        job = run("codec", "measure", "--codec", "f16", "--input", "a.pt")
        assert job.status == 1 and "a.pt" in job.err and reason in job.err, job.err

    for what, reason in [(values.to(torch.int32), "floats"), ("text", "not a tensor"), ({"a": 3}, "`a`"), ([], "no values"),
                         (values[0].expand(1000, 20), "several times"), (values.to_sparse(), "")]:  # fmt: skip
        torch.save(what, tmp_path / "a.pt")
        refused(reason)
    torch.save(torch.nn.Linear(3, 4).state_dict(), tmp_path / "a.pt")
    refused("dict(model.state_dict())")
    assert "ASSERT" not in run("codec", "measure", "--codec", "f16", "--input", "a.pt").err
    torch.save(values, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    refused("before version 1.6")
    torch.save(torch.zeros(60000), tmp_path / "a.pt")  # below, its storage of 240000 bytes is cut to 16
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content[:16] if name.endswith("data/0") else content)
    refused("does not hold")
    torch.save(Malicious(str(tmp_path / "harm")), tmp_path / "a.pt")
    refused("")
    assert not (tmp_path / "harm").exists()

    torch.save({"weight": values}, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    for size in range(4, len(whole), len(whole) // 4):
        (tmp_path / "a.pt").write_bytes(whole[:size])
        refused("")
    for at in range(0, len(whole), len(whole) // 12):  # a flipped bit is refused or does no harm: no crash, no hang
        (tmp_path / "a.pt").write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert run("codec", "measure", "--codec", "f16", "--input", "a.pt", "--repeats", 1).status in (0, 1)


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_measure_of_what_is_exact(good):
    found = json.loads(good("codec", "measure", "--codec", "none", "--elements", 1000, "--json").out)
    assert found["relative_error"] == 0 and 4000 < found["bytes"] < 4100


def test_measure_one_tensor_of_a_file(good, run, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"fc.weight": torch.ones(8, 1) @ torch.ones(1, 5), "fc.bias": torch.arange(5.0)}, tmp_path / "a.pt")
    measure = ["codec", "measure", "--codec", "svd | topk(count=1)", "--json", "--input", tmp_path / "a.pt", "--tensor"]
    found = json.loads(good(*measure, "fc.weight").out)  # its shape is kept: a matrix of rank one
    assert found["elements"] == 40 and found["relative_error"] < 1e-6
    wrong = run(*measure, "fc.wieght")
    assert wrong.status == 2 and "did you mean `fc.weight`?" in wrong.err
    wrong = run("codec", "measure", "--codec", "none", "--tensor", "fc.bias")
    assert wrong.status == 2 and "--tensor" in wrong.err


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
    assert job.status == 1 and "nan.f32: " in job.err and "values" in job.err
    (tmp_path / "notes.txt").write_text("twenty bytes of text")
    job = run("codec", "measure", "--codec", "qsgd", "--input", "notes.txt")
    assert job.status == 1 and "notes.txt" in job.err and ".f32" in job.err


def test_a_captured_gradient_is_measured_and_advised_upon(good, run, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", 5, "--capture", "every=2,dir=gradients", "--train-dir", "run")
    files = sorted(path.name for path in (tmp_path / "gradients").iterdir())
    assert files == ["gradient-000000.safetensors", "gradient-000002.safetensors", "gradient-000004.safetensors"]
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
