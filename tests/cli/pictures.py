"""Folders of pictures, as PNG files."""

import struct
import zlib

CLASSES = {"asters": (200, 40, 40), "bluebells": (40, 60, 220), "crocuses": (120, 200, 60)}


def png(width, height, colour):
    """A picture with a gradient, as the specification of PNG has it."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((value + 2 * x + y) % 256 for x in range(width) for value in colour) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_pictures(folder, train=8, test=3):
    """`train` and `test` pictures of each class; each class has its own colour."""
    for split, count in [("train", train), ("val", test)]:
        for name, colour in CLASSES.items():
            (folder / split / name).mkdir(parents=True, exist_ok=True)
            for i in range(count):
                (folder / split / name / f"{i}.png").write_bytes(png(20 + i, 24 + i % 7, colour))
    return folder
