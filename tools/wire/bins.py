"""Bins of values: the quantiser `quantile`, and the sketch `minmax_sketch` after it."""

import math
import struct

from .draws import mix
from .floats import bits_of, f32
from .quantise import pack_bits


def middle(low, high):
    return low + (high - low) * f32(0.5)


def sampled(values):
    values = [v for v in values if v != 0]
    stride = max(math.ceil(len(values) / 2**15), 1)
    return [values[j * stride + (mix(j) * stride >> 32)] for j in range(len(values) // stride)]


def bins_of_sign(all_values, sample, most):
    """For each bin of one sign: (its least magnitude, the value that it is decoded to)."""
    if not all_values:
        return []
    y, begins = sorted(sample), [0]
    for j in range(1, most):
        r = j * len(y) // most
        while 0 < r < len(y) and y[r] == y[r - 1]:
            r += 1
        if begins[-1] < r < len(y):
            begins.append(r)
    bins = []
    for begin, end in zip(begins, begins[1:] + [len(y)]):
        first, last = begin == 0, end == len(y)
        low = min(all_values) if first else y[begin]
        high = max(all_values) if last else y[end - 1]
        reach = f32(0) if first else middle(y[begin - 1], y[begin])
        if not first and not reach > y[begin - 1]:
            reach = y[begin]
        bins.append((reach, middle(low, high)))
    return bins


def find_bins(values, bins):
    """(the decoded values of all bins, positive ones first; the number of positive bins; the bin of each value)."""
    sample = sampled(values)
    positive, negative = [v for v in values if v > 0], [-v for v in values if v < 0]
    p, m = [v for v in sample if v > 0], [-v for v in sample if v < 0]
    share = (bins - 1) // 2
    if p or m:
        share = (2 * (bins - 1) * len(p) + len(p) + len(m)) // (2 * (len(p) + len(m)))
    if positive and negative:
        share = min(max(share, 1), bins - 2)
    up, down = bins_of_sign(positive, p, share), bins_of_sign(negative, m, bins - 1 - share)

    def number(v):
        own = up if v > 0 else down
        reached = sum(bool(abs(v) >= reach) for reach, _ in own)
        return 0 if v == 0 else reached if v > 0 else len(up) + reached

    return [value for _, value in up] + [-value for _, value in down], len(up), [number(v) for v in values]


def bin_values(found, values, bins):
    """The decoded values of the bins as side information."""
    floats = found + [f32(0)] * (min(len(values), bins - 1) - len(found))
    return b"".join(struct.pack("<f", v) for v in floats)


def quantise_quantile(bins):
    def quantise(values, _):
        found, _, symbols = find_bins(values, bins)
        decoded = [([f32(0)] + found)[s] for s in symbols]
        return bin_values(found, values, bins), pack_bits(symbols, (bins - 1).bit_length()), decoded

    return quantise


MASK64 = 2**64 - 1


def hash64(key, seed):
    z = (seed + (key + 1) * 0x9E3779B97F4A7C15) & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return z ^ z >> 31


def share_of_positive(positive, negative, groups):
    """How many of the groups are for the bins of positive values."""
    bins = positive + negative
    share = (2 * groups * positive + bins) // (2 * bins) if bins else 0
    return min(max(share, 1), groups - 1) if positive and negative else share


def groups_of(first, bins, groups):
    """Divides the bins of one sign, whose numbers begin with `first`, into groups: a list of bin numbers for each."""
    count = min(groups, bins)
    return [list(range(first + g * bins // count, first + (g + 1) * bins // count)) for g in range(count)]


def sketch_block(numbers, first, sign_groups, rows, columns):
    """Sketches a block: `numbers` are the bins of its values, `first` is the number of its first value in the unit.
    Returns (counts of zeros and of each group; the bytes; the bins that a decoder finds; the runs of the bytes)."""
    classes = ([[0]] if 0 in numbers else []) + sign_groups
    class_of = {b: (c, level) for c, bins in enumerate(classes) for level, b in enumerate(bins)}
    cells = []
    for c, bins in enumerate(classes):
        values = sum(class_of[b][0] == c for b in numbers)
        width = math.ceil(values * columns * (1 - 1e-12)) if len(bins) > 1 else 0
        cells.append([[len(bins) - 1] * width for _ in range(rows)])

    def places(j, c):
        for r in range(rows if cells[c][0] else 0):
            half = hash64(first + j, r // 2) >> (32 * (r % 2)) & 0xFFFFFFFF
            yield r, half * len(cells[c][r]) >> 32

    for j, b in enumerate(numbers):
        c, level = class_of[b]
        for r, at in places(j, c):
            cells[c][r][at] = min(cells[c][r][at], level)
    read = []
    for j, b in enumerate(numbers):
        c = class_of[b][0]
        read.append(classes[c][max((cells[c][r][at] for r, at in places(j, c)), default=0)])
    packed = b"".join(
        pack_bits([level for row in of_class for level in row], (len(bins) - 1).bit_length())
        for bins, of_class in zip(classes, cells)
    )
    width = (len(classes) - 1).bit_length()
    symbols = pack_bits([class_of[b][0] for b in numbers], width)
    counts = [sum(b == 0 for b in numbers)] + [sum(b in group for b in numbers) for group in sign_groups]
    runs = [(width, 0, len(numbers))] if width else []
    runs += [((len(bins) - 1).bit_length(), 1, rows * len(of_class[0])) for bins, of_class in zip(classes, cells) if of_class[0]]
    return counts, symbols + packed, read, runs


def quantise_minmax(bins, groups, rows, columns, block=16384):
    def quantise(values, _):
        found, positive, numbers = find_bins(values, bins)
        up = share_of_positive(positive, len(found) - positive, groups)
        sign_groups = groups_of(1, positive, up) + groups_of(1 + positive, len(found) - positive, groups - up)
        side, packed, decoded, runs = bin_values(found, values, bins), b"", [], []
        for begin in range(0, len(values), block):
            counts, symbols, read, its_runs = sketch_block(numbers[begin : begin + block], begin, sign_groups, rows, columns)
            counts += [0] * (groups // 2 * 2 + 2 - len(counts))
            side, packed, runs = side + struct.pack(f"<{len(counts)}H", *counts), packed + symbols, runs + its_runs
            decoded += [([f32(0)] + found)[b] for b in read]
        return side, packed, decoded, runs

    return quantise
