"""Public headers: docs/api.md describes each. Only they and the headers that they need are installed, the latter in
sotto/detail. tests/install/test_cpp_blocks.py compiles the example of each with that header alone."""

import re

import pytest

from documents import ROOT
from headers import described_headers, install_headers, public_headers

INCLUDE = re.compile(r'^\s*#\s*include\s+[<"](sotto/[^>"]+)[>"]', re.MULTILINE)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The text of each installed header, by the path that #include names."""
    folder = install_headers(tmp_path_factory.mktemp("include"))
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_page_lists_what_the_build_installs():
    assert sorted(described_headers()) == sorted(public_headers())
    assert len(public_headers()) < 30


def test_each_header_has_a_short_example():
    for header, blocks in described_headers().items():
        assert [block.text.count("\n") <= 3 for block in blocks] == [True], header


def test_what_users_include_lies_outside_detail(installed):
    assert sorted(path for path in installed if not path.startswith("sotto/detail/")) == sorted(public_headers())


def test_exactly_the_needed_headers_are_installed(installed):
    needed, left = set(), public_headers()
    while left:
        header = left.pop()
        if header not in needed:
            needed.add(header)
            left += INCLUDE.findall(installed[header])
    assert needed == set(installed)


def test_the_text_is_that_of_the_source(installed):
    def in_the_sources(text):
        return re.sub(r"\bsotto/(app|adapters)/", r"\1/", text.replace("sotto/detail/", "sotto/"))

    for path, text in installed.items():
        assert in_the_sources(text) == (ROOT / in_the_sources(path)).read_text(), path


def test_a_second_installation_touches_nothing(tmp_path):
    def times():
        return {path: path.stat().st_mtime_ns for path in install_headers(tmp_path).rglob("*.h")}
    assert times() == times()


def test_examples_include_what_users_include():
    for program in [*ROOT.glob("examples/*.cc"), *ROOT.glob("tests/install/*.cc")]:
        assert set(INCLUDE.findall(program.read_text())) <= set(public_headers()), program
