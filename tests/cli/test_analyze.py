"""`sotto analyze`: its numbers agree with numpy."""

import csv
import json
import os
import re
import signal
import struct
import subprocess

import numpy as np
import pytest

from conftest import DEADLINE
from terminal import Terminal

pytestmark = pytest.mark.slow

SHAPES = {"conv.weight": (6, 3, 2, 2), "fc.weight": (20, 30), "fc.bias": (20,)}
STEPS, RANKS = (0, 10, 20), (0, 1, 2)
CODECS = ["topk(0.1)", "qsgd(bits=4)", "f16"]


def write(path, tensors):
    """A file of safetensors."""
    header, at = {"__metadata__": {"step": "0"}}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(values.tobytes() for values in tensors.values()))


def made(kind, step, rank):
    random = np.random.default_rng([step, rank, len(kind)])
    tensors = {name: random.standard_t(4, shape).astype(np.float32) * (1 + step) for name, shape in SHAPES.items()}
    if kind == "memory":
        for values in tensors.values():
            values[np.abs(values) > 1 + step] = 0
    return tensors


@pytest.fixture(scope="module")
def analysed(sotto, tmp_path_factory):
    """A folder with captures, tables and a page; and what the program printed."""
    folder = tmp_path_factory.mktemp("analyze")
    (folder / "seen").mkdir()
    for step in STEPS:
        for rank in RANKS:
            for kind in ("gradient", "memory"):
                write(folder / "seen" / f"{kind}-{step:06d}-r{rank}.safetensors", made(kind, step, rank))
    arguments = ["analyze", "seen", "--csv", "tables", "-o", "page.html", "--repeats", "1", "--codec", *CODECS, "topk({})",
                 "--values", "0.2", "0.4", "--merge", "4", "64"]  # fmt: skip
    job = subprocess.run([sotto, *arguments], cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
    assert job.returncode == 0, job.stderr
    (folder / "printed").write_text(job.stdout)
    return folder


def rows(folder, name):
    with open(folder / "tables" / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def flat(tensors):
    return np.concatenate([values.ravel() for values in tensors.values()])


def of_row(row):
    tensors = made(row["kind"], int(row["step"]), int(row["rank"]))
    return (flat(tensors) if row["tensor"] == "(all)" else tensors[row["tensor"]]).astype(np.float64)


def histogram(x):
    most = np.abs(x).max()
    return np.histogram(x, bins=64, range=(-most, most))[0]


def test_statistics_are_those_of_numpy(analysed):
    table = rows(analysed, "tensors")
    assert len(table) == 2 * len(STEPS) * len(RANKS) * (len(SHAPES) + 1)
    for row in table:
        x = of_row(row).ravel()
        central, share = x - x.mean(), histogram(x) / x.size
        top = np.sort(x**2)[::-1][: max(1, x.size // 100)].sum() / (x**2).sum()
        wanted = {"elements": x.size, "mean": x.mean(), "deviation": x.std(), "skewness": (central**3).mean() / x.std() ** 3,
                  "kurtosis": (central**4).mean() / x.var() ** 2, "min": x.min(), "max": x.max(), "l1": np.abs(x).sum(),
                  "l2": np.linalg.norm(x), "zeros": (x == 0).mean(), "top_percent": top,
                  "hoyer": (np.sqrt(x.size) - np.abs(x).sum() / np.linalg.norm(x)) / (np.sqrt(x.size) - 1),
                  "entropy_bits": -(share[share > 0] * np.log2(share[share > 0])).sum()}  # fmt: skip
        for name, value in wanted.items():
            assert float(row[name]) == pytest.approx(value, rel=1e-6, abs=1e-9), (row["tensor"], name)
        if row["kind"] == "memory":
            gradient = of_row(row | {"kind": "gradient"}).ravel()
            assert float(row["beside_gradient"]) == pytest.approx(np.linalg.norm(x) / np.linalg.norm(gradient), rel=1e-6)
            cosine = x @ gradient / np.linalg.norm(x) / np.linalg.norm(gradient)
            assert float(row["cosine_to_gradient"]) == pytest.approx(cosine, rel=1e-6, abs=1e-9)


def test_histograms_and_singular_values_are_those_of_numpy(analysed):
    for row in rows(analysed, "histograms"):
        x = of_row(row).ravel()
        assert [int(count) for count in row["counts"].split()] == histogram(x).tolist()
        assert float(row["high"]) == pytest.approx(np.abs(x).max()) == -float(row["low"])
    table = {(row["kind"], row["step"], row["rank"], row["tensor"]): row for row in rows(analysed, "tensors")}
    spectra = rows(analysed, "spectra")
    assert len(spectra) == 2 * len(STEPS) * len(RANKS) * len(SHAPES)
    for row in spectra:
        x = of_row(row)
        matrix = x.reshape(len(x), -1) if x.ndim > 1 else x.reshape(1, -1)
        values = np.linalg.svd(matrix, compute_uv=False)
        assert [float(value) for value in row["singular_values"].split()] == pytest.approx(values.tolist(), rel=1e-5)
        other = table[row["kind"], row["step"], row["rank"], row["tensor"]]
        norm = np.linalg.norm(x)
        assert int(other["rank90"]) == int(np.argmax(np.cumsum(values**2) >= 0.9 * norm**2)) + 1
        assert float(other["nuclear"]) == pytest.approx(values.sum(), rel=1e-5)
        assert float(other["weight_svd"]) == pytest.approx(np.sqrt(sum(matrix.shape)) * values.sum() / norm, rel=1e-5)
        assert float(other["weight_entries"]) == pytest.approx(np.abs(x).sum() / norm, rel=1e-5)


def test_cosines_between_ranks_are_those_of_numpy(analysed):
    table = rows(analysed, "ranks")
    assert len(table) == len(STEPS) * (len(SHAPES) + 1)
    for row in table:
        units = [of_row(row | {"kind": "gradient", "rank": rank}).ravel() for rank in RANKS]
        units = [unit / np.linalg.norm(unit) for unit in units]
        cosines = [units[a] @ units[b] for a in range(len(units)) for b in range(a)]
        assert float(row["cosine"]) == pytest.approx(np.mean(cosines), rel=1e-5, abs=1e-8) and row["ranks"] == "3"


def test_errors_of_codecs_are_those_of_numpy(analysed):
    table = rows(analysed, "codecs")
    assert [row["value"] for row in table if row["step"] == "0" and row["rank"] == "0"] == ["", "", "", "0.2", "0.4"]
    assert len(table) == 5 * len(STEPS) * len(RANKS)
    half = [row for row in table if row["codec"].startswith("f16")]
    for row in half:
        x = of_row(row | {"kind": "gradient", "tensor": "(all)"})
        y = x.astype(np.float32).astype(np.float16).astype(np.float64)
        relative, big = np.abs(x - y) / np.abs(x), np.abs(x) > np.percentile(np.abs(x), 95)
        assert float(row["square_error"]) == pytest.approx(((x - y) ** 2).sum() / (x**2).sum(), rel=1e-6)
        assert float(row["cosine"]) == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y), rel=1e-8)
        assert float(row["wasserstein1"]) == pytest.approx(np.abs(np.sort(x) - np.sort(y)).mean(), rel=1e-6)
        for name, chosen in {"positive_big": (x > 0) & big, "positive_small": (x > 0) & ~big, "negative_big": (x < 0) & big,
                             "negative_small": (x < 0) & ~big}.items():  # fmt: skip
            assert float(row[f"{name}_mean"]) == pytest.approx(relative[chosen].mean(), rel=1e-6)
            assert float(row[f"{name}_max"]) == pytest.approx(relative[chosen].max(), rel=1e-6)
        assert int(row["bytes"]) < 4 * x.size and float(row["ratio"]) > 1
        assert all(float(row[rate]) > 0 for rate in ("encode_gbps", "decode_gbps", "memcpy_gbps"))
    swept = [np.mean([float(row["square_error"]) for row in table if row["value"] == value]) for value in ("0.2", "0.4")]
    assert swept[0] > swept[1] > 0, "what more is sent of has less error"
    merges = rows(analysed, "merges")
    assert [row["messages"] for row in merges] == ["4", "64"] * 5 and all(float(row["seconds"]) > 0 for row in merges)
    assert all(float(row["error"]) > 0 for row in merges if "topk" in row["codec"])


def test_what_is_printed(analysed, sotto, good, tmp_path):
    printed = (analysed / "printed").read_text()
    for text in ("Steps: all tensors", "fc.weight", "6x3x2x2", "(all)", "Codecs: means", "qsgd(bits=4", "Merges: messages"):
        assert text in printed
    good("analyze", analysed / "seen", "--csv", tmp_path / "again")
    for name in ("tensors", "ranks", "histograms", "spectra"):
        assert (tmp_path / "again" / f"{name}.csv").read_bytes() == (analysed / "tables" / f"{name}.csv").read_bytes()
    assert not (tmp_path / "again" / "codecs.csv").exists()
    with subprocess.Popen([sotto, "analyze", analysed / "seen", "--no-spectra"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        job.stdout.close()
        assert job.stderr.read().decode().startswith("file 1 of 18") and job.wait(timeout=DEADLINE) == -signal.SIGPIPE, "as `| head -1`"
    quick = good("analyze", analysed / "seen", "--no-spectra", "--csv", tmp_path / "quick").out
    assert "fc.weight" in quick and (tmp_path / "quick" / "spectra.csv").read_text().count("\n") == 1


def test_captures_of_a_run_are_analysed(good, tmp_path):
    good("train", *"--model logreg --train-size 128 --test-size 20 --batch-size 8 --ranks 2 --max-steps 3 --train-dir run".split(),
         "--codec", "ef | topk(0.1)", "--capture", "every=1,dir=seen,ranks=all,memory=true")
    good("analyze", "seen", "--csv", "tables")
    table = rows(tmp_path, "tensors")
    assert {(row["kind"], row["step"], row["rank"]) for row in table} == {
        (kind, str(step), str(rank)) for kind in ("gradient", "memory") for step in range(3) for rank in range(2)}
    held = [float(row["beside_gradient"]) for row in table if row["kind"] == "memory" and row["tensor"] == "(all)" and row["rank"] == "0"]
    assert 0 < held[0] < 1, "a part of the first gradient"


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "dir is required"),
    (["nosuch"], "nosuch: "),
    (["."], "no captured gradients"),
    (["seen", "-o", "page.txt"], "--out page.txt: use a name that ends in .html"),
    (["seen", "--merge", "4"], "--merge: say whose messages"),
    (["seen", "--codec", "f16", "--merge", "0"], "--merge"),
    (["seen", "--codec", "nosuch"], "nosuch"),
    (["seen", "--codec", "power(rank=1)"], "makes no messages"),
    (["seen", "--codec", "topk({})"], "say which values"),
    (["seen", "--codec", "f16", "--values", "1"], "--values"),
    (["damaged"], "damaged/gradient-000000.safetensors"),
    (["nan"], "nan/gradient-000000.safetensors: b holds nan"),
    (["unlike"], "unlike/gradient-000001.safetensors: holds other tensors"),
    (["twice"], "twice/gradient-000000.npy: is of the same step and rank as twice/gradient-000000.safetensors"),
    (["runs"], "runs/gradient-000000-r0.safetensors: is of the same step as runs/gradient-000000.safetensors, whose name has no rank"),
])  # fmt: skip
def test_what_cannot_be_analysed_is_told(run, tmp_path, arguments, message):
    for folder in ("seen", "damaged", "nan", "unlike"):
        (tmp_path / folder).mkdir()
        values = np.array([1, np.nan if folder == "nan" else 2], np.float32)
        write(tmp_path / folder / "gradient-000000.safetensors", {"b": values})
    with open(tmp_path / "damaged" / "gradient-000000.safetensors", "ab") as file:
        file.truncate(60)
    write(tmp_path / "unlike" / "gradient-000001.safetensors", {"b": np.ones(3, np.float32)})
    (tmp_path / "twice").mkdir()
    np.save(tmp_path / "twice" / "gradient-000000.npy", values)
    write(tmp_path / "twice" / "gradient-000000.safetensors", {"values": values})
    (tmp_path / "runs").mkdir()
    for rank in ["", "-r0", "-r1"]:
        write(tmp_path / "runs" / f"gradient-000000{rank}.safetensors", {"b": np.ones(2, np.float32)})
    job = run("analyze", *arguments)
    assert job.status in (1, 2) and message in job.err, job.err


@pytest.mark.parametrize("folder", ["file", "file/tables"])
def test_an_impossible_folder_is_refused_first(run, tmp_path, folder):
    (tmp_path / "seen").mkdir()
    (tmp_path / "file").write_text("")
    write(tmp_path / "seen" / "gradient-000000.safetensors", {"b": np.ones(2, np.float32)})
    job = run("analyze", "seen", "--csv", folder)
    assert job.status == 1 and "file is a file" in job.err and job.out == "", job.err


def test_results_are_printed_despite_an_unwritable_page(run, tmp_path):
    (tmp_path / "seen").mkdir()
    write(tmp_path / "seen" / "gradient-000000.safetensors", {"b": np.ones(2, np.float32)})
    job = run("analyze", "seen", "-o", "missing/x.html")
    assert job.status == 1 and "missing/x.html" in job.err and "(all)" in job.out


def test_progress_on_a_terminal_that_ctrl_c_ends(sotto, tmp_path):
    (tmp_path / "seen").mkdir()
    write(tmp_path / "seen" / "gradient-000000.safetensors", {"w": np.random.default_rng(1).random((512, 512), np.float32)})
    for step in range(1, 1000):  # minutes of work
        os.link(tmp_path / "seen" / "gradient-000000.safetensors", tmp_path / "seen" / f"gradient-{step:06d}.safetensors")
    screen = Terminal(sotto, "analyze", "seen", "--csv", "tables", "-o", "page.html", cwd=tmp_path)
    screen.wait_for("\rfile 2 of 1000: w\x1b[K")
    os.kill(screen.process.pid, signal.SIGINT)
    assert screen.end() == -signal.SIGINT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen"]


def test_one_file_may_be_given(analysed, good, run, tmp_path):
    name = "gradient-000010-r1.safetensors"
    text = good("analyze", analysed / "seen" / name, "--codec", "topk(0.1)", "--csv", "tables", "--repeats", 1).out
    (row,) = rows(tmp_path, "codecs")
    assert (row["step"], row["rank"]) == ("10", "1")
    # A relative error is a ratio of norms, as `sotto codec measure` has it.
    (line,) = [line for line in text.splitlines() if line.startswith("topk(ratio=0.1")]
    heads = next(line for line in text.splitlines() if line.startswith("codec "))
    assert heads.index("relative error") < heads.index("cosine") and f"{float(row['square_error']) ** 0.5:.4g}" in line
    measured = json.loads(good("codec", "measure", "--codec", "topk(0.1)", "--input", analysed / "seen" / name, "--json").out)
    assert measured["relative_error"] == pytest.approx(float(row["square_error"]) ** 0.5, rel=1e-5)
    (tmp_path / "mine.npy").write_bytes(b"")
    job = run("analyze", "mine.npy")
    assert job.status == 2 and "mine.npy: not the name of a captured gradient, such as gradient-000100.safetensors" in job.err


# --- the page ------------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_numbers_of_the_tables(analysed):
    page = (analysed / "page.html").read_text()
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])
    names = [group["name"] for group in data["groups"]]
    assert names[:4] == ["(all)", *SHAPES] and len(names) == 4 + 5
    plots = {plot["id"]: plot for plot in data["plots"]}
    assert {"norms", "entropy", "histogram", "spectrum", "rank-cosine", "memory-beside", "codec-errors", "merges"} <= set(plots)
    table = rows(analysed, "tensors")
    for line in plots["norms"]["lines"]:
        assert line["x"] == list(STEPS)
        for at, step in enumerate(STEPS):
            values = [float(row["l2"]) for row in table if row["kind"] == line["name"] and int(row["step"]) == step and
                      row["tensor"] == names[line["group"]]]  # fmt: skip
            assert len(values) == len(RANKS)
            assert [line["low"][at], line["mean"][at], line["high"][at]] == pytest.approx(
                [min(values), np.mean(values), max(values)], rel=1e-6)
    for line in plots["histogram"]["lines"]:
        assert len(line["x"]) == 64 and sum(line["mean"]) == pytest.approx(1)
    for line in plots["spectrum"]["lines"]:
        assert line["mean"][0] == 1 and line["mean"] == sorted(line["mean"], reverse=True)
    for codec in CODECS:
        assert codec.split("(")[0] in re.search(r'<table id="codecs-table">.*?</table>', page, re.DOTALL)[0]


@pytest.mark.parametrize("width", [400, 1400])
def test_the_analysis_in_chromium(analysed, browser, tmp_path, width):
    browser.open(analysed / "page.html", width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    assert browser.evaluate("document.querySelectorAll('#plots canvas').length") == browser.evaluate("data.plots.length") > 8
    browser.evaluate("document.getElementById('log-x').click()")
    browser.evaluate("document.querySelectorAll('figcaption input').forEach(box => box.click())")
    browser.evaluate("document.querySelectorAll('#controls button').forEach(button => button.click())")
    browser.evaluate("document.querySelectorAll('#controls button').forEach(button => button.click())")
    browser.screenshot(tmp_path / f"analysis-{width}.png")
    assert browser.errors == []
    assert {url for url in browser.requests if not url.startswith("data:")} == {(analysed / "page.html").as_uri()}


def test_the_table_behind_an_analysis(analysed, browser):
    browser.open(analysed / "page.html", 1000)
    cells = browser.evaluate("""(() => {
      const details = document.querySelector("#plot-norms details");
      details.open = true;
      return new Promise(done => setTimeout(() => done([...details.querySelectorAll("tr")].map(
        row => [...row.children].map(cell => cell.textContent))), 50));
    })()""")
    assert cells[0] == ["curve", "step", "mean", "lowest", "highest"]
    assert len(cells) == 1 + 2 * 4 * len(STEPS) and cells[1][:2] == ["(all) (gradient)", "0"]
    assert browser.errors == []
