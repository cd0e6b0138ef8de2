#!/usr/bin/env python3
"""Draws the picture of the README: bytes against accuracy of the runs in docs/results/presets.md.

    python bench/picture.py           writes docs/results/presets.svg
    python bench/picture.py --check   fails when that file is another picture

Each point is a row of the first table of that page: one training with a preset. A hollow point has a remark in that table.
"""

import argparse
import html
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results" / "presets.md"
PICTURE = PAGE.with_suffix(".svg")
ROW = re.compile(r"^\| ([\w-]+) \| ([\d.]+) \| ([\d.]+) (KB|MB) \| (.*?) ?\|$", re.MULTILINE)

WIDTH, HEIGHT = 820, 430
LEFT, RIGHT, TOP, BOTTOM = 62, 20, 40, 52
BYTES = (1e4, 4e6)  # the ends of the axes
ACCURACY = (97.4, 99.2)
TICKS = {1e4: "10 KB", 3e4: "30 KB", 1e5: "100 KB", 3e5: "300 KB", 1e6: "1 MB", 3e6: "3 MB"}
CHARACTER, LINE = 6.4, 12  # the largest width of a character, and the height of a line, of labels
INK, GREY, BLUE, RED = "#222222", "#888888", "#0072b2", "#d55e00"


def rows():
    """For each run (preset, accuracy in percent, bytes that a rank sends per step, whether there is a remark)."""
    found = ROW.findall(PAGE.read_text().partition("\n## ")[0])
    return [(name, float(percent), float(size) * {"KB": 1e3, "MB": 1e6}[unit], bool(remark))
            for name, percent, size, unit, remark in found]  # fmt: skip


def x_of(size):
    share = math.log(size / BYTES[0]) / math.log(BYTES[1] / BYTES[0])
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def y_of(percent):
    return HEIGHT - BOTTOM - (percent - ACCURACY[0]) / (ACCURACY[1] - ACCURACY[0]) * (HEIGHT - TOP - BOTTOM)


def meets(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def places(x, y, name):
    """Possible boxes for the label of a point, the best one first."""
    width = CHARACTER * len(name)
    for far in (0, 10, 20, 32, 46):
        for left, top in ((8 + far / 3, -LINE / 2 - far), (8 + far / 3, -LINE / 2 + far), (-width - 8 - far / 3, -LINE / 2 - far),
                          (-width - 8 - far / 3, -LINE / 2 + far), (-width / 2, -LINE - 7 - far), (-width / 2, 7 + far)):  # fmt: skip
            box = (x + left, y + top, x + left + width, y + top + LINE)
            if box[0] > LEFT and box[2] < WIDTH - 4 and box[1] > TOP - 8 and box[3] < HEIGHT - BOTTOM - 2:
                yield box


def label(point, taken):
    return next((box for box in places(*point) if not any(meets(box, other) for other in taken)), next(places(*point)))


def text(x, y, words, anchor="start", colour=INK, size=11):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{html.escape(words)}</text>'


def axes():
    bottom = HEIGHT - BOTTOM
    for size, words in TICKS.items():
        yield f'<line x1="{x_of(size):.1f}" y1="{TOP}" x2="{x_of(size):.1f}" y2="{bottom}" stroke="#e6e6e6"/>'
        yield text(x_of(size), bottom + 16, words, "middle")
    for tenth in range(976, 993, 4):
        y = y_of(tenth / 10)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e6e6e6"/>'
        yield text(LEFT - 6, y + 4, f"{tenth / 10:.1f} %", "end")
    yield text(LEFT, 22, "test accuracy against bytes sent: LeNet on MNIST, four ranks, two epochs, one run each", size=13)
    yield text(WIDTH - RIGHT, HEIGHT - BOTTOM - 8, "dashed: without compression; hollow: with a remark in the table", "end", GREY)
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "bytes that a rank sends in a step", "middle")


def picture():
    points = [(x_of(size), y_of(percent), name, remark) for name, percent, size, remark in rows()]
    dense = next(y for _, y, name, _ in points if name == "none")
    parts = [*axes(), f'<line x1="{LEFT}" y1="{dense:.1f}" x2="{WIDTH - RIGHT}" y2="{dense:.1f}" stroke="{RED}" stroke-dasharray="5 4"/>']
    taken = [(LEFT, dense - 1, WIDTH - RIGHT, dense + 1), *((x - 5, y - 5, x + 5, y + 5) for x, y, _, _ in points)]
    for x, y, name, remark in sorted(points):
        colour = RED if name == "none" else BLUE
        box = label((x, y, name), taken)
        taken.append(box)
        side = ("start", box[0]) if box[0] > x else ("end", box[2]) if box[2] < x else ("middle", (box[0] + box[2]) / 2)
        end = (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3]))
        if math.dist(end, (x, y)) > 12:
            parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{GREY}"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{"white" if remark else colour}" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(text(side[1], box[3] - 3, name, side[0], colour))
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    return "\n".join([frame, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the picture in the file differs")
    drawn = picture()
    if parser.parse_args().check:
        if not PICTURE.exists() or PICTURE.read_text() != drawn:
            sys.exit(f"{PICTURE.relative_to(ROOT)} is not what bench/picture.py draws of {PAGE.relative_to(ROOT)}")
    else:
        PICTURE.write_text(drawn)


if __name__ == "__main__":
    main()
