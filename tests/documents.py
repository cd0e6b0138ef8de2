"""Finds the code blocks of the documentation. tests/cli/test_shell_blocks.py runs those in `sh` and `toml`,
tests/python/test_python_blocks.py those in `python` and `diff`, tests/install/test_cpp_blocks.py those in `cpp`, and
tests/test_documents.py those in `udiff`. Any other block is named here, with the test or tool that checks it."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")),
         *sorted((ROOT / "launch").rglob("*.md"))]
RUN = ("sh", "toml", "python", "diff", "udiff", "cpp")

# The beginnings of blocks that are no code, and how each is checked.
NOT_RUN = {
    "README.md": {"qsgd(4) | rans  ": "codecs; tests/cli/test_shell_blocks.py describes each"},
    "docs/algorithms/sparse.md": {"2 (W-1) h + b ((k + d)": "a formula; tests/aggregate/sparse_test.cc counts the bytes"},
    "docs/algorithms/local_steps.md": {"delta = s - x": "a formula; tests/algorithm/local_test.cc follows it"},
    "docs/algorithms/auto.md": {"cost of gather": "a formula; tests/aggregate/auto_test.cc holds the choice to it"},
    "docs/design.md": {"python/          the PyTorch package": "a picture; tests/test_includes.py holds the sources to it"},
    "docs/wire/README.md": {"header  =": "a grammar; tools/wire writes messages by it",
                            "body    =": "a grammar; tools/wire writes messages by it"},
    "docs/wire/codes.md": {"group   =": "a grammar; tools/wire writes messages by it"},
}


@dataclasses.dataclass(frozen=True)
class Block:
    """`language` is the word after the fence ("" without a fence, or without a word). `line` is where `text` begins."""

    page: str
    line: int
    language: str
    text: str
    golden: bool = False  # a message that tools/golden.py --check derives again

    def __str__(self):
        return f"{self.page}:{self.line}"

    def reason(self):
        """The reason why nothing runs this block; None if no reason is written down."""
        if self.golden:
            return "tools/golden.py --check"
        named = NOT_RUN.get(self.page, {})
        return next((named[start] for start in named if self.text.startswith(start)), None)


def blocks_of(page):
    """The blocks of a page, in order: fenced ones, and paragraphs that are indented by four spaces."""
    found, lines, i = [], page.read_text().splitlines(), 0
    name = str(page.relative_to(ROOT))
    while i < len(lines):
        fence = re.fullmatch(r"( *)```(\w*)", lines[i])
        end = i + 1
        if fence:
            while lines[end].strip() != "```":
                end += 1
            text = [line.removeprefix(fence[1]) for line in lines[i + 1 : end]]
            golden = i > 0 and lines[i - 1].startswith("<!-- golden ")
            found.append(Block(name, i + 2, fence[2], "\n".join(text) + "\n", golden))
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip()):
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = [line.removeprefix("    ") for line in lines[i:end]]
            found.append(Block(name, i + 1, "", "\n".join(text).rstrip("\n") + "\n"))
            end -= 1
        else:
            end -= 1
        i = end + 1
    return found


def blocks(*languages):
    """The blocks of all pages in these languages, or all blocks."""
    return [block for page in PAGES for block in blocks_of(page) if not languages or block.language in languages]
