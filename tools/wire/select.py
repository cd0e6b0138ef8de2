"""Selections: list of groups' energies -> numbers of the selected atoms and their scales, per group."""

import math

from .draws import mix
from .floats import f32


def largest(values, k):
    """Numbers of the k largest magnitudes, of equal ones the first, without zeros."""
    order = sorted((i for i, v in enumerate(values) if v != 0), key=lambda i: (-abs(float(values[i])), i))
    return sorted(order[:k])


def share(n, ratio):
    return min(math.ceil(n * ratio * (1 - 1e-12)), n)


def select_topk(ratio, scope):
    def select(pieces, streams):
        if scope == "segment":
            return [largest(p, share(len(p), ratio)) for p in pieces]
        flat = [v for p in pieces for v in p]
        chosen = set(largest(flat, share(len(flat), ratio)))
        result, first = [], 0
        for p in pieces:
            result.append([i for i in range(len(p)) if first + i in chosen])
            first += len(p)
        return result

    return select


def select_sampled(ratio):
    def one(values):
        n = len(values)
        size = max((n + 99) // 100, math.ceil(2 / ratio))
        stride = max(n // size, 1)
        sample = [abs(values[j * stride + (mix(j) * stride >> 32)]) for j in range(n // stride)]
        least = sorted(sample, reverse=True)[share(len(sample), ratio) - 1] if sample else f32(0)
        k = share(n, ratio)

        def reach():
            return [i for i, v in enumerate(values) if v != 0 and abs(v) >= least]

        for _ in range(10):
            if len(reach()) >= 0.8 * k:
                break
            least = least * f32(0.8)
        return largest(values, k) if len(reach()) > math.floor(1.3 * k) else reach()

    return lambda pieces, streams: [one(p) for p in pieces]


def select_threshold(value, kind):
    def select(pieces, streams):
        result = []
        for p in pieces:
            least = f32(value) if kind == "absolute" else f32(value) * max(abs(v) for v in p)
            result.append([i for i, v in enumerate(p) if v != 0 and abs(v) >= least])
        return result

    return select


def water_level(energies, s):
    """ATOMO's probabilities are min(1, |e| / level): by sorting, as the paper has it."""
    rest = sorted((abs(float(e)) for e in energies), reverse=True)
    while rest and sum(rest) > 0:
        if rest[0] * s <= sum(rest):
            return sum(rest) / s
        rest, s = rest[1:], s - 1
    return 0


def select_atomo(s, p, dense=0):
    def select(groups, streams):
        result = []
        for energies, (stream, number, dimensions) in zip(groups, streams):
            budget = s * len(energies) if s < 1 else s
            if dimensions <= 1 and len(energies) <= dense:
                factor = math.inf
            elif p == "waterfill":
                level = water_level(energies, budget)
                factor = 1 / level if level else math.inf
            elif p == "max":
                factor = 1 / max(abs(float(e)) for e in energies)
            chosen = []
            for i, e in enumerate(energies):
                probability = f32(min(factor, 3e38)) * abs(e) if factor < math.inf else f32(1)
                t = max(int(min(probability * f32(2**31), f32(2**31))), 1)
                if e != 0 and stream.quick(number + i) >> 1 < t:
                    chosen.append((i, f32(2**31) / f32(t)))
            result.append(chosen)
        return result

    return select
