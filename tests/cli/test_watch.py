"""`sotto watch`: a running run is a folder whose lock the test holds, and whose files it writes."""

import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading

import chromium
import pytest

from conftest import DEADLINE, TINY, summary, wait_until
from terminal import Terminal

pytestmark = pytest.mark.slow

STEPS, EVERY, RANKS = 24, 8, 2


@pytest.fixture(scope="module")
def trained(sotto, tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch")
    job = subprocess.run([sotto, "train", *TINY, "--ranks", str(RANKS), "--max-steps", str(STEPS), "--eval-freq", str(EVERY),
                          "--train-dir", "run"], cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
    assert job.returncode == 0, job.stderr
    return folder / "run"


class Folder:
    """A copy of the run in which a process is at work: this one."""

    def __init__(self, whole, path):
        self.path = path
        path.mkdir()
        self.head, *rows = (whole / "steps.csv").read_text().splitlines(keepends=True)
        self.rows = sorted(rows, key=lambda row: [int(cell) for cell in row.split(",")[:2]])
        self.evaluations = (whole / "evaluations.csv").read_text()
        self.summary = (whole / "summary.json").read_text()
        shutil.copy(whole / "config.toml", path)
        self.lock = open(path / ".lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def put(self, name, text):
        """A file that is there whole or not at all, as a run writes it."""
        new = self.path / (name + ".new")
        new.write_text(text)
        new.rename(self.path / name)

    def write(self, rows, end=""):
        self.put("steps.csv", self.head + "".join(self.rows[:rows]) + end)

    def finish(self):
        self.write(len(self.rows))
        self.put("evaluations.csv", self.evaluations)
        self.put("summary.json", self.summary)
        self.lock.close()


@pytest.fixture
def folder(trained, tmp_path):
    made = Folder(trained, tmp_path / "run")
    yield made
    made.lock.close()


def read_until(job, text):
    lines, watchdog = [], threading.Timer(DEADLINE, job.process.kill)
    watchdog.start()
    try:
        while not lines or text not in lines[-1]:
            lines.append(job.process.stdout.readline())
            assert lines[-1], f"it ended without {text}: {lines}"
    finally:
        watchdog.cancel()
    return lines


def test_a_run_that_has_ended_is_shown_once(trained, good, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    out = good("watch", "run").out
    result = json.loads((trained / "summary.json").read_text())
    assert f"ended after {STEPS} steps: test accuracy {100 * result['test_accuracy']:.2f} %" in out
    assert f"step {STEPS} of {STEPS}" in out and "logreg on digits, none, 2 ranks" in out and "left" not in out
    rows = [line.split(",") for line in (trained / "steps.csv").read_text().splitlines()[1:]]
    losses = [float(row[3]) for row in rows if int(row[0]) == STEPS - 1]
    assert f"loss {sum(losses) / RANKS:.4f}" in out
    table = [line.split() for line in out.splitlines() if re.match(r"\d+ +24 ", line)]
    assert [(int(row[0]), float(row[2])) for row in table] == sorted(
        (int(row[1]), round(float(row[3]), 4)) for row in rows if int(row[0]) == STEPS - 1)
    assert "\x1b" not in out and out.count("training loss") == 1 and re.search("[\u2801-\u28ff]{3}", out), "a curve"
    assert max(map(len, out.splitlines())) <= 100


def test_what_somebody_elses_folder_says_reaches_no_terminal(trained, run, good, tmp_path):
    """Its name, and its options: as printed by `watch` and `report`. Names in UTF-8 stay as they are."""
    name = "gr\u00f6\u00dfe\x1b[31m\nsotto: forged"
    shutil.copytree(trained, tmp_path / name)
    config = tmp_path / name / "config.toml"
    config.write_text(re.sub('(?m)^codec = .*', 'codec = "no\\\\u001b[2Jne"', config.read_text()))
    job = run("watch", name)
    assert "\x1b" not in job.out + job.err and "gr\u00f6\u00dfe\\x1b[31m\\nsotto: forged: logreg on digits, no\\x1b[2Jne, 2 ranks" in job.out, job.out + job.err
    job = good("report", name, trained)
    assert "\x1b" not in job.out + job.err and "\nsotto: forged" not in job.out + job.err, job.out + job.err


def test_ranks_that_have_left_do_not_count(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", 6, "--train-dir", "run")
    again = good("train", *TINY, "--ranks", 1, "--max-steps", 9, "--train-dir", "run", "--resume").out
    assert "sent a rank since step 6 (" in again
    out = good("watch", "run").out
    (last,) = [line.split(",") for line in (tmp_path / "run" / "steps.csv").read_text().splitlines() if line.startswith("8,")]
    assert f"loss {float(last[3]):.4f}" in out and "0 B sent a rank and step" in out
    assert [line.split()[:2] for line in out.splitlines() if re.match(r"\d+ +\d+ +\d\.", line)] == [["0", "9"]]


def test_servers_compute_no_examples(good):
    good("train", *TINY, "--ranks", 2, "--max-steps", 4, "--algorithm", "parameter_server(dedicated=true)", "--train-dir", "run")
    steps, examples = re.search(r"([\d.]+) steps/s, (\d+) examples/s", good("watch", "run").out).groups()
    assert float(examples) / float(steps) == pytest.approx(8, rel=0.05)


def test_a_run_whose_models_diverged_is_shown(run, good, tmp_path):
    job = run("train", "--task", "language", "--model", "gpt-mini(layers=1, context=16)", "--batch-size", 2, "--ranks", 2,
              "--optimiser", "sgd", "--lr", 1e30, "--algorithm", "d_psgd", "--max-steps", 1, "--train-size", 20000,
              "--test-size", 2000, "--train-dir", "run")  # fmt: skip
    assert job.status == 1 and summary(tmp_path / "run")["rank_loss"] == [None, None], job.err
    good("report", "run")
    assert "it diverged: its last test is far worse than guessing" in (tmp_path / "report.html").read_text()
    job = run("watch", "run")
    assert job.status == 1 and "it diverged" in job.out, job.err


def test_ranks_at_their_own_speed(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", 8, "--algorithm", "ad_psgd", "--train-dir", "run")
    head, *rows = [line.split(",") for line in (tmp_path / "run" / "steps.csv").read_text().splitlines()]
    cells = [[str(step), rank, *rows[0][2:]] for step, rank in ((0, "0"), (1, "0"), (2, "0"), (0, "1"))]
    for row in cells:
        row[head.index("step_ms")] = "10" if row[1] == "0" else "1000"
    (tmp_path / "run" / "steps.csv").write_text("".join(",".join(row) + "\n" for row in [head, *cells]))
    end = tmp_path / "run" / "summary.json"  # a rank that was slow may have made no third step
    end.write_text(json.dumps(json.loads(end.read_text()) | {"rank_steps": [8, 8]}))
    out = good("watch", "run").out
    assert "\nstep 2 of 8  " in out, "four steps of two ranks"
    assert "\n50.5 steps/s, 808 examples/s; " in out, "100 and 1 steps of a rank, each of 8 examples"


def test_a_training_is_followed_to_its_end(start, tmp_path):
    training = start("train", *TINY, "--ranks", 2, "--epochs", 20, "--max-steps", 400, "--eval-freq", 100, "--train-dir", "run")
    job = start("watch", "run", "--poll", 0.1, "--wait", DEADLINE).finish()
    assert training.finish().status == 0, training.err
    assert job.status == 0 and "\x1b" not in job.out, job.err
    if not re.search(r"^run: logreg", job.out, re.M):  # drawn whole: the training had ended before it saw a step
        assert [int(step) for step in re.findall(r"^test after (\d+) steps", job.out, re.M)] == [100, 200, 300, 400]
        assert re.search(r"^step \d+ of 400  epoch \d", job.out, re.M)
    assert re.search(r"^ended after 400 steps: test accuracy", job.out, re.M)


def test_lines_on_a_pipe(folder, start):
    folder.write(0)
    job = start("watch", "run", "--poll", 0.1)
    assert read_until(job, "no step")[0] == "run: no step has been made yet\n"
    folder.write(8, end=folder.rows[8][:-9])  # a row that is being written
    line = read_until(job, "step 4 of 24")[-1]
    assert re.fullmatch(r"step 4 of 24  epoch 0.\d\d of 3  loss \d\.\d{4}  [\d.]+ ms a step  [\d.]+ KB sent a rank and step  \d+ s left\n", line)
    folder.write(16)
    read_until(job, "step 8 of 24")
    folder.finish()
    job.finish()
    assert job.status == 0 and "\x1b" not in job.out
    assert [int(step) for step in re.findall(r"^test after (\d+) steps", job.out, re.M)] == [8, 16, 24]
    assert f"ended after {STEPS} steps" in job.out.splitlines()[-1]


def test_a_run_that_was_killed(folder, run):
    folder.write(20, end="10,0,0.1")
    folder.lock.close()
    job = run("watch", "run")
    assert job.status == 1 and "stopped without a result after 10 steps: it failed or was killed" in job.out
    (folder.path / "summary.json").write_text(folder.summary.replace('"steps": 24', '"steps": 8'))  # of its first start
    job = run("watch", "run")
    assert job.status == 1 and "stopped without a result after 10 steps" in job.out


def test_what_is_no_run_and_what_is_damaged(folder, run, tmp_path):
    (tmp_path / "empty").mkdir()
    folder.write(4, end="x" + ",0" * 14 + "\n")
    for arguments, message in ((["nosuch"], "nosuch: there is no such run folder"), (["empty"], "empty: no training run has made a step"),
                               (["nosuch", "--wait", "0.2"], "nosuch: there is no such run folder"), ([], "run is required"),
                               (["run"], "run/steps.csv:6: `x` is no number of the column step"),
                               (["run", "--serve", "8080"], "--serve 8080: must be HOST:PORT"), (["run", "--poll", "0"], "--poll 0")):  # fmt: skip
        job = run("watch", *arguments)
        assert job.status in (1, 2) and message in job.err, (arguments, job.err)


def test_a_folder_that_comes_later(folder, start, tmp_path):
    job = start("watch", "later", "--wait", DEADLINE, "--poll", 0.1)
    folder.finish()
    os.rename(folder.path, tmp_path / "later")
    assert job.finish().status == 0 and f"ended after {STEPS} steps" in job.out


def test_a_terminal_is_drawn_over(folder, sotto, tmp_path):
    folder.write(8)
    screen = Terminal(sotto, "watch", "run", "--poll", "0.1", cwd=tmp_path)
    screen.wait_for("step 4 of 24")
    folder.write(16)
    screen.wait_for("step 8 of 24")
    os.kill(screen.process.pid, signal.SIGINT)
    assert screen.end() == 128 + signal.SIGINT
    drawings = re.split(r"\r\x1b\[(\d+)A\x1b\[J", screen.text)
    assert len(drawings) >= 3
    for drawing, lines in zip(drawings[::2], drawings[1::2]):
        assert drawing.count("\n") == int(lines) <= 30, "each drawing begins where the last one began"
    assert max(len(line) for drawing in drawings[::2] for line in drawing.splitlines()) <= 60


def test_an_ordinary_terminal_has_room_for_all_ranks(trained, sotto):
    screen = Terminal(sotto, "watch", "run", cwd=trained.parent, columns=80, lines=24)
    assert screen.end() == 0 and "training loss" in screen.text
    assert re.findall(rf"^(\d+) +{STEPS} +\d\.", screen.text, re.M) == ["0", "1"] and screen.text.count("\n") <= 23


# --- the page ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(folder, start):
    """The port of a page, which is served until the end of the test."""
    folder.write(8)
    job = start("watch", "run", "--serve", "127.0.0.1:0", "--poll", 0.1)
    line = read_until(job, "the page is at")[-1]
    port = int(re.fullmatch(r"the page is at http://127\.0\.0\.1:(\d+)/\n", line)[1])
    yield port
    job.process.send_signal(signal.SIGINT)
    assert job.finish().status == 128 + signal.SIGINT, job.err


def ask(port, method="GET", path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def points(page):
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])
    return data["plots"][0]["lines"][0]["points"]


def test_the_page_is_made_anew_when_asked_for(folder, served):
    status, page = ask(served)
    assert status == 200 and points(page) == 4 and '<p id="state" role="status" data-goes-on>running' in page
    folder.write(16)
    assert points(ask(served)[1]) == 8
    (folder.path / "steps.csv").unlink()
    status, page = ask(served)
    assert status == 200 and "No step has been made yet." in page
    folder.write(2, end="x,0\n")
    status, text = ask(served)
    assert status == 500 and "run/steps.csv:4:" in text
    folder.finish()
    page = ask(served)[1]
    assert points(page) == STEPS and f'<p id="state" role="status">ended after {STEPS} steps' in page


def test_what_the_server_refuses(served):
    assert ask(served, path="/etc/passwd")[0] == 404
    assert ask(served, method="POST")[0] == 405
    assert ask(served, Host="evil.example")[0] == 421
    assert ask(served, Cookie="x" * 10000)[0] == 431
    assert ask(served, method="HEAD") == (200, "")
    for request, status in ((b"\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/9\r\nHost: localhost\r\n\r\n", 505),
                            (b"\xff\x00 / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400), (b"x" * 100000, 431)):
        with socket.create_connection(("127.0.0.1", served), timeout=DEADLINE) as connection:
            connection.sendall(request)
            assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 %d " % status), request[:40]
    with socket.create_connection(("127.0.0.1", served)) as connection:
        connection.sendall(b"GET / HTTP")  # and leaves
    assert ask(served)[0] == 200


def test_a_port_that_is_taken(served, run):
    job = run("watch", "run", "--serve", f"127.0.0.1:{served}")
    assert job.status == 2 and f"--serve: cannot listen at 127.0.0.1:{served}" in job.err


def test_the_page_follows_the_run_in_chromium(folder, served, tmp_path):
    if chromium.missing():
        pytest.skip(chromium.missing())
    browser = chromium.Chromium(tmp_path)
    try:
        browser.open(f"http://127.0.0.1:{served}/", 1000)
        assert browser.evaluate("data.plots[0].lines[0].points") == 4
        browser.evaluate("document.querySelector('input[value=seconds]').click()")
        folder.write(16)
        wait_until(lambda: browser.evaluate("curves[0].lines[0].steps.length") == 8, "the new steps")
        assert browser.evaluate("state.x") == "seconds", "what was chosen stays"
        folder.finish()
        wait_until(lambda: browser.evaluate("document.getElementById('state').textContent").startswith("ended"), "the end")
        assert browser.evaluate("curves[0].lines[0].steps.length") == STEPS
        assert browser.evaluate("document.querySelectorAll('#plots canvas').length") == browser.evaluate("data.plots.length") > 3
        assert browser.evaluate("document.querySelectorAll('#times > figure').length") == 1
        assert browser.errors == []
    finally:
        browser.close()
