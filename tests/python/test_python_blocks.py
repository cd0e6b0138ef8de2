"""Blocks of the documentation in Python, as they are pasted; and those that show a piece of a file."""

import pathlib
import re
import subprocess

import pytest

from documents import ROOT, blocks

RANKS = {"range(4)": 2, "checkpoint.{rank}": 4}  # what a block says tells how many ranks run it; else two


@pytest.fixture(scope="module")
def four(start_ranks):
    return start_ranks(4)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """A folder for each page: what one block saves another one loads."""
    folders = {}
    return lambda page: folders.setdefault(page, tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python(pair, four, folder_of, block):
    ranks = next((count for text, count in RANKS.items() if text in block.text), 2)
    (four if ranks == 4 else pair).values("run_block", text=block.text, where=str(block), folder=str(folder_of(block.page)))


@pytest.mark.parametrize("block", blocks("diff"), ids=str)
def test_a_diff_is_what_an_example_has(block):
    """Its lines follow each other in an example, the added ones perhaps with a comment behind them."""
    wanted = [line[1:] for line in block.text.splitlines()]
    assert any(line.startswith("+") for line in block.text.splitlines())
    for example in (ROOT / "examples").glob("*.py"):
        lines = [re.sub(r"  # .*", "", line) for line in example.read_text().splitlines()]
        if any(lines[i : i + len(wanted)] == wanted for i in range(len(lines))):
            return
    pytest.fail("no example has these lines")
