"""tools/run_tests.py loses no test and no failure, and runs those that were asked for."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

# A program that serves, as programs with tests/support/main.cc do.
SERVER = """
import os, sys, time
assert sys.argv[1:] == ["--no-threads", "--serve"]
for line in sys.stdin:
    name, log = line.rstrip("\\n"), sys.stdin.readline().rstrip("\\n")
    open(log, "w").write(f"{name} by {os.getpid()}\\n" + "[  SKIPPED ]" * (name == "Skipped"))
    if name == "Ends":
        sys.exit()
    time.sleep(60 * (name == "Hangs"))
    print(139 if name == "Crashes" else 0, flush=True)
"""
WANTED = {"Good": "passed", "Skipped": "skipped", "Crashes": "status 139", "GoodToo": "passed", "Ends": "status unknown, as its program ended",
          "Hangs": "no end within 2 s", "GoodAgain": "passed", "Alone": "passed", "AloneBad": "status 3", "AloneHangs": "no end within 2 s",
          "Nowhere": "status unknown", "Unbuilt": "it was not built"}  # fmt: skip


@pytest.fixture
def run(root, tmp_path):
    """Runs some tests; returns the status, what was told, and the results by name."""
    (tmp_path / "server.py").write_text(SERVER)
    lines = [f'add_test({name} "{sys.executable}" "{tmp_path}/server.py" "--gtest_filter={name}" "--no-threads")'
             for name in list(WANTED)[:7]]  # fmt: skip
    lines += ["add_test(Alone true)", "add_test(AloneBad sh -c \"echo said; exit 3\")", "add_test(AloneHangs sleep 60)",
              f'add_test(Nowhere env "{tmp_path}/nowhere" "--gtest_filter=A")', "add_test(Unbuilt unbuilt)"]  # fmt: skip
    lines += [f'set_tests_properties({name} PROPERTIES TIMEOUT 2 SKIP_REGULAR_EXPRESSION "SKIPPED" WORKING_DIRECTORY "{tmp_path}")'
              for name in WANTED]  # fmt: skip
    (tmp_path / "CTestTestfile.cmake").write_text("\n".join(lines))

    def run(*choice, jobs=2):
        file = tmp_path / "tests.xml"
        job = subprocess.run([sys.executable, root / "tools" / "run_tests.py", tmp_path, str(jobs), file, *choice],
                             capture_output=True, text=True, timeout=120)  # fmt: skip
        found = {}
        for case in ET.parse(file).getroot().iter("testcase"):
            failure = case.find("failure")
            found[case.get("name")] = failure.get("message") if failure is not None else "passed" if case.find("skipped") is None else "skipped"
        return job.returncode, job.stdout, found

    return run


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_has_its_result(run, jobs):
    status, told, found = run(jobs=jobs)
    assert found.keys() == WANTED.keys()
    for name, result in found.items():
        assert WANTED[name] in result, (name, result)
    assert status == 1 and told.endswith("\n7 of 12 tests failed\n")
    assert "FAILED: AloneBad: status 3\nsaid\n" in told and re.search(r"FAILED: Crashes: status 139\nCrashes by \d+\n", told)


def test_a_choice(run):
    status, told, found = run("-R", "Good", "-I", "1,,4", jobs=1)
    assert (status, told, found) == (0, "0 of 1 tests failed\n", {"Good": "passed"})


def test_a_program_of_tests_serves(build_dir, tmp_path):
    names = ["File.RoundTrip", "NoSuch.Test", "Philox.KnownAnswers"]
    asked = "".join(f"{name}\n{tmp_path}/{i}\n" for i, name in enumerate(names))
    job = subprocess.run([build_dir / "bin" / "core_test", "--serve"], input=asked, capture_output=True, text=True, timeout=60)
    assert (job.returncode, job.stdout) == (0, "0\n1\n0\n")
    assert "[       OK ] File.RoundTrip" in (tmp_path / "0").read_text()
