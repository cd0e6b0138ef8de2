"""Messages that cannot be written are lost, and change no exit status: stderr is a full disk, closed, or nobody reads it."""

import os
import subprocess

import pytest

from conftest import DEADLINE, TINY
from pictures import write_pictures

PREPARE = ["data", "prepare", "folder", "--data-dir", "pictures", "--out", "pack"]


def status_of(sotto, folder, stderr, *arguments):
    if stderr == "closed":  # not by Popen, which cannot start a program without a stderr
        command, writer = ["sh", "-c", 'exec "$@" 2>&-', "sh", sotto, *arguments], None
    elif stderr == "no reader":
        command = [sotto, *arguments]
        reader, writer = os.pipe()
        os.close(reader)
    else:
        command, writer = [sotto, *arguments], os.open(stderr, os.O_WRONLY)
    try:  # Python ignores SIGPIPE, but subprocess sets it back
        return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer, timeout=DEADLINE).returncode
    finally:
        if writer is not None:
            os.close(writer)


@pytest.mark.parametrize("stderr", ["/dev/full", "closed", "no reader"])
@pytest.mark.parametrize("status, arguments", [
    (2, ["train", "--bogus"]),
    (1, ["watch", "nowhere"]),
    (1, ["import", "nowhere.safetensors", "--model", "logreg", "--data", "digits", "--train-dir", "run"]),
    (0, ["tune", *TINY, "--grid", "lr=0.1,0.2", "--steps", "2", "--train-dir", "run"]),
    (0, PREPARE)])
def test_a_lost_message_changes_no_exit_status(sotto, tmp_path, stderr, status, arguments):
    if arguments is PREPARE:
        write_pictures(tmp_path / "pictures")
        (tmp_path / "pictures" / "train" / "asters" / "0.png").write_bytes(b"no picture")
    assert status_of(sotto, tmp_path, stderr, *arguments) == status


def test_messages_never_go_into_run_files(sotto, tmp_path):
    """The first file that a program opens gets the number of a stderr that is closed."""
    assert status_of(sotto, tmp_path, "closed", "tune", *TINY, "--grid", "lr=0.1", "--steps", "2", "--train-dir", "run") == 0
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"at a time" in p.read_bytes()]
