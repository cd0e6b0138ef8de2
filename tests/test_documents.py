"""A test runs every code block of the documentation (tests/documents.py), or the reason why not is written down."""

import subprocess

from documents import NOT_RUN, PAGES, ROOT, RUN, blocks, blocks_of


def test_every_block_is_run_or_named():
    unknown = [f"{block} ({block.language or 'no language'}): {block.text.splitlines()[0]}" for block in blocks()
               if block.language not in RUN and block.reason() is None]
    assert not unknown, "say in which language they are, or name them in tests/documents.py:\n" + "\n".join(unknown)


def test_every_reason_is_that_of_a_block():
    for page, reasons in NOT_RUN.items():
        texts = [block.text for block in blocks_of(ROOT / page) if block.language not in RUN]
        for start in reasons:
            assert sum(text.startswith(start) for text in texts) == 1, f"{page}: {start}"


def test_blocks_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr("documents.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("text\n    no block\n\n    a\n\n      b\n\n1. list\n   ```sh\n   c \\\n     d\n   ```\n\n<!-- golden x -->\n```\ne\n```\n")
    found = [(block.line, block.language, block.text, block.golden) for block in blocks_of(page)]
    assert found == [(4, "", "a\n\n  b\n", False), (10, "sh", "c \\\n  d\n", False), (16, "", "e\n", True)]
    assert len(PAGES) > 8


def test_diffs_of_contributing_apply(root):
    diffs = [block.text for block in blocks_of(root / "CONTRIBUTING.md") if block.language == "udiff"]
    assert [diff.count("+++ b/") for diff in diffs] == [1, 2, 2]
    for diff in diffs:
        subprocess.run(["git", "apply", "--check", "-"], cwd=root, input=diff + "\n", text=True, check=True)
