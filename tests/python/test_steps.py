"""Each rank has its own model: gossip and local steps, compared with models in numpy."""

import numpy as np
import pytest

SIZE = 4
LR = 0.1


@pytest.fixture(scope="module")
def quartet(start_ranks):
    return start_ranks(SIZE)


def start():
    return np.tile(np.linspace(-1, 1, 5, dtype=np.float32), (SIZE, 1))


def targets():
    return np.outer(np.arange(SIZE) + 1.0, np.arange(5))


def ring():
    """The mixing matrix of a ring of four: each rank keeps a third, and sends a third to either side."""
    return sum(np.roll(np.eye(SIZE), by, axis=1) for by in (-1, 0, 1)) / 3


def trajectory(found):
    """The answers of ranks, ordered by step, rank and element."""
    return np.array(found).swapaxes(0, 1)


def test_d_psgd_on_a_ring(quartet):
    found = trajectory(quartet.values("points", how="d_psgd", topology="ring", steps=5))
    x = start()
    for step in range(6):
        assert found[step] == pytest.approx(x, abs=1e-5), step
        x = ring() @ x - LR * (x - targets())


def test_push_sum_on_a_ring_with_momentum(quartet):
    found = trajectory(quartet.values("points", how="push_sum", topology="ring", steps=6, momentum=0.9))
    x, velocity = start(), 0
    for step in range(7):
        assert found[step] == pytest.approx(x, abs=2e-5), step
        velocity = 0.9 * velocity + (x - targets())
        x = ring() @ (x - LR * velocity)


def test_peers_may_become_more(quartet):
    """The first rounds have one peer of the exponential graph; from step 3 on there are two."""
    one, two = ({"how": "push_sum", "topology": f"exponential(peers={peers})"} for peers in (1, 2))
    changes = {"how": "push_sum", "topology": "exponential", "peers_per_step": [(0, 1), (3, 2)]}
    few, many, both = (trajectory(quartet.values("points", steps=6, **how)) for how in (one, two, changes))
    assert np.array_equal(both[:4], few[:4])
    assert not np.array_equal(both[4], few[4]) and not np.array_equal(both[1], many[1])
    assert both[6] == pytest.approx(many[6], abs=0.5)


def test_push_sum_with_overlap(quartet):
    """A message that is sent after a step arrives after the next one, and gradients are taken at x / w."""
    found = trajectory(quartet.values("points", how="push_sum(overlap=true)", topology="ring", steps=6))
    x, w, x_late, w_late = start(), np.ones((SIZE, 1)), 0, 0
    others = ring() - np.eye(SIZE) / 3
    for step in range(7):
        assert found[step] == pytest.approx(x / w, abs=2e-5), step
        x = x - LR * (x / w - targets()) + x_late
        w = w + w_late
        x_late, w_late = others @ x, others @ w
        x, w = x / 3, w / 3


@pytest.mark.parametrize("how", [
    {"how": "push_sum", "topology": "exponential"}, {"how": "push_sum", "topology": "bipartite_exponential"},
    {"how": "push_sum", "topology": "ring", "codec": "bf16"},
    {"how": "choco", "topology": "ring", "codec": "topk(0.4, dense=0)"}, {"how": "d_psgd", "topology": "hypercube"},
], ids=str)
def test_the_sum_stays(quartet, how):
    """With a rate of 0 the mean of the ranks stays; with another rate it moves by the mean gradient."""
    found = trajectory(quartet.values("points", steps=4, lr=0.0, **how))
    assert found[0] == pytest.approx(start())
    moving = trajectory(quartet.values("points", steps=4, lr=LR, **how))
    mean = start().mean(0)
    for step in range(5):
        assert found[step].mean(0) == pytest.approx(start().mean(0), abs=1e-6), step
        assert moving[step].mean(0) == pytest.approx(mean, abs=1e-5), step
        mean = mean - LR * (moving[step] - targets()).mean(0)
    assert np.abs(moving[4] - moving[4].mean(0)).max() > 1e-3  # the ranks do differ


def test_local_steps(quartet):
    found = trajectory(quartet.values("points", how="local", every=3, after=1, steps=8))
    x = start()
    for step in range(9):
        assert found[step] == pytest.approx(x, abs=1e-5), step
        x = x - LR * (x - targets())
        if step in (0, 3, 6):
            x = np.tile(x.mean(0), (SIZE, 1))


@pytest.mark.parametrize(("lr", "momentum"), [(0.7, 0.9), (1, 0)])
def test_diloco(quartet, lr, momentum):
    found = trajectory(quartet.values("points", how="diloco", every=2, outer_lr=lr, outer_momentum=momentum, steps=8))
    x, outer, velocity = start(), start()[0].astype(float), 0
    for step in range(9):
        assert found[step] == pytest.approx(x, abs=1e-4), step
        x = x - LR * (x - targets())
        if step % 2 == 1:
            gradient = outer - x.mean(0)
            velocity = momentum * velocity + gradient
            outer = outer - lr * (gradient + momentum * velocity if momentum else gradient)
            x = np.tile(outer, (SIZE, 1))


def test_diloco_with_overlap(quartet):
    found = trajectory(quartet.values("points", how="diloco", every=3, outer_lr=1, outer_momentum=0, overlap=1, alpha=0.25,
                                      steps=7))
    x, late = start(), None
    for step in range(8):
        assert found[step] == pytest.approx(x, abs=1e-5), step
        x = x - LR * (x - targets())
        if late is not None:
            x, late = 0.25 * x + 0.75 * late, None
        if step % 3 == 2:
            late = x.mean(0)


@pytest.mark.parametrize("ranks, codec", [("quartet", "none"), ("pair", "bf16")])
def test_ad_psgd_at_each_ranks_own_speed(request, ranks, codec):
    """Whichever ranks average, and whenever, the mean model moves by the steps of all ranks: none is lost or counted twice."""
    found = request.getfixturevalue(ranks).values("own_speed", enough=40, codec=codec)
    for rank, each in enumerate(found):
        assert each["mean"] == found[0]["mean"] and each["steps"] == found[0]["steps"] and each["start"] == found[0]["start"]
    went = np.sum([each["went"] for each in found], axis=0) / len(found)
    assert found[0]["mean"] == pytest.approx(np.array(found[0]["start"]) + went, abs=1e-4)
    first, second = (np.array(steps) for steps in found[0]["steps"])
    assert first.sum() >= 40 and second.sum() >= 80 and first[0] < first[1:].min() and (first < second).all()


@pytest.mark.parametrize("how", [{"how": "push_sum"}, {"how": "d_psgd", "topology": "complete"}], ids=str)
def test_nodes_whose_ranks_share_a_model(quartet, pair, how):
    """Four ranks in two nodes equal two ranks with twice the batch, even with Adam."""
    found = quartet.values("nodes", node_size=2, ranks=4, **how)
    wanted = pair.values("nodes", node_size=1, ranks=4, **how)
    owns = [own for own, _ in found]
    assert owns[0] == owns[1] and owns[2] == owns[3]
    for own, mean in found:
        assert mean == pytest.approx(wanted[0][1], abs=2e-4)


def test_ranks_of_a_node_may_be_in_different_groups(pair):
    """torch names a group by the number of groups that a rank is in, which made such ranks wait for each other."""
    found = pair.values("nodes_beside_a_group")
    assert found[0] == found[1]


@pytest.mark.parametrize(("what", "why"), [("nan", "NumericError: "), ("shape", "ConfigError: parameter out.bias is float32 of shape [3]")])
def test_a_rank_of_ad_psgd_that_fails(pair, what, why):
    (other, _), (bad, again) = found = pair.values("own_speed_fails", what=what)
    assert bad.startswith(why) and bad == again, found
    assert other.startswith("CommError: ") and "rank 1" in other, found


@pytest.mark.parametrize("how", [
    {"how": "push_sum", "topology": "ring"}, {"how": "d_psgd", "topology": "ring"}, {"how": "choco", "topology": "ring"},
    {"how": "local", "every": 4}, {"how": "diloco", "every": 5, "overlap": 2},
], ids=str)
def test_the_mean_model(quartet, how):
    own, shown, again, agreed = trajectory(quartet.values("mean_in_the_end", **how))
    assert np.array_equal(own, again)
    assert np.abs(own - own.mean(0)).max() > 1e-3
    for rank in range(SIZE):
        assert np.array_equal(shown[rank], shown[0]) and np.array_equal(agreed[rank], agreed[0])
        assert shown[rank] == pytest.approx(own.mean(0), abs=1e-5)
        if "overlap" not in how:  # with overlap, messages on their way are added
            assert agreed[rank] == pytest.approx(own.mean(0), abs=1e-5)


HOWS_BY_HAND = [{"how": "push_sum", "topology": "complete"}, {"how": "d_psgd", "topology": "complete"},
                {"how": "local", "every": 3}]
RESUMED = [
    {"how": "push_sum", "topology": "exponential"}, {"how": "push_sum(overlap=true)", "topology": "star"},
    {"how": "push_sum", "topology": "exponential", "peers_per_step": [[0, 1], [3, 2]]},
    {"how": "d_psgd", "topology": "ring"}, {"how": "choco", "topology": "ring", "codec": "topk(0.05) | qsgd(4)"},
    {"how": "local", "every": 2, "codec": "ef | topk(0.1)"},
    {"how": "diloco", "every": 4, "shards": 2, "overlap": 1, "codec": "ef | int8", "bucket_mb": 0.01},
]


@pytest.mark.parametrize("how", RESUMED, ids=str)
def test_a_resume_is_exact(trio, tmp_path, how):
    straight = trio.values("steps_straight", steps=7, **how)
    trio.values("steps_saved", steps=4, folder=str(tmp_path), **how)
    for late in (False, True):  # before or after the model's own state
        assert trio.values("steps_resumed", first=4, steps=3, folder=str(tmp_path), late=late, **how) == straight
    assert trio.values("steps_straight", steps=6, **how) != straight


def test_all_begin_alike(trio):
    first, *others = trio.values("alike_at_the_start")
    assert all(other == first for other in others)


def test_statistics_are_averaged_where_models_are(trio):
    found = trio.values("statistics")
    assert len({alike for alike, *_ in found}) == 1
    own = np.array([before for _, before, *_ in found])
    assert np.abs(own - own[0]).max() > 1e-4
    for _, before, within, after, mask_stays in found:
        assert mask_stays and before == after and within == pytest.approx(own.mean(0), abs=1e-6)


def test_buffers_keep_their_precision(trio):
    """In the mean model, and after take_average()."""
    for shown, taken in trio.values("precise_statistics"):
        assert shown == taken
        wide = shown.pop("wide")
        assert shown == {"alike": [123456789.25, -1e300], "short": [2.0, 65504.0], "mask": [float("inf"), 0.0]}
        assert wide == pytest.approx([123456790.25, 1.7e308], rel=1e-15)


def test_buffers_of_other_shapes_have_no_mean(trio):
    for said in trio.values("caches"):
        assert "rank 1 has other buffers than rank 0" in said and "the shape of table is (5) there, and (4) on rank 0" in said


@pytest.mark.parametrize("statistics", [True, False])
def test_a_new_buffer_of_one_rank(pair, statistics):
    for said, again in pair.values("another_buffer", statistics=statistics):
        assert "rank 1 has other buffers than rank 0" in said and "table" in said and again


def test_loops_of_all_kinds(trio):
    for plain, fancy in trio.values("loops"):
        assert plain == fancy


@pytest.mark.parametrize("how", ["local", "d_psgd", "push_sum"])
def test_optimizers_that_call_the_step_of_their_base(trio, how):
    """torch then runs the hooks twice a step, one pair within the other."""
    for plain, nested, said in trio.values("nested_steps", how=how):
        assert plain == nested
        assert said == ["no gradients today", "no step has begun that could end"]


@pytest.mark.parametrize("how", ["local", "diloco", "push_sum", "d_psgd"])
def test_a_step_of_sam_is_one_step(pair, how):
    """However its two halves are called, and whichever of its two optimizers is given."""
    for ends in pair.values("sam", how=how):
        assert [steps for _, steps in ends] == [3, 3, 3]
        assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("how", ["local", "diloco", "push_sum"])
def test_a_later_phase_has_another_optimizer(pair, how):
    """Models are mixed after its steps, too; in each by one wrapper alone."""
    one = pair.values("phases", how=how, anew=False)
    assert one[0] == one[1] and one[0][1] == [4]
    if how != "diloco":  # whose outer momentum is reset with the wrapper
        assert pair.values("phases", how=how, anew=True) == 2 * [[one[0][0], [2, 2]]]


@pytest.mark.parametrize("again", [False, True])
def test_ranks_that_are_left_alone_are_told(pair, again):
    for said in pair.values("left_alone", again=again):
        assert len(said) == (0 if again else 1) and all(text.startswith("each rank trains alone: ") for text in said)


def test_optimizers_of_parts_of_a_module_take_turns(pair):
    """A step of the one that was not given belongs to the next step of the given one."""
    (steps, ends, said), other = pair.values("optimizers_of_parts")
    assert other == [steps, ends, said] and steps == 3
    assert "two optimizers, SGD and SGD, take steps" in said and "wrap the module again with the second" in said


def test_an_optimizer_as_accelerate_wraps_it(pair):
    assert pair.values("wrapped_optimizer") == 2 * [[1, 1, 1]]


def test_what_the_mean_model_forbids(trio):
    for said, before, after, again in trio.values("within_average"):
        assert [text for text in said if "average()" in text] == said and len(said) == 4
        assert before == after == again


def test_an_interrupt_while_the_mean_is_made(trio):
    for rank, (before, after, mean) in enumerate(trio.values("interrupted_average")):
        assert before == after and mean == pytest.approx([p + 1 - rank for p in before])


def test_weights_that_were_changed_by_hand(trio):
    """Changes before the first step belong to the start; changes after a step belong to the next step."""
    line = np.linspace(-1, 1, 5)
    for found in trio.values("weights_changed_by_hand"):
        assert found == pytest.approx(line + 1 + 1 + 1, abs=1e-5)  # 1, and twice the mean of 0, 1, 2


@pytest.mark.parametrize("how", HOWS_BY_HAND, ids=str)
def test_a_state_keeps_changes_by_hand(trio, how):
    for straight, resumed, loaded, saved in trio.values("changed_by_hand_and_saved", **how):
        assert straight == resumed and loaded == saved


@pytest.mark.parametrize("how", HOWS_BY_HAND, ids=str)
def test_all_agree_on_what_was_changed_by_hand(trio, how):
    before, after, end = np.array(trio.values("changed_by_hand_and_agreed", **how)).swapaxes(0, 1)
    assert np.array_equal(after[1:], after[:-1])
    assert after[0] == pytest.approx(before.mean(0), abs=1e-5)
    assert end.mean(0) == pytest.approx(before.mean(0), abs=1e-5)  # the change is counted once


def test_local_steps_of_one_are_the_mean_gradient(trio):
    for local, all_reduce, ddp in trio.values("local_of_one", ranks=3):
        assert local < 1e-5 and all_reduce < 1e-6 and ddp == 0


def test_stats(trio):
    for stats in trio.values("step_stats", how="push_sum", topology="ring"):
        assert stats["methods"] == "push_sum: f32 by gossip\n"
        assert 8 * 2 * 4 * stats["numel"] < stats["bytes_sent"] < 8 * 2 * (4 * stats["numel"] + 1000)
        assert stats["dense_bytes"] == 8 * (stats["numel"] * 4 * 4 // 3)
    for stats in trio.values("step_stats", how="local", every=4, codec="ef | int8"):
        assert stats["ratio"] > 10 and stats["encode_seconds"] > 0


def test_two_wrapped_modules(pair):
    assert pair.values("two_wrapped") == [[3, 1], [3, 1]]
