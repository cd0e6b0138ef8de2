"""Event files of `sotto train --tensorboard`, read by TensorBoard's own reader, which checks every checksum."""

import csv
import shutil

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from conftest import TINY, summary

STEPS, EVERY = 12, 6


def scalars(folder):
    """By tag: (step, value) of each event."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def check(tmp_path, steps):
    """Every step once, with the numbers of the run's own files."""
    found = scalars(tmp_path / "events")
    mine = [row for row in rows(tmp_path / "run" / "steps.csv") if row["rank"] == "0"]
    assert [step for step, _ in found["train/loss"]] == list(range(1, steps + 1))
    for tag, column in (("train/loss", "loss"), ("train/learning-rate", "lr"), ("bytes/sent-a-step", "bytes_sent"),
                        ("ms/step", "step_ms"), ("ms/compute", "compute_ms"), ("ms/network", "network_ms")):  # fmt: skip
        assert [value for _, value in found[tag]] == pytest.approx([float(row[column]) for row in mine], rel=1e-4, abs=6e-4), tag
    assert [value for _, value in found["rate/steps-a-second"]] == pytest.approx([1e3 / float(row["step_ms"]) for row in mine], rel=1e-2)
    for tag, split in (("test", "test"), ("train-mean", "train")):
        table = [row for row in rows(tmp_path / "run" / "evaluations.csv") if row["split"] == split]
        for metric in ("loss", "accuracy", "top5"):
            steps_of, values = zip(*found[f"{tag}/{metric}"], strict=True)
            assert list(steps_of) == [int(row["step"]) for row in table]
            assert values == pytest.approx([float(row[metric]) for row in table], rel=1e-6)
    return found


def test_events_are_those_of_the_files(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", STEPS, "--eval-freq", EVERY, "--train-dir", "run", "--tensorboard", "events")
    found = check(tmp_path, STEPS)
    assert "test/consensus-distance" not in found, "one model is not apart from itself"
    assert len(list((tmp_path / "events").iterdir())) == 1, "rank 0 alone writes"
    sent = [value for _, value in found["bytes/sent-by-all-ranks"]]
    assert sent == [float(row["bytes_sent"]) for row in rows(tmp_path / "run" / "evaluations.csv") if row["split"] == "test"]


def test_a_resumed_run_has_no_step_twice(good, tmp_path):
    common = [*TINY, "--ranks", 2, "--eval-freq", EVERY]
    good("train", *common, "--max-steps", STEPS, "--checkpoint-every", 4, "--train-dir", "run", "--tensorboard", "events")
    for folder in (tmp_path / "run").glob("model_step_*"):  # continues from step 4, as if it had been killed
        if int(folder.name.rpartition("_")[2]) > 4:
            shutil.rmtree(folder)
    good("train", "--train-dir", "run", "--resume", "--max-steps", STEPS + 4)
    assert summary(tmp_path / "run")["first_step"] == 4
    check(tmp_path, STEPS + 4)
    assert len(list((tmp_path / "events").iterdir())) == 2


def test_models_that_differ_have_a_distance(good, tmp_path):
    good("train", *TINY, "--ranks", 2, "--max-steps", 4, "--eval-freq", 2, "--algorithm", "local(h=4)", "--train-dir", "run", "--tensorboard", "events")
    distance = scalars(tmp_path / "events")["test/consensus-distance"]
    assert [step for step, _ in distance] == [2, 4] and distance[0][1] > 0
    assert distance[-1][1] == pytest.approx(summary(tmp_path / "run")["consensus_distance"], rel=1e-6)


def test_events_of_two_runs_are_not_mixed(good, run, tmp_path):
    arguments = [*TINY, "--max-steps", 2, "--tensorboard", "events"]
    good("train", *arguments, "--train-dir", "one")
    job = run("train", *arguments, "--train-dir", "two")
    assert job.status == 2 and "--tensorboard events: holds the events of another run" in job.err
    assert not (tmp_path / "two").exists(), "refused before the run begins"


def test_a_folder_that_cannot_be_made(run, tmp_path):
    (tmp_path / "file").write_text("")
    job = run("train", *TINY, "--max-steps", 2, "--train-dir", "run", "--tensorboard", "file/events")
    assert job.status == 1 and "file/events" in job.err and not (tmp_path / "run").exists()


def test_a_rate_counts_the_ranks_that_compute(good, tmp_path):
    good("train", *TINY, "--ranks", 3, "--max-steps", 4, "--algorithm", "parameter_server(servers=1, dedicated=true)",
         "--train-dir", "run", "--tensorboard", "events")  # fmt: skip
    found = scalars(tmp_path / "events")
    wanted = [2 * 8 * rate for _, rate in found["rate/steps-a-second"]]
    assert [rate for _, rate in found["rate/examples-a-second"]] == pytest.approx(wanted, rel=1e-5)
