"""sotto.AllReduceDataParallel does for plain modules what DistributedDataParallel does with sotto.compress."""

import pytest


@pytest.mark.parametrize("how", [
    {"codec": "none"},
    {"codec": "none", "channels_last": True},
    {"codec": "none", "accumulate": 3},
    {"codec": "none", "dtype": "bfloat16"},
    {"codec": "ef | topk(0.1) | qsgd(4)"},
    {"codec": "ef | topk(0.1)", "rules": {"*.bias": "int8"}, "dtype": "float16"},
    {"codec": "ef | topk(0.1)", "start_after": 2, "aggregator": "scatter_reduce"},
    {"codec": "ef | topk(0.1)", "extra": False},
], ids=str)
def test_it_is_ddp_to_the_last_bit(pair, how):
    for ours, theirs, bytes_too in pair.values("same_as_ddp", check_replicas=2, **how):
        assert ours == theirs and bytes_too


def test_a_resume_is_exact(pair, tmp_path):
    straight = pair.values("all_reduce_resumed", folder=str(tmp_path), steps=6)
    pair.values("all_reduce_resumed", folder=str(tmp_path), steps=3)
    assert pair.values("all_reduce_resumed", folder=str(tmp_path), steps=3, first=3) == straight


def test_a_gradient_that_is_not_finite(pair):
    other, bad = pair.ask("all_reduce_fails", how="nan")
    assert bad.kinds[0] == "NumericError" and "rank 1" in str(bad) and "step 2" in str(bad)
    assert other.kinds[0] == "CommError" and str(bad) in str(other)


def test_a_rank_that_dies(start_ranks):
    left, gone = start_ranks(2).ask("all_reduce_fails", how="dies")
    assert gone is None
    assert left.kinds[0] == "CommError" and "with rank 1 at step 2" in str(left)


def test_a_gradient_of_another_shape(pair):
    other, bad = pair.ask("all_reduce_fails", how="shape")
    assert bad.kinds[0] == "ConfigError" and "the gradient of out.bias is sparse, or of another shape" in str(bad)
    assert other.kinds[0] == "CommError" and "rank 1" in str(other)


def test_a_second_gradient_on_one_rank(pair):
    other, bad = pair.ask("second_gradient")
    assert bad.kinds[0] == "ConfigError" and "a second gradient of" in str(bad)
    assert other.kinds[0] == "CommError" and str(bad) in str(other)


def test_bad_calls(pair):
    wanted = {"codec": "did you mean `topk`?", "double": "of type float64", "frozen": "no parameter that is trained",
              "no module": "wants a torch.nn.Module, not int", "sparse": "makes sparse gradients",
              "group": "process_group=3", "twice": "a second gradient of"}
    for said in pair.values("all_reduce_errors"):
        assert said.keys() == wanted.keys()
        for name, text in wanted.items():
            assert text in said[name], name


def test_parameters_that_change_their_kind(pair):
    """Without these errors, each rank would train its own, and only check_replicas could tell, but looks at the others."""
    for said, moved in pair.values("parameters_that_change_their_kind"):
        for name, text in said.items():
            assert text == "nothing" if name.endswith("the same") else "wrap the module again" in text, (name, text)
        assert moved[:2] == [0, 0] and moved[2] > 0


def test_wrapping_twice_and_again(pair):
    (said, other, steps, model), (said_too, bad, *rest) = pair.values("all_reduce_twice")
    assert said == said_too and "expected an argument" in said["refused"]
    assert all("train the newer AllReduceDataParallel" in said[name] for name in ("older", "node"))
    assert [other, bad] == ["CommError", "ZeroDivisionError"] and steps == 2 and rest == [steps, model]


def test_one_rank_wraps_again_while_another_waits(pair):
    (said, *rest), (_, *rest_too) = pair.values("wrapped_anew_by_one")
    assert "rank 1" in said and "wrapped again" in said and rest[0] == 2 and rest == rest_too


def test_nobody_trains_alone_after_a_failure(pair):
    (other, _, *others), (bad, _, *bads) = pair.values("used_after_a_failure")
    assert bad.startswith("ZeroDivisionError") and "the last backward ended early" in bads[0] and bads == 2 * bads[:1]
    assert other.startswith("CommError") and others == [other, other]


def test_hooks_in_backward(pair):
    (other, seen), (bad, seen_too) = pair.values("hooks_in_backward")
    assert seen == seen_too == 2
    for text in (other["before"], bad["before"], bad["later"]):
        assert "parameter out.bias has a hook" in text and "after backward()" in text and "register_hook" in text
    assert bad["later"] == f"ConfigError: {bad['before']}" and bad["before"] in other["later"]
    assert "an optimizer that works inside backward" in bad["optimizer"]


@pytest.mark.parametrize("scenario", ["backward_within_backward", "a_step_after_a_backward_that_failed"])
def test_gradients_of_several_backward_passes(pair, scenario):
    for said in pair.values(scenario):
        for text in said.values():
            assert "or one of another backward" in text and "wrap the module again" in text
            assert "use_reentrant=False" in text and "an autograd.Function" in text


def test_compiled_autograd(pair):
    for refused in pair.ask("compiled_backward"):
        assert refused.kinds[0] == "ConfigError" and "compiled_autograd off" in str(refused)
