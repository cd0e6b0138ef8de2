"""Downloads against a local server: resuming, servers that misbehave, files that are wrong."""

import hashlib
import http.server
import io
import re
import resource
import socket
import subprocess
import threading
import zipfile

import pytest

CONTENT = bytes((i * 7919 >> 3) & 0xFF for i in range(300_000))
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        server.ranges.append(self.headers.get("Range"))
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/file")
            self.end_headers()
            return
        if self.path != "/file":
            self.send_error(404)
            return
        start = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and server.knows_ranges:
            start = int(asked.group(1))
            if start >= len(server.content):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            shown = start + server.range_error
            self.send_header("Content-Range", f"bytes {shown}-{len(server.content) - 1}/{len(server.content)}")
        else:
            self.send_response(200)
        body = server.content[start:]
        if server.announces_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body if server.cut_after is None else body[: server.cut_after])
        except ConnectionError:  # the client has cancelled
            pass
        self.close_connection = True


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as s:
        s.content, s.ranges = CONTENT, []
        s.knows_ranges, s.announces_length, s.range_error, s.cut_after = True, True, 0, None
        s.url = f"http://127.0.0.1:{s.server_port}"
        thread = threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield s
        s.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def run(build_dir):
    """Runs download_tool.cc."""

    def run_tool(*args, **more):
        command = [build_dir / "bin" / "download_tool", *map(str, args)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, **more)
        assert result.returncode in (0, 1), result
        return result

    return run_tool


@pytest.fixture
def fetch(run, server):
    """Downloads the file, or another path of the server."""

    def fetch_file(path, *more, name="/file", **how):
        return run(server.url + name, MD5, len(CONTENT), path, *more, **how)

    return fetch_file


def part_of(path):
    return path.with_name(path.name + ".part")


def expect_done(result, path):
    assert (result.returncode, result.stdout) == (0, "done\n"), result
    assert path.read_bytes() == CONTENT
    assert not part_of(path).exists()


def test_downloads_once(fetch, server, tmp_path):
    path = tmp_path / "f"
    expect_done(fetch(path), path)
    assert fetch(path).stdout == "already there\n"
    assert server.ranges == [None]


def test_wrong_file_is_replaced(fetch, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(len(CONTENT)))
    expect_done(fetch(path), path)


def test_follows_redirects(fetch, tmp_path):
    expect_done(fetch(tmp_path / "f", name="/moved"), tmp_path / "f")


@pytest.mark.parametrize("announces_length", [True, False])
def test_resumes_after_a_cut_connection(fetch, server, tmp_path, announces_length):
    path = tmp_path / "f"
    server.cut_after, server.announces_length = 100_000, announces_length
    result = fetch(path)
    assert result.returncode == 1
    assert "100000 of 300000 bytes are kept; run it again" in result.stderr
    assert not path.exists() and part_of(path).read_bytes() == CONTENT[:100_000]
    server.cut_after = None
    expect_done(fetch(path), path)
    assert server.ranges == [None, "bytes=100000-"]


def test_cancel_leaves_a_part_to_go_on_from(fetch, server, tmp_path):
    path = tmp_path / "f"
    server.cut_after = 100_000  # so that at least 100,000 bytes are there, however slow the connection is
    fetch(path)
    server.cut_after = None
    assert fetch(path, 1).stdout == "cancelled\n"
    assert not path.exists() and CONTENT.startswith(part_of(path).read_bytes())
    assert part_of(path).stat().st_size >= 100_000
    expect_done(fetch(path), path)


def test_server_without_ranges_is_asked_for_all(fetch, server, tmp_path):
    path = tmp_path / "f"
    part_of(path).write_bytes(b"x" * 1000)
    server.knows_ranges = False
    expect_done(fetch(path), path)
    assert server.ranges == ["bytes=1000-"]


def test_part_that_is_too_long_is_dropped(fetch, server, tmp_path):
    path = tmp_path / "f"
    part_of(path).write_bytes(CONTENT + b"x")
    expect_done(fetch(path), path)
    assert server.ranges == [None]


def test_complete_part_needs_no_request(fetch, server, tmp_path):
    path = tmp_path / "f"
    part_of(path).write_bytes(CONTENT)
    expect_done(fetch(path), path)
    assert server.ranges == []


def test_a_part_longer_than_the_servers_file(fetch, server, tmp_path):
    path = tmp_path / "f"
    part_of(path).write_bytes(CONTENT[:200_000])
    server.content = CONTENT[:100_000]
    result = fetch(path)
    assert result.returncode == 1 and "100000 bytes with md5" in result.stderr
    assert server.ranges == ["bytes=200000-", None]
    assert not path.exists() and not part_of(path).exists()


def test_wrong_md5_removes_the_part(fetch, server, tmp_path):
    path = tmp_path / "f"
    server.content = CONTENT[:-1] + b"?"
    result = fetch(path)
    assert result.returncode == 1
    for wanted in (str(path), MD5, hashlib.md5(server.content).hexdigest()):
        assert wanted in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_longer_file_is_refused(fetch, server, tmp_path):
    server.content = CONTENT + b"more"
    result = fetch(tmp_path / "f")
    assert result.returncode == 1 and "more than the 300000 bytes" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_another_range_is_refused(fetch, server, tmp_path):
    part_of(tmp_path / "f").write_bytes(CONTENT[:1000])
    server.range_error = 1
    result = fetch(tmp_path / "f")
    assert result.returncode == 1 and "another range" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_not_found(fetch, tmp_path):
    result = fetch(tmp_path / "f", name="/other")
    assert result.returncode == 1
    assert "HTTP status 404" in result.stderr and "/other" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_not_found_keeps_an_earlier_part(fetch, tmp_path):
    part_of(tmp_path / "f").write_bytes(CONTENT[:1000])
    result = fetch(tmp_path / "f", name="/other")
    assert result.returncode == 1 and "404" in result.stderr
    assert part_of(tmp_path / "f").read_bytes() == CONTENT[:1000]


def test_refused_connection(run, tmp_path):
    with socket.socket() as s:  # bound, but not listening
        s.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{s.getsockname()[1]}/file"
        result = run(url, MD5, len(CONTENT), tmp_path / "f")
    assert result.returncode == 1 and url in result.stderr and str(tmp_path / "f") in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_other_protocols_are_refused(run, tmp_path):
    (tmp_path / "here").write_bytes(CONTENT)
    result = run(f"file://{tmp_path}/here", MD5, len(CONTENT), tmp_path / "f")
    assert result.returncode == 1 and "file" in result.stderr
    assert not (tmp_path / "f").exists()


def test_folder_that_cannot_be_written(fetch, tmp_path):
    result = fetch(tmp_path / "none" / "f")
    assert result.returncode == 1 and str(tmp_path / "none" / "f.part") in result.stderr
    (tmp_path / "d.part").mkdir()
    result = fetch(tmp_path / "d")
    assert result.returncode == 1 and str(tmp_path / "d.part") in result.stderr


def test_full_disk(run, fetch, server, tmp_path):
    # A write beyond a limit on file sizes fails as on a full disk: a part is written, then comes an error.
    path = tmp_path / "f"
    result = fetch(
        path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
        restore_signals=False,  # SIGXFSZ stays ignored
    )
    assert result.returncode == 1 and f"cannot write {part_of(path)}: File too large" in result.stderr
    assert part_of(path).read_bytes() == CONTENT[:100_000]
    expect_done(fetch(path), path)


def test_dataset_names_the_file_and_the_server(run, server, tmp_path):
    result = run("get", "mnist", tmp_path / "new", server.url + "/")
    assert result.returncode == 1
    assert server.url + "/train-images-idx3-ubyte.gz" in result.stderr and "404" in result.stderr
    result = run("get", "svhn", tmp_path / "svhn", server.url)
    assert result.returncode == 1 and server.url + "/train_32x32.mat" in result.stderr and "404" in result.stderr
    result = run("get", "mnis", tmp_path, server.url)
    assert result.returncode == 1 and "did you mean `mnist`" in result.stderr
    result = run("get", "mnist", tmp_path, "ftp://x")
    assert result.returncode == 1 and "http://" in result.stderr


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_files_that_python_has_zipped(run, tmp_path, method):
    class Stream(io.BytesIO):  # in which sizes and checksums follow their files
        def seekable(self):
            return False

        def seek(self, *_):
            raise io.UnsupportedOperation

        tell = seek

    for kind in (io.BytesIO, Stream):
        packed = kind()
        with zipfile.ZipFile(packed, "w", method) as archive:
            archive.comment = b"six splits"
            for name, content in ("gzip/", b""), ("gzip/a-first", CONTENT), ("gzip/b-first", CONTENT), ("gzip/a-second", CONTENT[::-1]):
                archive.writestr(name, content)
        (tmp_path / "x.zip").write_bytes(packed.getvalue())
        out = tmp_path / kind.__name__
        out.mkdir()
        assert run("unzip", tmp_path / "x.zip", "a-", out).returncode == 0
        assert {path.name: path.read_bytes() for path in out.iterdir()} == {"a-first": CONTENT, "a-second": CONTENT[::-1]}
