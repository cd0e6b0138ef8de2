"""sotto.compress on DistributedDataParallel: its means, on processes over Gloo."""

import pytest


@pytest.mark.parametrize("how", [
    {"dtype": "float32"},
    {"dtype": "float32", "accumulate": 3},
    {"dtype": "float32", "channels_last": True},
    {"dtype": "float32", "options": {"gradient_as_bucket_view": True}},
    {"dtype": "float32", "options": {"static_graph": True}},
    {"dtype": "float32", "options": {"find_unused_parameters": True}, "extra": False},
    {"dtype": "bfloat16"},
    {"dtype": "float16"},
], ids=str)
def test_codec_none_is_plain_ddp(pair, how):
    for (ours, theirs), steps in pair.values("dense_is_ddp", **how):
        assert ours == theirs
        assert steps == 4


@pytest.mark.parametrize("codec", ["ef | topk(0.1) | qsgd(4)", "qsgd(4)"])
def test_ddps_own_buckets_change_nothing(pair, codec):
    """DDP rebuilds its buckets after the first step; the largest size gives one bucket for all parameters."""
    digests = pair.values("with_ddp_buckets", caps=[0.001, 0.01, 25], codec=codec, bucket_mb=0.01)
    assert len({digest for of_rank in digests for digest in of_rank}) == 1


@pytest.mark.parametrize("options", [
    {"codec": "ef | topk(0.05)"},
    {"codec": "ef | topk(0.05) | f16", "rules": {"*.bias": "none", "conv.*": "ef | f16"}, "bucket_mb": 0.005},
    {"codec": "ef | topk(0.05)", "start_after": 2},
    {"codec": "power(1)"},
    {"schedule": [[0, "none"], [1, "ef | topk(0.1)"], [4, "ef | topk(0.02)"]]},
    {"schedule": [[0, "ef | topk(0.1)"], [3, "ef | f32"]]},
    {"codec": "ef | topk(0.05)", "aggregator": "scatter_reduce"},
    {"schedule": [[0, "ef | topk(0.1)"], [4, "ef | topk(0.02)"]], "aggregator": "scatter_reduce"},
    {"schedule": [[0, "ef | topk(0.1)"], [3, "ef | f32"]], "aggregator": "scatter_reduce"},
], ids=str)
def test_nothing_is_lost(pair, options):
    """The applied means and all that is held back add up to the means of plain DDP, over rebuilt buckets and new phases."""
    for found in pair.values("conservation", steps=7, **options):
        assert found["applied"] + found["pending"] == pytest.approx(found["dense"], abs=1e-4)
        last = options.get("schedule", [[0, options.get("codec")]])[-1][1]
        if last == "ef | f32":
            assert found["pending"] == pytest.approx(0, abs=1e-9)
            assert found["changed"] < 1e-5
        else:
            assert found["changed"] > 1e-3  # something was held back


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("codec", ["none", "qsgd(4)", "ef | topk(0.05) | int8", "ef | sign(block=128)", "power(1)",
                                   "atomo(5%)", "svd | atomo(s=3)", "auto", "auto(medium)"])
def test_replicas_are_identical(pair, codec, dtype):
    first, second = pair.values("replicas", codec=codec, dtype=dtype)
    assert first == second


def test_replicas_of_rules_and_aggregators(trio):
    for options in ({"rules": {"*.bias": "none", "out.*": "int8"}}, {"aggregator": "gather"}, {"aggregator": "scatter_reduce"}):
        assert len(set(trio.values("replicas", codec="ef | topk(0.05) | f16", dtype="float32", **options))) == 1


def test_replicas_that_differ_are_found(pair):
    for failed in pair.ask("replicas_that_differ"):
        assert failed.kinds[0] == "NumericError"
        assert "rank 1 has other parameters than rank 0 at the start of step 2" in str(failed)


@pytest.mark.parametrize("codec", ["none", "ef | topk(0.05)"])
def test_unused_parameters(pair, codec):
    first, second = pair.values("unused", codec=codec)
    assert first == second


@pytest.mark.parametrize("size", [2, 3])
def test_uneven_inputs(pair, trio, size):
    """DDP's join(): a rank that has ended adds zeros until the longest one ends."""
    for codec in ("none", "ef | topk(0.1) | qsgd(4)"):
        found = (pair if size == 2 else trio).values("uneven", codec=codec)
        assert len({ours for ours, _, _ in found}) == 1
        assert {steps for _, _, steps in found} == {3 + 2 * (size - 1)}
        if codec == "none" and size == 2:
            assert found[0][0] == found[0][1]


def test_stats(pair):
    dense, sparse = (pair.values("compressed_stats", codec=codec) for codec in ("none", "ef | topk(0.01)"))
    for stats in dense:
        assert stats["steps"] == 6
        assert stats["bytes_sent"] == stats["bytes_received"] == stats["dense_bytes"] == 6 * 4 * stats["numel"] or (
            0 <= stats["bytes_sent"] - stats["dense_bytes"] < 6 * 64 * 10)  # segments are padded to 64 bytes
        assert stats["wire_seconds"] > 0
        assert stats["methods"].startswith("f32 by all_reduce")
    for stats in sparse:
        assert stats["ratio"] == pytest.approx(stats["dense_bytes"] / stats["bytes_sent"])
        assert stats["ratio"] > 15
        assert stats["encode_seconds"] > 0 and stats["decode_seconds"] > 0


def test_rules_have_their_own_codecs(pair):
    for stats in pair.values("compressed_stats", codec="ef | topk(0.1)", rules={"*.bias": "none", "conv.*": "int8"}):
        lines = stats["methods"].splitlines()
        assert lines[0].startswith("f32 by all_reduce")
        assert lines[1].startswith("int8") and lines[2].startswith("ef | topk")


def test_a_schedule_keeps_its_steps(pair):
    for methods in pair.values("schedule_by_step", schedule=[[0, "none"], [2, "int8"], [3, "ef | topk(0.1)"]], steps=4):
        assert [method.split("(")[0].split(" by")[0] for method in methods] == ["f32", "f32", "int8", "ef | topk"]
