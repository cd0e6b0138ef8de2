import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import threading

import pytest

from elastic_job import Job, Nursery

DEADLINE = 180  # seconds; generous, since tests share the cores with others


class Failed(Exception):
    """The error that a rank raised."""

    def __init__(self, answer):
        super().__init__(answer["error"])
        self.kinds = answer["kinds"]


class Ranks:
    """The processes of a job; each waits for calls."""

    def __init__(self, size, nursery, folder):
        self.nursery, self.log = nursery, folder / "log"
        self.pids, self.connections = [], []
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(DEADLINE)
            for rank in range(size):
                wish = {"rank": rank, "size": size, "meeting": str(folder / "meeting"), "port": server.getsockname()[1]}
                self.pids.append(nursery.start(wish, self.log, self.log))
                self.connections.append(server.accept()[0])
        self.files = [connection.makefile("rw") for connection in self.connections]

    def ask(self, name, **arguments):
        """Calls the scenario `name`. Returns the answers of all ranks in order: a value, a Failed, or None from a rank that is gone."""
        for file in self.files:
            print(json.dumps([name, arguments]), file=file, flush=True)
        answers = [None] * len(self.files)

        def read(rank):
            line = self.files[rank].readline()
            if line:
                answer = json.loads(line)
                answers[rank] = answer["value"] if "value" in answer else Failed(answer)

        readers = [threading.Thread(target=read, args=(rank,), daemon=True) for rank in range(len(self.files))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(DEADLINE)
            assert not reader.is_alive(), f"{name} did not end:\n{self.log.read_text()[-4000:]}"
        return answers

    def values(self, name, **arguments):
        """Like ask(), but every rank must succeed."""
        answers = self.ask(name, **arguments)
        assert not any(isinstance(answer, Failed) for answer in answers), (
            "\n".join(f"rank {rank}: {answer}" for rank, answer in enumerate(answers)) + f"\n{self.log.read_text()[-4000:]}")
        return answers

    def leave(self):
        """Lets the ranks end by themselves; returns their statuses."""
        for connection in self.connections:
            connection.shutdown(socket.SHUT_WR)
        return [self.nursery.wait(pid) for pid in self.pids]

    def end(self):
        for pid, file, connection in zip(self.pids, self.files, self.connections):
            if pid not in self.nursery.statuses:
                os.kill(pid, signal.SIGKILL)
            self.nursery.wait(pid)
            connection.close()
            with contextlib.suppress(OSError):
                file.close()


@pytest.fixture(scope="session")
def environment(build_dir):
    """The environment variables with which a Python process finds the package that was built."""
    assert (build_dir / "python" / "sotto" / "libsotto.so").exists(), "the package is not built"
    kept = {k: v for k, v in os.environ.items()
            if k.startswith("SOTTO_TEST_") or not k.startswith(("SOTTO_", "OMP_", "GLOO_", "TORCH_"))}
    return kept | {"PYTHONPATH": str(build_dir / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                   "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # CUDA's way to the same bits


@pytest.fixture(scope="session")
def start_ranks(nursery, tmp_path_factory):
    """Starts a job of `size` ranks."""
    jobs = []

    def start(size):
        jobs.append(Ranks(size, nursery, tmp_path_factory.mktemp("ranks")))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


@pytest.fixture(scope="session")
def pair(start_ranks):
    """A job of two ranks, shared by all tests that leave it as it was."""
    return start_ranks(2)


@pytest.fixture(scope="session")
def trio(start_ranks):
    """A job of three ranks, likewise."""
    return start_ranks(3)


@pytest.fixture(scope="session")
def package(environment):
    """The package itself, in this process."""
    sys.path.insert(0, environment["PYTHONPATH"])
    return importlib.import_module("sotto")


@pytest.fixture(scope="session")
def nursery(environment, tmp_path_factory):
    nursery = Nursery(environment, tmp_path_factory.mktemp("nursery"))
    yield nursery
    nursery.end()


@pytest.fixture
def job(environment, sotto, nursery, tmp_path):
    job = Job([sotto], environment, nursery, tmp_path)
    yield job
    job.end()
