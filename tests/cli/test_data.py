"""sotto data and sotto eval."""

import http.server
import os
import re
import signal
import threading

import pytest

from conftest import TINY, wait_until


class Slow(http.server.BaseHTTPRequestHandler):
    """Sends a little of a file, then nothing until the test is over."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "9912422")
        self.end_headers()
        self.wfile.write(b"x" * 1000)
        self.wfile.flush()
        self.server.over.wait()


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.asked, server.over = [], threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def test_list(good):
    names = [line.split()[0] for line in good("data", "list").out.splitlines()[1:]]
    assert {"digits", "mnist", "cifar10"} <= set(names)


def test_get_stops_on_a_signal(start, server):
    job = start("data", "get", "mnist", "--data-dir", "mnist", "--url", f"http://127.0.0.1:{server.server_port}")
    wait_until(lambda: server.asked, "a request")
    os.kill(job.process.pid, signal.SIGINT)
    job.finish()
    assert job.status == 130, job.err
    assert "goes on from here" in job.err


def test_get_from_nowhere(run):
    job = run("data", "get", "mnist", "--data-dir", "mnist", "--url", "http://127.0.0.1:9")
    assert job.status == 1 and "127.0.0.1" in job.err


def test_show(good, tmp_path):
    good("data", "show", "digits", "--count", 10, "--out", "sheet.pgm")
    content = (tmp_path / "sheet.pgm").read_bytes()
    assert content.startswith(b"P5\n112 84\n255\n")
    pixels = content.split(b"255\n", 1)[1]
    assert len(pixels) == 112 * 84 and max(pixels) == 255 and min(pixels) == 0


LINE = re.compile(r"step (\d+)  loss \d+\.\d{4}  Prec@1 (\d+\.\d\d)  Prec@5 (\d+\.\d\d)")


def test_eval_agrees_with_the_run(good):
    said = good("train", *TINY, "--ranks", 2, "--max-steps", 6, "--checkpoint-every", 2, "--train-dir", "run").err
    lines = good("eval", "--model-dir", "run", "--test-size", 100).out.splitlines()
    assert [int(LINE.fullmatch(line)[1]) for line in lines] == [2, 4, 6]
    last = LINE.fullmatch(lines[-1])
    assert f"Prec@1 {last[2]}  Prec@5 {last[3]}" in said


def test_eval_follows(start, good, tmp_path):
    (tmp_path / "run").mkdir()
    follower = start("eval", "--model-dir", "run", "--follow", "--poll", 0.1, "--test-size", 50)
    good("train", *TINY, "--max-steps", 4, "--checkpoint-every", 2, "--train-dir", "run")
    lines = [follower.process.stdout.readline() for _ in range(2)]
    assert [int(LINE.fullmatch(line.strip())[1]) for line in lines] == [2, 4]
    os.kill(follower.process.pid, signal.SIGINT)
    assert follower.finish().status == 130


def test_eval_of_a_damaged_checkpoint(good, run, tmp_path):
    good("train", *TINY, "--max-steps", 2, "--train-dir", "run")
    path = tmp_path / "run" / "model_step_2" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    job = run("eval", "--model-dir", "run")
    assert job.status == 1 and "model_step_2" in job.err


def test_eval_of_nothing(run, tmp_path):
    (tmp_path / "empty").mkdir()
    job = run("eval", "--model-dir", "empty")
    assert job.status == 2 and "--follow" in job.err
