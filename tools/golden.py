#!/usr/bin/env python3
"""Makes golden messages of every codec stage with tools/wire, an independent implementation of docs/wire in Python.

    python tools/golden.py           writes tests/codec/golden/*.hex, the worked examples in docs/wire and its index
    python tools/golden.py --check   derives them again and fails when a file differs

Needs numpy. The tests encode the inputs in these files with the C++ code and compare every byte.
"""

import argparse
import pathlib
import sys

import numpy as np

from wire.cases import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "codec" / "golden"
WIRE = sorted((ROOT / "docs" / "wire").glob("*.md"))
INDEX = ROOT / "docs" / "wire" / "README.md"


def with_examples(document, made):
    """`document` with the code block after each `<!-- golden NAME -->` replaced by the worked example of that case."""
    for case in made:
        mark = f"<!-- golden {case.name} -->\n"
        if mark in document:
            before, rest = document.split(mark)
            if rest.startswith("```\n"):
                rest = rest.partition("\n```\n")[2]
            document = f"{before}{mark}```\n{case.example()}\n```\n{rest}"
    return document


KINDS = {"A transform": "transforms", "A selection.": "[selections](selections.md)", "A quantiser": "quantisers", "A code of": "[codes](codes.md)"}


def index_of(pages):
    """A list of the pages by kind. The paragraph after a page's heading begins with its kind."""
    rows = []
    for start, kind in KINDS.items():
        names = [page.stem for page in pages if page.read_text().split("\n\n")[1].startswith(start)]
        rows.append(f"- {kind}: {', '.join(f'[{name}]({name}.md)' for name in names)}")
    return "\n".join(rows)


def with_index(document, pages):
    before, mark, after = document.partition("<!-- index -->\n")
    _, _, rest = after.partition("\n\n")
    return f"{before}{mark}{index_of(pages)}\n\n{rest}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a file differs")
    check = parser.parse_args().check
    np.seterr(under="ignore")
    made = cases()
    files = {GOLDEN / f"{case.name}.hex": case.text() for case in made}
    files |= {page: with_examples(page.read_text(), made) for page in WIRE}
    files[INDEX] = with_index(files[INDEX], WIRE)
    stale = sorted(set(GOLDEN.glob("*.hex")) - set(files))
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if check:
        for path in wrong + stale:
            print(f"{path.relative_to(ROOT)} is not what tools/golden.py makes", file=sys.stderr)
        return 1 if wrong or stale else 0
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for path in wrong:
        path.write_text(files[path])
    for path in stale:
        path.unlink()
    print(f"{len(wrong)} of {len(files)} files written, {len(stale)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
