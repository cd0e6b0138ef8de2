"""Single-precision floats: their bits, and the sum that does not depend on who adds them."""

import struct

import numpy as np

f32 = np.float32


def lanes(terms):
    """The sum of doubles in chunks of 65536, each in 16 lanes that are folded by halves."""
    terms = list(terms)
    return sum((chunk_sum(terms[i : i + 65536]) for i in range(0, len(terms), 65536)), 0.0)


def chunk_sum(terms):
    lane = [0.0] * 16
    for i, term in enumerate(terms):
        lane[i % 16] += float(term)
    for half in (8, 4, 2, 1):
        for i in range(half):
            lane[i] += lane[i + half]
    return lane[0]


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def float_of(bits):
    return f32(struct.unpack("<f", struct.pack("<I", bits))[0])
