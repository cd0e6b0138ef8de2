"""tools/sum_tests.py must never lose a failure in the sum."""

import subprocess
import sys

import pytest

PASSED = '<testcase name="a"/>'
FAILED = '<testcase name="b"><failure message=""/></testcase>'
ERROR = '<testcase name="c"><error message="in a fixture"/></testcase>'
SKIPPED = '<testcase name="d"><skipped/></testcase>'
PYTEST_SKIPPED = '<testcase name="e"><skipped message="no such device"/></testcase>'


@pytest.mark.parametrize(
    "runners, line, status",
    [
        ([("0", PASSED + PASSED), ("0", PASSED)], "3 passed, 0 failed", 0),
        ([("8", PASSED + FAILED), ("0", PASSED)], "2 passed, 1 failed", 1),
        ([("1", PASSED + ERROR)], "1 passed, 1 failed", 1),
        ([("0", PASSED + SKIPPED + PYTEST_SKIPPED)], "1 passed, 0 failed, 2 skipped", 0),
        ([("139", PASSED)], "1 passed, 1 failed", 1),  # it crashed after its last test
        ([("0", PASSED), ("1", None)], "1 passed, 1 failed", 1),  # it did not build
        ([("0", PASSED), ("0", None)], "1 passed, 1 failed", 1),  # it left nothing
        ([("0", PASSED), ("0", "<not xml")], "1 passed, 1 failed", 1),
        ([("0", PASSED), ("0", "")], "1 passed, 0 failed", 0),  # a program none of whose tests was selected
        ([("0", "")], "0 passed, 0 failed", 1),  # no test of any program was selected
    ],
)
def test_last_line_and_status(root, tmp_path, runners, line, status):
    arguments = []
    for number, (runner_status, cases) in enumerate(runners):
        path = tmp_path / f"{number}.xml"
        if cases is not None:
            path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        arguments += [f"runner {number}", runner_status, str(path)]
    command = [sys.executable, str(root / "tools" / "sum_tests.py"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.stdout.splitlines()[-1], result.returncode) == (line, status)
