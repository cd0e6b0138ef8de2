"""The words that make this project's English hard become no more (tools/words.py)."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tools"))
import words


@pytest.fixture(scope="module")
def found():
    return words.places(words.texts())


@pytest.mark.parametrize("name", [*words.PHRASES, *words.LENGTHS])
def test_there_are_no_more_than_before(found, name):
    here = found[name]
    last = "\n".join(f"{text.path}:{text.line}: {some}" for text, some in here[-5:])
    assert len(here) <= words.most(name), f"see python tools/words.py --list \"{name}\"; five of them:\n{last}"


def test_pages_comments_and_literals_are_read(tmp_path):
    long = "word " * 40
    (tmp_path / "README.md").write_text(f"Ranks go\non. {long}end. So it is.\n\n```sh\nbegin anew\n```\n\n- that of a\n- those of b\n")
    (tmp_path / "CONTRIBUTING.md").write_text("x " * 351)
    (tmp_path / "sotto").mkdir()
    (tmp_path / "sotto" / "a.cc").write_text('#include "beside.h"\n// what is sent\n// of it\nint anew; // x\nf("it goes " "on", R"(of its own)");\n')
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "a.py").write_text("# stands\n# behind\nbeside = 'begin anew'\n")
    found = {name: len(here) for name, here in words.places(words.texts(tmp_path)).items()}
    assert found == {"that of": 2, "beside": 0, "anew": 1, "behind": 1, "own": 1, "goes on": 2, "what is": 1, "so": 1, "paragraphs": 1, "sentences": 2}
