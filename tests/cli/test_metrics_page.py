"""What `sotto train --metrics-port` serves, read by the parser of Prometheus's client."""

import csv
import http.client
import re
import signal
import socket

from prometheus_client.parser import text_string_to_metric_families

from conftest import DEADLINE, TINY, wait_until


def fetch(port, path="/metrics"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.getheader("Content-Type"), answer.read().decode()


def families(port):
    status, kind, text = fetch(port)
    assert status == 200 and kind.startswith("text/plain; version=0.0.4")
    found = list(text_string_to_metric_families(text))
    assert all(family.documentation and family.type in ("counter", "gauge") for family in found)
    return {(sample.name, *sorted(sample.labels.items())): sample.value for family in found for sample in family.samples}


def port_of(job):
    while True:
        line = job.process.stderr.readline()
        assert line, "the run ended"
        if found := re.search(r"metrics for Prometheus are at http://127\.0\.0\.1:(\d+)/metrics", line):
            return int(found[1])


def test_figures_of_a_run(start, tmp_path):
    codec = 'ef | topk(0.1)'
    job = start("train", *TINY, "--ranks", 2, "--epochs", 100000, "--eval-freq", 20, "--codec", codec, "--train-dir", "run",
                "--metrics-port", 0, "--algorithm", "sync")  # fmt: skip
    port = port_of(job)
    wait_until(lambda: ("sotto_metric", ("metric", "accuracy"), ("split", "test")) in families(port), "an evaluation")
    before, after = families(port), families(port)
    info = next(key for key in after if key[0] == "sotto_run_info")
    assert ("codec", codec) in info and ("ranks", "2") in info and after[info] == 1
    for counter in ("sotto_steps_total", "sotto_sent_bytes_total", "sotto_received_bytes_total", "sotto_examples_total"):
        assert 0 < before[counter,] <= after[counter,]
    assert after["sotto_examples_total",] == 8 * after["sotto_steps_total",]
    assert after["sotto_loss",] > 0 and after["sotto_learning_rate",] == 0.01 and after["sotto_step_seconds",] > 0
    assert {key[1][1] for key in after if key[0] == "sotto_phase_seconds"} == {"compute", "data", "wait", "encode", "network", "decode"}
    assert {key[1:] for key in after if key[0] == "sotto_metric"} == {
        (("metric", metric), ("split", split)) for metric in ("accuracy", "loss", "top5") for split in ("test", "train")}
    assert fetch(port, "/")[0] == 404
    job.process.send_signal(signal.SIGINT)
    assert job.finish().status == 128 + signal.SIGINT, job.err
    with open(tmp_path / "run" / "steps.csv") as file:
        row = next(row for row in csv.DictReader(file) if row["rank"] == "0" and int(row["step"]) == 0)
    assert int(row["bytes_sent"]) < before["sotto_sent_bytes_total",]


def test_a_server_reads_no_examples(start):
    job = start("train", *TINY, "--ranks", 2, "--epochs", 100000, "--algorithm", "parameter_server(servers=1, dedicated=true)",
                "--train-dir", "run", "--metrics-port", 0)  # fmt: skip
    port = port_of(job)
    wait_until(lambda: families(port)["sotto_steps_total",] > 2, "some steps")
    assert families(port)["sotto_examples_total",] == 0
    job.process.send_signal(signal.SIGINT)
    assert job.finish().status == 128 + signal.SIGINT, job.err


def test_a_taken_port_fails_before_training(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        job = run("train", *TINY, "--ranks", 2, "--max-steps", 2, "--train-dir", "run", "--metrics-port", port)
    assert job.status == 2 and f"--metrics-port: cannot listen at 127.0.0.1:{port}: Address already in use" in job.err
    assert not (tmp_path / "run").exists()
    job = run("train", *TINY, "--max-steps", 2, "--metrics-port", 70000)
    assert job.status == 2 and "--metrics-port 70000" in job.err
