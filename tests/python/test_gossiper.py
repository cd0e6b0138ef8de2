"""sotto.Gossiper, and sotto.aggregate with a denominator."""

import pytest


@pytest.fixture(scope="module")
def quartet(start_ranks):
    return start_ranks(4)


@pytest.mark.parametrize(("topology", "rounds"), [("exponential", 2), ("complete", 1)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_exact_mean(quartet, topology, rounds, dtype):
    for left, after in quartet.values("gossiper_exact", topology=topology, dtype=dtype):
        assert left < (1e-5 if dtype == "float32" else 0.5)
        assert after == rounds


OWN = [[[1, 2], [0], [0]], [[[1], [0], []], [[2], [], [0]]], {"matrix": [[0.5, 0.25, 0.25], [0.25, 0.75, 0], [0.25, 0, 0.75]]}]


@pytest.mark.parametrize("topology", OWN, ids=str)
def test_a_topology_of_ones_own(trio, topology):
    for left in trio.values("gossiper_own", topology=topology):
        assert left < 1e-3


def test_push_sum_where_weights_do_not_stay(quartet):
    weights = set()
    for tensors, all_weights, mean, weight in quartet.values("gossiper_push_sum"):
        assert tensors == pytest.approx(6, abs=1e-4) and all_weights == pytest.approx(4, abs=1e-5)
        assert mean == pytest.approx(1.5, abs=1e-4)
        weights.add(round(weight, 3))
    assert len(weights) > 1


def test_shapes_in_turn(pair):
    for means, said in pair.values("gossiper_shapes"):
        assert means == [1.5] * 5
        assert "cannot be encoded" in said[0] and "weight=0" in said[1] and "rounds=-1" in said[2]
        assert "wants a tensor, or an array" in said[3] and "are one place in memory" in said[4]


@pytest.mark.parametrize("what", ["size", "shape", "strides"])
def test_tensors_that_differ(pair, what):
    for failed in pair.ask("gossiper_mixes_another_tensor", what=what):
        assert failed.kinds[0] == "CommError" and "it mixes another tensor" in str(failed)


@pytest.mark.parametrize(("what", "why"), [("type", "cannot be encoded"), ("weight", "weight=0")])
def test_what_one_rank_refuses(pair, what, why):
    other, bad = pair.ask("gossiper_refuses", what=what)
    assert bad.kinds[0] == "ConfigError" and why in str(bad)
    assert other.kinds[0] == "CommError" and "rank 1" in str(other)


@pytest.mark.parametrize("codec", ["none", "f16"])
def test_another_denominator(trio, codec):
    for mean, double in trio.values("aggregate_by", codec=codec):
        assert mean == pytest.approx(18 / 8, rel=1e-6) and double in (None, 18 / 8)
