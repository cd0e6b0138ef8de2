"""Messages as ordered lists of labelled stretches of bytes."""

import struct
import zlib

from .draws import MASK
from .layout import Hash


def body(side, symbols, atoms=None, within=None, seed=None):
    """Flags and stretches of a body. `atoms`, `within`: index lists (code, bytes) or None; `seed`: replaces `atoms`."""
    flags, lists = 0, []
    lengths = [] if seed is None else [("seed", struct.pack("<Q", seed))]
    for name, ordinal, low, high, listed in (("index list", "", 0, 3, atoms), ("second index list", "second ", 2, 4, within)):
        if listed:
            code, data = listed
            flags |= (code & 1) << low | (code >> 1) << high
            lengths.append((f"bytes of the {name}", struct.pack("<I", len(data))))
            lists.insert(0, (ordinal + ("gaps", "bitmap", "gaps in Rice's code", "runs")[code], data))
    return flags, [*lengths, ("side information", side), ("symbols", symbols), *lists]


def bytes_of(stretches):
    return b"".join(data for _, data in stretches)


def zstd_rle(body):
    """A Zstandard frame (RFC 8878) of one run-length block: all bytes of the body must be equal."""
    assert len(set(body)) == 1 and len(body) < 256
    block = 1 | 1 << 1 | len(body) << 3  # last block, of type RLE
    return b"\x28\xb5\x2f\xfd" + bytes([0x20, len(body)]) + struct.pack("<I", block)[:3] + body[:1]


def compressed(flags, stretches, label, code):
    """Flags and stretches of a body after this code compressed it as a whole."""
    body = bytes_of(stretches)
    return flags | 2, [("bytes of the body", struct.pack("<I", len(body))), (label, code(body))]


def message(codec, layout, part, key, flags, stretches):
    """The stretches of the message with this body, the header first. part: (number, begin, end)."""
    body = bytes_of(stretches)
    number, begin, end = part
    contract = Hash().add(codec).add(layout.hash()).add(begin).add(end).value
    header = struct.pack("<HBBHHIHH", 0x6F73, 1, flags, key["generation"], key["rank"], key["step"], key["bucket"], number)
    header += struct.pack("<III", end - begin, len(body), (contract ^ contract >> 32) & MASK)
    header += struct.pack("<I", zlib.crc32(header + body))
    return [("header", header), *((label, data) for label, data in stretches if data)]
