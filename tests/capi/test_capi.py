"""The shared library of the C interface, as another language loads it."""

import ctypes
import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = ROOT / "sotto" / "capi" / "sotto.h"


@pytest.fixture(scope="module")
def path(build_dir):
    return build_dir / "sotto" / "capi" / "libsotto.so"


def declared():
    return set(re.findall(r"^SOTTO_API [^;]*?\b(sotto_\w+)\(", HEADER.read_text(), re.MULTILINE | re.DOTALL))


def test_it_exports_what_the_header_declares(path):
    symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in symbols.splitlines()} == declared()
    assert len(declared()) > 30


def test_it_needs_no_torch(path):
    needed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    assert "libtorch" not in needed and "libc10" not in needed


@pytest.mark.parametrize("compiler", [["cc", "-std=c99"], ["c++", "-std=c++11", "-x", "c++"]], ids=["c99", "c++11"])
def test_a_program_in_plain_c(path, tmp_path, compiler):
    program = tmp_path / "program"
    source = pathlib.Path(__file__).parent / "header.c"
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}", source, "-x", "none", "-o", program, path,
                    f"-Wl,-rpath,{path.parent}"], check=True)
    job = subprocess.run([program], capture_output=True, text=True)
    assert (job.returncode, job.stdout.split("\n")[0]) == (0, "codec topk(2): ratio must be in (0, 1]")


def test_python_encodes_and_decodes_with_it(path):
    library = ctypes.CDLL(str(path))
    library.sotto_last_error.restype = ctypes.c_char_p

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int), ("dimensions", ctypes.c_size_t),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]

    take = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

    class Sink(ctypes.Structure):
        _fields_ = [("take", take), ("context", ctypes.c_void_p)]

    assert library.sotto_interface() == 2
    codec = ctypes.c_void_p()
    assert library.sotto_codec_create(b"topk(2)", 1, ctypes.byref(codec)) == 1
    assert b"ratio must be in (0, 1]" in library.sotto_last_error(0)
    assert library.sotto_codec_create(b"f16 | rans", 1, ctypes.byref(codec)) == 0
    values, decoded = (ctypes.c_float * 6)(1, 2, 3, -4, 0.5, 6), (ctypes.c_float * 6)()
    shape = (ctypes.c_int64 * 2)(2, 3)
    found = []
    sink = Sink(take(lambda _, data, size: found.append(ctypes.string_at(data, size))), None)
    tensor, into = (Tensor(ctypes.cast(each, ctypes.c_void_p), 0, 2, shape, None) for each in (values, decoded))
    assert library.sotto_codec_encode(codec, ctypes.byref(tensor), ctypes.c_uint64(1), ctypes.c_uint32(0), sink) == 0
    assert library.sotto_codec_decode(codec, found[0], ctypes.c_size_t(len(found[0])), ctypes.byref(into)) == 0
    assert list(decoded) == [1, 2, 3, -4, 0.5, 6]
    library.sotto_codec_free(codec)


@pytest.fixture(scope="module")
def average(path, tmp_path_factory):
    program = tmp_path_factory.mktemp("average") / "average"
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}", ROOT / "examples" / "average.c", "-o", program,
                    path, f"-Wl,-rpath,{path.parent}"], check=True)
    return program


@pytest.fixture
def port():
    with socket.socket() as reserved:  # until the test ends; it does not listen
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield str(reserved.getsockname()[1])


def new_secret(path):
    path.touch(0o600)
    path.write_text(os.urandom(32).hex() + "\n")
    return path


def answers_of(ranks):
    """The ranks are lists of words."""
    ranks = [subprocess.Popen([str(word) for word in rank], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in ranks]
    return [rank.communicate(timeout=300) for rank in ranks]


@pytest.mark.parametrize("has_secret", [False, True], ids=["plain", "secret"])
def test_the_example_in_c_averages(average, port, tmp_path, has_secret):
    secret = new_secret(tmp_path / "secret")
    answers = answers_of([average, "127.0.0.1", port, rank, 3, *[secret][:has_secret]] for rank in range(3))
    assert answers == [("1 1\n", "")] * 3


def test_the_example_in_c_keeps_others_out(average, port, tmp_path):
    for name in ("ours", "other"):
        new_secret(tmp_path / name)
    ranks = [average, "127.0.0.1", port, 0, 2, tmp_path / "ours"], [average, "127.0.0.1", port, 1, 2, tmp_path / "other"]
    rank = subprocess.Popen([str(word) for word in ranks[0]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    (_, wrong), = answers_of([ranks[1]])
    assert wrong == f"average: the ranks' meeting place at 127.0.0.1:{port} has another secret; give all the same one\n"
    (right, _), = answers_of([[average, "127.0.0.1", port, 1, 2, tmp_path / "ours"]])
    out, log = rank.communicate(timeout=300)
    assert (right, out) == ("0.5 1\n", "0.5 1\n") and "refused a connection from 127.0.0.1" in log, log


def test_the_example_in_c_runs_on_two_hosts(average, cable, tmp_path):
    """Two network namespaces stand for two hosts."""
    secret = new_secret(tmp_path / "secret")
    answers = answers_of(["ip", "netns", "exec", name, average, cable.addresses[0], "29500", rank, 2, secret] for rank, name in enumerate(cable.names))
    assert answers == [("0.5 1\n", "")] * 2


@pytest.mark.parametrize("plain, wanted", [("0", "encrypted 1.0"), ("1", "plain 1.0")])
def test_ranks_on_two_hosts_meet_in_torchs_store(path, cable, plain, wanted):
    """Two network namespaces stand for two hosts."""
    script = pathlib.Path(__file__).parent / "rank.py"
    ranks = [subprocess.Popen(["ip", "netns", "exec", name, sys.executable, script, path, cable.addresses[0], "29500", str(rank), "2", plain],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank, name in enumerate(cable.names)]
    answers = [rank.communicate(timeout=300) for rank in ranks]
    assert [out.strip() for out, _ in answers] == [wanted] * 2, answers
