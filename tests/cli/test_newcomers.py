"""Ranks that come to a training: the others continue while a newcomer gets their model."""

import csv
import re
import signal

import pytest

from conftest import summary, wait_until
from test_elastic import SMALL, at_step, kill, members
from test_tensorboard import scalars

pytestmark = pytest.mark.slow

# With these links the state takes some seconds, and a step with such codecs some hundredths of one.
SLOW = ["train", *SMALL, *"--epochs 100000 --eval-freq 1000 --deadline 20 --max-steps 200 --check-replicas 200".split()]


def rows_of(folder, name):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.sample(2)
@pytest.mark.parametrize("rank, backend, link, method", [
    (1, "tcp", "200kbit", ["--codec", "ef | topk(0.01)", "--aggregator", "gather", "--optimiser", "adam"]),
    (0, "gloo", "200kbit", ["--codec", "ef | topk(0.01)", "--aggregator", "scatter_reduce", "--momentum", 0.9, "--schedule", "cosine"]),
    (2, "tcp", "200kbit", ["--codec", "momentum | topk(0.01) | qsgd(bits=4)", "--optimiser", "sgd"]),
    (1, "tcp", "500kbit", ["--codec", "power(rank=1)", "--momentum", 0.9, "--clip", "norm(1)"]),
])  # fmt: skip
def test_the_others_go_on_meanwhile(start, good, tmp_path, rank, backend, link, method):
    folder = tmp_path / "run"
    job = start(*SLOW, "--elastic", "2:3", "--restarts", 1, "--backend", backend, "--link", link, *method, "--train-dir", "run", "--tensorboard", "events")
    at_step(job, folder, 20)
    kill(job, rank, signal.SIGKILL)
    assert job.finish().status == 0, job.err
    assert "continues with 2 ranks; newcomers get their model meanwhile" in job.err
    size, seconds = map(float, re.search(r"newcomers have the state: ([\d.]+) MB in ([\d.]+) s", job.err).groups())
    assert size >= 0.0314 and seconds > size * 8 / (float(link.removesuffix("kbit")) / 1000) * 0.9, "parameters, and what the link needs"
    groups = rows_of(folder, "membership.csv")
    assert [group["new"] for group in groups[1:]] == [str(rank), ""] and all(group["members"] == "0 1 2" for group in groups)
    begin, end = int(groups[1]["step"]), int(groups[2]["step"])
    assert end >= begin + 2 and f"sotto: newcomers have caught up after step {end}; continuing with ranks 0, 1, 2" in job.err
    steps = rows_of(folder, "steps.csv")
    made = [[int(row["step"]) for row in steps if int(row["rank"]) == other] for other in range(3)]
    assert all(made[other] == list(range(200)) for other in range(3) if other != rank)
    assert [step for step in made[rank] if step >= begin] == list(range(end, 200)), "it trains once it has caught up"
    shown = [step for step, _ in scalars(tmp_path / "events")["train/loss"]]
    assert shown == sorted(set(shown)) and shown[begin - 200:] == list(range(begin + 1, 201)), "also while rank 0 follows; its last second before is lost"
    good("train", "--replay", "run", "--train-dir", "again")
    assert summary(tmp_path / "again")["parameters_sha256"] == summary(folder)["parameters_sha256"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("rank, step, round_steps, method", [
    (1, 20, 4, ["local(h=4)"]),
    (0, 20, 3, ["slowmo(h=3)", "--codec", "f16"]),
    (2, 20, 4, ["diloco(h=4)", "--optimiser", "sgd", "--momentum", 0.9, "--codec", "ef | int8"]),
    (1, 20, 5, ["diloco(h=5)", "--optimiser", "sgd", "--eval-freq", 7, "--checkpoint-every", 9]),
    (2, 2, 20, ["diloco(h=20)", "--optimiser", "sgd"]),  # the group goes back to step 0, where nobody has exchanged anything yet
])  # fmt: skip
def test_rounds_of_local_steps(start, good, tmp_path, rank, step, round_steps, method):
    """Newcomers keep what the ranks agree on after each round. Where all need them within one, they keep following."""
    folder = tmp_path / "run"
    job = start("train", *SMALL, *"--epochs 100000 --deadline 20 --max-steps 120 --link 600kbit --elastic 2:3 --restarts 1 --train-dir run --algorithm".split(),
                *method)  # fmt: skip
    at_step(job, folder, step)
    kill(job, rank)
    assert job.finish().status == 0, job.err
    assert "continues with 2 ranks; newcomers get their model meanwhile" in job.err
    assert float(re.findall(r"([\d.e+-]+) apart", job.err)[-1]) < 1e-4, "the end of a round"
    groups = rows_of(folder, "membership.csv")
    assert [group["new"] for group in groups[1:]] == [str(rank), ""] and all(group["members"] == "0 1 2" for group in groups)
    begin, end = int(groups[1]["step"]), int(groups[2]["step"])
    assert end > begin and begin % round_steps == end % round_steps == 0
    steps = rows_of(folder, "steps.csv")
    made = [[int(row["step"]) for row in steps if int(row["rank"]) == other] for other in range(3)]
    assert all(made[other] == list(range(120)) for other in range(3) if other != rank)
    assert [step for step in made[rank] if step >= begin] == list(range(end, 120))
    good("train", "--replay", "run", "--train-dir", "again")
    assert summary(tmp_path / "again")["parameters_sha256"] == summary(folder)["parameters_sha256"]


def test_an_evaluation_within_a_round(start, tmp_path):
    """A newcomer counts as the mean of the others, which is the model of the other rank here."""
    folder = tmp_path / "run"
    job = start("train", *SMALL, *"--epochs 100000 --deadline 20 --max-steps 80 --eval-freq 50 --link 40kbit --elastic 1:2 --restarts 1 --train-dir run --algorithm local(h=20)".split())  # fmt: skip
    at_step(job, folder, 22)
    kill(job, 1)
    assert job.finish().status == 0, job.err
    begin, end = [int(group["step"]) for group in rows_of(folder, "membership.csv")[1:]]
    assert begin <= 40 and end > 50
    distances = {int(row["step"]): float(row["consensus_distance"]) for row in rows_of(folder, "consensus.csv")}
    assert distances[50] == 0


def test_an_evaluation_that_is_due_meanwhile(start, tmp_path):
    """All wait for the newcomer, which is evaluated with them; then the group changes."""
    folder = tmp_path / "run"
    job = start(*SLOW[:SLOW.index("--eval-freq")], "--eval-freq", 20, "--checkpoint-every", 20, "--momentum", 0.9, "--deadline", 20, "--max-steps", 120, "--link", "200kbit",
                "--elastic", "2:3", "--restarts", 1, "--codec", "ef | topk(0.01)", "--train-dir", "run")  # fmt: skip
    at_step(job, folder, 5)
    kill(job, 1)
    assert job.finish().status == 0, job.err
    begin = int(rows_of(folder, "membership.csv")[1]["step"])
    tests = rows_of(folder, "evaluations.csv")
    assert [int(row["step"]) for row in tests if row["split"] == "test"] == list(range(20, 121, 20))
    steps = rows_of(folder, "steps.csv")
    for trained in [row for row in tests if row["split"] == "train" and int(row["step"]) >= begin + 20]:
        end = int(trained["step"])
        losses = [float(row["loss"]) for row in steps if end - 20 <= int(row["step"]) < end]
        assert float(trained["loss"]) == pytest.approx(sum(losses) / len(losses), rel=1e-3), "each step counts once"


@pytest.mark.parametrize("codec", ["signum", "ef | topk(0.01)"])
def test_a_state_may_take_longer_than_the_deadline(start, tmp_path, codec):
    """62 KB at 40 kbit/s: all wait for it, or continue until the evaluation at the next step of ten."""
    folder = tmp_path / "run"
    job = start("train", *SMALL, *"--epochs 1000 --eval-freq 10 --max-steps 20 --momentum 0.9 --deadline 10 --link 40kbit --elastic 1:2 --restarts 1".split(),
                "--codec", codec, "--train-dir", "run")  # fmt: skip
    at_step(job, folder, 1)
    kill(job, 1)
    assert job.finish().status == 0, job.err
    assert len(members(folder)) == 2 and "timed out" not in job.err, job.err


@pytest.mark.parametrize("method", ["logreg --codec signum", "logreg --codec auto", "logreg --codec fetchsgd --check-replicas 1", "resnet20 --train-size 64 --algorithm diloco(h=3)", "resnet20 --average-batch-norm --train-size 64"])
def test_where_they_wait(start, tmp_path, method):
    """Where newcomers cannot take part without the model."""
    job = start("train", *"--epochs 1000 --batch-size 8 --test-size 50 --elastic 1:2 --restarts 1 --train-dir run --model".split(), *method.split())
    folder = tmp_path / "run"
    at_step(job, folder, 3)
    kill(job, 1)
    wait_until(lambda: job.process.poll() is not None or len(members(folder)) == 2, "the next group")
    at_step(job, folder, members(folder)[-1][1] + 3)
    job.process.send_signal(signal.SIGINT)
    job.finish()
    assert "continues with 2 ranks\n" in job.err and "meanwhile" not in job.err
