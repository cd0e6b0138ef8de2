"""sotto.elastic where models differ, and the state that ranks go back to."""

import collections
import signal

import pytest

from elastic_job import in_stage

pytestmark = pytest.mark.slow


def check_means(ranks):
    """At each call but the first, all ranks have the mean of the models of those that were there before."""
    joined = collections.defaultdict(list)
    for rank in ranks:
        before = {}
        for line in rank.lines:
            if "call" in line:
                joined[line["call"], line["ranks"]].append((line, before.get(line["call"])))
            elif "x" in line:
                before[line["step"]] = line
    assert len(joined) >= 3
    for (call, _), pairs in joined.items():
        old = [before for _, before in pairs if before is not None]
        assert len({line["model"] for line, _ in pairs}) == 1 == len({line["outer"] for line, _ in pairs})
        assert bool(old) == (call > 0)
        if old:
            weight = sum(line["weight"] for line in old)
            wanted = [sum(values) / weight for values in zip(*(line["x"] for line in old))]
            assert pairs[0][0]["weight"] == 1 and pairs[0][0]["x"] == pytest.approx(wanted, rel=1e-5, abs=1e-5)
            assert {line["outer"] for line in old} == {pairs[0][0]["outer"]}


OWN = [("overlapped", "step", 1), ("choco", "forward", 0), ("local", "backward", 2), ("diloco", "commit", 1), ("ad_psgd", "step", 0)]
ALL_OWN = [(wrapper, moment, victim) for wrapper in ("push_sum", "d_psgd", *(wrapper for wrapper, _, _ in OWN))
           for moment in ("forward", "backward", "step", "commit") for victim in range(3)]


@pytest.mark.parametrize("wrapper, moment, victim", [*OWN, *(case for case in ALL_OWN if case not in OWN)])
@pytest.mark.sample(len(OWN))
def test_ranks_with_different_models_continue_from_the_mean(job, wrapper, moment, victim):
    """One of three is killed, and later another takes its place."""
    job.coordinate("--ranks", "2:3")
    plan = [[3, 1], [2, 5], [3, 6]]
    ranks = [job.join(plan, wrapper=wrapper, **({"die": [0, moment]} if r == victim else {})) for r in range(3)]
    lost = ranks.pop(victim)
    assert lost.finish() == -signal.SIGKILL
    ranks[0].wait_for(in_stage(1, 4), "four steps of two ranks")
    ranks.append(job.join(plan, wrapper=wrapper))
    end = job.finish(ranks)
    check_means([lost, *ranks])
    for rank in ranks[:2]:
        steps = [line["step"] for line in rank.lines if line.get("ranks") == 2 and "loss" in line]
        assert steps == list(range(steps[0], steps[0] + len(steps))) and rank.calls()[-1]["call"] == steps[-1]
        kept = {line["step"]: line["owed"] for line in rank.lines if "step" in line and "owed" in line}
        assert all(call["owed"] == kept[call["call"]] for call in rank.calls()[1:])
    assert end["tested"] < lost.calls()[0]["tested"]


def test_a_nonfinite_model_spreads_to_nobody(job):
    job.coordinate("--ranks", "2:3")
    plan = [[2, 3], [3, 3]]
    ranks = [job.join(plan, wrapper="seldom", **({"spoil": 2} if r == 1 else {})) for r in range(2)]
    ranks[0].wait_for(in_stage(0, 3), "three steps of two ranks")
    ranks.append(job.join(plan, wrapper="seldom"))
    for rank in ranks:
        assert rank.finish() == 1
        assert [line["ranks"] for line in rank.calls()] == [2][:len(rank.calls())], "no group of three begins"
        assert "NumericError: rank" in rank.lines[-1]["error"] and "0.weight is not finite" in rank.lines[-1]["error"]


def test_a_graph_for_fewer_ranks_refuses_a_newcomer(job):
    job.coordinate("--ranks", "2:3")
    plan = [[2, 3], [2, 6]]
    ranks = [job.join(plan, wrapper="push_sum", topology="hypercube") for _ in range(2)]
    ranks[0].wait_for(in_stage(0, 3), "three steps of two ranks")
    third = job.join(plan, wrapper="push_sum", topology="hypercube")
    assert third.finish() == 1
    assert third.lines[-1]["error"].startswith("ConfigError: topology") and "hypercube" in third.lines[-1]["error"]
    job.finish(ranks)


class Engine:
    """In place of a Hook."""

    refused = ""

    def identity(self):
        return "ef | topk"

    def state(self):
        return {"memory": [3]}

    def shared(self):
        return []

    def refuse(self, why):
        self.refused = why

    def spread(self, step, former):
        self.former = former

    def rank(self):
        return 0

    def ranks(self):
        return 1

    def step(self):
        return 7


def test_what_a_wrapper_goes_on_from(package):
    """A wrapper that cannot continue from its state is refused, and so is the next one in its place. A state is freed once it is used."""
    state, user, engine = package.ElasticState(step=0), Engine(), Engine()
    state._commits = [state._copy(0)]
    assert not state._wrapped(user, engine)
    state._commits.append(state._copy(1))
    state._give_up("the end")
    state._go_back(1)
    for _ in range(2):
        other = Engine()
        other.identity = lambda: "ef | signs"
        with pytest.raises(package.ConfigError, match="another compression"):
            state._wrapped(other, other)
        assert "another compression" in other.refused
    again = Engine()
    assert state._wrapped(again, again) and again.former == [(0, 1, {"memory": [3]})]
    assert state._owed == [{}] and len(state._commits[-1].wrappers) == 1


def test_a_commit_makes_room_before_it_copies(package):
    class Alone:
        def agree_on_change(self):
            return False

        def tell_wishes(self):
            pass

    state, engine = package.ElasticState(step=0), Engine()
    state._commits, state._group = [state._copy(0)], Alone()
    state._wrapped(engine, engine)
    state.commit()
    state.commit()
    oldest = state._commits[0]
    engine.state = lambda: {"memory": len(oldest.wrappers)}
    state.commit()
    assert state._commits[-1].wrappers[0]["values"] == {"memory": 0}


def test_a_state_in_the_middle_of_a_step(package):
    """Of a scaler and a scheduler: it goes back to a commit, and reaches a new rank with NumPy's numbers in it."""
    import numpy
    import torch

    def made(lr):
        net = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
        return package.ElasticState(net=net, optimizer=optimizer, scheduler=scheduler, scaler=torch.amp.GradScaler("cpu"))

    def half_a_step(state):
        state.scaler.scale(state.net(torch.ones(1, 2)).sum()).backward()
        state.scaler.unscale_(state.optimizer)

    state, other = made(numpy.float64(0.1)), made(0.3)
    state._commits = [state._copy(0)]
    for _ in range(2):
        half_a_step(state)
        state.scaler.step(state.optimizer)
        state.scheduler.step()
        state._go_back(0)
    assert state.scheduler.get_last_lr() == [0.1] and state.scaler.get_scale() == 65536
    other._take_up(bytearray(state._packed()))
    assert other.scheduler.base_lrs == [0.1] and type(other.scheduler.base_lrs[0]) is numpy.float64
    half_a_step(other)
