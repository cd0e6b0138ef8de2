"""Sums the results of test runners: the last line printed is "N passed, N failed".

    sum_tests.py NAME STATUS FILE [NAME STATUS FILE ...]

FILE is a JUnit file of tools/run_tests.py or pytest, STATUS what the runner (or the build before it) ended with. A runner that failed
without saying which test did, or left no file, counts as one failed test. Exits with 1 when anything failed.
"""

import sys
import xml.etree.ElementTree as ET


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def count(path):
    """(counts by outcome, names of failed tests)"""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failed = []
    for case in ET.parse(path).getroot().iter("testcase"):
        result = outcome(case)
        counts[result] += 1
        if result == "failed":
            failed.append(case.get("name"))
    return counts, failed


def main(arguments):
    if len(arguments) % 3 != 0:
        sys.exit(__doc__)
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for name, status, path in zip(*[iter(arguments)] * 3):
        try:
            counts, failed = count(path)
        except (OSError, ET.ParseError):
            counts, failed = {}, []
        if not failed and (status != "0" or not counts):
            failed = [f"(ended with status {status} before it named a failed test)"]
            counts["failed"] = 1
        for result, number in counts.items():
            total[result] += number
        for test in failed:
            print(f"FAILED in {name}: {test}")
    line = f"{total['passed']} passed, {total['failed']} failed"
    if total["skipped"]:
        line += f", {total['skipped']} skipped"
    print(line)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
