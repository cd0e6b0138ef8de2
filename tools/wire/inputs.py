"""Inputs of the golden messages: layouts and their values."""

import numpy as np

from .floats import f32
from .layout import Layout

LAYOUTS = {
    "small": Layout([("w", 0, (5,))], 5),
    "matrix": Layout([("w", 0, (2, 3))], 6),
    "row": Layout([("w", 0, (96,))], 96),
    "long": Layout([("a", 0, (1500,)), ("b", 1500, (3, 300))], 2400),
    "mixed": Layout([("conv", 0, (2, 2, 2, 3)), ("bias", 32, (1,)), ("scalar", 48, ()), ("fc", 64, (3, 13))], 112),
    "groups": Layout([("w", 0, (700,))], 700),
    "vectors": Layout([("a", 0, (6,)), ("b", 16, (3, 4)), ("c", 32, (9,))], 48),
    "spread": Layout([("a", 0, (20, 17)), ("b", 352, (13, 29))], 736),
    "sparse": Layout([("w", 0, (8, 20000))], 160000),
}


def small(layout):
    return np.array([1, -2, 0.5, 0, -0.25], dtype=f32)


def matrix(layout):
    return np.array([1, -2, 0.5, 0, -0.25, 3], dtype=f32)


def mixed(layout):
    """Values of many magnitudes, some equal, with both zeros and a spike; padding is zero."""
    out = np.zeros(layout.size, dtype=f32)
    state = 12345
    for number, lo, hi, _ in layout.pieces(0, layout.size):
        for i in range(lo, hi):
            state = (state * 1103515245 + 12345) % 2**31
            out[i] = f32((state / 2**30 - 1) * 10.0 ** (state % 5 - 3))
    out[3], out[4], out[5], out[6], out[70], out[80] = 0.0, -0.0, out[2], -out[2], 40.0, -40.0
    return out


def extreme(layout):
    """Values far above and below the range of half precision, and denormals."""
    out = mixed(layout)
    out[0:4] = [f32(1e30), f32(-1e30), f32(3.4028235e38), f32(70000)]
    out[32] = f32(1e-45)
    out[48] = f32(-3e-42)
    out[64:68] = [f32(1e-9), f32(-2e-9), f32(3e-7), f32(-1e-12)]
    out[68:103] = out[68:103] * f32(1e-9)
    return out


def few_large(layout):
    """A few elements far above the others."""
    out = mixed(layout)
    out[64:103] = out[64:103] * f32(1e-6)
    out[64:103:9] = f32(3)
    return out


def vectors(layout):
    out = mixed(LAYOUTS["mixed"])[: layout.size]
    out[6:16] = out[28:32] = out[41:48] = 0
    out[32:41] = [3, -0.5, 0.25, 0, 8, 0.125, -2, 1, 7]
    return out


def sparse(layout):
    """Five values far apart; the gap before the last one does not fit into 16 bits."""
    out = np.zeros(layout.size, dtype=f32)
    out[[20000, 50000, 50001, 80000, 150001]] = [1, -2, 0.25, 4, -0.5]
    return out


def zeros(layout):
    return np.zeros(layout.size, dtype=f32)


def row(layout):
    """Mostly zeros."""
    out = zeros(layout)
    out[::8], out[5] = 1, -0.5
    return out


def bells(layout):
    """Sums of a few random numbers: larger magnitudes are rarer."""
    out, state = zeros(layout), 99
    for i in range(layout.size):
        total = 0
        for _ in range(4):
            state = (state * 1103515245 + 12345) % 2**31
            total += state / 2**31 - 0.5
        out[i] = f32(total**3)
    return out


def signs(layout):
    """Values of one magnitude, some of them negative."""
    out = zeros(layout)
    for _, lo, hi, _ in layout.pieces(0, layout.size):
        out[lo:hi] = [f32(-1 if i % 5 == 2 else 1) for i in range(hi - lo)]
    return out


INPUTS = {
    "row": row, "long": bells, "small": small, "matrix": matrix, "mixed": mixed, "groups": mixed, "vectors": vectors,
    "spread": mixed, "sparse": sparse,
}  # fmt: skip
