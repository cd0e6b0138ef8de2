"""Runs the tests of a build, several at a time, and writes a JUnit file.

    run_tests.py BUILD JOBS FILE [arguments of CTest that choose tests: -R REGEX, -L LABEL, -I STRIDE]

CTest says which tests there are. Each test of GoogleTest is a separate process. Its program is not started each time,
which takes LibTorch a quarter of a second: a program that runs already (`--serve`, tests/support/main.cc) becomes that
process.
"""

import collections
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET

Outcome = collections.namedtuple("Outcome", "result output")  # passed, skipped, or what went wrong


class Test:
    def __init__(self, listed):
        properties = {one["name"]: one["value"] for one in listed.get("properties", [])}
        self.name = listed["name"]
        self.command = listed.get("command", [])  # none where the program was not built
        self.folder = properties.get("WORKING_DIRECTORY")
        self.environment = os.environ | dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
        self.limit = properties.get("TIMEOUT", 600)
        self.skipped = re.compile("|".join(properties.get("SKIP_REGULAR_EXPRESSION", ["(?!)"])))
        filters = [one for one in self.command if one.startswith("--gtest_filter=")]
        self.asked = filters[0].partition("=")[2] if filters else None
        self.program = [one for one in self.command if one not in filters]


class Runner:
    """Runs one test after the other. Keeps the program of the last one."""

    def __init__(self, log):
        self.log, self.server, self.program = log, None, None

    def end(self):
        if self.server:
            os.killpg(self.server.pid, signal.SIGKILL)
            self.server.communicate()
            self.server = None

    def start(self, command, test, **streams):
        return subprocess.Popen(command, cwd=test.folder, env=test.environment, start_new_session=True, **streams)

    def run(self, test):
        if not test.command:
            return Outcome("it was not built", "")
        try:
            status = self.serve(test) if test.asked else self.start_once(test)
        except OSError as error:
            return Outcome(str(error), "")
        output = self.log.read_text(errors="replace") if self.log.exists() else ""
        if status == 0:
            return Outcome("skipped" if test.skipped.search(output) else "passed", output)
        return Outcome(f"status {status}" if status is not None else f"no end within {test.limit:.0f} s", output)

    def start_once(self, test):
        with open(self.log, "w") as log:
            process = self.start(test.command, test, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            return process.wait(test.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None

    def serve(self, test):
        """The status of the test; None if it took too long."""
        if self.program != (test.program, test.folder) or not self.server:
            self.end()
            self.program = (test.program, test.folder)
            self.server = self.start([*test.program, "--serve"], test, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.log.unlink(missing_ok=True)
        try:
            print(test.asked, self.log, sep="\n", file=self.server.stdin, flush=True)
            told = self.server.stdout.readline() if select.select([self.server.stdout], [], [], test.limit)[0] else None
        except BrokenPipeError:
            told = ""
        if told:
            return int(told)
        self.end()
        return None if told is None else "unknown, as its program ended"


def write_junit(path, outcomes):
    suite = ET.Element("testsuite")
    for name, outcome, seconds in outcomes:
        case = ET.SubElement(suite, "testcase", name=name, time=f"{seconds:.3f}")
        if outcome.result == "skipped":
            ET.SubElement(case, "skipped")
        elif outcome.result != "passed":
            ET.SubElement(case, "failure", message=outcome.result)
    ET.ElementTree(suite).write(path)


def main(build, jobs, file, *choice):
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *choice], stdout=subprocess.PIPE, check=True)
    tests = [Test(one) for one in json.loads(listed.stdout)["tests"]]
    waiting, outcomes, lock = collections.deque(tests), [], threading.Lock()

    def work(log):
        runner = Runner(log)
        while True:
            with lock:
                if not waiting:
                    break
                test = waiting.popleft()
            begin = time.monotonic()
            outcome = runner.run(test)
            with lock:
                outcomes.append((test.name, outcome, time.monotonic() - begin))
                if outcome.result not in ("passed", "skipped"):
                    print(f"FAILED: {test.name}: {outcome.result}\n{outcome.output}", flush=True)
        runner.end()

    with tempfile.TemporaryDirectory() as folder:
        workers = [threading.Thread(target=work, args=(pathlib.Path(folder) / str(i),), daemon=True) for i in range(int(jobs))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(outcomes) == len(tests)
    write_junit(file, outcomes)
    failed = sum(outcome.result not in ("passed", "skipped") for _, outcome, _ in outcomes)
    print(f"{failed} of {len(tests)} tests failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
