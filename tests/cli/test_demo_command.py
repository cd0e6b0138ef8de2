"""The first command of the README, as users meet it."""

import contextlib
import re
import subprocess
import sys
import time

import pytest

from conftest import TINY, processes, wait_until
from terminal import Terminal

pytestmark = pytest.mark.slow

CODECS = ["none", "qsgd(4) | rans", "power(4)", "ef | topk(0.2) | qsgd(4)"]
LENET = TINY[2:]  # the demo's own model, so that OpenMP has threads in the launcher
QUICK = [*LENET, "--max-steps", "3", "--link", "1gbit"]
CTRL_C = b"\x03"


@contextlib.contextmanager
def busy_loops(count):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def rows(text):
    """The first cells of the rows of the table that a text ends in."""
    lines = re.sub(r"\x1b\[K", "", text).splitlines()
    head = max(i for i, line in enumerate(lines) if line.startswith("codec "))
    return [line.split("  ")[0] for line in lines[head + 1 :] if "  " in line]


def test_a_table(good, tmp_path):
    job = good("demo", *QUICK, "--train-dir", "demo")
    assert rows(job.out) == CODECS
    assert "lenet on `digits`, 3 steps, 4 processes" in job.out and "link of 1gbit" in job.out
    assert len(list((tmp_path / "demo").glob("*/summary.json"))) == 4


@pytest.mark.parametrize("threads", [None, "1", "8"])
def test_beside_other_work(good, threads):
    with busy_loops(6):
        job = good("demo", *QUICK, "--train-dir", "demo", OMP_NUM_THREADS=threads)
    assert rows(job.out) == CODECS


def test_under_nohup(start_other, sotto):
    job = start_other("nohup", sotto, "demo", *QUICK, "--train-dir", "demo").finish()
    job.nothing_left()
    assert job.status == 0 and rows(job.out) == CODECS, job.err


def test_in_a_terminal(sotto, tmp_path):
    screen = Terminal(sotto, "demo", *QUICK, "--train-dir", "demo", cwd=tmp_path, columns=150)
    assert screen.end() == 0 and rows(screen.text) == CODECS, screen.text


@pytest.mark.parametrize("runs", [1, 3])
def test_ctrl_c_prints_the_table_so_far(runs, sotto, tmp_path):
    flags = [*LENET, "--max-steps", "40", "--link", "20mbit", "--train-dir", "demo"]
    screen = Terminal(sotto, "demo", *flags, cwd=tmp_path, columns=150)
    screen.wait_for(f"{runs}/4 {CODECS[runs - 1]}  step 1/")
    screen.press(CTRL_C)
    assert screen.end() == 130, screen.text
    assert rows(screen.text) == CODECS[:runs] and f"interrupted in run {runs} of 4" in screen.text, screen.text
    wait_until(lambda: not processes(screen.process.pid), "the ranks to end")


def test_ctrl_c_at_any_moment_ends_it(sotto, tmp_path):
    """Before the first run, at its start, and between runs."""
    for number, moment in enumerate([0.0, 0.1, 0.3, 0.6, 1.0, 1.6, 2.4, 3.3, 4.5]):
        screen = Terminal(sotto, "demo", *QUICK, "--train-dir", f"demo{number}", cwd=tmp_path, columns=150)
        screen.wait_for("Run folders")
        time.sleep(moment)
        if screen.process.poll() is None:
            screen.press(CTRL_C)
        status = screen.end()
        found = rows(screen.text)
        assert status in (0, 130) and found == CODECS[: len(found)] and found, screen.text
        assert (status == 130) == ("interrupted" in screen.text), screen.text
        wait_until(lambda pid=screen.process.pid: not processes(pid), "the ranks to end")
