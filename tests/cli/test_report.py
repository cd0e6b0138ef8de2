"""One page of several runs: its numbers agree with their files."""

import csv
import html
import json
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest

from conftest import DEADLINE, TINY, summary, wait_until

pytestmark = pytest.mark.slow

STEPS, EVERY, RANKS, MEASURED = 24, 8, 2, 10
RUNS = {"none-1": ("none", 1), "none-2": ("none", 2), "<script>alert(1)<": ("ef | topk(0.01)", 1)}
TARGET = "accuracy=0.2"


@pytest.fixture(scope="module")
def trained(sotto, tmp_path_factory):
    """A folder with three runs and their page."""
    folder = tmp_path_factory.mktemp("report")

    def program(*arguments):
        job = subprocess.run([sotto, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
        assert job.returncode == 0, job.stderr
        return job.stdout

    for name, (codec, seed) in RUNS.items():
        program("train", *TINY, "--ranks", RANKS, "--max-steps", STEPS, "--eval-freq", EVERY, "--codec", codec, "--seed", seed,
                "--lr", 0.05, "--train-dir", name, *(["--measure-errors", MEASURED] if codec != "none" else []))
    out = program("report", *RUNS, "-o", "page.html", "--target", TARGET)
    assert out.startswith("3 runs in page.html")
    return folder


@pytest.fixture
def copy(trained, tmp_path):
    """The runs, for a test that damages them."""
    for name in RUNS:
        shutil.copytree(trained / name, tmp_path / name, ignore=shutil.ignore_patterns("model_step_*"))
    return tmp_path


def rows(folder, name):
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def page_data(page):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def steps_of(folder):
    """By step: the mean loss over the ranks, seconds and bytes until then."""
    found, seconds, sent = [], [0.0] * RANKS, 0
    table = rows(folder, "steps")
    for step in range(STEPS):
        ranks = [row for row in table if int(row["step"]) == step]
        assert len(ranks) == RANKS
        for row in ranks:
            seconds[int(row["rank"])] += float(row["step_ms"]) / 1e3
        sent += sum(int(row["bytes_sent"]) for row in ranks)
        found.append((step + 1, sum(seconds) / RANKS, sent, sum(float(row["loss"]) for row in ranks) / RANKS))
    return found


def evaluated(folder):
    return [row for row in rows(folder, "evaluations") if row["split"] == "test"]


def test_curves_are_those_of_the_files(trained):
    data = page_data((trained / "page.html").read_text())
    assert [group["name"] for group in data["groups"]] == ["none", "ef | topk(0.01)"]
    plots = {plot["id"]: plot["lines"] for plot in data["plots"]}
    assert list(plots) == ["loss-of-steps", "metric-loss", "metric-accuracy", "metric-top5", "learning-rate"] or "metric-accuracy" in plots
    loss = plots["loss-of-steps"]
    one, other = steps_of(trained / "none-1"), steps_of(trained / "none-2")
    for i in range(STEPS):
        a, b = one[i], other[i]
        for key, at in (("steps", 0), ("seconds", 1), ("bytes", 2), ("mean", 3)):
            assert loss[0][key][i] == pytest.approx((a[at] + b[at]) / 2, rel=1e-6), key
        assert [loss[0]["low"][i], loss[0]["high"][i]] == pytest.approx(sorted([a[3], b[3]]), rel=1e-6)
    alone = steps_of(trained / "<script>alert(1)<")
    assert loss[1]["mean"] == pytest.approx([row[3] for row in alone], rel=1e-6)
    assert loss[1]["bytes"] == [row[2] for row in alone] and "low" not in loss[1]
    accuracy = [line for line in plots["metric-accuracy"] if line["name"] == "test"][1]
    tests = evaluated(trained / "<script>alert(1)<")
    assert accuracy["mean"] == pytest.approx([float(row["accuracy"]) for row in tests], rel=1e-6)
    assert accuracy["steps"] == [int(row["step"]) for row in tests] and len(tests) == STEPS // EVERY
    assert accuracy["bytes"] == [int(row["bytes_sent"]) for row in tests]
    assert plots["learning-rate"][0]["mean"] == [0.05] * STEPS


def test_times_are_means_of_a_rank(trained):
    data = page_data((trained / "page.html").read_text())
    assert [(time["group"], time["rank"]) for time in data["times"]] == [(group, rank) for group in range(2) for rank in range(RANKS)]
    groups = [["none-1", "none-2"], ["<script>alert(1)<"]]
    for time in data["times"]:
        names = groups[time["group"]]
        table = [row for name in names for row in rows(trained / name, "steps") if int(row["rank"]) == time["rank"]]
        for key in ("step", "compute", "wait", "data", "encode", "network", "decode"):
            assert time[key] == pytest.approx(sum(float(row[f"{key}_ms"]) for row in table) / len(table), rel=1e-5, abs=1e-9), key


def tensor_bytes(folder):
    """By tensor: its elements and the mean of its bytes over the measured steps."""
    table, found = rows(folder, "tensor_bytes"), {}
    for row in table:
        found.setdefault(row["tensor"], (int(row["elements"]), []))[1].append(int(row["bytes"]))
    steps = sorted({int(row["step"]) for row in table})
    assert steps == [0, 10, 20] and all(len(sent) == len(steps) for _, sent in found.values())
    for i, (step, whole) in enumerate(zip(steps, rows(folder, "codec_errors"), strict=True)):
        assert sum(sent[i] for _, sent in found.values()) == int(whole["bytes"]) and int(whole["step"]) == step
    return {name: (elements, sum(sent) / len(sent)) for name, (elements, sent) in found.items()}


def test_the_bytes_of_tensors_match_the_messages(trained):
    page = (trained / "page.html").read_text()
    (measured,) = page_data(page)["tensors"]
    wanted = tensor_bytes(trained / "<script>alert(1)<")
    assert measured["group"] == 1 and measured["steps"] == 3 and 'id="tensor-bars"' in page
    assert {row["name"]: (row["elements"], row["bytes"]) for row in measured["rows"]} == {
        name: (elements, pytest.approx(sent, rel=1e-6)) for name, (elements, sent) in wanted.items()}
    assert list(wanted)[-1] == "(together)" and wanted["(together)"][1] >= 32, "a header at least"
    for name, (elements, sent) in list(wanted.items())[:-1]:
        dense = "bias" in name  # the index list leaves out a bias' zeros, and its other values go whole
        assert sent <= 5 * elements + 4 if dense else 4 * -(-elements // 100) < sent < 8 * -(-elements // 100), name


def test_a_damaged_tensor_table_is_named_by_line(copy, run, good):
    path = copy / "<script>alert(1)<" / "tensor_bytes.csv"
    whole = path.read_text()
    path.write_text(whole + "23,cut")  # a crash cut off the last step
    good("report", *RUNS)
    (measured,) = page_data((copy / "report.html").read_text())["tensors"]
    assert measured["steps"] == 3
    path.write_text(whole.replace("\n0,", "\n0,x,", 1))
    job = run("report", path.parent.name)
    assert job.status == 1 and "tensor_bytes.csv:2: it has 5 cells, not 4" in job.err


def first_that_reaches(folder):
    return next((row for row in evaluated(folder) if float(row["accuracy"]) >= float(TARGET.split("=")[1])), None)


def test_the_target(trained):
    data = page_data((trained / "page.html").read_text())["target"]
    assert data["text"] == TARGET
    for row, names in zip(data["rows"], (["none-1", "none-2"], ["<script>alert(1)<"]), strict=True):
        found = [row for row in map(first_that_reaches, [trained / name for name in names]) if row]
        assert row["reached"] == len(found) and row["runs"] == len(names)
        for key, column in (("steps", "step"), ("seconds", "seconds"), ("bytes", "bytes_sent")):
            values = [float(one[column]) for one in found]
            assert not values or row[key] == pytest.approx([sum(values) / len(values), min(values), max(values)], rel=1e-6)


def test_tables_and_text(trained):
    page = (trained / "page.html").read_text()
    assert "<script>alert(1)<" not in page and "&lt;script&gt;alert(1)&lt;" in page
    differences = re.search(r'<table id="differences-table">.*?</table>', page, re.DOTALL)[0]
    assert re.findall(r'<th scope="row">([^<]*)', differences) == ["codec", "seed"]
    table = re.search(r'<table id="runs-table">.*?</table>', page, re.DOTALL)[0]
    best = [100 * max(float(row["accuracy"]) for row in evaluated(trained / name)) for name in RUNS]
    mean, deviation = sum(best[:2]) / 2, abs(best[0] - best[1]) / 2**0.5
    assert re.findall(r'<th scope="row"><i class="chip g\d"></i>([^<]*)', table) == ["none (2 runs)", "ef | topk(0.01)"]
    assert (f"{mean:.2f} % ± {deviation:.2f} %" if deviation > 0 else f"{mean:.2f} %") in table and f"{best[2]:.2f} %" in table
    assert "Nothing that the folders tell of." in page


def test_a_command_repeats_its_run(trained, good, tmp_path):
    page = (trained / "page.html").read_text()
    commands = re.findall(r"<code>(.*?)</code>", page, re.DOTALL)
    words = shlex.split(html.unescape(commands[2]))
    assert words[:2] == ["sotto", "train"] and "--codec=ef | topk(0.01)" in words
    good(*words[1:], "--train-dir", "again")
    assert summary(tmp_path / "again")["parameters_sha256"] == summary(trained / "<script>alert(1)<")["parameters_sha256"]


def test_what_went_wrong_is_told(copy, good, run):
    (copy / "none-1" / "summary.json").unlink()
    steps = (copy / "none-2" / "steps.csv").read_text().splitlines(keepends=True)
    cells = steps[5].split(",")
    cells[3] = "nan"
    (copy / "none-2" / "steps.csv").write_text("".join([*steps[:5], ",".join(cells), *steps[7:]]) + "3,0,1")
    found = summary(copy / "<script>alert(1)<") | {"interrupted_by_signal": 15}
    (copy / "<script>alert(1)<" / "summary.json").write_text(json.dumps(found))
    for name, lost in (("none-2/evaluations.csv", 1), ("<script>alert(1)</tensor_bytes.csv", 1), ("none-1/consensus.csv", 0)):
        (copy / name).write_bytes(((copy / name).read_bytes() if lost else b"step,epoch,seconds,bytes_sent,consensus_distance\n1,1")[:-1])
    shutil.copytree(copy / "none-1", copy / "new")
    (copy / "new" / "steps.csv").write_text(steps[0])
    assert good("report", *RUNS, "new").out.startswith("3 runs in report.html")
    page = (copy / "report.html").read_text()
    for text in ("it has no summary.json: it failed, was killed, or still runs", "the training loss of 1 rows is not finite",
                 "steps.csv lacks 1 rows", "the last line of steps.csv is not complete", "signal 15 (Terminated) ended it after 24 steps",
                 "the last line of evaluations.csv is", "evaluations.csv lacks the test after 24 steps", "the last line of tensor_bytes.csv is",
                 "the last line of consensus.csv is", "<h3>new</h3>\n<ul>\n<li class=\"wrong\">it has made no step, and was left out"):
        assert text in page, text
    assert "Nothing that the folders tell of." not in page
    assert good("report", "none-1", "new", "--like", "sgp").out.startswith("1 run in report.svg (")
    job = run("report", "new")
    assert job.status == 1 and "new/steps.csv: it has no rows: no step was made" in job.err


def test_missing_last_rows_are_reported(copy, good):
    path = copy / "none-1" / "steps.csv"
    lost = [row for row in path.read_text().splitlines(keepends=True) if not row.startswith(("22,1,", "23,1,"))]
    path.write_text("".join(lost))
    good("report", "none-1")
    assert "steps.csv lacks 2 rows; the first is step 22 of rank 1" in (copy / "report.html").read_text()


def test_ranks_may_come_and_go(good, tmp_path):
    flags = ["train", *TINY, "--train-dir", "run"]
    good(*flags, "--max-steps", 4)
    good(*flags, "--ranks", 2, "--max-steps", 8, "--resume")
    good(*flags, "--ranks", 1, "--max-steps", 10, "--resume")
    good(*flags, "--ranks", 2, "--max-steps", 12, "--resume")
    good("report", "run")
    assert "lacks" not in (tmp_path / "report.html").read_text()
    steps = (tmp_path / "run" / "steps.csv").read_text().splitlines(keepends=True)
    at = next(i for i, row in enumerate(steps) if row.startswith("6,1,"))
    (tmp_path / "run" / "steps.csv").write_text("".join(steps[:at] + steps[at + 1 :]))
    good("report", "run", "-o", "other.html")
    assert "steps.csv lacks 1 rows; the first is step 6 of rank 1" in (tmp_path / "other.html").read_text()


@pytest.mark.parametrize(("file", "text", "message"), [
    ("steps.csv", "step,rank\n", "none-1/steps.csv:1: its columns are not `step,rank,epoch,"),
    ("steps.csv", None, "none-1: it holds no training run: there is no steps.csv in it"),
    ("evaluations.csv", "step,epoch,seconds,bytes_sent,split,loss,accuracy,top5\n1,x,1,1,test,1,1,1\n", "none-1/evaluations.csv:2: `x` is no number"),
    ("evaluations.csv", "\x00\x01", "none-1/evaluations.csv:1: its columns are not"),
    ("membership.csv", "no table\n", "none-1/membership.csv:1: its columns are not"),
    ("codec_errors.csv", "step,bytes\n1,2\n", "none-1/codec_errors.csv:1: its columns are not"),
    ("summary.json", "{\n1}", "none-1/summary.json: not the summary of a run: [json.exception.parse_error.101] parse error at line 2"),
    ("summary.json", "[]", "none-1/summary.json: not the summary of a run"),
    ("config.toml", "lr =\n", "none-1/config.toml:1:"),
    ("config.toml", "task = 'nosuch'\n", "nosuch"),
    ("config.toml", None, "none-1: it holds no training run: there is no config.toml in it"),
])  # fmt: skip
def test_damaged_files_are_told_by_name_and_line(copy, run, file, text, message):
    if text is None:
        (copy / "none-1" / file).unlink()
    else:
        (copy / "none-1" / file).write_text(text)
    job = run("report", "none-1")
    assert job.status in (1, 2) and message in job.err and "--config" not in job.err, job.err
    assert not (copy / "report.html").exists()
    job = run("report", "none-2", "none-1")
    assert job.status == 0 and job.out.startswith("1 run in report.html") and "; none-1 cannot be read, and was left out" in job.out, job.err
    assert "sotto: warning: " in job.err and message in job.err, job.err
    assert '<h3>none-1</h3>\n<ul>\n<li class="wrong">it cannot be read, and was left out: ' in (copy / "report.html").read_text()


# Subnormal numbers, large ones, and what is no number.
CELLS = ["4.94e-324", "-2e-310", "1e308", "-1e308", "1e999", "inf", "nan", "18446744073709551615", "-1", "", " 1", "0x1", "1;2", "\x00", "x" * 300]


@pytest.mark.parametrize("name", ["steps", "evaluations", "consensus", "membership", "codec_errors", "tensor_bytes"])
def test_odd_numbers_are_shown_or_named(trained, run, good, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(trained / "<script>alert(1)<", folder, ignore=shutil.ignore_patterns("model_step_*"))
    if name == "consensus":
        (folder / "consensus.csv").write_text("step,epoch,seconds,bytes_sent,consensus_distance,accuracy_0\n8,1,1,1,1,1\n16,1,1,1,1,1\n")
    path = folder / f"{name}.csv"
    head, *lines = path.read_text().splitlines()
    for column, kind in enumerate(head.split(",")):
        for number, cell in enumerate(CELLS):
            cells = lines[0].split(",")
            cells[column] = cell
            path.write_bytes("\n".join([head, ",".join(cells), *lines[1:], ""]).encode())
            if number < 2 or number == 2 + column % (len(CELLS) - 2):  # all of them take long
                job = run("report", "run")
                told = f"run/{name}.csv:" in job.err
                assert job.status == 0 or (job.status == 1 and told and "internal error" not in job.err), (kind, cell, job.err)
            if number == 0 and kind in ("loss", "lr", "step_ms", "accuracy", "consensus_distance", "square_error"):
                assert job.status == 0, (kind, job.err)


def test_what_stands_beside_runs_is_passed_over(copy, good, run):
    """As `report runs/x/*` names it after `sotto tune -o runs/x`."""
    for name in ("tune.json", "report.html", "figures.svg"):
        (copy / name).write_text("{}")
    job = good("report", "none-1", "none-2", "tune.json", "report.html", "figures.svg", "-o", "page.html")
    assert job.err == "" and job.out.startswith("2 runs in page.html") and "left out" not in job.out
    assert run("report", "tune.json", "report.html").status == 1
    (copy / "search").mkdir()
    (copy / "search" / "tune.json").write_text("{}")
    job = run("report", "search")
    assert job.status == 1 and "search: it holds a search; say which of its runs, or search/* for all" in job.err


def test_a_target_of_some_tasks(copy, good, run):
    good("train", "--task", "regress-rows", "--data", "made-rows", "--train-size", 64, "--test-size", 20, "--max-steps", 4, "--eval-freq", 2, "--train-dir", "rows")
    good("report", "none-1", "rows", "--target", TARGET)
    page = (copy / "report.html").read_text()
    assert "the target " + TARGET + " is not for it: its task regress-rows has no accuracy" in page
    assert [row["group"] for row in page_data(page)["target"]["rows"]] == [0]
    job = run("report", "rows", "--target", TARGET)
    assert job.status == 2 and "--target: unknown metric `accuracy`" in job.err, job.err


def test_what_is_no_run_is_refused(copy, run):
    for arguments, message in (([], "run is required"), (["nosuch"], "nosuch: there is no such run folder"), (["none-1", "nosuch"], "nosuch: there is no such run folder"),
                               (["none-1", "./none-1/"], "./none-1/: the run is given twice"),
                               (["none-1", "--target", "bleu=1"], "--target: unknown metric `bleu`"), (["none-1", "--target", "accuracy=2"], "--target accuracy=2"),
                               (["none-1", "-o", "page.svg"], "--out page.svg: use a name that ends in .html"), (["none-1", "--like", "sgp", "-o", "x.html"], "ends in .svg"),
                               (["none-1", "--like", "sgp", "--target", "accuracy=0.5"], "--target: has no effect with --like sgp"),
                               (["none-1", "-o", "a.html/b.html"], "a.html"), (["none-1", "-o", "nosuch/page.html"], "nosuch")):  # fmt: skip
        job = run("report", *arguments)
        assert job.status in (1, 2) and message in job.err, (arguments, job.err)


# --- in a browser --------------------------------------------------------------------------------------------------------


TABLE = """(() => {
  const details = document.querySelector("#plot-loss-of-steps details");
  details.open = true;
  return new Promise(done => setTimeout(() => done([...details.querySelectorAll("tbody tr")].map(
    row => [...row.children].map(cell => cell.textContent))), 50));
})()"""


@pytest.mark.parametrize("width", [400, 1400, 2000])
def test_the_page_in_chromium(trained, browser, tmp_path, width):
    browser.open(trained / "page.html", width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    assert browser.evaluate("document.querySelectorAll('#plots canvas').length") == browser.evaluate("data.plots.length") > 3
    for x in ("seconds", "bytes", "steps"):
        browser.evaluate(f"document.querySelector('input[value={x}]').click()")
        browser.evaluate("document.getElementById('log-x').click()")
        browser.evaluate("document.querySelectorAll('figcaption input').forEach(box => box.click())")
    browser.evaluate("document.getElementById('log-x').click(); document.querySelectorAll('figcaption input').forEach(box => box.click())")
    browser.screenshot(tmp_path / f"page-{width}.png")
    browser.open(trained / "page.html", width, dark=True)
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    browser.screenshot(tmp_path / f"page-{width}-dark.png")
    assert browser.errors == []
    assert {url for url in browser.requests if not url.startswith("data:")} == {(trained / "page.html").as_uri()}


def test_the_table_behind_a_plot(trained, browser):
    browser.open(trained / "page.html", 1000)
    table = browser.evaluate(TABLE)
    alone = [row for row in table if row[0] == "ef | topk(0.01)"]
    for cells, row in zip(alone, steps_of(trained / "<script>alert(1)<"), strict=True):
        assert [float(cell) for cell in cells[1:5]] == pytest.approx(row, rel=1e-5)
    assert len(table) == 2 * STEPS and browser.errors == []


def test_the_bars_of_tensors_and_their_table(trained, browser):
    browser.open(trained / "page.html", 1000)
    wanted = tensor_bytes(trained / "<script>alert(1)<")
    table = browser.evaluate(TABLE.replace("#plot-loss-of-steps", "#bars-tensors-1"))
    assert {cells[0]: float(cells[2]) for cells in table} == {name: pytest.approx(sent, abs=0.06) for name, (_, sent) in wanted.items()}
    assert [cells[1] for cells in table[:-1]] == [str(elements) for elements, _ in wanted.values() if elements > 0]
    total = sum(sent for _, sent in wanted.values())
    for cells, (elements, sent) in zip(table, wanted.values(), strict=True):
        assert cells[3] == "-" if elements == 0 else float(cells[3]) == pytest.approx(4 * elements / sent, rel=1e-4)
        assert float(cells[4]) == pytest.approx(sent / total, rel=1e-4, abs=1e-5)
    drawn = browser.evaluate("[...document.querySelectorAll('#bars-tensors-1 svg g title')].map(title => title.textContent)")
    large = [name for name, (elements, sent) in wanted.items() if elements > 0 and sent >= total / 100]
    assert [text.split(": ")[0] for text in drawn][: len(large)] == large and drawn[-1].startswith("(together): ")
    assert browser.errors == []


def test_keys_and_a_download(trained, browser, tmp_path):
    browser.open(trained / "page.html", 1000)
    browser.evaluate("document.querySelector('#plot-loss-of-steps .host').focus()")
    browser.press("+", "+")
    zoomed = browser.evaluate("(({min, max}) => [min, max])(curves[0].chart.scales.x)")
    assert zoomed[0] > 1 and zoomed[1] < STEPS
    browser.press("ArrowRight")
    assert "steps" in browser.evaluate("document.querySelector('#plot-loss-of-steps .readout').textContent")
    browser.press("0", "0")
    browser.evaluate("new Promise(done => setTimeout(done, 50))")
    assert browser.evaluate("curves[0].chart.scales.x.max") >= STEPS
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "taken"))
    names = browser.evaluate("""[...document.querySelectorAll('button[aria-label^="Download"]')].filter(b => b.offsetParent)
        .filter(button => button.closest('figure').id !== 'plot-metric-top5')  // Chromium saves ten files of a page, and no more
        .map(button => (button.click(), button.closest('figure').id.replace(/^(plot|bars)-/, '')))""")
    assert len(names) > 7
    wait_until(lambda: all((tmp_path / "taken" / f"{name}.svg").exists() for name in names), "the drawings")
    for name in names:
        drawing = xml.parse(tmp_path / "taken" / f"{name}.svg").getroot()
        assert drawing.tag.endswith("svg") and len(list(drawing.iter())) > 5, name
    paths = [path for path in xml.parse(tmp_path / "taken" / "loss-of-steps.svg").iter() if path.get("d", "").count("L") == STEPS - 1]
    assert len(paths) == 2, "a line for each group, through every step"
    assert browser.errors == []
