"""Selections: functions of a list of energies per group; they return, per group, the selected atoms and their scales.

Their second argument has, per group, (stream, number of the first atom, dimensions and values of the segment).
"""

import math

from .draws import mix
from .floats import f32

LARGEST = (2 - 2**-23) * 2.0**127  # float


def largest(values, k):
    """The indices of the k largest magnitudes; the first of equal ones; never zeros."""
    order = sorted((i for i, v in enumerate(values) if v != 0), key=lambda i: (-abs(float(values[i])), i))
    return sorted(order[:k])


def share(n, ratio):
    return min(math.ceil(n * ratio * (1 - 1e-12)), n)


def split(pieces, numbers):
    """Splits indices into the concatenated pieces into indices of each piece."""
    result, first = [], 0
    for p in pieces:
        result.append([i - first for i in numbers if first <= i < first + len(p)])
        first += len(p)
    return result


class Select:
    """A selection that takes whole blocks of atoms, or that every rank can repeat (`known`)."""

    def __init__(self, select, block=1, known=False):
        self.select, self.block, self.known = select, block, known

    def __call__(self, groups, streams):
        return self.select(groups, streams)


def beside_dense(dense, select):
    """Takes all atoms of segments of one dimension with at most `dense` values; `select` gets only the other groups."""

    def split(groups, origins):
        whole = [dimensions <= 1 and values <= dense for _, _, dimensions, values in origins]
        others = iter(select([g for g, w in zip(groups, whole) if not w], [o for o, w in zip(origins, whole) if not w]))
        # Zeros are left out only where indices of single atoms are sent.
        listed = getattr(select, "block", 1) == 1 and not getattr(select, "known", False)
        dense_ones = lambda g: [(i, f32(1)) for i, e in enumerate(g) if e != 0 or not listed]
        return [dense_ones(g) if w else next(others) for g, w in zip(groups, whole)]

    return Select(split, getattr(select, "block", 1), getattr(select, "known", False))


def select_in_chunks(count, chunk):
    """The `count` largest of each `chunk` atoms."""

    def select(pieces, streams):
        of = lambda p, begin: [begin + i for i in largest(p[begin : begin + chunk], count)]
        return [[i for begin in range(0, len(p), chunk) for i in of(p, begin)] for p in pieces]

    return select


def select_topk(ratio, scope):
    def select(pieces, streams):
        if scope == "segment":
            return [largest(p, share(len(p), ratio)) for p in pieces]
        flat = [v for p in pieces for v in p]
        return split(pieces, largest(flat, share(len(flat), ratio)))

    return select


def select_sampled(ratio, looked_at=0.01, scope="segment"):
    def together(pieces):
        """Selects from these pieces as if they were one, but draws the sample from each piece separately."""
        values = [v for p in pieces for v in p]
        n = len(values)
        size = max(share(n, looked_at), math.ceil(2 / ratio))
        stride = max(n // size, 1)
        sample = [abs(p[j * stride + (mix(j) * stride >> 32)]) for p in pieces for j in range(len(p) // stride)]
        k = share(n, ratio)
        least = sorted(sample, reverse=True)[share(len(sample), ratio) - 1] if sample and k < n else f32(0)

        def reach():
            return [i for i, v in enumerate(values) if v != 0 and abs(v) >= least]

        for _ in range(10):
            if len(reach()) >= 0.8 * k:
                break
            least = least * f32(0.8)
        return split(pieces, largest(values, k) if len(reach()) > math.floor(1.3 * k) else reach())

    def select(pieces, streams):
        return together(pieces) if scope == "bucket" else [together([p])[0] for p in pieces]

    return select


def at_random(n, ratio, stream, number):
    """Draws share(n, ratio) of n numbers: one of each stretch of a circle that is cut from a random place on."""
    k = share(n, ratio)
    place = n * stream.number(number) >> 32
    borders = [s * n // k for s in range(k + 1)] if k else []
    taken = [place + lo + ((hi - lo) * stream.quick(number + s) >> 32) for s, (lo, hi) in enumerate(zip(borders, borders[1:]))]
    return sorted(t % n for t in taken), f32(n) / f32(max(k, 1))


def select_randomk(ratio, shared, unbiased, scope="segment"):
    return select_block(1, ratio, "shared" if shared else "random", unbiased, scope)


def select_block(size, ratio, pick, unbiased, scope="segment"):
    def blocks_of(energies):
        return [list(range(lo, min(lo + size, len(energies)))) for lo in range(0, len(energies), size)]

    def norm(energies, block):
        return f32(math.sqrt(sum(float(energies[i]) ** 2 for i in block) / size))

    def together(groups, streams):
        """Selects from these groups as if they were one."""
        all_blocks = [(g, block) for g, energies in enumerate(groups) for block in blocks_of(energies)]
        stream, number = streams[0][:2]
        taken, scale = at_random(len(all_blocks), ratio, stream, number)
        if pick == "top":
            taken = largest([norm(groups[g], block) for g, block in all_blocks], share(len(all_blocks), ratio))
        result = [[] for _ in groups]
        for b in taken:
            g, block = all_blocks[b]
            result[g] += [(i, scale if unbiased else f32(1)) for i in block]
        return result

    def select(groups, streams):
        if scope == "bucket":
            return together(groups, streams) if groups else []
        return [together([g], [s])[0] for g, s in zip(groups, streams)]

    return Select(select, block=size, known=pick == "shared")


def dropping(magnitudes, value):
    """The magnitude below which a share `value` of the magnitudes lies."""
    order = sorted(magnitudes)
    gone = min(math.floor(len(order) * value * (1 + 1e-12)), len(order))
    return order[gone] if gone < len(order) else f32(math.inf)


def fitted(magnitudes, value):
    """The magnitude that a share `value` reaches if the tail is exponential."""
    wanted, most = share(len(magnitudes), value), max(magnitudes)
    least = f32(0)
    for _ in range(16):
        those = [m for m in magnitudes if m >= least]
        if len(those) <= wanted:
            break
        one_in = min(len(those) / wanted, 4)
        mean = math.fsum(map(float, those)) / len(those)
        level = f32(min(float(least) + (mean - float(least)) * math.log(one_in), float(most)))
        if level <= least:
            break
        least = level
        if one_in < 4:
            break
    return least


def select_threshold(value, kind, scope="segment"):
    least_of = {
        "at": lambda magnitudes: f32(value),
        "relative": lambda magnitudes: f32(value) * max(magnitudes),
        "keep": lambda magnitudes: fitted(magnitudes, value),
        "drop": lambda magnitudes: dropping(magnitudes, value),
    }[kind]

    def select(pieces, streams):
        together = [least_of([abs(v) for p in pieces for v in p])] * len(pieces) if scope == "bucket" else None
        levels = together or [least_of([abs(v) for v in p]) for p in pieces]
        return [[i for i, v in enumerate(p) if v != 0 and abs(v) >= least] for p, least in zip(pieces, levels)]

    return select


def water_level(energies, s):
    """The level for which ATOMO's probabilities are min(1, |e| / level), by sorting, as in the paper."""
    rest = sorted((abs(float(e)) for e in energies), reverse=True)
    while rest and sum(rest) > 0:
        if rest[0] * s <= sum(rest):
            return sum(rest) / s
        rest, s = rest[1:], s - 1
    return 0


def select_atomo(s, p):
    def select(groups, streams):
        result = []
        for energies, (stream, number, _, _) in zip(groups, streams):
            budget = s * len(energies) if s < 1 else s
            if p == "waterfill":
                level = water_level(energies, budget)
                factor = 1 / level if level else math.inf
            elif p == "max":
                factor = 1 / max(abs(float(e)) for e in energies)
            chosen = []
            for i, e in enumerate(energies):
                unit = 2.0**64 if factor > LARGEST else 1.0
                probability = f32(factor / unit) * abs(e) if factor < math.inf else f32(1)
                t = max(int(min(float(probability) * unit * 2**31, 2**31)), 1)
                if e != 0 and stream.quick(number + i) >> 1 < t:
                    chosen.append((i, f32(2**31) / f32(t)))
            result.append(chosen)
        return result

    return select
