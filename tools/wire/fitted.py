"""The quantisers `alq` and `zipml`: stochastic rounding to levels that are fitted to each unit."""

import struct

from .floats import f32
from .inputs import extreme, zeros
from .quantise import CUT, Grid, blocks, most, pack_bits


class Sample:
    """Magnitudes as shares of their norms, ascending; each counts with the square of its norm."""

    def __init__(self, pairs):
        pairs = sorted(pairs)
        self.shares = [share for share, _ in pairs]
        self.sums = [(0.0, 0.0, 0.0)]
        for share, norm in pairs:
            weight, (w, s, q) = norm * norm, self.sums[-1]
            self.sums.append((w + weight, s + weight * share, q + weight * share * share))

    def total(self, first, last):
        return [b - a for a, b in zip(self.sums[first], self.sums[last])]

    def up_to(self, level):
        return sum(share <= level for share in self.shares)

    def below(self, level):
        return sum(share < level for share in self.shares)

    def variance(self, first, last, low, high):
        weight, shares, squares = self.total(first, last)
        return max((low + high) * shares - low * high * weight - squares, 0.0)


def descended(sample, count, rounds):
    levels = [float(f32(j) / f32(count - 1)) for j in range(count)]
    for _ in range(rounds):
        before = list(levels)
        for j in range(1, count - 1):
            low, high = levels[j - 1], levels[j + 1]
            first, last = sample.up_to(low), sample.below(high)
            if first >= last:
                continue
            weight, shares, _ = sample.total(first, last)
            levels[j] = next(sample.shares[i] for i in range(first, last) if (high - low) * sample.total(i + 1, last)[0] <= shares - low * weight)
        if levels == before:
            break
    return levels


def optimal(sample, count, candidates):
    shares, some = sample.shares, min(candidates, len(sample.shares))
    places = sorted({0.0, 1.0} | {shares[j * len(shares) // some] for j in range(some)})
    if len(places) <= count:
        return places + [1.0] * (count - len(places))
    ends = [sample.up_to(place) for place in places]
    least = [(sample.variance(0, end, 0.0, place), [0.0, place]) for place, end in zip(places, ends)]
    for step in range(2, count):
        row = [None] * len(places)

        def fill(wanted, before):
            if not wanted:
                return
            j = wanted[len(wanted) // 2]
            tried = [(least[i][0] + sample.variance(ends[i], ends[j], places[i], places[j]), i) for i in before if i < j]
            variance, i = min(tried)
            row[j] = (variance, least[i][1] + [places[j]])
            fill([w for w in wanted if w < j], [b for b in before if b <= i])
            fill([w for w in wanted if w > j], [b for b in before if b >= i])

        fill(range(step, len(places)), range(step - 1, len(places)))
        least = row
    return least[-1][1]


class Fitted:
    def __init__(self, bits=3, bucket=512, sample=4096, rounds=None, candidates=None):
        self.bits, self.bucket, self.size, self.rounds, self.candidates = bits, bucket, sample, rounds, candidates

    def text(self):
        last = f"alq(%s, rounds={self.rounds})" if self.rounds else f"zipml(%s, candidates={self.candidates})"
        return last % f"bits={self.bits}, bucket={self.bucket}, sample={self.size}"

    def fit(self, values, norms, stream):
        count, n, m = 2**self.bits, len(values), min(len(values), self.size)
        if self.bits == 1:
            return [0.0, 1.0]
        pairs = []
        for j in range(m):
            begin, end = j * n // m, (j + 1) * n // m
            i = begin + (stream.number(j) * (end - begin) >> 32)
            norm = norms[i // self.bucket]
            grid = Grid(norm, 1)
            pairs.append((float(min(abs(f32(values[i]) * grid.up * grid.factor), f32(1))), float(norm)))
        sample = Sample(pairs)
        return descended(sample, count, self.rounds) if self.rounds else optimal(sample, count, self.candidates)

    def __call__(self, values, draws):
        if not len(values):
            return b"", b"", []
        norms = [f32(most(block)) for block in blocks(values, self.bucket)]
        levels = [f32(level) for level in self.fit(values, norms, draws.stream)]
        symbols, decoded = [], []
        for i, v in enumerate(values):
            norm = norms[i // self.bucket]
            grid = Grid(norm, 1)
            y = min(abs(f32(v) * grid.up * grid.factor), f32(1))
            level = max(j for j, at in enumerate(levels) if at <= y)
            if level + 1 < len(levels):
                share = (y - levels[level]) / (levels[level + 1] - levels[level])
                level += int(share > f32(draws(i) >> 8) * f32(2.0**-24))
            negative = v < 0 and level > 0
            symbols.append(2 * level - int(negative))
            decoded.append(norm * (-levels[level] if negative else levels[level]))
        side = struct.pack(f"<{len(levels) - 2}f", *levels[1:-1]) + b"".join(struct.pack("<f", norm) for norm in norms)
        return side, pack_bits(symbols, self.bits + 1), decoded


def case(name, quantise, **rest):
    return name, quantise.text(), quantise, rest


FITTED_CASES = [
    case("small-alq", Fitted(bits=2, rounds=10), layout="small"),
    case("alq", Fitted(bits=3, bucket=20, rounds=3)),
    case("alq-long", Fitted(bits=4, sample=200, rounds=10), layout="long"),
    case("alq-extreme", Fitted(bits=2, bucket=9, rounds=10), values=extreme),
    case("alq-part", Fitted(bits=1, bucket=9, rounds=1), part=CUT),
    case("small-zipml", Fitted(bits=2, candidates=256), layout="small"),
    case("zipml", Fitted(bits=3, bucket=20, candidates=256)),
    case("zipml-long", Fitted(bits=4, sample=400, candidates=100), layout="long"),
    case("zipml-extreme", Fitted(bits=2, bucket=9, candidates=256), values=extreme),
    case("zipml-part", Fitted(bits=2, bucket=7, candidates=5), part=CUT),
    case("zipml-zeros", Fitted(bits=3, candidates=256), values=zeros),
]
