"""An error of one rank ends the step on all, as an exception of backward that names rank and step."""

import copy
import pickle
import subprocess
import sys

import pytest


def test_a_gradient_that_is_not_finite(pair):
    other, bad = pair.ask("not_finite", nonfinite="raise")
    assert bad.kinds[:2] == ["NumericError", "Error"]
    assert "rank 1" in str(bad) and "step 2" in str(bad)
    assert other.kinds[0] == "CommError"
    assert f"with rank 1 at step 2: it gave up (because of {bad})" in str(other)


def test_not_finite_as_ddp_has_it(pair):
    answers = pair.values("not_finite", nonfinite="propagate")
    for found in answers:
        assert found["nans"] == found["of"]
        assert found["memory kept"]
        assert found["steps"] == 4
    assert answers[0]["digest"] == answers[1]["digest"]


def test_a_failed_module_can_be_looked_at(pair):
    assert pair.values("again_after_an_error") == [["NumericError", 0], ["CommError", 0]]


@pytest.mark.parametrize("name, own", [
    ("AllReduceDataParallel", "model.module"), ("GossipDataParallel", "model.module"), ("LocalSGD", "the module that it was made for"),
    ("DiLoCo", "the module that it was made for")])
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_wrapper_is_not_copied(package, name, own, how):
    kind = getattr(package, name)
    with pytest.raises(package.ConfigError, match=f"^{name} is connected to other ranks, and can be neither copied nor saved; copy {own}, "):
        how([kind.__new__(kind)] if how is not copy.copy else kind.__new__(kind))


def test_a_rank_that_stalls(start_ranks):
    waiting, absent = start_ranks(2).ask("stalls", timeout=5)
    assert waiting.kinds[0] == "CommError"
    assert "rank 0" in str(waiting) and "rank 1 at step 1" in str(waiting) and "timed out after 5 s" in str(waiting)
    assert absent is None  # its return value, as it waits for no rank


def test_a_rank_that_dies(start_ranks):
    left, gone = start_ranks(2).ask("dies")
    assert gone is None
    assert left.kinds[0] == "CommError"
    assert "with rank 1 at step 1" in str(left) and "closed" in str(left)


@pytest.mark.parametrize(("what", "difference"), [
    ("codec", "codec is qsgd(bits=4"), ("seed", "seed is 2 there, and 1 on rank 0"),
    ("bucket_mb", "bucket_mb is 2 there, and 4 on rank 0"), ("start_after", "codec is from step 0: "),
    ("rules", "rules['*.bias'] stands there where rank 0 has codec"), ("dtype", "conv.weight is f16 (4, 1, 3, 3)"),
    ("aggregator", "aggregator of codec is gather there, and auto on rank 0"),
    ("check_replicas", "check_replicas is 1 there, and 0 on rank 0"),
    ("nonfinite", "nonfinite is propagate there, and raise on rank 0"), ("scaler", "scaler is one there, and none on rank 0"),
    ("wrapper", "what is averaged is tensors there, and gradients on rank 0"),
])
def test_ranks_that_compress_differently(pair, what, difference):
    for failed in pair.ask("differently", what=what):
        assert failed.kinds[0] == "ConfigError"
        assert f" than rank 0, or in another way: {difference}" in str(failed)


def test_a_rank_that_missed_a_call(pair):
    """The ranks that waited for it get an error; the next call, which all make, succeeds."""
    first, second = pair.values("missed")
    assert [len(said) for said, _ in (first, second)] == [1, 2]
    assert "rank 1 did not come within 0.3 s" in first[0][0]
    assert all(text.startswith("CommError: ") and "rank 0 did not come within 0.3 s" in text for text in second[0])
    assert first[1] == second[1]


def test_all_hear_of_a_failed_hook(pair):
    other, bad = pair.ask("fails_in_the_hook")
    assert bad.kinds[0] == "AttributeError"
    assert other.kinds[0] == "CommError" and "rank 1" in str(other) and str(bad) in str(other)


@pytest.mark.parametrize("how", ["ddp", "compiled", "all reduce"])
def test_a_parameter_frozen_when_wrapped_cannot_be_trained(pair, how):
    other, bad = pair.ask("unfrozen", how=how)
    assert bad.kinds[0] == "ConfigError" and "parameter out.bias was not wrapped with the others, since it was frozen" in str(bad)
    assert other.kinds[0] == "CommError" and "rank 1" in str(other) and str(bad) in str(other)


@pytest.mark.parametrize("how", ["deepcopy", "save"])
def test_a_copy_of_a_compressed_module(pair, how):
    """It may evaluate, says that it is not compressed if it is trained, and may be compressed, too."""
    for (no_grad, evaluated, trained, compressed), same, copies, own in pair.values("copies", how=how):
        assert no_grad == evaluated == compressed == [] and len(trained) == 1 and same
        assert "this is a copy of a module that sotto.compress compressed, and not compressed itself" in trained[0]
        assert copies == 1 and own == 0


@pytest.mark.parametrize(("how", "why"), [
    ("mixed", "was made with mixed_precision="), ("in backward", "an optimizer that takes its steps inside backward"),
    ("fused", "an optimizer that takes its steps inside backward"), ("delayed", "was made with delay_all_reduce_named_params="),
    ("skipped", "was made with skip_all_reduce_unused_params="), ("python", 'optimize_ddp = "python_reducer"'),
])
def test_hooks_that_ddp_has_itself(pair, how, why):
    for failed in pair.ask("hooked_by_ddp", how=how):
        assert failed.kinds[0] == "ConfigError" and why in str(failed)


def test_what_is_not_plain_is_named(pair):
    for said in pair.values("not_plain"):
        for name in ("all reduce", "gossip", "local", "diloco", "compress"):
            assert "parameter weight is a DTensor" in said[name], name
        for name in ("aggregate", "codec", "ratio", "gossiper"):
            assert "tensor: is a DTensor" in said[name], name
        for name in ("gossip of ddp", "local of ddp", "all reduce of ddp"):
            assert "it is a DistributedDataParallel, which exchanges with other ranks itself" in said[name], name
        assert "0 is a DistributedDataParallel" in said["gossip within"]
        assert "it is a AllReduceDataParallel" in said["gossip of all reduce"]
        assert "it is a GossipDataParallel" in said["compress of gossip"]
        for name in ("sparse all reduce", "sparse gossip"):
            assert "parameter mask is sparse; ranks exchange dense tensors" in said[name], name
        assert "buffer table is sparse" in said["sparse buffer"]


@pytest.mark.parametrize(("how", "missing"), [("unfrozen", "hidden.weight"), ("added", "added.weight, added.bias")])
def test_parameters_that_ddp_does_not_reduce(pair, how, missing):
    for failed in pair.ask("not_reduced", how=how):
        assert "ConfigError" in failed.kinds or "CommError" in failed.kinds
        assert f"DDP does not reduce {missing}: " in str(failed)


def test_parameters_that_are_frozen_after_ddp_was_made(pair):
    """DDP reduces them, so they are averaged. It may also wait for their gradients, for ever."""
    assert pair.values("frozen_between", find_unused_parameters=True) == [True, True]
    for failed in pair.ask("frozen_between"):
        assert "ConfigError" in failed.kinds or "CommError" in failed.kinds
        assert "hidden.weight: frozen after DistributedDataParallel was made, which waits for gradients of it" in str(failed)


def test_a_parameter_replaced_after_ddp_was_made(pair):
    for failed in pair.ask("replaced"):
        assert "ConfigError" in failed.kinds or "CommError" in failed.kinds
        assert "DDP reduces a parameter of shape (10,) that its module no longer has" in str(failed)


@pytest.mark.parametrize("how", ["all reduce", "gossip", "local"])
@pytest.mark.parametrize(("what", "name"), [("buffer", "buffer table"), ("parameter", "frozen parameter table")])
def test_a_module_of_which_one_rank_has_more(pair, how, what, name):
    for failed in pair.ask("begins_with_more", how=how, what=what):
        assert failed.kinds[0] == "ConfigError" and "rank 1" in str(failed), failed
        assert f"{name} is float32 (3) there, and nothing on rank 0" in str(failed) or f"{name} stands there" in str(failed)


@pytest.mark.parametrize(("what", "difference"), [
    ("shape", "the shape is (500) there, and (1000) on rank 0"), ("type", "the type is f16 there, and f32 on rank 0"),
    ("op", "op is sum there, and avg on rank 0"), ("codec", "codec is qsgd(4) there, and int8 on rank 0"),
    ("aggregator", "aggregator is gather there, and auto on rank 0"), ("seed", "seed is 1 there, and 0 on rank 0"),
])
def test_ranks_that_aggregate_differently(pair, what, difference):
    for failed in pair.ask("aggregates_differently", what=what):
        assert failed.kinds[0] == "ConfigError"
        assert f"rank 1 aggregates another tensor than rank 0, or in another way: {difference}" in str(failed)


@pytest.mark.parametrize(("what", "why"), [
    ("rules", "'nope' applies to no parameter"), ("codec", "did you mean `topk`"), ("type", "seed='3': wants"),
    ("timeout", "timeout=1e-06: wants"), ("float64", "of type float64"), ("no ddp", "wants a DistributedDataParallel"),
])
def test_what_one_rank_refuses(pair, what, why):
    """A refusal ends the call on all ranks at once, with its reason; then they can call again."""
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
    """It is an error on all ranks at once, although each rank could encode its own tensor."""
    for said in pair.values("mean_too_large"):
        assert said.startswith("NumericError: "), said


def test_presets_tied_to_an_optimiser_warn(pair):
    wanted = {"dgc": "take sotto.optim.DGCSGD", "signsgd": "take torch.optim.SGD(momentum=0), at a rate near Adam's",
              "fetchsgd": "take torch.optim.SGD(momentum=0)", "demo-dct": "p.grad.sign_() before its step",
              "signum": "take the preset signsgd", "onebit-adam": "not momenta"}
    for said in pair.values("warned", codecs=[*wanted, "topk-ef", "ef | topk(0.1)", "topk(0.1)"]):
        for preset, torch_optimiser in wanted.items():
            texts = [text for text in said[preset] if f"{preset} is tied to the optimiser " in text]
            assert len(texts) == 1 and torch_optimiser in texts[0]
        assert "a memory sends it later: ef | topk(0.1)" in said["topk(0.1)"][0]
        assert said["topk-ef"] == [] and said["ef | topk(0.1)"] == []


def test_a_momentum_memory_wants_a_plain_optimiser(pair):
    makers = ["momentum | topk(0.1)", "velocity | qsgd(4)", "fetch | count_sketch"]
    for said in pair.values("warned", codecs=makers, start_after=3):
        for expression in makers:
            assert len(said[expression]) == 1, said
            made = expression.split(" | ")[0]
            assert f"{expression}: `{made}` makes the momentum, and here the optimiser is yours" in said[expression][0]


@pytest.mark.parametrize(("options", "wanted"), [
    ({"codec": "dgc", "rules": {"*.bias": "none"}}, "rules['*.bias']='none' makes no momentum, and 'dgc' wants an optimiser "
     "without: write 'momentum | f32',"),
    ({"codec": "velocity(m=0.8) | qsgd(4)", "rules": {"*.bias": "ef | f16"}}, "write 'velocity(m=0.8) | f16',"),
    ({"codec": "int8", "rules": {"conv.*": "momentum | topk(0.1)"}}, "codec='int8' makes no momentum, and 'momentum | topk(0.1)'"),
    ({"schedule": [(0, "none"), (5, "momentum | topk(0.1)")]}, "schedule='none' makes no momentum"),
    ({"codec": "dgc", "rules": {"*.bias": "momentum | f32"}, "start_after": 5}, ""),
    ({"codec": "ef | topk(0.1)", "rules": {"*.bias": "none"}}, ""),
], ids=str)
def test_parameters_without_momentum_are_warned_of(pair, options, wanted):
    codec, options = options.get("codec"), {key: value for key, value in options.items() if key != "codec"}
    for said in pair.values("warned", codecs=[codec], **options):
        texts = [text for texts in said.values() for text in texts if "makes no momentum" in text]
        assert [wanted in text for text in texts] == ([True] if wanted else [])


def test_a_memory_before_an_expanding_codec_warns(pair):
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
        "schedule later": "schedule='tokp': unknown codec, memory or preset `tokp`; did you mean `topk`?",
        "schedule range": "schedule='topk(7)': ratio must be in (0, 1]",
        "schedule empty": "schedule=[(0, ' ')]: wants pairs (first step, codec)",
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
        "no codec": "codec='': wants a codec",
        "codec type": "codec=5: wants a codec",
        "aggregator type": "aggregator=None: wants a name",
        "unknown aggregator": "aggregator='gahter': unknown aggregator `gahter`",
        "bucket type": "bucket_mb='4': wants a number",
        "seed type": "seed=1.5: wants a whole number",
        "rules type": "rules=['*.bias']: wants a mapping",
        "tied": "'head.weight' applies to no parameter; head.weight is tied to embedding.weight, whose name counts",
        "scaler": "scaler: wants a torch.amp.GradScaler, not float",
        "rule range": "rules['*.bia[!-]']='topk(7)': ratio must be in (0, 1]",
        "rule and rate": "rules['*.bias']='memsgd | int8': `memsgd` wants the learning rate",
        "rule type": "rules['*.bias']=3: wants a codec",
        "twice": "compressed already",
        "other hook": "hook already",
        "double": "of type float64",
        "sparse": "makes sparse gradients",
        "op": "op is one of avg, sum, min, max",
        "op type": "op=3: wants one of avg, sum, min, max",
        "no tensor": "tensor: wants a tensor, or an array that numpy can read, not list [1.0]",
        "aggregate by": "aggregator='xx': unknown aggregator `xx`",
        "op and codec": 'goes with codec none and aggregator auto alone',
        "op and aggregator": 'goes with codec none and aggregator auto alone',
        "memory": "leave `ef` out",
        "type": "cannot be aggregated",
        "average of integers": 'op="avg" of a tensor of int32: means have fractions; give it as float64',
        "coded integers": "cannot be compressed",
    }
    for said in pair.values("bad_calls"):
        assert said.keys() == wanted.keys()
        for name, text in wanted.items():
            assert text in said[name], name
            assert "--" not in said[name], name


FORKED = """
import gc, os, sys, torch, torch.distributed as dist, sotto
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
net = lambda: torch.nn.Linear(3, 1)
ddp = torch.nn.parallel.DistributedDataParallel(net())
kept = [sotto.AllReduceDataParallel(net()), sotto.compress(ddp, "qsgd(4)"), sotto.GossipDataParallel(net()), sotto.Gossiper(),
        sotto.Codec("int8", threads=2)]
for model in kept[:3]:
    model(torch.ones(2, 3)).sum().backward()
child = os.fork()
if child == 0:
    del kept, ddp, model
    gc.collect()
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_waits_for_no_threads(environment, tmp_path):
    """For example, a worker of a DataLoader that garbage-collects a wrapper."""
    job = subprocess.run([sys.executable, "-c", FORKED, tmp_path / "store"], env=environment, timeout=100, capture_output=True, text=True)
    assert job.returncode == 0, job.stderr
