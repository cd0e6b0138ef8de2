"""The quantiser `clusters`: c clusters on each side of zero, decoded from tables of means or from centres."""

import math
import struct

from .draws import QUANTISE, Stream
from .floats import f32
from .hash import hash64, place_of
from .quantise import pack_bits

CHUNK = 65536


def single(x):
    return float(f32(x))


def k_means(numbers, count, draw, first):
    """The centres of `count` clusters of the ascending `numbers`."""
    if not numbers:
        return [0.0] * count
    centres = [numbers[draw(first) * len(numbers) >> 32]]
    while len(centres) < count:
        squares = [min((x - c) * (x - c) for c in centres) for x in numbers]
        total = 0.0
        for s in squares:
            total += s
        if total == 0:
            break
        target, reached, far = draw(first + len(centres)) / 2**32 * total, 0.0, 0
        for i, s in enumerate(squares):
            if s == 0:
                continue
            reached, far = reached + s, i
            if reached > target:
                break
        centres.append(numbers[far])
    centres.sort()
    for _ in range(20):
        before = list(centres)
        ends = [(a + b) / 2 for a, b in zip(before, before[1:])] + [math.inf]
        for k, end in enumerate(ends):
            begin = ends[k - 1] if k > 0 else -math.inf
            members = [x for x in numbers if begin < x <= end]
            if members:
                total = 0.0
                for x in members:
                    total += x
                centres[k] = single(total / len(members))
        if centres == before:
            break
    return centres + [centres[-1]] * (count - len(centres))


def entropy(magnitudes, bins):
    if not magnitudes or magnitudes[0] == magnitudes[-1]:
        return 0.0
    low, width = magnitudes[0], magnitudes[-1] - magnitudes[0]
    counts = [0] * bins
    for m in magnitudes:
        counts[min(int((m - low) / width * bins), bins - 1)] += 1
    total = 0.0
    for n in counts:
        if n:
            total -= n / len(magnitudes) * math.log2(n / len(magnitudes))
    return total


class Clusters:
    def __init__(self, c=30, decode="hash", percentile=95, sample=100000, raw=1000, buckets=1000, least=10,
                 sizes="entropy_centre", outliers=2, bins=100, shared=False, scope="segment", tables=None):  # fmt: skip
        self.c, self.decode, self.percentile, self.sample_size, self.raw = c, decode, percentile, sample, raw
        self.buckets, self.least, self.rule, self.outliers, self.bins = buckets, least, sizes, outliers, bins
        self.shared, self.scope, self.tables = shared, scope, tables

    def text(self):
        return (
            f"clusters(c={self.c}, decode={self.decode}, percentile={self.percentile}, retrain=10, sample={self.sample_size}, "
            f"raw={self.raw}, buckets={self.buckets}, least={self.least}, sizes={self.rule}, outliers={self.outliers}, bins={self.bins}"
            f", shared={str(self.shared).lower()}, scope={self.scope}"
            + (f", tables={self.tables})" if self.tables else ")")
        )

    def sample(self, values, draw):
        n, m = len(values), min(len(values), self.sample_size)
        cuts = [j * n // m for j in range(m + 1)]
        return [values[a + (draw(j) * (b - a) >> 32)] for j, (a, b) in enumerate(zip(cuts, cuts[1:]))]

    def side(self, magnitudes, draw, first):
        """The centres of one side of zero, ascending."""
        if self.percentile >= 100:
            return k_means(magnitudes, self.c, draw, first)
        rest = magnitudes[: math.ceil(self.percentile / 100 * (1 - 1e-12) * len(magnitudes))]
        return k_means(rest, self.c - 1, draw, first) + [rest[-1] if rest else 0.0]

    def cluster(self, v, bounds):
        return sum(v > b for b in bounds)

    def table_sizes(self, sample, centres, bounds):
        if self.tables:
            side = [int(size) for size in self.tables.split("/")]
            return side[::-1] + side
        c = self.c
        weights = [0.0] * (2 * c)
        most = max(abs(centres[0]), abs(centres[-1]))
        for order in (range(c - 1, -1, -1), range(c, 2 * c)):  # each side by ascending magnitudes
            members = {k: sorted(abs(v) for v in sample if self.cluster(v, bounds) == k) for k in order}
            entropies = {k: entropy(members[k], self.bins) for k in order}
            count, total = sum(len(m) for m in members.values()), 0.0
            for k in order:
                total += entropies[k]
            for k in order:
                h = entropies[k] / total if total > 0 else 0.0
                d = len(members[k]) / count if count else 0.0
                size = abs(centres[k]) / most if most > 0 else 0.0
                w = {"entropy_centre_density": h * size * d, "entropy_centre": h * size, "entropy": h, "density": d}[self.rule]
                weights[k] = w * (self.outliers if self.percentile < 100 and k in (0, 2 * c - 1) else 1)
        sizes = self.share_out(weights)
        return self.share_out([float(size - self.least) for size in sizes]) if self.shared else sizes

    def share_out(self, weights):
        whole, c = 0.0, self.c
        for w in weights:
            whole += w
        spare, until, total, sizes = self.buckets - 2 * c * self.least, 0, 0.0, []
        for k, w in enumerate(weights):
            total += w
            share = total / whole if whole > 0 else (k + 1) / (2 * c)
            upto = spare if k == 2 * c - 1 else min(int(share * spare), spare)
            sizes.append(self.least + upto - until)
            until = upto
        return sizes

    def __call__(self, values, draws):
        if len(values) <= self.raw:
            return b"", b"".join(struct.pack("<f", v) for v in values), list(values)
        values, draw = [float(v) for v in values], (Stream(0, QUANTISE, 0, 0, 0, 0) if self.shared else draws.stream).number
        sample = self.sample(values, draw)
        positive = self.side(sorted(v for v in sample if v > 0), draw, 2**31)
        others = self.side(sorted(abs(v) for v in sample if not v > 0), draw, 2**31 + 2**16)
        centres = [0.0 - x for x in reversed(others)] + positive
        bounds = [single((a + b) / 2) for a, b in zip(centres, centres[1:])]
        bounds[self.c - 1] = 0.0
        symbols = [self.cluster(v, bounds) for v in values]
        packed = pack_bits(symbols, (2 * self.c - 1).bit_length())
        if self.decode == "centre":
            return struct.pack(f"<{2 * self.c}f", *centres), packed, [f32(centres[k]) for k in symbols]

        sizes = self.table_sizes(sample, centres, bounds)
        begins = [sum(sizes[:k]) for k in range(2 * self.c)]
        place = [begins[k] + place_of(hash64(i) >> 32, sizes[k]) for i, k in enumerate(symbols)]
        sums, counts = [0.0] * self.buckets, [0] * self.buckets
        for begin in range(0, len(values), CHUNK):
            chunk = [0.0] * self.buckets
            for i in range(begin, min(begin + CHUNK, len(values))):
                chunk[place[i]] += values[i]
                counts[place[i]] += 1
            sums = [a + b for a, b in zip(sums, chunk)]
        means = [f32(s / n) if n else f32(0) for s, n in zip(sums, counts)]
        side = struct.pack(f"<{2 * self.c}H", *sizes) + struct.pack(f"<{self.buckets}f", *means)
        return side, packed, [means[p] for p in place]
