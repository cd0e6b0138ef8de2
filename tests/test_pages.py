"""Links between the pages of the repository lead somewhere, and each stage, aggregator and algorithm has its page."""

import re
import subprocess
import sys

import pytest

from documents import PAGES, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import docs_hook

STAGE = re.compile(r'entry<\w+>\(\s*"(\w+)"')
AGGREGATOR = re.compile(r'make_\w+>\(\s*"(\w+)"')
ALGORITHM = re.compile(r'\{(?:\.name = )?"(\w+)",')


def anchors(page):
    """The anchors that GitHub, and our site, make of the headings of a page."""
    return {docs_hook.slug(heading) for heading in re.findall(r"^#+ (.+)$", docs_hook.FENCED.sub("", page.read_text()), re.MULTILINE)}


def broken_links(page):
    for target in docs_hook.links(page.read_text()):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = (page.parent / path).resolve() if path else page
        if not there.is_file():
            yield f"{target}: there is no such file"
        elif anchor and anchor not in anchors(there):
            yield f"{target}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert list(broken_links(page)) == []


def test_broken_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[x](#a-b-c) [y](#d) [z](e.md) [m](..) `[f](g.md)` [h](https://i)\n```\n[j](k.md)\n```\n![l](m.svg)\n")
    assert [link.split(":")[0] for link in broken_links(page)] == ["#d", "e.md", "..", "m.svg"]


def pages_of(folder):
    return {page.stem for page in (ROOT / "docs" / folder).glob("*.md")} - {"README"}


@pytest.mark.parametrize("folder", ["wire", "algorithms"])
def test_the_index_has_each_page(folder):
    index = (ROOT / "docs" / folder / "README.md").read_text()
    assert {page for page in pages_of(folder) if f"({page}.md)" not in index} == set()


def test_each_stage_has_its_page_and_its_example():
    stages = set(STAGE.findall((ROOT / "sotto" / "codec" / "stages.cc").read_text()))
    assert len(stages) > 30
    assert pages_of("wire") - stages == {"selections", "codes"}
    for stage in stages:
        assert f"<!-- golden small-{stage} -->\n" in (ROOT / "docs" / "wire" / f"{stage}.md").read_text(), stage


@pytest.mark.parametrize(("line", "table"), [(AGGREGATOR, "aggregate"), (ALGORITHM, "algorithm")])
def test_each_aggregator_and_algorithm_stands_in_the_index(line, table):
    names = set(line.findall((ROOT / "sotto" / table / "table.cc").read_text()))
    assert len(names) > 7
    index = (ROOT / "docs" / "algorithms" / "README.md").read_text()
    listed = {name for link in re.findall(r"\[([^\]]*)\]\(\w+\.md\)", index) for name in re.findall(r"`(\w+)", link)}
    assert names - listed == set()


def test_the_picture_is_that_of_the_table():
    job = subprocess.run([sys.executable, ROOT / "bench" / "picture.py", "--check"], capture_output=True, text=True)
    assert job.returncode == 0, job.stderr


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


FILE = re.compile(r"`([a-z]\w*(?:/\w+)+\.(?:cc|h|py))`")
FUNCTION = re.compile(r"`((?:\w+::)?\w+)` \(`([\w/]+\.(?:cc|h))`\)")
ELSEWHERE = {"kernels/X.h", "crt/host_config.h"}  # a placeholder, and a header of the CUDA toolkit


def source_of(name):
    """The file that a page names without its house."""
    return next((path for path in (ROOT / "sotto" / name, ROOT / "app" / name, ROOT / name) if path.exists()), None)


def test_the_design_names_files_and_functions_that_exist():
    pages = ["design", "elastic", "pytorch", "training-internals", "transports"]
    text = "\n".join((ROOT / "docs" / f"{page}.md").read_text() for page in pages)
    files = set(FILE.findall(text)) - ELSEWHERE
    assert len(files) > 20
    assert {name for name in files if not source_of(name)} == set()
    functions = FUNCTION.findall(text)
    assert len(functions) > 10
    names = [(name, file) for path, file in functions for name in path.split("::")]
    assert [name for name, file in names if not re.search(rf"\b{name}\b", source_of(file).read_text())] == []


def test_each_helper_of_tests_is_listed():
    tests = ROOT / "tests"
    listed = set(re.findall(r"`([\w/]+\.(?:h|py))`", (tests / "README.md").read_text()))
    helpers = {str(path.relative_to(tests)) for pattern in ("*/*.h", "*.py", "*/*.py") for path in tests.glob(pattern)
               if not path.name.startswith("test_")}
    assert listed == helpers
