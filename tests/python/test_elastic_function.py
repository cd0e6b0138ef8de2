"""sotto.elastic: a training continues when ranks are killed, join, or are asked to end."""

import collections
import hashlib
import re
import signal
import socket
import sys

import pytest

from elastic_job import in_stage, wait_until

pytestmark = pytest.mark.slow

NOTHING = hashlib.sha256().hexdigest()[:16]  # what a rank without a memory holds back


def check_calls(ranks):
    """At each call all ranks have the same model and optimizer, and each what it held back at that commit."""
    models = collections.defaultdict(set)
    for rank in ranks:
        kept = {}
        for line in rank.lines:
            if "step" in line and "owed" in line:
                kept[line["step"]] = line["owed"]
            if "call" in line:
                models[line["call"], line["ranks"]].add((line["model"], line["optimizer"]))
                if line["call"] in kept:
                    assert line["owed"] == kept[line["call"]]
    for call, found in models.items():
        assert len(found) == 1, (call, found)


CASES = [("ef | topk(0.1)", "ddp", "backward", 2), ("ef | topk(0.1)", "all_reduce", "commit", 0), ("qsgd(4) | rans", "ddp", "step", 1),
         ("plain", "ddp", "forward", 0)]
ALL = [(codec, wrapper, moment, victim) for codec, wrapper, _, _ in CASES for moment in ("forward", "backward", "step", "commit")
       for victim in range(3)]


@pytest.mark.parametrize("codec, wrapper, moment, victim", [*CASES, *(case for case in ALL if case not in CASES)])
@pytest.mark.sample(len(CASES))
def test_the_others_survive_a_killed_rank(job, codec, wrapper, moment, victim):
    job.coordinate("--ranks", "2:3")
    plan = [[3, 1], [2, 6]]  # survivors may have committed only the first of the two steps
    ranks = [job.join(plan, codec=codec, wrapper=wrapper, **({"die": [0, moment]} if r == victim else {})) for r in range(3)]
    lost = ranks.pop(victim)
    assert lost.finish() == -signal.SIGKILL
    assert job.finish(ranks)["result"] == "the end"
    check_calls([lost, *ranks])
    for rank in ranks:
        assert [call["ranks"] for call in rank.calls()][-2:] == [3, 2]
        before = [line["step"] for line in rank.lines if line.get("ranks") == 3 and "loss" in line]
        assert rank.calls()[-1]["call"] >= before[-1] - 1, "at most one step is taken again"
        assert codec == "plain" or rank.calls()[-1]["owed"] != NOTHING or "ef" not in codec


def test_ranks_that_no_neighbour_of_theirs_tells(job):
    """In a ring of five, the killed rank is no neighbour of two others. The time limit of an exchange is far away."""
    job.coordinate("--ranks", "4:5")
    plan = [[5, 1], [4, 3]]
    ranks = [job.join(plan, codec="plain", **({"die": [0, "forward"]} if r == 2 else {})) for r in range(5)]
    assert ranks.pop(2).finish() == -signal.SIGKILL
    job.finish(ranks)
    check_calls(ranks)


def test_one_joins_and_gets_the_state(job):
    job.coordinate("--ranks", "2:3")
    plan = [[2, 3], [3, 4]]
    ranks = [job.join(plan), job.join(plan)]
    ranks[0].wait_for(in_stage(0, 3), "three steps of two ranks")
    ranks.append(job.join(plan))
    job.finish(ranks)
    check_calls(ranks)
    [call] = ranks[2].calls()
    assert call["call"] >= 3 and call["owed"] == NOTHING
    for rank in ranks[:2]:
        steps = [line["step"] for line in rank.lines if "loss" in line]
        assert steps == list(range(1, len(steps) + 1)), "no step is taken again"
        assert rank.calls()[-1]["owed"] != NOTHING


@pytest.mark.parametrize("wrapper", ["ddp", "all_reduce"])
def test_a_new_rank_gets_the_common_state(job, wrapper):
    """The sketches of fetch, in which momentum and error are: without them it would take other steps."""
    job.coordinate("--ranks", "2:3")
    plan = [[2, 3], [3, 4]]
    how = {"codec": "fetch(10%) | count_sketch(rows=3, columns=50%)", "wrapper": wrapper}
    ranks = [job.join(plan, **how), job.join(plan, **how)]
    ranks[0].wait_for(in_stage(0, 3), "three steps of two ranks")
    ranks.append(job.join(plan, **how))
    job.finish(ranks)
    check_calls(ranks)
    [call] = ranks[2].calls()
    assert call["owed"] != NOTHING and call["owed"] == ranks[0].calls()[-1]["owed"]


def test_one_is_killed_and_another_takes_its_place(job):
    job.coordinate("--ranks", "1:2")
    plan = [[2, 1], [1, 3], [2, 30]]
    first = job.join(plan)
    lost = job.join(plan, die=[0, "step"])
    assert lost.finish() == -signal.SIGKILL
    first.wait_for(in_stage(1, 3), "three steps alone")
    ranks = [first, job.join(plan)]
    job.finish(ranks)
    check_calls([lost, *ranks])
    assert first.end()["tested"] < first.calls()[0]["tested"]


@pytest.mark.parametrize("moment", ["send_from", "agree_on_change"])
def test_a_new_rank_dies_in_its_first_step(job, moment):
    job.coordinate("--ranks", "2:3")
    plan = [[2, 3], [3, 4]]
    ranks = [job.join(plan), job.join(plan)]
    ranks[0].wait_for(in_stage(0, 3), "three steps of two ranks")
    lost = job.join(plan, die_in=moment)
    assert lost.finish() == -signal.SIGKILL
    ranks.append(job.join(plan))
    job.finish(ranks)
    check_calls([lost, *ranks])


def test_another_rank_is_killed_while_the_group_changes(job):
    job.coordinate("--ranks", "2:4")
    plan = [[4, 1], [2, 4]]
    ranks = [job.join(plan, **how) for how in ({}, {"die_in": "close"}, {}, {"die": [0, "backward"]})]
    for rank in (ranks.pop(3), ranks.pop(1)):
        assert rank.finish() == -signal.SIGKILL
    job.finish(ranks)
    check_calls(ranks)


def test_two_ranks_are_killed_at_once(job):
    job.coordinate("--ranks", "2:4")
    plan = [[4, 1], [2, 4]]
    ranks = [job.join(plan, **({"die": [0, "step"]} if r < 2 else {})) for r in range(4)]
    for rank in (ranks.pop(0), ranks.pop(0)):
        assert rank.finish() == -signal.SIGKILL
    job.finish(ranks)
    check_calls(ranks)


def test_a_rank_is_lost_without_a_coordinator(job):
    flags, gone = ["--ranks", "2:3", "--state", str(job.folder / "state")], job.folder / "gone"
    job.coordinate(*flags)
    plan = [[3, 1], [2, 4]]
    ranks = [job.join(plan, die=[0, "forward"], when=str(gone)) if r == 1 else job.join(plan) for r in range(3)]
    ranks[1].wait_for(lambda lines: any(line.get("count") == 2 for line in lines), "two steps")
    job.boss.stop()
    gone.touch()
    assert ranks.pop(1).finish() == -signal.SIGKILL
    job.coordinate(*flags)
    job.finish(ranks)
    check_calls(ranks)


def test_the_users_own_exception_ends_one_rank(job):
    job.coordinate("--ranks", "1:2")
    plan = [[2, 1], [1, 3]]
    ranks = [job.join(plan), job.join(plan, fail=0)]
    failed = ranks.pop()
    assert failed.finish() == 1
    assert failed.lines[-1]["error"] == "KeyError: \"the user's own\""
    job.finish(ranks)
    check_calls([failed, *ranks])
    assert "rank" in job.boss.err() and "KeyError" in job.boss.err() and "silent" not in job.boss.err()


@pytest.mark.parametrize("moment", ["init_process_group", "compress"])
def test_nobody_waits_for_a_rank_that_ended(job, moment):
    job.coordinate("--ranks", "2:3")
    plan = [[2, 3]]
    ranks = [job.join(plan, timeout=3000, **({"fail_in": moment} if r == 1 else {})) for r in range(3)]
    assert ranks.pop(1).finish() == 1
    job.finish(ranks)
    check_calls(ranks)


def test_a_stopped_rank_costs_the_others_no_step(job):
    job.coordinate("--ranks", "2:3")
    plan = [[3, 3], [2, 4]]
    ranks = [job.join(plan) for _ in range(3)]
    ranks[0].wait_for(in_stage(0, 3), "three steps of three ranks")
    leaver = ranks.pop(0)
    leaver.send(signal.SIGTERM)
    assert leaver.finish() == 128 + signal.SIGTERM, leaver.err()
    job.finish(ranks)
    check_calls([leaver, *ranks])
    for rank in ranks:
        steps = [line["step"] for line in rank.lines if "loss" in line]
        assert steps == list(range(1, len(steps) + 1))
    assert "stopped by signal 15" in job.boss.err() and "silent" not in job.boss.err()


def test_all_are_asked_to_end(job):
    job.coordinate("--ranks", "2:2")
    ranks = [job.join([[2, 10**9]]) for _ in range(2)]
    for rank in ranks:
        rank.wait_for(in_stage(0, 3), "three steps")
    for rank in ranks:
        rank.send(signal.SIGTERM)
    for rank in ranks:
        assert rank.finish() == 128 + signal.SIGTERM, rank.err()
    job.boss.process.send_signal(signal.SIGINT)
    assert job.boss.finish() == 128 + signal.SIGINT
    assert "silent" not in job.boss.err()


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 128 + signal.SIGINT), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_one_that_waits_for_others_can_be_stopped(job, number, status):
    job.coordinate("--ranks", "2:2")
    rank = job.join([[2, 1]])
    wait_until(lambda: "rank 0 has come" in job.boss.err())
    rank.send(number)
    assert rank.finish() == status, rank.err()


def test_one_says_that_it_finds_no_coordinator(job):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{nobody.getsockname()[1]}"
        rank = job.start({"coordinator": place, "plan": [[1, 1]]})
        wait_until(lambda: f"sotto: the coordinator at {place} does not answer; it is tried for 600 s\n" in rank.err())
        rank.send(signal.SIGTERM)
        assert rank.finish() == 128 + signal.SIGTERM, rank.err()


def test_one_that_comes_when_there_is_no_room(job):
    job.coordinate("--ranks", "1:1")
    plan = [[1, 10**9]]
    end = job.folder / "end"
    first = job.join(plan, end=str(end))
    first.wait_for(in_stage(0), "a step")
    late = job.join(plan)
    wait_until(lambda: "rank 1 has come" in job.boss.err())
    end.touch()
    for one in (first, late, job.boss):
        assert one.finish() == 0, one.err()
    assert first.end()["result"] == "the end" and late.lines[-1]["result"] is None
    assert "the run has come to its end without this rank" in late.err()


def test_a_rank_with_other_arguments_is_refused(job):
    job.coordinate("--ranks", "1:3")
    plan = [[2, 3], [3, 3]]
    ranks = [job.join(plan), job.join(plan)]
    ranks[0].wait_for(in_stage(0, 3), "three steps of two ranks")
    other = job.join(plan, codec="ef | topk(0.2)")
    assert other.finish() == 1
    assert "another model" in other.lines[-1]["error"] and "topk" in other.lines[-1]["error"]
    ranks.append(job.join(plan))
    job.finish(ranks)
    check_calls(ranks)


@pytest.mark.parametrize("on_failure, error", [("stop", "was silent|has been silent"), ("checkpoint", "this job ends at a failure")])
def test_the_coordinator_may_end_a_failed_job(job, on_failure, error):
    job.coordinate("--ranks", "1:3", "--on-failure", on_failure)
    plan = [[3, 1], [2, 10**9]]
    ranks = [job.join(plan, **({"die": [0, "backward"]} if r == 0 else {})) for r in range(3)]
    assert ranks.pop(0).finish() == -signal.SIGKILL
    for rank in ranks:
        assert rank.finish() == 1
        assert rank.lines[-1]["error"].startswith("CommError: ") and re.search(error, rank.lines[-1]["error"])
    assert len({rank.lines[-1]["step"] for rank in ranks}) == 1 or on_failure == "stop"
    assert job.boss.finish() == 1


@pytest.mark.parametrize("wrapper", ["ddp", "local"])
@pytest.mark.sample(1)
def test_groups_that_are_gone_leave_nothing(job, wrapper):
    """One rank comes and leaves six times: twelve groups."""
    job.coordinate("--ranks", "1:2")
    plan = [[2, 10**9]]
    first = job.join(plan, wrapper=wrapper)
    visitor = job.join(plan, wrapper=wrapper, visits=6)
    assert visitor.finish() == 0, visitor.err()
    first.send(signal.SIGTERM)
    assert first.finish() == 128 + signal.SIGTERM, first.err()
    visits, calls = [line for line in visitor.lines if "left" in line], [call for call in first.calls() if call["ranks"] == 2]
    assert len(visits) == 6 == len(calls)
    for lines in (visits, calls):  # one left by each group would be two more; a group that is closed may still have one for a moment
        for what in ("open", "threads"):
            assert min(len(line[what]) for line in lines[3:]) < min(len(line[what]) for line in lines[1:3]) + 2, [line[what] for line in lines]


@pytest.mark.parametrize("wrapper, error", [
    ("nodes", "node_size=2: nodes have one size"),
    ("hierarchical", "hierarchical has groups of one size")])
def test_what_a_changing_group_cannot_have(job, wrapper, error):
    job.coordinate("--ranks", "2:2")
    ranks = [job.join([[2, 3]], wrapper=wrapper) for _ in range(2)]
    for rank in ranks:
        assert rank.finish() == 1
        assert rank.lines[-1]["error"].startswith("ConfigError: ") and error in rank.lines[-1]["error"]


def test_wrong_use(package, monkeypatch):
    import torch

    def refused(call, text):
        with pytest.raises(package.ConfigError, match=re.escape(text)):
            call()

    monkeypatch.delenv("SOTTO_COORDINATOR", raising=False)
    state = package.ElasticState(step=0)
    refused(lambda: package.elastic(lambda state: None), 'write @sotto.elastic("HOST:PORT")')
    refused(lambda: package.elastic(), "coordinator: missing; say HOST:PORT, where `sotto coordinator` runs, here or in the variable SOTTO_COORDINATOR")
    refused(lambda: package.elastic("a:1", timeout=-1), "timeout=-1: wants seconds")
    refused(lambda: package.elastic("here")(lambda state: None)(state), "coordinator='here': must be HOST:PORT")
    refused(lambda: package.elastic("a:1")(lambda state: None)(3), "its first argument must be a sotto.ElasticState, not int")
    refused(state.commit, "commit() is for the inside of a function of sotto.elastic")
    refused(lambda: setattr(state, "epoch", 1), "state.epoch would not be kept; give epoch= to ElasticState")
    refused(lambda: package.ElasticState(commit=1), "commit=: a part of ElasticState cannot have this name")
    refused(lambda: package.ElasticState(data=object()), "wants a number, text, tensor")
    refused(lambda: setattr(state, "step", [{1: object()}]), "wants a number, text, tensor")
    wrapper = package.AllReduceDataParallel.__new__(package.AllReduceDataParallel)
    refused(lambda: package.ElasticState(model=wrapper), "model=: give the plain module; wrap it in the function")
    optimizer = package.optim.DGCSGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    assert package.ElasticState(optimizer=optimizer).optimizer is optimizer
    gathered = package.ElasticState(net=torch.nn.Linear(2, 2), seen=[torch.zeros(3)], names={"a": 1.5})
    assert gathered.names == {"a": 1.5}


def test_the_state_reaches_ranks_in_pieces(trio):
    assert all(trio.values("send_in_pieces"))


def test_the_example(job, root):
    """With nothing but the package: its own coordinator."""
    job.program = [sys.executable, "-m", "sotto"]
    job.coordinate("--ranks", "2:2")
    script = root / "examples" / "elastic.py"
    assert len(script.read_text().splitlines()) <= 40
    for rank in [job.start([str(script), job.boss.place, "60"]) for _ in range(2)]:
        assert rank.finish() == 0, rank.err()
        step, accuracy = re.fullmatch(r"step (\d+): accuracy ([0-9.]+)\n", rank.out.read_text()).groups()
        assert step == "60" and float(accuracy) > 0.9
    assert job.boss.finish() == 0
