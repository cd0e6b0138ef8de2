"""Checkpoints: from which one a run continues, when they are made, and which are made without a flag."""

import os
import pathlib
import shutil
import signal

import pytest

from conftest import TINY, has_step, summary, wait_until

pytestmark = pytest.mark.slow

ENDLESS = ["--epochs", 100000, "--eval-freq", 1000000]


def steps_of(folder):
    return sorted(int(p.name.split("_")[-1]) for p in pathlib.Path(folder).glob("model_step_*") if p.name[-1].isdigit())


class TestResume:
    FLAGS = ["train", *TINY, "--ranks", 2, "--codec", "ef | topk(0.1)", "--train-dir", "run"]

    @pytest.fixture
    def folder(self, good, tmp_path):
        good(*self.FLAGS, "--max-steps", 6, "--checkpoint-every", 2)
        assert steps_of(tmp_path / "run") == [2, 4, 6]
        return tmp_path / "run"

    def resume(self, run):
        return run(*self.FLAGS, "--resume", "--max-steps", 8)

    def test_parts_of_other_ranks_are_none(self, run, folder):
        newest = folder / "model_step_6"
        (newest / "rank_0").rename(newest / "other")
        (newest / "rank_1").rename(newest / "rank_0")
        (newest / "other").rename(newest / "rank_1")
        job = self.resume(run)
        assert job.status == 0, job.err
        assert "left aside: run/model_step_6/rank_0: is not what belongs there, but rank_1 of step 6 of the same run" in job.err
        assert "resumed from run/model_step_4" in job.err
        assert steps_of(folder) == [2, 4, 8] or steps_of(folder) == [2, 4, 6, 8]

    def test_parts_of_other_steps_are_none(self, good, run, folder):
        good(*self.FLAGS[:-1], "whole", "--max-steps", 8)
        for step in (4, 6):
            shutil.copy(folder / "model_step_2" / "rank_1", folder / f"model_step_{step}" / "rank_1")
        job = self.resume(run)
        assert job.status == 0, job.err
        assert "left aside: run/model_step_6/rank_1: is not what belongs there, but rank_1 of step 2 of the same run" in job.err
        assert "left aside: run/model_step_4/rank_1: " in job.err and "resumed from run/model_step_2" in job.err
        assert summary(folder)["parameters_sha256"] == summary(folder.parent / "whole")["parameters_sha256"]

    def test_of_another_run(self, good, run, folder):
        good(*self.FLAGS[:-1], "twin", "--max-steps", 6)
        shutil.copy(folder.parent / "twin" / "model_step_6" / "rank_0", folder / "model_step_6" / "rank_0")
        assert "but rank_0 of step 6 of another run" in self.resume(run).err

    def test_one_that_was_left_aside_is_replaced(self, run, folder):
        (folder / "model_step_6" / "model.safetensors").unlink()
        job = run(*self.FLAGS, "--resume", "--max-steps", 6)
        assert job.status == 0 and "left aside: run/model_step_6/model.safetensors: missing" in job.err
        assert "resumed from run/model_step_6" in self.resume(run).err
        assert not list(folder.glob("*.tmp"))

    def test_none_is_whole(self, run, folder):
        for step in (2, 4, 6):
            (folder / f"model_step_{step}" / "manifest").unlink()
        job = self.resume(run)
        assert job.status == 1 and "no checkpoint is whole" in job.err and job.err.count("sotto: ") == 1, job.err


ALGORITHMS = [
    ("sync", []), ("sync(priority=need)", []), ("push_sum", []), ("push_sum(overlap=true)", []), ("push_sum(overlap=true, synch_freq=2)", []), ("d_psgd", ["--topology", "ring"]),
    ("choco", ["--topology", "ring"]), ("local(h=3)", []), ("diloco(h=4, overlap=2)", []), ("parameter_server", []),
    ("parameter_server(mode=async)", []), ("ad_psgd", ["--topology", "star"]),
]  # fmt: skip


def test_the_best_is_kept_on_request(good, tmp_path):
    flags = ["train", *TINY, "--lr", 1e-12, "--max-steps", 40, "--eval-freq", 5, "--checkpoint-minutes", "1e-9"]  # the first is the best
    good(*flags, "--train-dir", "best")
    assert len(steps_of(tmp_path / "best")) == 4 and steps_of(tmp_path / "best")[0] == 5
    good(*flags, "--train-dir", "last", "--no-keep-best")
    assert len(steps_of(tmp_path / "last")) == 3 and steps_of(tmp_path / "last")[0] > 5


@pytest.mark.parametrize("algorithm, flags", ALGORITHMS, ids=[name for name, _ in ALGORITHMS])
def test_the_clock_makes_them_and_changes_no_bit(good, tmp_path, algorithm, flags):
    flags = ["train", *TINY, *flags, "--algorithm", algorithm, "--ranks", 3, "--max-steps", 40, "--no-keep-best"]
    good(*flags, "--train-dir", "often", "--checkpoint-minutes", "1e-9")
    made = steps_of(tmp_path / "often")
    assert made[-1] == 40 and len(made) <= 3, "the last two, and the one at the end"
    assert len(made) == 3 or algorithm == "ad_psgd", "its ranks meet when they hear of it, perhaps at the end"
    assert made == [40] or (tmp_path / "often" / f"model_step_{made[0]}" / "manifest").read_bytes().find(b"rolling = yes") > 0
    if any(word in algorithm for word in ("async", "synch_freq", "ad_psgd")):  # no two runs of these have the same bits
        return
    good(*flags, "--train-dir", "never", "--checkpoint-minutes", 0)
    assert steps_of(tmp_path / "never") == [40]
    assert summary(tmp_path / "often")["parameters_sha256"] == summary(tmp_path / "never")["parameters_sha256"]
    shutil.rmtree(tmp_path / "often" / "model_step_40")
    good(*flags, "--train-dir", "often", "--resume", "--checkpoint-minutes", 0)
    assert summary(tmp_path / "often")["parameters_sha256"] == summary(tmp_path / "never")["parameters_sha256"]


def test_ranks_make_checkpoints_where_they_meet(good, tmp_path):
    good("train", *TINY, "--algorithm", "ad_psgd(count=each)", "--ranks", 2, "--max-steps", 40, "--train-dir", "run", "--eval-freq", 10, "--checkpoint-minutes", "1e-9", "--no-keep-best")
    assert len(steps_of(tmp_path / "run")) == 3


def test_those_that_were_asked_for_stay(good, tmp_path):
    good("train", *TINY, "--max-steps", 12, "--train-dir", "run", "--checkpoint-every", 4, "--checkpoint-minutes", "1e-9")
    assert {4, 8, 12} <= set(steps_of(tmp_path / "run")) and len(steps_of(tmp_path / "run")) == 5


def test_a_failed_rank_is_started_again(start, tmp_path):
    job = start("train", *TINY, *ENDLESS, "--ranks", 2, "--checkpoint-every", 10, "--train-dir", "run", "--restarts", 1)
    folder = tmp_path / "run"
    wait_until(lambda: job.process.poll() is not None or steps_of(folder), "a checkpoint")
    first = job.rank(1)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: job.process.poll() is not None or (len(job.ranks()) == 2 and first not in job.ranks()), "new ranks")
    newest = steps_of(folder)[-1]
    wait_until(lambda: job.process.poll() is not None or steps_of(folder)[-1] > newest, "a later checkpoint")
    os.kill(job.process.pid, signal.SIGINT)
    job.finish()
    assert job.status == 130, job.err
    assert "sotto: rank 1 was killed by signal 9 (SIGKILL); starting again, 1 of 1" in job.err and "resumed from" in job.err
    job.nothing_left()


def test_refused_options_are_not_retried(run):
    job = run("train", *TINY, "--ranks", 2, "--restarts", 3, "--codec", "ef | topk(2)")
    assert job.status == 2 and "starting again" not in job.err


def test_an_error_beside_the_steps_leaves_a_checkpoint(start, good, tmp_path):
    job = start("train", *TINY, *ENDLESS, "--ranks", 2, "--train-dir", "run")
    folder = tmp_path / "run"
    wait_until(lambda: job.process.poll() is not None or has_step(folder, 3), "some steps")
    (folder / "in the way").mkdir()
    (folder / "steps.csv").rename(folder / "rows")
    while not (folder / "steps.csv").is_dir():  # the run may have started a new file meanwhile
        try:
            (folder / "in the way").rename(folder / "steps.csv")
        except NotADirectoryError:
            (folder / "steps.csv").unlink(missing_ok=True)
    job.finish()
    assert job.status == 1 and "steps.csv: Is a directory" in job.err and "with a checkpoint" in job.err, job.err
    job.nothing_left()
    (made,) = steps_of(folder)
    (folder / "steps.csv").rmdir()
    (folder / "rows").rename(folder / "steps.csv")
    assert f"resumed from run/model_step_{made}" in good("train", "--resume", "--train-dir", "run", "--max-steps", made + 2).err


def test_rows_that_are_taken_away_begin_anew(start, tmp_path):
    job = start("train", *TINY, *ENDLESS, "--ranks", 2, "--train-dir", "run")
    wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "run", 3), "some steps")
    (tmp_path / "run" / "steps.csv").unlink()
    wait_until(lambda: job.process.poll() is not None or has_step(tmp_path / "run", 4), "new rows")
    os.kill(job.process.pid, signal.SIGINT)
    job.finish()
    assert job.status == 130 and "steps.csv was taken away while the run wrote it" in job.err, job.err
    assert (tmp_path / "run" / "steps.csv").read_text().startswith("step,rank,")


def test_a_training_that_diverged_says_so(run, tmp_path):
    job = run("train", *TINY, "--ranks", 2, "--lr", 1e8, "--max-steps", 20, "--train-dir", "run")
    assert job.status == 1 and "the training diverged: its test loss is" in job.err and job.err.count("sotto: ") == 1, job.err
    assert summary(tmp_path / "run")["steps"] == 20 and summary(tmp_path / "run")["diverged"]
    watched = run("watch", "run")
    assert watched.status == 1 and "it diverged" in watched.out, watched.out
    assert run("report", "run").status == 0 and "<li class=\"wrong\">it diverged" in (tmp_path / "report.html").read_text()
