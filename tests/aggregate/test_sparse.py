"""The sparse all-reduce over some steps, compared bit for bit with an independent model."""

import math
import subprocess

import numpy
import pytest

SHAPES = [(20, 30), (16, 3, 4, 2), (12, 40), (50,), (7, 5), (1500,)]
DENSE = 1024  # a tensor of one dimension of at most this length goes whole
PERIOD = 32
BINS = 256
F32 = numpy.float32
STARTS = numpy.cumsum([0, *(math.prod(shape) for shape in SHAPES)])
SIZE = int(STARTS[-1])
WHOLE = numpy.concatenate([numpy.full(math.prod(s), len(s) == 1 and math.prod(s) <= DENSE) for s in SHAPES])


def chosen(p, ratio):
    """The largest elements of each tensor, a share `ratio` of them; short vectors whole."""
    out = numpy.zeros_like(p)
    for first, last in zip(STARTS, STARTS[1:]):
        part = p[first:last]
        k = len(part) if WHOLE[first] else math.ceil(len(part) * ratio)
        taken = numpy.argsort(-numpy.abs(part), kind="stable")[:k]
        out[first:last][taken] = part[taken]
    return out


def aligned(place):
    return -(-place // 16) * 16


def borders_of(selected, ranks):
    """The borders of regions with about equal numbers of entries, estimated from counts in 256 stretches."""
    width = max(aligned(-(-SIZE // BINS)), 16)
    counts = numpy.zeros(BINS)
    for of_rank in selected:
        numpy.add.at(counts, numpy.flatnonzero(of_rank) // width, 1)
    borders = []
    for j in range(1, ranks):
        wanted = counts.sum() * j / ranks
        b = 0
        while b + 1 < BINS and counts[: b + 1].sum() < wanted:
            b += 1
        within = min(max((wanted - counts[:b].sum()) / counts[b], 0), 1) if counts[b] else 0
        borders.append(min(aligned(b * width + int(within * width)), SIZE))
    return borders


def leading(value):
    """A magnitude with 8 bits after the leading one; the other bits are cut off."""
    return (numpy.asarray(value, F32).view(numpy.uint32) & numpy.uint32(0x7FFF8000)).view(F32)


class Model:
    def __init__(self, ranks, ratio, follows=True):
        self.ranks, self.ratio, self.follows = ranks, ratio, follows
        self.held = [numpy.zeros(SIZE, F32) for _ in range(ranks)]
        self.exchanges = 0

    def step(self, gradients):
        offered = [e + g for e, g in zip(self.held, gradients)]
        selected = [chosen(p, self.ratio) for p in offered]
        agrees = self.exchanges % PERIOD == 0
        self.exchanges += 1
        if agrees:
            self.borders = [0, *borders_of(selected, self.ranks), SIZE]
            self.wanted = max(1, math.ceil(sum(numpy.count_nonzero(s[~WHOLE]) for s in selected) / self.ranks))
        mean = numpy.zeros(SIZE, F32)
        for s in selected:
            mean = mean + F32(1) / F32(self.ranks) * s
        if agrees:
            sums = numpy.sort(leading(numpy.abs(mean[(mean != 0) & ~WHOLE])))[::-1]
            self.threshold = float(sums[self.wanted - 1]) if len(sums) >= self.wanted else 0.0
        kept = (mean != 0) & (WHOLE | (numpy.abs(mean) >= F32(self.threshold)))
        most = 2 * -(-self.wanted // self.ranks)
        for first, last in zip(self.borders, self.borders[1:]):
            choosable = first + numpy.flatnonzero(kept[first:last] & ~WHOLE[first:last])
            dropped = choosable[numpy.argsort(-numpy.abs(mean[choosable]), kind="stable")[most:]]
            kept[dropped] = False
        if self.follows:
            ratio = max(numpy.count_nonzero(kept & ~WHOLE) / self.wanted, 1 / 16)
            self.threshold = float(F32(float(F32(self.threshold)) * math.sqrt(math.sqrt(ratio))))
        for e, p, s in zip(range(self.ranks), offered, selected):
            self.held[e] = numpy.where(kept, p - s, p)
        return numpy.where(kept, mean, F32(0))


def made_gradients(ranks, steps):
    random = numpy.random.default_rng(7)
    base = random.normal(size=SIZE) * numpy.linspace(0.1, 2, SIZE)  # larger at the end than at the beginning
    gradients = []
    for _ in range(steps):
        base = 0.95 * base + 0.3 * random.normal(size=SIZE) * numpy.linspace(0.1, 2, SIZE)
        gradients.append([F32(base + 0.5 * random.normal(size=SIZE)) for _ in range(ranks)])
    return gradients


@pytest.mark.parametrize("ranks,ratio", [(1, 0.05), (2, 0.01), (4, 0.05), (5, 0.2), (8, 0.02)])
def test_it_does_what_the_model_does(build_dir, tmp_path, ranks, ratio):
    steps = 70  # ranks agree in steps 0, 32 and 64
    gradients = made_gradients(ranks, steps)
    (tmp_path / "in").write_bytes(numpy.array(gradients).tobytes())
    subprocess.run([build_dir / "bin" / "average_tool", f"ef | topk({ratio})", "sparse", str(ranks), str(steps),
                    str(1 << 30), "", "in", "out", *("x".join(map(str, shape)) for shape in SHAPES)],
                   cwd=tmp_path, check=True, timeout=120)
    found = numpy.fromfile(tmp_path / "out", dtype=F32).reshape(steps, -1)
    model = Model(ranks, ratio)
    wanted = numpy.array([model.step(of_ranks) for of_ranks in gradients])
    assert numpy.array_equal(found, wanted), numpy.flatnonzero((found != wanted).any(axis=1))
    # A model whose threshold stays must differ, and so must one with even regions: so the comparison can tell.
    other = Model(ranks, ratio, follows=False)
    stays = numpy.array([other.step(of_ranks) for of_ranks in gradients])
    assert not numpy.array_equal(stays, wanted)
    if ranks > 2:
        assert numpy.abs(numpy.array(model.borders) - SIZE * numpy.arange(ranks + 1) / ranks).max() > 32
