"""Every kind of bad input has a message that names it and an exit status; nothing hangs, and nothing remains."""

import fcntl
import socket

import pytest

from conftest import TINY, summary


def refused(job, *parts, status=2):
    assert job.status == status, job.err
    for part in parts:
        assert part in job.err, job.err
    assert job.err.count("sotto: ") == 1, f"the message must be printed once:\n{job.err}"


@pytest.mark.parametrize("arguments, parts", [
    (["trian"], ["unknown command `trian`", "did you mean `train`?"]),
    (["train", "--epocs", "3"], ["unknown option --epocs", "did you mean --epochs?"]),
    (["train", "stray"], ["unexpected argument `stray`"]),
    (["train", "--lr"], ["--lr: it needs a value"]),
    (["train", "--max-steps", "3", "--train-dir", "--resume"], ["--train-dir: it needs a value, and --resume follows"]),
    (["compare", "--codecs", "--json"], ["--codecs: it needs a value, and --json follows"]),
    (["train", "--lr", "0.1", "--lr", "0.2"], ["--lr: it is given twice"]),
    (["train", "--overlap", "--no-overlap"], ["--overlap: it is given both ways"]),
    (["codec", "list", "--what", "--json"], ["--what: JSON has the descriptions in any case"]),
    (["data", "info", "parallel", "--data-dir", ".", "--languages", "en-en"], ["--languages en-en: the two are one"]),
    (["train", "--lr", "-1"], ["--lr -1: must be in [0, inf)"]),
    (["train", "--ranks", "0"], ["--ranks 0: must be in [1, 65535]"]),
    (["train", "--ranks", "two"], ["--ranks two: must be a whole number"]),
    (["train", "--epochs", "1.5"], ["--epochs 1.5: must be a whole number"]),
    (["train", "--momentum", "1"], ["--momentum 1: must be in [0, 1)"]),
    (["train", "--optimiser", "adan"], ["--optimiser adan: unknown optimiser", "did you mean `adam`?"]),
    (["train", "--optimiser", "adam", "--momentum", "0.5"], ["--momentum 0.5: the optimiser `adam` has no momentum"]),
    (["train", "--codec", "signum", "--optimiser", "sgd"], ["tied to the optimiser `signum`"]),
    (["train", "--overlap=perhaps"], ["--overlap perhaps: must be true or false"]),
    (["train", "--model", "lenett"], ["--model lenett: unknown model `lenett`", "did you mean `lenet`?"]),
    (["train", "--schedule", ""], ["--schedule: it is empty; leave it out"]),
    (["train", "--partition", " "], ["--partition: it is empty; leave it out"]),
    (["train", "--tokens", ""], ["--tokens: must be one of bytes, sentencepiece"]),
    (["train", "--model", "resnet20(depth=56)"], ["--model resnet20(depth=56): the name resnet20 says its depth; write resnet(depth=56)"]),
    (["train", "--model", "vgg16(depth=19)"], ["--model vgg16(depth=19): unknown option `depth`"]),
    (["train", "--data", "mnits"], ["mnits", "did you mean `mnist`?"]),
    (["train", "--data", "mnist"], ["--data-dir"]),
    (["train", "--codec", "topkk(0.01)"], ["--codec", "unknown", "`topkk`", "did you mean `topk`?"]),
    (["train", "--codec", "topk(ratoi=0.01)"], ["--codec topk(ratoi=0.01)", "did you mean `ratio`?"]),
    (["train", "--codec", "ef | topk(1.5)"], ["--codec topk(1.5): ratio must be in (0, 1]", "\n  ef | topk(1.5)\n            ^"]),
    (["train", "--codec", "topk(0.1) | ef"], ["--codec"]),
    (["train", "--codec", "topk(0.1"], ["--codec", "^"]),
    (["train", "--codec", "topk(0.01)", "--aggregator", "all_reduce"], ["all_reduce"]),
    (["train", "--aggregator", "gahter"], ["gahter", "did you mean `gather`?"]),
    (["train", "--aggregator", "power"], ["power", "write it in --codec"]),
    (["train", "--codec", "power(1)", "--aggregator", "gather"], ["power(", "is an aggregator itself"]),
    (["train", "--codec", "power(0)"], ["power(0)", "rank must be in [1, 64]"]),
    (["train", "--codec", "power(1) | topk"], ["what follows `power` is summed on the way"]),
    (["train", "--codec", "ef | auto"], ["auto", "no memory before it"]),
    (["train", "--codec", "momentum | topk(0.1)", "--momentum", "0.9"], ["`momentum", "makes the momentum before gradients are sent", "say --momentum 0"]),
    (["train", "--codec", "demo | topk(0.1)", "--momentum", "0.5"], ["`demo", "makes the momentum before gradients are sent"]),
    (["train", "--codec", "momentum | topk(0.1)", "--nesterov"], ["--nesterov", "momentum(nesterov=true)"]),
    (["train", "--codec", "momentum | topk(0.1)", "--optimiser", "adam"], ["`momentum", "`ef` in place of it"]),
    (["train", "--codec", "momentum(1) | topk(0.1)"], ["--codec momentum(1): m must be in [0, 1)"]),
    (["train", "--codec", "topk(0.1)", "--codec-warmup", "exponental"], ["--codec-warmup", "did you mean `exponential`?"]),
    (["train", "--codec", "qsgd(bits=4)", "--codec-warmup", "exponential"], ["--codec-warmup", "has no ratio"]),
    (["train", "--codec", "topk(0.001)", "--codec-warmup", "list(25%,6%)"], ["too many arguments", "25%/6%/1%", "list(25%,6%)"]),
    (["train", "--algorithm", "sink"], ["--algorithm", "sink"]),
    (["train", "--link", "fast"], ["--link"]),
    (["train", "--schedule", "cosinus"], ["--schedule", "did you mean `cosine`?"]),
    (["train", "--master", "nowhere"], ["--master nowhere"]),
    (["train", "--hosts", ""], ["--hosts: it is empty; leave it out"]),
    (["train", "--secret", ""], ["--secret: it is empty; leave it out"]),
    (["train", "--coordinator", ""], ["--coordinator: it is empty; leave it out"]),
    (["train", "--backend", "mip"], ["--backend", "did you mean `mpi`?"]),
    (["train", "--backend", "nccl"], ["--backend nccl: "]),
    (["train", "--backend", "nccl", "--interface", "lo"], ["--interface: only for tcp and gloo", "NCCL_SOCKET_IFNAME"]),
    (["train", "--backend", "gloo", "--streams", "4"], ["--streams: only for tcp", "one connection to each peer"]),
    (["train", "--backend", "gloo", "--relay", "10.0.0.1:2"], ["--relay: only for tcp", "connect to each other directly"]),
    (["train", "--relay", "10.0.0.1"], ["--relay 10.0.0.1: must be HOST:PORT"]),
    (["train", "--relay", "10.0.0.1:2", "--interface", "lo"], ["--relay 10.0.0.1:2: the rank listens nowhere; leave --interface lo out"]),
    (["train", "--relay", "10.0.0.1:2"], ["--relay 10.0.0.1:2: the relay, and others on the way, could read", "--secret"]),
    (["relay"], ["--listen: missing"]),
    (["relay", "--listen", "29600"], ["--listen 29600: must be HOST:PORT"]),
    (["train", "--streams", "65"], ["--streams 65: "]),
    (["train", "--resume"], ["--resume", "--train-dir"]),
    (["train", "--config", "missing.toml"], ["missing.toml"]),
    (["train", "--batch-size", "600", "--ranks", "1"], ["batch"]),
    (["train", "--batch-size", "200", "--ranks", "4"], ["batch"]),
    (["compare"], ["--codecs"]),
    (["eval"], ["--model-dir"]),
    (["eval", "--model-dir", "missing"], ["--model-dir missing"]),
    (["codec", "lits"], ["unknown action `lits`", "did you mean `list`?"]),
    (["codec", "describe", "qsgdd"], ["did you mean `qsgd`?"]),
    (["codec", "describe", "momentum(m=0.9, nestrov=true) | topk"], ["codec describe momentum(m=0.9, nestrov=true)", "did you mean `nesterov`?"]),
    (["codec", "describe", "ef(3) | topk"], ["`ef` takes no arguments", "\n  ef(3) | topk\n     ^"]),
    (["codec", "measure"], ["--codec"]),
    (["codec", "measure", "--codec", "momentum(m=5) | topk"], ["--codec momentum(m=5): m must be in [0, 1)"]),
    (["codec", "sweep", "--codec", "momentum({}) | topk(0.01)", "--values", "0.1", "0.9"], ["the memory, which is not measured"]),
    (["codec", "sweep", "--codec", "{}", "--values", "ef", "demo"], ["the memory, which is not measured"]),
    (["codec", "sweep", "--codec", "momentum({}) | topk(0.01)", "--values", "5"], ["m must be in [0, 1)"]),
    (["codec", "measure", "--codec", "qsgd(99)"], ["--codec qsgd(99): bits must be in"]),
    (["codec", "measure", "--codec", "int8", "--sample", "gausian"], ["did you mean `gaussian`?"]),
    (["codec", "measure", "--codec", "int8", "--csv", "--json"], ["--csv", "--json"]),
    (["codec", "measure", "--codec", "int8", "qsdg"], ["did you mean `qsgd`?"]),
    (["codec", "sweep", "--codec", "qsgd(4)", "--values", "1..8"], ["{}"]),
    (["codec", "sweep", "--codec", "qsgd({})"], ["--values"]),
    (["codec", "sweep", "--values", "1..8"], ["say what with --codec"]),
    (["codec", "sweep", "--codec", "topk({})", "--values", "0.1,0.2"], ["as in --values 0.1 0.2"]),
    (["codec", "sweep", "--codec", "qsgd({})", "--values", "8..1"], ["8..1"]),
    (["codec", "sweep", "--codec", "topk({})", "--values", "0..1/5"], ["0..1/5"]),
    (["codec", "sweep", "--codec", "topk({})", "--values", "0.1..0.5"], ["say how many numbers, as 0.1..0.5/5"]),
    (["codec", "sweep", "--codec", "qsgd({})", "--values", "1..2000"], ["1..2000: more than 1001 values"]),
    (["codec", "sweep", "--codec", "qsgd({})", "--values", "9"], ["qsgd(9)"]),
    (["codec", "sweep", "--codec", "qsgd({})", "--values", "4", "--plot", "a.png"], [".svg"]),
    (["codec", "measure", "--codec", "int8", "--elements", "0"], ["--elements 0: must be in"]),
    (["codec", "measure", "--codec", "int8", "--threads", "0"], ["--threads 0: must be in"]),
    (["train", "--codec-threads", "257"], ["--codec-threads 257: must be in"]),
    (["train", "--threads", "4294967297"], ["--threads 4294967297: must be in [1, 4096]"]),
    (["data", "get", "mnits", "--data-dir", "d"], ["did you mean `mnist`?"]),
    (["data", "get", "mnist"], ["--data-dir"]),
    (["compare", "--codecs", "none", "int8", "--capture", "every=1,dir=d"], ["--capture: every run would write"]),
    (["data", "show", "digits"], ["--out"]),
], ids=lambda value: " ".join(value)[:50] if value and value[0].islower() else "")
def test_refused(run, arguments, parts):
    if arguments[0] == "train":
        arguments = arguments[:1] + TINY + arguments[1:] if "--batch-size" not in arguments else [
            "train", "--model", "logreg", "--train-size", "512", *arguments[1:]]
        for name in ("--model", "--data", "--train-size"):  # given twice is an error, too
            if arguments.count(name) > 1:
                at = arguments.index(name)
                del arguments[at:at + 2]
    job = run(*arguments)
    if "missing.toml" in arguments:
        refused(job, *parts, status=1)
    else:
        refused(job, *parts)


def test_a_flag_given_twice(run):
    refused(run("train", "--lr", "0.1", "--lr", "0.2"), "--lr")


def test_port_in_use(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(run("train", *TINY, "--ranks", 2, "--master", f"127.0.0.1:{port}"), str(port), "in use", status=1)


def test_folder_that_cannot_be_made(run, tmp_path):
    (tmp_path / "file").write_text("in the way")
    refused(run("train", *TINY, "--ranks", 2, "--max-steps", 2, "--train-dir", "file/run"), "file", status=1)
    refused(run("train", *TINY, "--max-steps", 2, "--train-dir", "n" * 300), "cannot make folder " + "n" * 300 + ": File name too long", status=1)


def test_an_unwritable_plot_is_refused_first(run):
    job = run("codec", "sweep", "--codec", "qsgd({})", "--values", "4", "--elements", 1000, "--plot", "missing/x.svg")
    refused(job, "--plot missing/x.svg", "No such file", status=1)
    assert job.out == ""


def test_folder_that_holds_a_run(good, run):
    good("train", *TINY, "--max-steps", 2, "--train-dir", "run")
    refused(run("train", *TINY, "--max-steps", 2, "--train-dir", "run"), "already holds a run", "--resume")


def test_ranks_that_contradict_the_starter(run):
    refused(run("train", *TINY, "--ranks", 4, RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1"),
            "--ranks 4: whoever set RANK and WORLD_SIZE started 2 ranks; leave --ranks out")


def test_peer_that_never_comes(run):
    flags = [flag if flag != "60" else "2" for flag in TINY]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    job = run("train", *flags, RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    refused(job, "rank 1", status=1)


def test_loss_that_is_not_finite(run, tmp_path):
    job = run("train", *TINY, "--ranks", 2, "--lr", "1e38", "--checkpoint-every", 1, "--train-dir", "run")
    refused(job, " at step ", status=1)
    assert [p.name for p in (tmp_path / "run").glob("model_step_*")] == ["model_step_1"]


class TestResume:
    @pytest.fixture
    def folder(self, good, tmp_path):
        good("train", *TINY, "--ranks", 2, "--max-steps", 4, "--train-dir", "run", "--codec", "ef | topk(0.1)")
        return tmp_path / "run" / "model_step_4"

    def resume(self, run, *flags, ranks=2, codec="ef | topk(0.1)"):
        return run("train", *TINY, "--ranks", ranks, "--max-steps", 8, "--train-dir", "run", "--resume", "--codec", codec, *flags)

    def test_of_another_codec(self, run, folder):
        refused(self.resume(run, codec="int8"), "codec", "topk", "int8")

    def test_a_refused_change_keeps_the_record(self, run, folder):
        before = [(folder.parent / name).read_bytes() for name in ("config.toml", "steps.csv", "summary.json")]
        refused(self.resume(run, codec="int8"), "codec")
        assert [(folder.parent / name).read_bytes() for name in ("config.toml", "steps.csv", "summary.json")] == before

    def test_goes_on_with_the_options_of_the_run(self, good, folder):
        good("train", "--train-dir", "run", "--resume", "--max-steps", 8)
        assert 'codec = "ef | topk(0.1)"' in (folder.parent / "config.toml").read_text().replace("'", '"')
        assert (folder.parent / "model_step_8").is_dir()

    def test_of_a_finished_run_keeps_its_summary(self, good, folder):
        before = (folder.parent / "summary.json").read_bytes()
        good("train", "--train-dir", "run", "--resume")
        assert (folder.parent / "summary.json").read_bytes() == before

    def test_of_a_run_that_is_at_work(self, run, folder):
        with open(folder.parent / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            refused(self.resume(run), "another run is at work there")

    def test_of_another_model(self, run, folder):
        flags = [flag if flag != "logreg" else "fc" for flag in TINY]
        job = run("train", *flags, "--ranks", 2, "--max-steps", 8, "--train-dir", "run", "--resume", "--codec", "ef | topk(0.1)")
        refused(job, "was written with")

    @pytest.mark.parametrize("name", ["model.safetensors", "rank_1"])
    def test_of_a_flipped_bit(self, run, folder, name):
        path = folder / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
        refused(self.resume(run), str(path.relative_to(folder.parent.parent)), status=1)

    @pytest.mark.parametrize("name", ["model.safetensors", "rank_0"])
    def test_of_a_truncated_file(self, run, folder, name):
        path = folder / name
        path.write_bytes(path.read_bytes()[:-7])
        refused(self.resume(run), name, status=1)

    def test_of_a_missing_file(self, run, folder):
        (folder / "rank_1").unlink()
        refused(self.resume(run), "rank_1", status=1)

    def test_goes_on_when_nothing_is_wrong(self, run, folder):
        assert self.resume(run).status == 0
        assert summary(folder.parent)["steps"] == 8
