"""The site that ./dev docs builds: its navigation, what tools/docs_hook.py does to pages, and the whole where mkdocs is."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import pytest

from documents import PAGES, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import docs_hook

MKDOCS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "sotto" / "venv-docs"
PARTS = ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "docs", "launch", "examples", "tools")


def nav():
    """The places of the pages that mkdocs.yml names, in order, and what is in its folders."""
    lines = re.search(r"^nav:\n((?: .*\n)+)", (ROOT / "mkdocs.yml").read_text(), re.M)[1].splitlines()
    named = [place[1] for line in lines if (place := re.search(r"(\S+(?:\.md|/))$", line))]
    return docs_hook.expanded(named, docs_hook.places(), set(named))


def test_the_navigation_has_each_page_once():
    assert sorted(nav()) == sorted(docs_hook.places())
    assert {ROOT / docs_hook.source(place) for place in nav()} == set(PAGES)


def test_the_navigation_follows_the_table_of_the_readme():
    rows = re.findall(r"^\| (\[.*?) \|", (ROOT / "README.md").read_text().partition("\n## More\n")[2], re.M)
    table = [docs_hook.linked(link, "README.md") for row in rows for link in docs_hook.links(row)]
    assert len(table) > 10
    assert [file for file in map(docs_hook.source, nav()) if file in table] == table


def test_a_folder_stands_for_pages_that_are_not_named():
    pages = ["a.md", "f/a.md", "f/README.md", "f/b.md", "g/c.md"]
    assert docs_hook.expanded([{"A": "a.md"}, {"F": ["f/b.md", "f/"]}, {"G": "g/"}], pages, {"a.md", "f/b.md"}) == [
        {"A": "a.md"}, {"F": ["f/b.md", "f/README.md", "f/a.md"]}, {"G": ["g/c.md"]}]


@pytest.mark.parametrize(("page", "target", "there"), [
    ("README.md", "docs/wire/README.md#codes", "wire/README.md#codes"),
    ("README.md", "CONTRIBUTING.md", "CONTRIBUTING.md"),
    ("launch/slurm/README.md", "../../docs/training.md#tasks", "../../training.md#tasks"),
    ("training.md", "../examples/ray_tune.py", "examples/ray_tune.py"),
    ("wire/topk.md", "../../README.md", "../README.md"),
    ("wire/topk.md", "../algorithms/memories.md#velocity", "../algorithms/memories.md#velocity"),
    ("python.md", "#which-codec", "#which-codec"),
    ("python.md", "https://example.org/a.md", "https://example.org/a.md"),
])  # fmt: skip
def test_links_lead_to_the_places_of_the_site(page, target, there):
    assert docs_hook.in_site(target, page) == there


def test_lists_get_what_python_markdown_wants():
    page = "a:\n- b\n  c\n  1. d\n\n     ```sh\n     - e\n     ```\n  2. f\n- g\n\nh\n\n    - code\n\n| `i \\| j` | k \\| l |\n"
    assert docs_hook.as_python_markdown(page) == (
        "a:\n\n- b\n    c\n    1. d\n\n        ```sh\n        - e\n        ```\n\n    2. f\n- g\n\nh\n\n    - code\n\n| `i | j` | k \\| l |\n")


def test_what_a_page_would_fetch_is_found():
    assert docs_hook.REMOTE.search('<script async src="https://a.b/c.js">')
    assert docs_hook.REMOTE.search('<link rel="stylesheet" href="//a.b/c.css">')
    assert not docs_hook.REMOTE.search('<a href="https://a.b"><img src="../c.png"><script src="assets/d.js">')


def build(folder, site):
    return subprocess.run([MKDOCS / "bin" / "python", "-m", "mkdocs", "build", "--strict", "-d", site], cwd=folder, text=True,
                          capture_output=True, timeout=1800, env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"})


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """What the site is made of, where mkdocs is installed."""
    if not (MKDOCS / ".complete").exists():
        pytest.skip("mkdocs is not installed; ./dev docs installs it")
    folder = tmp_path_factory.mktemp("site")
    for name in PARTS:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, folder / name)
    return folder


def test_the_site_is_whole(copy, tmp_path):
    job = build(copy, tmp_path)
    assert job.returncode == 0, job.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) == len(PAGES) + 1  # and 404.html
    for page in pages:
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', page.read_text()):
            path = urllib.parse.unquote(link.partition("#")[0])
            if not re.match(r"[a-z]+:|/", path):
                assert (page.parent / path).exists(), f"{page.relative_to(tmp_path)}: {link}"


def test_a_dead_link_or_anchor_fails(copy, tmp_path):
    page = copy / "docs" / "security.md"
    page.write_text(page.read_text() + "\n[a](nowhere.md) [b](python.md#nowhere) [c](../sotto/nowhere.cc)\n")
    job = build(copy, tmp_path)
    assert job.returncode != 0
    assert [link for link in ("'nowhere.md'", "'python.md#nowhere'", "'sotto/nowhere.cc'") if link not in job.stderr] == []
