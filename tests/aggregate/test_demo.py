"""DeMo over some steps, compared with an independent model."""

import math
import subprocess

import numpy
import pytest

SHAPES = [(64, 128), (130, 96), (10, 50), (20, 5, 3, 3), (7, 67), (128,), (67,), (10,)]
STEPS = 8
CHUNK, COUNT, DECAY = 64, 32, 0.999


def side(n):
    return max(d for d in range(1, CHUNK + 1) if n % d == 0)


def cosines(n):
    k, j = numpy.arange(n)[:, None], numpy.arange(n)[None, :]
    return numpy.sqrt(numpy.where(k == 0, 1, 2) / n) * numpy.cos(numpy.pi * k * (2 * j + 1) / (2 * n))


def tiles(tensor):
    """A view of (tile rows, tile columns, rows of a tile, columns of a tile)."""
    rows, cols = (tensor.shape[0], math.prod(tensor.shape[1:])) if tensor.ndim > 1 else (1, tensor.size)
    h, w = side(rows), side(cols)
    return tensor.reshape(rows // h, h, cols // w, w).swapaxes(1, 2)


def forward(tensor):
    t = tiles(tensor)
    return cosines(t.shape[2]) @ t @ cosines(t.shape[3]).T


def inverse(coefficients, shape):
    out = numpy.zeros(shape)
    tiles(out)[...] = cosines(coefficients.shape[2]).T @ coefficients @ cosines(coefficients.shape[3])
    return out


def largest(coefficients):
    """A mask of the largest coefficients of each tile."""
    flat = numpy.abs(coefficients).reshape(*coefficients.shape[:2], -1)
    order = numpy.argsort(-flat, axis=-1)[..., :COUNT]
    chosen = numpy.zeros(flat.shape, bool)
    numpy.put_along_axis(chosen, order, True, axis=-1)
    return chosen.reshape(coefficients.shape)


def model(gradients, over_senders=True):
    """The updates that DeMo makes of gradients[step][rank][tensor], by step, before their signs are taken."""
    ranks = len(gradients[0])
    deltas = [[numpy.zeros(shape) for shape in SHAPES] for _ in range(ranks)]
    updates = []
    for of_ranks in gradients:
        update = []
        for t, shape in enumerate(SHAPES):
            total, senders = 0.0, 0
            for rank in range(ranks):
                delta = DECAY * deltas[rank][t] + of_ranks[rank][t]
                coefficients = forward(delta)
                chosen = largest(coefficients)
                sent = numpy.where(chosen, coefficients, 0)
                deltas[rank][t] = delta - inverse(sent, shape)
                total, senders = total + sent, senders + chosen
            update.append(inverse(total / (numpy.maximum(senders, 1) if over_senders else ranks), shape))
        updates.append(update)
    return updates


def flat(tensors):
    return numpy.concatenate([numpy.ravel(t) for t in tensors])


def made_gradients(ranks):
    """Gradients of ranks, with a large common part."""
    random = numpy.random.default_rng(5)
    base = [random.normal(size=shape) for shape in SHAPES]
    return [[[numpy.float32(b + random.normal(size=b.shape)) for b in base] for _ in range(ranks)] for _ in range(STEPS)]


@pytest.mark.parametrize("ranks", [3, 5])
def test_it_does_what_the_model_does(build_dir, tmp_path, ranks):
    gradients = made_gradients(ranks)
    (tmp_path / "in").write_bytes(flat([t for step in gradients for g in step for t in g]).tobytes())
    subprocess.run([build_dir / "bin" / "average_tool", "demo-dct", "auto", str(ranks), str(STEPS), "20000", "", "in", "out",
                    *("x".join(map(str, shape)) for shape in SHAPES)], cwd=tmp_path, check=True, timeout=120)
    found = numpy.fromfile(tmp_path / "out", dtype=numpy.float32).reshape(STEPS, -1)
    wanted = numpy.array([flat(update) for update in model(gradients)])
    agreement = (numpy.sign(found) == numpy.sign(wanted)).mean(axis=1)
    assert agreement.min() >= 0.999, agreement
    assert numpy.linalg.norm(found - wanted) < 0.01 * numpy.linalg.norm(wanted)
    # A mean over all ranks, instead of over the senders, must differ: so the comparison can tell.
    other = numpy.array([flat(update) for update in model(gradients, over_senders=False)])
    assert (numpy.sign(other) == numpy.sign(wanted)).mean() < 0.99
