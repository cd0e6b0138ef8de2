"""PowerSGD over 50 steps, compared with an independent model in doubles."""

import subprocess

import numpy
import pytest

SHAPES = [(20, 30), (5,), (16, 3, 4, 2), (20, 30), (4, 3), (12, 40)]
STEPS = 50


def compressed(shape, rank, min_rate):
    rows, cols = shape[0], int(numpy.prod(shape[1:]))
    return len(shape) > 1 and rows * cols >= min_rate * (rows + cols) * min(rank, rows, cols)


def model(gradients, first_q, rank, min_rate):
    """The means that PowerSGD makes of gradients[step][rank of the group][tensor]."""
    error = [[numpy.zeros(shape) for shape in SHAPES] for _ in gradients[0]]
    q = list(first_q)
    means = []
    for step, of_ranks in enumerate(gradients):
        mean = []
        for t, shape in enumerate(SHAPES):
            offered = [e[t] + g[t] for e, g in zip(error, of_ranks)]
            if not compressed(shape, rank, min_rate):
                mean.append(sum(offered) / len(offered))
                for e in error:
                    e[t] = numpy.zeros(shape)
                continue
            matrices = [m.reshape(shape[0], -1) for m in offered]
            p = numpy.linalg.qr(sum(m @ q[t] for m in matrices) / len(matrices))[0]
            q[t] = sum(m.T @ p for m in matrices) / len(matrices)
            product = p @ q[t].T
            mean.append(product.reshape(shape))
            for e, m in zip(error, matrices):
                e[t] = (m - product).reshape(shape)
        means.append(mean)
    return means


def flat(tensors):
    return numpy.concatenate([numpy.asarray(t, dtype=numpy.float32).ravel() for t in tensors])


@pytest.mark.parametrize("ranks,rank,min_rate", [(1, 1, 2), (2, 1, 2), (3, 2, 1), (4, 4, 1.5)])
def test_it_does_what_the_model_does(build_dir, tmp_path, ranks, rank, min_rate):
    random = numpy.random.default_rng(rank)
    # Gradients have a common part that changes slowly, and noise on each rank.
    base = [random.normal(size=shape) for shape in SHAPES]
    gradients = []
    for _ in range(STEPS):
        base = [0.95 * b + 0.3 * random.normal(size=b.shape) for b in base]
        gradients.append([[numpy.float32(b + 0.5 * random.normal(size=b.shape)) for b in base] for _ in range(ranks)])
    first_q = []
    for shape in SHAPES:
        cols = int(numpy.prod(shape[1:]))
        first_q.append(numpy.linalg.qr(random.normal(size=(cols, min(rank, shape[0], cols))))[0].astype(numpy.float32))

    sent_q = [q.T for q, shape in zip(first_q, SHAPES) if compressed(shape, rank, min_rate)]
    (tmp_path / "in").write_bytes(flat(sent_q + [t for step in gradients for g in step for t in g]).tobytes())
    method = f"power(rank={rank}, min_rate={min_rate})"
    subprocess.run([build_dir / "bin" / "average_tool", method, "auto", str(ranks), str(STEPS), str(1 << 30), "power.q", "in", "out",
                    *("x".join(map(str, shape)) for shape in SHAPES)], cwd=tmp_path, check=True, timeout=120)
    found = numpy.fromfile(tmp_path / "out", dtype=numpy.float32).reshape(STEPS, -1)
    wanted = numpy.array([flat(mean) for mean in model(gradients, first_q, rank, min_rate)])
    difference = numpy.linalg.norm(found - wanted, axis=1) / numpy.linalg.norm(wanted, axis=1)
    # Small differences grow, since the rest of one step goes into the next. A mistake makes more than 0.1.
    assert difference[:20].max() < 1e-4 and difference.max() < 1e-2, difference
    dense = numpy.array([flat(sum(numpy.array(g[t]) for g in step) / ranks for t in range(len(SHAPES))) for step in gradients])
    assert numpy.linalg.norm(dense - wanted, axis=1)[-1] > 0.1, "it compresses"
