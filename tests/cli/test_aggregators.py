"""Aggregators: sparse, hierarchical and its groups; sizes of buckets; batch-norm statistics."""

import re

import pytest

from conftest import TINY, summary
from test_resume import check

pytestmark = pytest.mark.slow

RESNET = "--model resnet(depth=18,width=0.25) --data made-cifar --train-size 16 --test-size 4 --batch-size 2 --deadline 100".split()


def sent(text):
    return int(re.search(r"a rank sends +(\d+) bytes a step", text)[1])


def test_sparse_is_trained_and_resumed(start, good, tmp_path):
    flags = [*TINY, "--codec", "ef | topk(0.02) | f16", "--aggregator", "sparse", "--ranks", 3]
    check(start, good, tmp_path, [*flags, "--check-replicas", 1])
    assert summary(tmp_path / "whole")["aggregator"] == "sparse"


def test_hierarchical_is_trained_and_resumed(start, good, tmp_path):
    flags = [*TINY, "--codec", "ef | topk(0.02)", "--aggregator", "hierarchical(outer=gather)", "--group-size", 2]
    check(start, good, tmp_path, [*flags, "--ranks", 4, "--check-replicas", 1, "--codec-start-after", 3])
    whole = summary(tmp_path / "whole")
    assert whole["aggregator"] == "hierarchical"
    assert "2 groups of 2 ranks: all_reduce inside, gather between them" in whole["remark"]
    record = (tmp_path / "whole" / "config.toml").read_text()
    assert "hierarchical(inner=all_reduce, outer=gather, group=2)" in record


def test_groups_are_those_of_the_launcher(good, tmp_path):
    good("train", *TINY, "--aggregator", "hierarchical", "--ranks", 2, "--max-steps", 3, "--train-dir", "run")
    assert "1 group of 2 ranks" in summary(tmp_path / "run")["remark"]
    dense = summary(tmp_path / "run")["parameters_sha256"]
    good("train", *TINY, "--aggregator", "all_reduce", "--ranks", 2, "--max-steps", 3, "--train-dir", "plain")
    assert summary(tmp_path / "plain")["parameters_sha256"] == dense, "one group sends floats alone"


def test_the_slow_link_gets_less(good):
    flags = ["train", "--model", "lenet", "--train-size", 512, "--test-size", 10, "--codec", "ef | topk(0.01)", "--ranks", 8,
             "--dry-run"]  # fmt: skip
    text = good(*flags, "--aggregator", "hierarchical(outer=gather)", "--group-size", 4).out
    assert "2 groups of 4 ranks" in text, text
    assert sent(text) > 4 * 431080, "floats inside the groups"
    assert sent(good(*flags, "--aggregator", "sparse").out) < sent(good(*flags, "--aggregator", "gather").out) / 2


def test_help_names_the_options(run):
    text = run("train", "--help").out
    assert "Options of hierarchical:" in text and "--group-size" in text and "sparse" in text


@pytest.mark.parametrize("said, buckets", [("layer", 4), ("whole", 1), ("25MB", 1), ("100KB", 5), ("1.7MB", 2)])
def test_what_is_exchanged_at_once(good, said, buckets):
    flags = ["train", "--model", "lenet", "--train-size", 512, "--test-size", 10, "--ranks", 2, "--dry-run"]
    text = good(*flags, "--buckets", said).out
    assert f"431080 parameters in {buckets} bucket{'s' * (buckets > 1)}\n" in text, text


def test_statistics_are_averaged_in_every_step(good, tmp_path):
    dry = ["train", *RESNET, "--ranks", 2, "--dry-run"]
    statistics = 4 * 2400  # two floats for each of 1200 channels, in 20 layers
    averaged = sent(good(*dry, "--average-batch-norm").out)
    assert averaged == sent(good(*dry).out) + statistics
    for name, flags in [("each", ["--average-batch-norm"]), ("own", [])]:
        good("train", *RESNET, "--ranks", 2, "--max-steps", 1, "--train-dir", name, *flags)
        ranks = [(tmp_path / name / "model_step_1" / f"rank_{r}").read_bytes().split(b"buffers")[1] for r in (0, 1)]
        alike = ranks[0][64 : statistics // 2] == ranks[1][64 : statistics // 2]
        assert alike == (name == "each")
    rows = [row.split(",") for row in (tmp_path / "each" / "steps.csv").read_text().splitlines()]
    assert {int(row[rows[0].index("bytes_sent")]) for row in rows[1:]} == {averaged}, "their bytes are counted"


@pytest.mark.parametrize("flags, words", [
    (["--aggregator", "hierarchical", "--group-size", 3], "4 ranks do not fall into groups of 3"),
    (["--aggregator", "hierarchical(group=2)", "--group-size", 4], "say it once"),
    (["--group-size", 2], "only the aggregator hierarchical has groups"),
    (["--aggregator", "hierarchical(outer=all_reduce)", "--codec", "topk(0.1)"], "outer=all_reduce: messages of"),
    (["--aggregator", "hierarchical(outter=gather)"], "did you mean `outer`"),
    (["--aggregator", "sparse"], "chooses nothing"),
    (["--aggregator", "sparse", "--codec", "ef | dct | topk(0.1)"], "`dct` makes others"),
    (["--buckets", "25"], "must be layer, whole or a size"),
    (["--buckets", "xMB"], "--buckets xMB: the size must be"),
    (["--buckets", "0.1KiB"], "must be in [1KiB, 2GiB]"),
    (["--buckets", ""], "must be layer, whole or a size"),
    (["--average-batch-norm"], "logreg has no batch-norm statistics"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(run, flags, words):
    job = run("train", *TINY, "--ranks", 4, "--max-steps", 1, "--train-dir", "run", *flags)
    assert job.status == 2 and words in job.err, job.err


@pytest.mark.parametrize("algorithm", ["local", "parameter_server(mode=async)", "parameter_server(mode=stale)",
                                       "parameter_server(gradients=1)", "parameter_server(dedicated=true)"])  # fmt: skip
def test_statistics_are_those_of_one_model(run, algorithm):
    job = run("train", *RESNET, "--ranks", 2, "--average-batch-norm", "--algorithm", algorithm, "--dry-run")
    assert job.status == 2 and "no step in which all ranks train the same model" in job.err, job.err


def test_groups_of_one_are_refused(run):
    job = run("train", *TINY, "--aggregator", "hierarchical", RANK="1", WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT="9")
    assert job.status == 2 and "alone on its host" in job.err and "--group-size" in job.err, job.err


def test_groups_are_ranks_that_follow_each_other(run):
    """srun --distribution=cyclic numbers ranks otherwise: rank 1 of 4 is the first one of the second host."""
    job = run("train", *TINY, "--aggregator", "hierarchical", RANK="1", WORLD_SIZE="4", LOCAL_RANK="0",
              LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="9")  # fmt: skip
    assert job.status == 2 and "--distribution=block" in job.err, job.err
