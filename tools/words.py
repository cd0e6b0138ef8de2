#!/usr/bin/env python3
"""Counts what makes this project's English hard to read: in pages, comments, help texts and errors.

    python tools/words.py            the counts, and what tests/test_words.py allows
    python tools/words.py --list so  each place of one of them

Pages count without their code blocks. Of sources, comments and texts in quotes count.
"""

import argparse
import dataclasses
import io
import pathlib
import re
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("sotto", "adapters", "app", "python", "docs", "tests", "bench", "examples", "launch", "tools")
# Each with its name, and the most that there may be: what there was. A few are right where they stand.
PHRASES = {
    "that of": (r"\b(that|those) of\b", 71),
    "beside": (r"\bbeside\b", 18),
    "anew": (r"\banew\b", 10),
    "behind": (r"\bbehind\b", 22),
    "own": (r"\bof (one's|its|their|his) own\b", 22),
    "goes on": (r"\b(goes|go|going|went) on\b", 3),
    "what is": (r"\bwhat is \w+ (of|from)\b", 4),
    "so": (r"(?:^|[.;:!?] )So (?!that\b)", 29),
}
LONG_PARAGRAPH, LONG_SENTENCE = 700, 35
LENGTHS = {"paragraphs": 0, "sentences": 18}  # longer than that many characters, or words


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph of a page, or a comment or text in quotes of a source."""

    path: pathlib.Path
    line: int
    words: str
    prose: bool  # of a page, where lengths count


def of_page(path):
    """Paragraphs, items of lists, and rows of tables."""
    found, begin, fenced = [], None, False

    def end():
        nonlocal begin
        if begin is not None:
            found.append(Text(path, begin + 1, " ".join(line.strip() for line in lines[begin:i]), not lines[begin].startswith("|")))
        begin = None

    lines = path.read_text().splitlines()
    for i, line in enumerate(lines):
        fence = line.lstrip().startswith("```")
        if fence or fenced or not line.strip() or line.startswith(("    ", "#", "<!--")):
            end()
            fenced ^= fence
            continue
        if begin is not None and re.match(r"\s*([-*|]|\d+\.) ?", line):
            end()
        begin = i if begin is None else begin
    i = len(lines)
    end()
    return found


CPP = re.compile(r'//(?P<comment>[^\n]*)|R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\'', re.S)


def of_cpp(path):
    """Comments on consecutive lines are one text, and so are literals that the compiler joins."""
    source, parts = path.read_text(), []  # [kind, line, end, words]
    for match in CPP.finditer(source):
        kind = "comment" if match["comment"] is not None else "text"
        words = next((match[name] for name in ("comment", "raw", "text") if match[name] is not None), None)
        if words is None or "#include" in source[source.rfind("\n", 0, match.start()) + 1 : match.start()]:
            continue
        if parts and parts[-1][0] == kind and not source[parts[-1][2] : match.start()].strip():
            gap = source[parts[-1][2] : match.start()].count("\n")
            if kind == "text" or gap == 1:
                parts[-1][2], parts[-1][3] = match.end(), parts[-1][3] + ("" if kind == "text" else " ") + words.strip(" " * (kind == "comment"))
                continue
        parts.append([kind, source.count("\n", 0, match.start()) + 1, match.end(), words.strip() if kind == "comment" else words])
    return [Text(path, line, words, False) for _, line, _, words in parts]


def of_python(path):
    found, last = [], None
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            if last is not None and last == token.start[0] - 1:
                found[-1] = dataclasses.replace(found[-1], words=f"{found[-1].words} {token.string[1:].strip()}")
            else:
                found.append(Text(path, token.start[0], token.string[1:].strip(), False))
            last = token.start[0]
        elif token.type == tokenize.STRING:
            found.append(Text(path, token.start[0], token.string, False))
    return found


READERS = {".md": of_page, ".cc": of_cpp, ".cpp": of_cpp, ".h": of_cpp, ".py": of_python}


def texts(root=ROOT):
    paths = [root / "README.md", root / "CONTRIBUTING.md", *(path for folder in FOLDERS for path in sorted((root / folder).rglob("*")))]
    return [text for path in paths if path.suffix in READERS and path.is_file() and path != pathlib.Path(__file__).resolve()
            for text in READERS[path.suffix](path)]  # fmt: skip


def sentences(words):
    return re.split(r"(?<=[.!?]) (?=[A-Z`*])", words)


def places(all_texts):
    """{name of a phrase or length: [(text, what was found)]}"""
    found = {name: [] for name in (*PHRASES, *LENGTHS)}
    for text in all_texts:
        for name, (pattern, _) in PHRASES.items():
            found[name] += [(text, text.words[max(match.start() - 40, 0) : match.end() + 40]) for match in re.finditer(pattern, text.words)]
        if text.prose:
            if len(text.words) > LONG_PARAGRAPH:
                found["paragraphs"].append((text, text.words[:80]))
            found["sentences"] += [(text, one[:80]) for one in sentences(text.words) if len(one.split()) > LONG_SENTENCE]
    return found


def most(name):
    return PHRASES[name][1] if name in PHRASES else LENGTHS[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="NAME", choices=[*PHRASES, *LENGTHS], help="print the places of this one")
    options = parser.parse_args()
    found = places(texts())
    if options.list:
        for text, words in found[options.list]:
            print(f"{text.path.relative_to(ROOT)}:{text.line}: {words.strip()}")
        return
    for name, here in found.items():
        print(f"{name:<12}{len(here):6}{most(name):6}")


if __name__ == "__main__":
    main()
