"""Each rank has its own model: errors name the rank and the reason."""

import pytest

pytestmark = pytest.mark.slow

HOWS = [{"how": "push_sum", "topology": "ring"}, {"how": "push_sum(overlap=true)", "topology": "ring"},
        {"how": "d_psgd", "topology": "ring"}, {"how": "choco", "topology": "ring", "codec": "topk(0.1)"},
        {"how": "local", "every": 1}, {"how": "diloco", "every": 2, "overlap": 1}]


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_rank_that_dies(start_ranks, how):
    job = start_ranks(3)
    left, gone, other = job.ask("step_dies", **how)
    assert gone is None
    for failed in (left, other):
        assert failed.kinds[0] == "CommError"
    assert any("with rank 1" in str(failed) and "closed" in str(failed) for failed in (left, other))
    assert None not in job.leave()  # nothing keeps the others from ending


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_rank_that_fails(pair, how):
    (other, *_), (bad, *_) = found = pair.values("step_fails", **how)
    assert bad.startswith("NumericError: ") and "conv.weight" in bad and "rank 1" in bad
    assert other.startswith("CommError: ") and "rank 1" in other
    assert "rank 1: difference of conv.weight" in bad or how["how"] not in ("local", "diloco")
    for first, second, steps in found:
        assert first == second and 2 <= steps <= 4


@pytest.mark.parametrize("what", ["out.bias", "norm.running_var"])
@pytest.mark.parametrize("how", [*HOWS, {"how": "ad_psgd"}], ids=str)
def test_the_mean_of_a_nonfinite_model(pair, how, what):
    first, second = pair.values("bad_means", what=what, **how)
    assert first == second and len(first[0]) == 2
    assert all(said.startswith(f"rank 1: {what} is not finite") for said in first[0])


@pytest.mark.parametrize("how", ["local", "gossip"])
def test_a_wrapper_that_nobody_holds(pair, how):
    """It exchanges until another takes its place."""
    mine, others = pair.values("dropped", how=how)
    assert mine == others and mine[1:] == [1, 1]


@pytest.mark.parametrize("register", ["register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"])
def test_a_wrapper_that_is_collected_in_a_step(pair, register):
    assert pair.values("collected_in_a_step", register=register) == [1, 1]


def test_a_parameter_that_changes_its_shape(pair):
    other, bad = pair.ask("shape_changes")
    assert bad.kinds[0] == "ConfigError" and "parameter p is float32 of shape [3] now" in str(bad)
    assert other.kinds[0] == "CommError" and "rank 1" in str(other)


@pytest.mark.parametrize(("what", "why"), [
    ("model", "wraps another model"), ("seed", "wraps another model"), ("codec", "did you mean `topk`"),
    ("type", "is of type float64"),
])
def test_what_one_rank_refuses(pair, what, why):
    for said, again in pair.values("refused_by_one", what=what):
        assert why in said and again


@pytest.mark.parametrize(("what", "why"), [
    ("step", "the state of step"), ("other", "not the result of sotto.state_dict"), ("rank", "of rank 0, and this is"),
    ("damaged", "push_sum.x has 3 values"), ("kind", "`push_sum.x` in the state is neither"),
    ("no data", "meta"), ("lazy", "OSError: "),
    ("identity", "another compression"), ("ranks", "one of 7 ranks"),
])
def test_ranks_that_load_differently(pair, what, why):
    (other, first), (bad, second) = pair.values("loads_differently", what=what)
    assert why in bad and other.startswith("CommError: ") and first and second
    if what != "step":
        assert "rank 1 refuses its state" in other


def test_one_optimizer_wrapped_twice(pair):
    for said, others, both in pair.values("wrapped_twice"):
        assert all("mixed after the steps of this SGD already" in text for text in said) and len(said) == 2
        assert others == [1, 1] and both == [2, 2]


def test_wrapping_again_after_a_failure(pair):
    for failed, steps, end in pair.values("wrapped_anew"):
        assert failed == 3 and steps == 2 and end == pytest.approx([0.7] * 3)


def test_a_forward_after_a_failure(pair):
    for step, forward, replaced in pair.values("forward_after_a_failure"):
        assert forward == step and replaced.startswith("ConfigError") and "train the newer wrapper" in replaced


def test_a_wrapper_of_another_group_of_ranks(pair):
    for said, steps in pair.values("of_another_group"):
        assert len(said) == 7 and all("made in another group of ranks; make it within the function" in text for text in said)
        assert steps == 1


def test_uneven_commits(pair):
    """The error is the same on all ranks, and no CommError, after which a job would go back to the same commits."""
    assert pair.values("uneven_commits", how="local") == 2 * [
        "ConfigError: the last commit of rank 1 was after step 12, and rank 0's after step 2; call commit() on all ranks "
        "after the same steps"]


@pytest.mark.parametrize("how", [{"how": "push_sum"}, {"how": "local", "every": 3}], ids=str)
def test_a_group_after_changes_by_hand(pair, how):
    """Changes by hand are part of the mean. If no former rank is left, all have a former rank's model."""
    old = pair.values("rejoins", new=False, **how)
    mean = [sum(both) / 2 for both in zip(*(before for before, _ in old))]
    assert all(after == pytest.approx(mean, abs=1e-5) for _, after in old)
    new = pair.values("rejoins", new=True, **how)
    assert all(after == pytest.approx(new[0][0], abs=1e-5) for _, after in new)


def test_bad_calls(trio):
    wanted = {
        "algorithm": "did you mean `push_sum`?",
        "no gossip": "does not gossip; take push_sum",
        "own speed": "3 ranks are no even number",
        "algorithm type": "algorithm=3: wants an algorithm",
        "option": "synch_freq is of overlap=true",
        "topology": "did you mean `ring`?",
        "topology type": "wants a name, such as",
        "topology of other ranks": "each of 5 ranks",
        "topology's rank": "is not a list of ranks",
        "topology's columns": "column 0 of the matrix adds up to 0.75",
        "topology's shape": "a row and a column for each rank",
        "peers": "wants pairs of a step, ascending from 0",
        "peers too late": "wants pairs of a step, ascending from 0",
        "too many peers": "each has 2 peers, not 7",
        "fixed peers": "always has the same peers",
        "peers and mixing": "neighbours that both send",
        "peers and topology": "unknown topology `rign`",
        "peers of d_psgd": "has no peers whose number may change; push_sum has",
        "node size": "node_size: 3 ranks do not fall into nodes of 2",
        "nodes of hosts": "torchrun says in LOCAL_WORLD_SIZE",
        "nodes of ad_psgd": "those of a node go together",
        "bipartite": "3 ranks are no even number",
        "mixing": "did you mean `uniform`?",
        "doubly": "wants a doubly stochastic mixing",
        "codec": "only none, f16 and bf16",
        "choco": "changes them from round to round",
        "memory": "no memory",
        "double": "parameter p is of type float64",
        "half": "parameter p is of type bfloat16",
        "frozen": "no parameter that is trained",
        "no module": "wants a torch.nn.Module, not int",
        "group": "process_group=3",
        "other optimizer": "the optimizer has no parameter of the module",
        "no optimizer": "optimizer: wants a torch.optim.Optimizer, not NoneType",
        "every": "every=0",
        "local codec": "makes a momentum of gradients",
        "shards": "shards=3 of 1 buckets",
        "alpha": "alpha=7: wants a number from 0, below 1",
        "overlap": "overlap=4: must be below every=4",
        "outer momentum": "outer_momentum=1",
        "no state": "not compressed; call sotto.compress first, or wrap it",
        "in a step": "a step has begun with the last forward",
        "averaged": "train outside of",
        "two optimizers": "two optimizers, SGD and SGD",
        "replaced": "parameter p is no longer the one that was wrapped",
    }
    for said in trio.values("step_errors"):
        assert said.keys() == wanted.keys()
        for name, text in wanted.items():
            assert text in said[name], name
            assert "--" not in said[name], name
