"""Errors of one rank end the step on all, as exceptions of backward that say who and when."""

import pytest


def test_a_gradient_that_is_not_finite(pair):
    other, bad = pair.ask("not_finite", nonfinite="raise")
    assert bad.kinds[:2] == ["NumericError", "Error"]
    assert "rank 1" in str(bad) and "step 2" in str(bad)
    assert other.kinds[0] == "CommError"
    assert "with rank 1 at step 2" in str(other)
    assert str(bad) in str(other)  # the cause


def test_not_finite_as_ddp_has_it(pair):
    answers = pair.values("not_finite", nonfinite="propagate")
    for found in answers:
        assert found["nans"] == found["of"]
        assert found["memory kept"]
        assert found["steps"] == 4
    assert answers[0]["digest"] == answers[1]["digest"]


def test_a_failed_module_can_be_looked_at(pair):
    assert pair.values("again_after_an_error") == [["NumericError", 0], ["CommError", 0]]


def test_a_rank_that_stalls(start_ranks):
    waiting, absent = start_ranks(2).ask("stalls", timeout=5)
    assert waiting.kinds[0] == "CommError"
    assert "rank 0" in str(waiting) and "rank 1 at step 1" in str(waiting) and "timed out after 5 s" in str(waiting)
    assert absent is None  # its value; it waits for nobody


def test_a_rank_that_dies(start_ranks):
    left, gone = start_ranks(2).ask("dies")
    assert gone is None
    assert left.kinds[0] == "CommError"
    assert "with rank 1 at step 1" in str(left) and "closed" in str(left)


def test_ranks_that_compress_differently(pair):
    for failed in pair.ask("differently"):
        assert failed.kinds[0] == "ConfigError"
        assert "rank 1 compresses another model than rank 0, or in another way" in str(failed)


def test_ranks_that_check_differently(pair):
    for failed in pair.ask("differently_checked"):
        assert failed.kinds[0] == "ConfigError" and "or in another way" in str(failed)


@pytest.mark.parametrize(("how", "missing"), [("unfrozen", "hidden.weight"), ("added", "added.weight, added.bias")])
def test_parameters_that_ddp_does_not_reduce(pair, how, missing):
    for failed in pair.ask("not_reduced", how=how):
        assert "ConfigError" in failed.kinds or "CommError" in failed.kinds
        assert f"DDP does not reduce {missing}: " in str(failed)


@pytest.mark.parametrize("what", ["shape", "type", "op", "codec", "aggregator", "seed"])
def test_ranks_that_aggregate_differently(pair, what):
    for failed in pair.ask("aggregates_differently", what=what):
        assert failed.kinds[0] == "ConfigError" and "rank 1 aggregates another tensor than rank 0" in str(failed)


@pytest.mark.parametrize(("what", "why"), [
    ("rules", "'nope' applies to no parameter"), ("codec", "did you mean `topk`"), ("type", "seed='3': wants"),
    ("timeout", "timeout=1e-06: wants"), ("float64", "of type Double"), ("no ddp", "wants a DistributedDataParallel"),
])
def test_what_one_rank_refuses(pair, what, why):
    """Ends the call on all, at once, with its reason; then they can call again."""
    (other, first), (refused, second) = pair.values("refused_on_one", what=what)
    assert refused.startswith("ConfigError: ") and why in refused
    assert other.startswith("CommError: ") and "rank 1" in other and why in other
    assert first == second


@pytest.mark.parametrize("what", ["nan", "large", "list", "sparse", "nested", "op", "timeout"])
def test_what_one_rank_does_not_aggregate(pair, what):
    (other, *first), (refused, *second) = pair.values("aggregate_refused_on_one", what=what)
    assert refused.startswith("NumericError: " if what in ("nan", "large") else "ConfigError: ")
    assert other.startswith("ConfigError: rank 1 refuses")
    assert first == second == [[2.0] * 3]


def test_a_mean_that_one_rank_cannot_encode(pair):
    """Is an error of all, at once: each rank's own tensor could be encoded."""
    for said in pair.values("mean_too_large"):
        assert said.startswith("NumericError: "), said


def test_presets_that_are_tied_to_an_optimiser_say_so(pair):
    for said in pair.values("warned", codecs=["dgc", "signum", "topk", "ef | topk(0.1)"]):
        assert len(said["dgc"]) == 1 and "dgc is tied to the optimiser dgc" in said["dgc"][0]
        assert len(said["signum"]) == 1 and "signum is tied to the optimiser signum" in said["signum"][0]
        assert said["topk"] == [] and said["ef | topk(0.1)"] == []


def test_a_memory_before_a_codec_that_expands_is_warned_of(pair):
    bad = "ef | randomk(0.01, unbiased=true, dense=0)"
    for said in pair.values("warned", codecs=[bad, "ef | randomk(0.01)"]):
        assert len(said[bad]) == 1 and "what `ef` holds back may grow without bound" in said[bad][0]
        assert said["ef | randomk(0.01)"] == []


def test_bad_calls(pair):
    wanted = {
        "no ddp": "wants a DistributedDataParallel module, not Net",
        "not compressed": "not compressed",
        "unknown": "did you mean `topk`?",
        "range": "ratio must be in (0, 1]",
        "aggregator": "cannot be summed",
        "neither": "either a codec or a schedule",
        "both": "either a codec or a schedule",
        "schedule order": "later than the one before",
        "schedule start": "begins at step 0",
        "schedule later": "did you mean `topk`?",
        "schedule drops": "write `ef | f32`",
        "schedule changes memory": "write `ef` in place of `momentum`",
        "rate": "`memsgd` wants the learning rate",
        "schedule fraction": "the step a whole number",
        "rule unused": "'*.wieght' applies to no parameter",
        "rules all": "none is left",
        "nonfinite": "one of raise, propagate",
        "start_after": "not negative",
        "bucket": "bucket_mb=0",
        "timeout": "timeout=0",
        "short timeout": "timeout=0.0005: wants seconds from 0.001",
        "timeout type": "timeout='long': wants seconds",
        "codec type": "codec=5: wants a sentence",
        "aggregator type": "aggregator=None: wants a name",
        "unknown aggregator": "aggregator gahter: unknown aggregator `gahter`",
        "bucket type": "bucket_mb='4': wants a number",
        "seed type": "seed=1.5: wants a whole number",
        "rules type": "rules=['*.bias']: wants a mapping",
        "rule type": "rules['*.bias']=3: wants a sentence",
        "twice": "compressed already",
        "other hook": "hook already",
        "double": "of type Double",
        "sparse": "makes sparse gradients",
        "op": "op is one of avg, sum, min, max",
        "op type": "op=3: wants one of avg, sum, min, max",
        "no tensor": "tensor: wants a torch.Tensor that has values, not list [1.0]",
        "aggregate by": "aggregator xx: unknown aggregator `xx`",
        "op and codec": 'goes with codec="none" alone',
        "memory": "leave `ef` out",
        "type": "cannot be aggregated",
        "average of integers": "cannot be encoded",
    }
    for said in pair.values("bad_calls"):
        assert said.keys() == wanted.keys()
        for name, text in wanted.items():
            assert text in said[name], name
            assert "--" not in said[name], name
