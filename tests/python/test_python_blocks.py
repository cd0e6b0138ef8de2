"""Runs the Python blocks of the documentation as they are pasted, and finds the pieces of files that other blocks show."""

import re
import textwrap

import pytest
import safetensors.torch
import torch

from documents import ROOT, blocks

RANKS = {"range(4)": 2, "checkpoint.{rank}": 4}  # the number of ranks for blocks with this text; two for all others


@pytest.fixture(scope="module")
def four(start_ranks):
    return start_ranks(4)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """A folder for each page, since a block may load what another block of the page saved."""
    folders = {}
    return lambda page: folders.setdefault(page, tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python(pair, four, folder_of, block):
    ranks = next((count for text, count in RANKS.items() if text in block.text), 2)
    (four if ranks == 4 else pair).values("run_block", text=block.text, where=str(block), folder=str(folder_of(block.page)))


# These wait for others: test_arrays.py and test_elastic_function.py run them.
ELSEWHERE = {"elastic", "init"}


def example_of(package, name):
    """The code in the docstring of a public name."""
    found = re.findall(r"\n\n((?: {8}.*\n)+)", getattr(package, name).__doc__ or "")
    return textwrap.dedent(found[0]) if found else ""


def test_the_example_of_every_public_name(package, pair, tmp_path):
    (tmp_path / "gradients").mkdir()
    safetensors.torch.save_file({"weight": torch.ones(3)}, tmp_path / "gradients" / "gradient-000100.safetensors")
    names = set(package.__all__) - {"__version__", "optim"}
    assert {name for name in names if f"sotto.{name}" not in example_of(package, name)} <= {"Contract", "Ranks", "Stats"}
    for name in sorted(names - ELSEWHERE):
        assert example_of(package, name), name
        pair.values("run_block", text=example_of(package, name), where=name, folder=str(tmp_path))


@pytest.mark.parametrize("block", blocks("diff"), ids=str)
def test_a_diff_is_what_an_example_has(block):
    """The lines of the block follow each other in an example, perhaps with comments after them."""
    wanted = [line[1:] for line in block.text.splitlines()]
    assert any(line.startswith("+") for line in block.text.splitlines())
    for example in (ROOT / "examples").glob("*.py"):
        lines = [re.sub(r"  # .*", "", line) for line in example.read_text().splitlines()]
        if any(lines[i : i + len(wanted)] == wanted for i in range(len(lines))):
            return
    pytest.fail("no example has these lines")
