"""How much memory commands take."""

import struct
import subprocess
import sys
import zlib

import pytest

VALUES = 1 << 24
# A process counts the memory of the one that it was forked from, until it is another program: so a small one starts it.
START = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"  # fmt: skip


def peak(*command, cwd):
    """The most bytes that a program had in memory."""
    job = subprocess.run([sys.executable, "-c", START, *command], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert job.returncode == 0, job.stderr
    return 1024 * int(job.stdout)


@pytest.mark.parametrize("name", ["a.npy", "a.f32", "a.pt"])
def test_measuring_takes_twice_the_input(sotto, tmp_path, name):
    """What is read and what is decoded; the messages of sign are short."""
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    values = np.random.default_rng(1).standard_normal(VALUES, np.float32)
    write = {"a.npy": np.save, "a.f32": lambda path, a: a.tofile(path), "a.pt": lambda path, a: torch.save(torch.from_numpy(a), path)}
    write[name](tmp_path / name, values)
    measure = [sotto, "codec", "measure", "--codec", "sign", "--repeats", "1"]
    more = peak(*measure, "--input", name, cwd=tmp_path) - peak(*measure, "--elements", "1000", cwd=tmp_path)
    assert 1 < more / (4 * VALUES) < 2.2


def test_texts_within_pictures_are_not_unpacked(sotto, tmp_path):
    """A text of 63 MB takes some 60 KB in a file, and 20 of them are no part of the pixels."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    text = zlib.compress(bytes(63 << 20), 9)
    rows = zlib.compress(b"".join(b"\0" + bytes(3 * 8) for _ in range(8)))
    for name, texts in (("plain", 0), ("long", 20)):
        for split in ("train", "val"):
            folder = tmp_path / name / split / "a"
            folder.mkdir(parents=True)
            (folder / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) +
                                           b"".join(chunk(b"zTXt", b"k%d\0\0" % i + text) for i in range(texts)) +
                                           chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    info = [sotto, "data", "info", "folder", "--data-dir"]
    assert peak(*info, "long", cwd=tmp_path) < peak(*info, "plain", cwd=tmp_path) + (40 << 20)
