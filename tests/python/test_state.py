"""sotto.state_dict and load_state_dict: a resumed run equals one that was never interrupted."""

import pytest


@pytest.fixture(scope="module")
def saved(pair, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    pair.values("save", steps=3, folder=str(folder))
    return str(folder)


def test_a_resume_is_exact(pair, saved, start_ranks):
    """The resumed run is in new processes, where DDP starts with its first buckets again."""
    straight = pair.values("straight", steps=6)
    resumed = start_ranks(2).values("resume", first=3, steps=3, folder=saved)
    assert resumed == straight
    assert straight != pair.values("straight", steps=5)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_resume_where_a_phase_begins(pair, tmp_path, steps):
    pair.values("save", steps=steps, folder=str(tmp_path))
    assert pair.values("resume", first=steps, steps=5 - steps, folder=str(tmp_path)) == pair.values("straight", steps=5)


def test_what_is_owed_stays_owed_on_other_ranks(trio, pair, tmp_path):
    how = {"codec": "ef | topk(0.05)", "aggregator": "scatter_reduce"}
    trio.values("save_states", folder=str(tmp_path), steps=3, **how)
    found = pair.values("spread_states", folder=str(tmp_path), old_ranks=3, **how)
    for part in found[0]["was"]:
        assert abs(part) > 1e-3
    assert sum(rank["is"] for rank in found) == pytest.approx(sum(found[0]["was"]), abs=1e-5)


def test_sketches_stay_owed_on_other_ranks(trio, pair, tmp_path):
    """Momentum and error of fetch are the same on all ranks, old and new."""
    how = {"codec": "fetch(0.05) | count_sketch(rows=3, columns=30%)"}
    trio.values("save_states", folder=str(tmp_path), steps=3, **how)
    for difference, largest in pair.values("spread_sketches", folder=str(tmp_path), old_ranks=3, **how):
        assert largest > 1e-3 and difference < 1e-6 * largest


def test_other_numbers_of_ranks(saved, trio, start_ranks):
    for size, job in ((1, start_ranks(1)), (3, trio)):
        for found in job.values("resume_on_other_ranks", folder=saved, old_ranks=2):
            assert found["difference"] < 1e-7
            assert "one of 2 ranks" in found["refused"] and f"there are {size} now" in found["refused"]
            assert found["step"] == 3


def test_the_state_of_another_rank_is_refused(pair, saved):
    _, refused = pair.ask("resume", first=3, steps=0, folder=saved, rank=0)
    assert refused.kinds[0] == "ConfigError" and "the state is of rank 0, and this is rank 1" in str(refused)


@pytest.mark.parametrize(("ranks", "steps"), [([0], [1, 1]), ([1], [1, 1]), ([0, 1], [0, 1])])
def test_ranks_that_load_differently(pair, ranks, steps):
    for failed in pair.ask("load_on_some", ranks=ranks, steps=steps):
        assert failed.kinds[0] == "CommError" and "does not continue from the state of the same step" in str(failed)


@pytest.mark.parametrize("how", [
    {"codec": "none", "of": 3}, {"codec": "ef | topk(0.1)", "of": 3}, {"codec": "ef | topk(0.1)", "of": 1},
    {"codec": "ef | topk(0.1)", "of": 3, "nonfinite": "propagate"},
    {"schedule": [[0, "none"], [2, "ef | topk(0.1)"]], "of": 1},
], ids=str)
def test_ranks_that_load_later(trio, how):
    for failed in trio.ask("load_late", ranks=[1], at=3, **how):
        assert failed.kinds[0] == "CommError" and "does not continue from the state of the same step" in str(failed)


def test_damaged_states_are_refused(pair):
    wanted = {
        "no state": "FileError: this is not the result of sotto.state_dict",
        "format": "FileError: the state is of format 99",
        "rank": "ConfigError: the state is of rank",
        "identity": "ConfigError: the state belongs to another compression: `from step 0: ef | topk(ratio=0.2",
        "missing": "FileError: the state holds no `0/memory.ef`",
        "short": "FileError: `0/memory.ef` in the state has",
        "kind": "FileError: `0/memory.ef` in the state is of another kind",
        "double": "FileError: `0/memory.ef` in the state is neither",
        "surplus": "FileError: the state holds `0/other`",
        "list": "ConfigError: these are the states of ranks",
    }
    for said in pair.values("damaged_states"):
        assert said.keys() == wanted.keys()
        for name, text in wanted.items():
            assert said[name].startswith(text), name


def test_a_checkpoint_in_one_file(pair, tmp_path):
    """Rank 0 writes it, and every rank continues from it as if there had been no break."""
    path = str(tmp_path / "checkpoint.pt")
    assert pair.values("save_gathered", steps=3, path=path) == [2, 0]
    assert pair.values("resume_gathered", first=3, steps=2, path=path) == pair.values("straight", steps=5)


def test_models_of_ranks_from_one_list(trio):
    ends = trio.values("gossip_gathered")
    assert all(straight == broken for straight, broken in ends)
    assert len({straight for straight, _ in ends}) == 3


def test_stats_since_the_last_reset(pair):
    for first, second, after, whole in pair.values("stats_in_parts"):
        assert (first["steps"], second["steps"], after["steps"], whole["steps"]) == (3, 2, 0, 5)
        for name in ("bytes_sent", "bytes_received", "dense_bytes"):
            assert first[name] + second[name] == whole[name] > 0 == after[name]
        assert first["encode_seconds"] > 0 and second["encode_seconds"] > 0 == after["encode_seconds"]


@pytest.mark.parametrize("kind", ["ddp", "local"])
def test_a_line_now_and_then(pair, kind):
    lines, none = pair.values("reported", kind=kind, steps=8, every=3)
    assert none == [] and len(lines) == 2
    assert lines[0].startswith("sotto: step 3: ") and lines[1].startswith("sotto: step 6: ")
    assert "times fewer than dense; encode " in lines[0] and (" by " in lines[0])


def test_a_line_about_steps_without_an_exchange(pair):
    (line, _), _ = pair.values("reported", kind="local", steps=8, every=3, apart=100)
    assert line.startswith("sotto: step 3: nothing was exchanged; encode ")
    assert all(ratio == "inf" for ratio in pair.values("ratio_before_an_exchange"))


def test_reports_to_others(pair):
    (told, said), (none, _) = pair.values("reported_to_others", steps=8, every=3)
    assert [[step for step, _ in told[to]] for to in ("wandb", "function")] == [[3, 6]] * 2 and told["wandb"] == told["function"]
    names = ["sotto/ratio", "sotto/bytes_a_step", "sotto/encode_ms", "sotto/network_ms", "sotto/decode_ms"]
    assert list(told["wandb"][0][1]) == names and told["wandb"][0][1]["sotto/ratio"] > 1
    assert told["tensorboard"] == [[step, {name: value}] for step, values in told["wandb"] for name, value in values.items()]
    assert none == {"wandb": [], "tensorboard": [], "function": []} and "to=3: wants a run of wandb" in said
