"""Single-precision floats: their bits, and the sum that does not depend on who adds them."""

import struct

import numpy as np

f32 = np.float32


def lanes(terms):
    """The sum of doubles in 16 lanes, folded by halves."""
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
