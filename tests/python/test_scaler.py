"""torch.amp.GradScaler: memories hold unscaled gradients, and a step that overflows on any rank leaves no trace."""

import pytest


@pytest.mark.parametrize("kind", ["ddp", "plain"])
@pytest.mark.parametrize("how", [
    {"codec": "ef | topk(0.1)"},
    {"codec": "ef | topk(0.05) | int8", "aggregator": "scatter_reduce"},
    {"codec": "momentum | topk(0.1)"},
    {"codec": "velocity | int8"},
    {"codec": "power(1)"},
    {"codec": "ef | topk(0.1)", "rules": {"*.bias": "none", "conv.*": "ef | f16"}},
], ids=str)
def test_training_is_that_without_a_scaler(pair, kind, how):
    first, second = pair.values("scaled", kind=kind, steps=10, overflows=[4, 8], **how)
    assert first["scaled"]["digest"] == second["scaled"]["digest"]
    for found in (first, second):
        assert found["scaled"]["digest"] == found["unscaled"]["digest"]
        assert found["scaled"]["kept"]
        assert found["scaled"]["held"] > 1e-4
        scales = found["scaled"]["scales"]
        assert len(set(scales)) > 2 and scales[4] == scales[3] / 2  # they grew, and shrank at the overflow


def test_scales_must_be_alike(pair):
    for failed in pair.ask("scaled_differently"):
        assert failed.kinds[0] == "CommError" and "its scaler has another scale" in str(failed)


def test_an_overflow_without_a_scaler_names_it(pair):
    other, bad = pair.ask("overflow_without_scaler")
    assert bad.kinds[0] == "NumericError" and "with a GradScaler say scaler=" in str(bad)
    assert other.kinds[0] == "CommError" and str(bad).split(";")[0] in str(other)


def test_a_mean_that_its_gradient_cannot_hold(pair):
    for failed in pair.ask("mean_saturates", nonfinite="raise"):
        assert failed.kinds[0] in ("NumericError", "CommError") and "the mean gradient of " in str(failed)
    assert pair.values("mean_saturates", nonfinite="propagate") == [True, True]
