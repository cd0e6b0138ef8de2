"""Deep Gradient Compression over 100 steps, compared bit for bit with an independent model."""

import math
import subprocess

import numpy
import pytest

SHAPES = [(20, 30), (16, 3, 4, 2), (12, 40), (50,), (7, 5), (1500,)]
DENSE = 1024  # a tensor of one dimension of at most this length goes whole
RANKS = 4
STEPS = 100
F32 = numpy.float32


class Worker:
    """The paper's algorithm for one tensor of one rank, with its state."""

    def __init__(self, shape, ratio, m, nesterov, masking, clip):
        self.ratio, self.m, self.nesterov, self.masking, self.clip = ratio, F32(m), nesterov, masking, clip
        self.u = numpy.zeros(shape, F32)
        self.v = numpy.zeros(shape, F32)

    def send(self, g):
        if self.clip > 0:
            norm = math.sqrt(float((g.astype(numpy.float64) ** 2).sum()))
            limit = self.clip * RANKS ** -0.5
            if norm > limit:
                g = F32(limit / norm) * g
        if self.nesterov:
            self.u = self.m * (self.u + g)
            self.v = self.v + self.u + g
        else:
            self.u = self.m * self.u + g
            self.v = self.v + self.u
        if g.ndim == 1 and g.size <= DENSE:  # not selected from, so its momentum stays
            sent, self.v = self.v, numpy.zeros_like(self.v)
            return sent
        k = math.ceil(g.size * self.ratio)
        threshold = numpy.sort(numpy.abs(self.v).ravel())[-k]
        mask = numpy.abs(self.v) >= threshold
        assert mask.sum() == k
        sent = numpy.where(mask, self.v, F32(0))
        self.v = numpy.where(mask, F32(0), self.v)
        if self.masking:
            self.u = numpy.where(mask, F32(0), self.u)
        return sent


def model(gradients, ratio, m, nesterov, masking, clip):
    """The means that the algorithm makes of gradients[step][rank][tensor]."""
    workers = [[Worker(shape, ratio, m, nesterov, masking, clip) for shape in SHAPES] for _ in range(RANKS)]
    means = []
    for of_ranks in gradients:
        mean = [numpy.zeros(shape, F32) for shape in SHAPES]
        for rank, of_tensors in enumerate(of_ranks):
            for t, g in enumerate(of_tensors):
                mean[t] = mean[t] + F32(1 / RANKS) * workers[rank][t].send(g)
        means.append(mean)
    return means


def flat(tensors):
    return numpy.concatenate([numpy.asarray(t, dtype=F32).ravel() for t in tensors])


def made_gradients():
    random = numpy.random.default_rng(11)
    base = [random.normal(size=shape) for shape in SHAPES]
    gradients = []
    for _ in range(STEPS):
        base = [0.95 * b + 0.3 * random.normal(size=b.shape) for b in base]
        gradients.append([[F32(b + 0.5 * random.normal(size=b.shape)) for b in base] for _ in range(RANKS)])
    return gradients


@pytest.fixture(scope="module")
def gradients():
    return made_gradients()


def averaged(build_dir, tmp_path, gradients, method, bucket_bytes):
    (tmp_path / "in").write_bytes(flat([t for step in gradients for g in step for t in g]).tobytes())
    subprocess.run([build_dir / "bin" / "average_tool", method, "auto", str(RANKS), str(STEPS), str(bucket_bytes), "", "in", "out",
                    *("x".join(map(str, shape)) for shape in SHAPES)], cwd=tmp_path, check=True, timeout=120)
    return numpy.fromfile(tmp_path / "out", dtype=F32).reshape(STEPS, -1)


@pytest.mark.parametrize("ratio,m,nesterov,masking", [
    (0.01, 0.9, False, True), (0.05, 0.9, True, True), (0.02, 0.7, False, False), (0.1, 0.5, True, False)])
def test_it_does_what_the_model_does(build_dir, tmp_path, gradients, ratio, m, nesterov, masking):
    method = f"momentum(m={m}, nesterov={nesterov}, masking={masking}) | topk({ratio})".replace("True", "true").replace("False", "false")
    wanted = numpy.array([flat(mean) for mean in model(gradients, ratio, m, nesterov, masking, 0)])
    for bucket_bytes in (1 << 30, 2000):
        found = averaged(build_dir, tmp_path, gradients, method, bucket_bytes)
        assert numpy.array_equal(found, wanted), numpy.abs(found - wanted).max(axis=1)
    # A model with one setting changed must differ: so the comparison can tell.
    others = [(ratio, 0.0, nesterov, masking), (ratio, m, not nesterov, masking), (ratio, m, nesterov, not masking)]
    for other in others:
        without = numpy.array([flat(mean) for mean in model(gradients[:20], *other, 0)])
        assert numpy.linalg.norm(without - wanted[:20]) > 0.05 * numpy.linalg.norm(wanted[:20]), other


def test_tensors_of_one_dimension_may_be_selected_from(build_dir, tmp_path, gradients, monkeypatch):
    wanted = numpy.array([flat(mean) for mean in model(gradients, 0.05, 0.9, False, True, 0)])
    monkeypatch.setattr("test_dgc.DENSE", 0)
    selected = numpy.array([flat(mean) for mean in model(gradients, 0.05, 0.9, False, True, 0)])
    assert numpy.array_equal(averaged(build_dir, tmp_path, gradients, "momentum | topk(0.05, dense=0)", 2000), selected)
    assert not numpy.array_equal(wanted, selected)


@pytest.mark.parametrize("clip", [6.0, 40.0])
def test_gradients_are_clipped_before_they_are_accumulated(build_dir, tmp_path, gradients, clip):
    wanted = numpy.array([flat(mean) for mean in model(gradients, 0.05, 0.9, False, True, clip)])
    found = averaged(build_dir, tmp_path, gradients, f"momentum(clip={clip}) | topk(0.05)", 2000)
    difference = numpy.linalg.norm(found - wanted, axis=1) / numpy.linalg.norm(wanted, axis=1)
    assert difference.max() < 1e-5, difference  # the model may round a norm differently
    unclipped = numpy.array([flat(mean) for mean in model(gradients, 0.05, 0.9, False, True, 0)])
    assert numpy.linalg.norm(unclipped - wanted) > 0.05 * numpy.linalg.norm(wanted)
