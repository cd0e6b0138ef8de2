"""Lists of indices."""

import struct


def packed(symbols, width):
    """Symbols of `width` bits each, least significant first, as whole bytes."""
    stream = sum(symbol << i * width for i, symbol in enumerate(symbols))
    return stream.to_bytes((len(symbols) * width + 7) // 8, "little")


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def rice(gaps):
    """Rice's code, with the number of remainder bits that makes it shortest."""
    shift = min(range(32), key=lambda k: (len(gaps) * (k + 1) + sum(gap >> k for gap in gaps), k))
    remainders = packed([gap & (1 << shift) - 1 for gap in gaps], shift)
    quotients, at = 0, 0
    for gap in gaps:
        at += gap >> shift
        quotients |= 1 << at
        at += 1
    return struct.pack("<BI", shift, len(gaps)) + remainders + quotients.to_bytes((at + 7) // 8, "little")


def runs(gaps):
    words = []
    for gap in gaps:
        words += [65535] * (gap // 65535) + [gap % 65535]
    return struct.pack(f"<{len(words)}H", *words)


def index_list(indices, atoms):
    """(code, bytes) of the shortest form; of equally short ones the first of gaps, bitmap, runs, Rice's code."""
    gaps = [i - before - 1 for before, i in zip([-1, *indices], indices)]
    forms = [
        (0, b"".join(varint(gap) for gap in gaps)),
        (1, sum(1 << i for i in indices).to_bytes((atoms + 7) // 8, "little")),
        (3, runs(gaps)),
    ]
    if gaps:
        forms.append((2, rice(gaps)))
    return min(forms, key=lambda form: len(form[1]))
