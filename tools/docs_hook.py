"""Makes mkdocs read the repository's pages as GitHub does: mkdocs.yml names this file, and `./dev docs` runs it.

- Pages outside docs/ get a place in the site, and so do sources that pages link. Links stay as the repository needs them,
  and each is turned here to the place of its file in the site.
- Lists may be indented by two or three spaces, and need no empty line before them. Code in tables may have `\\|`.
- Headings get the anchors that GitHub gives them.

Tests use the functions above the line without mkdocs.
"""

import logging
import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTSIDE = ("README.md", "CONTRIBUTING.md", "launch/README.md", "launch/slurm/README.md")

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r" *(?:[-*]|\d+\.) +(?=\S)")
REMOTE = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")

log = logging.getLogger("mkdocs.hooks.docs")


def slug(heading, separator="-"):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def links(text):
    """The targets of the links of a page, in order. Code has none."""
    return LINK.findall(re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]()]", "", code[0]), FENCED.sub("", text)))


def source(place):
    """The file of the repository that has this place in the site."""
    return place if place in OUTSIDE else f"docs/{place}"


def linked(target, page):
    """The file of the repository to which a link of the page at this place leads; None for other links."""
    path = target.partition("#")[0]
    if not path or re.match(r"[a-z]+:", path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source(page)), path))


def in_site(target, page):
    """The link that the site needs in place of `target`."""
    file = linked(target, page)
    if file is None:
        return target
    there = posixpath.relpath(file.removeprefix("docs/"), posixpath.dirname(page) or ".")
    return there + "".join(target.partition("#")[1:])


def as_python_markdown(text):
    """The same page for Python-Markdown, which wants four spaces a level of a list, and an empty line before it."""
    lines, levels = [], []  # `levels`: where the texts of the open items begin
    fenced = in_list = paragraphs = False  # `paragraphs`: the last item has more than its first
    for line in text.splitlines():
        indent, words = len(line) - len(line.lstrip()), line.strip()
        item = None if fenced or indent > (levels[-1] if levels else 0) + 3 else ITEM.match(line)
        ends = item or words.startswith(("```", "#", "|", "<!--")) or not lines or not lines[-1]
        while words and ends and not fenced and levels and indent < levels[-1]:
            levels.pop()
        moved = "    " * len(levels) + line[min(levels[-1] if levels else 0, indent) :] if words else ""
        if item:
            if lines and lines[-1] and (paragraphs or not in_list):
                lines.append("")
            levels.append(len(item[0]))
            paragraphs = False
        fenced ^= words.startswith("```")
        paragraphs |= fenced or not words
        in_list = bool(levels) if words else in_list
        if words.startswith("|") and not fenced:
            moved = re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), moved)
        lines.append(moved)
    return "\n".join(lines) + "\n"


def places():
    """The places of all pages."""
    return [*OUTSIDE, *sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))]


def leaves(nav):
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from leaves(value) if isinstance(value, list) else [value]


def expanded(nav, pages, named):
    """The navigation with a folder's pages in place of the folder, without those that are named elsewhere."""
    found = []
    for entry in nav:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(value, list):
            value = expanded(value, pages, named)
        elif value.endswith("/"):
            inside = [page for page in pages if page.startswith(value) and page not in named]
            value = sorted(inside, key=lambda page: (posixpath.basename(page) != "README.md", page))
        if title is not None:
            found.append({title: value})
        else:
            found += value if isinstance(value, list) else [value]
    return found


# --- what mkdocs calls ---------------------------------------------------------------------------------------------------

current = ""  # the place of the page that is being made


def on_config(config):
    from markdown.extensions import Extension
    from markdown.treeprocessors import Treeprocessor

    class Turn(Treeprocessor):
        def run(self, root):
            for tag, name in (("a", "href"), ("img", "src")):
                for element in root.iter(tag):
                    element.set(name, in_site(element.get(name, ""), current))

    class Links(Extension):
        def extendMarkdown(self, md):
            md.treeprocessors.register(Turn(md), "links", 5)  # when there are links, and before mkdocs follows them

    config.markdown_extensions.append(Links())
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    config.nav = expanded(config.nav, places(), set(leaves(config.nav)))
    return config


def on_files(files, config):
    from mkdocs.structure.files import File

    added = {place: place for place in OUTSIDE} | {"docs.css": "tools/docs.css"}
    for page in places():
        for file in filter(None, (linked(target, page) for target in links((ROOT / source(page)).read_text()))):
            if not file.startswith(("../", "docs/")) and (ROOT / file).is_file():
                added[file] = file
    for place, file in added.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / file)))
    return files


def on_page_markdown(markdown, page, config, files):
    global current
    current = page.file.src_uri
    return as_python_markdown(markdown)


def on_post_page(output, page, config):
    for found in REMOTE.findall(output):
        log.warning("%s fetches something from the network: %s", page.file.src_uri, found)
    return output
