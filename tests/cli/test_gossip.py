"""Ranks with different models: trained, tested, saved and continued."""

import csv
import re

import pytest

from conftest import TINY, summary
from test_resume import check

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("algorithm, topology", [("push_sum", "exponential"), ("push_sum(overlap=true)", "ring"),
                                                 ("d_psgd", "ring"), ("choco", "ring")])  # fmt: skip
def test_bits_are_the_same_after_a_resume(start, good, tmp_path, algorithm, topology):
    check(start, good, tmp_path, [*TINY, "--algorithm", algorithm, "--topology", topology, "--ranks", 4])


@pytest.mark.parametrize("algorithm", ["push_sum", "push_sum(overlap=true)", "d_psgd"])
def test_the_mean_model_is_tested_and_saved(good, tmp_path, algorithm):
    flags = ["train", *TINY, "--algorithm", algorithm, "--topology", "ring", "--ranks", 3, "--max-steps", 8]
    line = good(*flags, "--train-dir", "apart").err
    apart = summary(tmp_path / "apart")
    assert len(apart["rank_accuracy"]) == 3 and apart["consensus_distance"] > 0
    assert apart["topology"] == "ring" and apart["mixing"] == "uniform"
    assert "of the mean model; ranks' own" in line
    tested = good("eval", "--model-dir", "apart").out
    loss = float(re.search(r"[Ll]oss:? *([0-9.]+)", tested)[1])
    assert loss == pytest.approx(apart["test_loss"], abs=1e-3), tested

    good(*flags, "--final-average", "--train-dir", "agreed")
    agreed = summary(tmp_path / "agreed")
    assert agreed["consensus_distance"] < 1e-6 and len(set(agreed["rank_accuracy"])) == 1
    if "overlap" not in algorithm:  # with overlap, the mean also counts messages on their way
        assert agreed["test_loss"] == pytest.approx(apart["test_loss"], abs=1e-4)


def test_what_does_not_fit_is_refused(run):
    for flags, words in [
        (["--algorithm", "push_sum", "--topology", "rign"], "did you mean `ring`"),
        (["--algorithm", "push_sum", "--codec", "qsgd"], "models are exchanged"),
        (["--algorithm", "push_sum", "--aggregator", "gather"], "--aggregator: `push_sum` has none"),
        (["--algorithm", "push_sum", "--codec-warmup", "exponential"], "one codec for the whole run"),
        (["--algorithm", "push_sum", "--check-replicas", 1], "--check-replicas: `push_sum` has other models"),
        (["--algorithm", "push_sum(synch_freq=2)"], "overlap=true"),
        (["--algorithm", "d_psgd", "--topology", "star"], "doubly stochastic"),
        (["--algorithm", "d_psgd", "--topology", "bipartite_linear"], "no even number"),
        (["--algorithm", "d_psgd", "--topology", "ring", "--peers-per-step", "0:1"], "push_sum has"),
        (["--algorithm", "push_sum", "--peers-per-step", "1:2"], "from epoch 0 on"),
        (["--algorithm", "push_sum", "--topology", "star", "--peers-per-step", "0:1"], "always has the same peers"),
        (["--topology", "ring"], "--topology: `sync` exchanges with no neighbours"),
        (["--mixing", "metropolis"], "--mixing: `sync` exchanges with no neighbours"),
        (["--final-average"], "--final-average: `sync` has the same model"),
    ]:
        job = run("train", *TINY, "--ranks", 3, "--max-steps", 2, *flags)
        assert job.status != 0 and words in job.err, (flags, job.err)
        job.nothing_left()


def test_a_dry_run_says_what_gossip_sends(good):
    flags = ["train", *TINY, "--ranks", 4, "--dry-run", "--algorithm", "push_sum"]
    dense, half = (good(*flags, "--codec", codec).out for codec in ("none", "f16"))
    sent = [int(re.search(r"a rank sends +(\d+)", text)[1]) for text in (dense, half)]
    assert 1.9 < sent[0] / sent[1] < 2.1


def test_a_dry_run_counts_all_rounds(good, tmp_path):
    for ranks, flags, words in [
        (4, ["--algorithm", "push_sum(overlap=true, synch_freq=4)"], "an exchange"),
        (8, ["--algorithm", "push_sum", "--topology", "hosts(4)"], "a step"),
        (3, ["--algorithm", "choco", "--codec", "int8"], "a step"),
        (4, ["--algorithm", "ad_psgd(every=4)"], "a step"),
    ]:
        flags = ["train", *TINY, "--ranks", ranks, *flags]
        said = good(*flags, "--dry-run").out
        assert re.search(rf"a rank sends +[1-9]\d* bytes {words}", said), said
        if "ad_psgd" in str(flags):  # depends on time
            continue
        a_step = int(re.search(r"(\d+) bytes a step", said)[1])
        good(*flags, "--max-steps", 8, "--eval-freq", 100, "--train-dir", f"run{words}{ranks}")
        with open(tmp_path / f"run{words}{ranks}" / "steps.csv") as file:
            sent = [int(row["bytes_sent"]) for row in csv.DictReader(file) if row["rank"] == "0"]
        if words == "an exchange":  # the run makes two; the last may still be on its way at the end
            assert sum(sent) in (4 * a_step, 8 * a_step), (flags, sent)
        else:
            assert abs(sum(sent) / 8 - a_step) <= 1, (flags, sent)


def test_hosts_are_those_of_the_starter(good, run):
    flags = ["train", *TINY, "--dry-run", "--algorithm", "push_sum", "--topology"]
    started = dict(RANK="2", WORLD_SIZE="4", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="9")
    found, wanted = (good(*flags, topology, **started).out for topology in ("hosts", "hosts(2)"))
    assert "a rank sends" in wanted and found == wanted != good(*flags, "hosts(4)", "--ranks", 4).out
    job = run(*flags, "hosts", "--ranks", 4)
    assert job.status == 2 and "say how many ranks a host has, as in hosts(4)" in job.err


def test_nodes_equal_ranks_with_larger_batches(good, run, tmp_path):
    flags = ["train", *TINY[:TINY.index("--batch-size")], "--deadline", 60, "--algorithm", "push_sum(overlap=true)", "--max-steps", 10]
    good(*flags, "--ranks", 4, "--node-size", 2, "--batch-size", 8, "--train-dir", "nodes")
    good("train", "--resume", "--train-dir", "nodes", "--max-steps", 16)
    good(*flags[:-1], 16, "--ranks", 2, "--batch-size", 16, "--train-dir", "ranks")
    nodes, ranks = summary(tmp_path / "nodes"), summary(tmp_path / "ranks")
    assert nodes["test_loss"] == pytest.approx(ranks["test_loss"], abs=1e-5)
    assert nodes["consensus_distance"] == pytest.approx(ranks["consensus_distance"], rel=1e-3) and nodes["consensus_distance"] > 0
    assert nodes["rank_accuracy"] == [one for one in ranks["rank_accuracy"] for _ in range(2)]
    job = run("train", "--resume", "--train-dir", "nodes", "--max-steps", 20, "--node-size", 1)
    assert job.status == 2 and "between nodes of 2" in job.err, job.err

    dry = ["train", *TINY, "--dry-run", "--algorithm", "d_psgd", "--topology", "ring", "--node-size"]
    started = dict(RANK="2", WORLD_SIZE="4", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="9")
    text = good(*dry, 2, "--ranks", 4).out
    sent, least = (int(n) for n in re.search(r"a rank sends +(\d+) bytes a step at most, (\d+) at least", text).groups())
    model = 4 * 7850  # a leader sends it within its node and to the other node, another rank within its node
    assert 3 * model < sent < 3.2 * model and model < least < 1.1 * model, text
    assert good(*dry, 0, **started).out == text
    for flags, words in [([0, "--ranks", 4], "say how many of them make a node"), ([3, "--ranks", 4], "nodes of 3")]:
        job = run(*dry, *flags)
        assert job.status == 2 and words in job.err, job.err
    job = run("train", *TINY, "--ranks", 4, "--node-size", 2, "--max-steps", 1)
    assert job.status == 2 and "`sync` exchanges no models" in job.err, job.err


def test_what_depends_on_time_has_no_dry_run(run):
    job = run("train", *TINY, "--ranks", 4, "--dry-run", "--algorithm", "ad_psgd(every=0)")
    assert job.status == 2 and "depends on how fast ranks are; every=1 says" in job.err, job.err


def test_the_number_of_peers_changes_at_an_epoch(start, good, tmp_path):
    flags = ["--algorithm", "push_sum", "--peers-per-step", "0:1,1:2", "--ranks", 4]
    good("train", *TINY, *flags, "--max-steps", 20, "--train-dir", "run")  # an epoch has 16 steps
    with open(tmp_path / "run" / "steps.csv") as file:
        sent = {(int(row["step"]) >= 16, int(row["bytes_sent"])) for row in csv.DictReader(file)}
    assert len(sent) == 2 and 2 * min(sent)[1] == max(sent)[1], sent
    check(start, good, tmp_path, [*TINY, *flags])
