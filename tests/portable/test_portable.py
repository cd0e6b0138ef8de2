"""libsotto.so as `./dev wheel [aarch64]` builds it: what it needs of a machine, and the same bytes as g++'s."""

import pathlib
import re
import shutil
import subprocess
import zipfile

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = ROOT / "sotto" / "capi" / "sotto.h"
FOLDER = ROOT / "cmake" / "portable"
MOST_BYTES = 8_000_000
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}  # all of glibc, as is ld-linux
NEWEST = (2, 28)


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=1800, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


class Build:
    def __init__(self, processor):
        self.processor = processor
        self.folder = ROOT / "build" / ("portable" if processor == "x86_64" else f"portable-{processor}")
        self.library = self.folder / "sotto" / "capi" / "libsotto.so"

    def run(self, program, *arguments):
        """What a program of this build prints, under an emulator where this processor is another one."""
        emulator = []
        if self.processor != "x86_64":
            if not shutil.which(f"qemu-{self.processor}"):
                pytest.skip("qemu-user is not installed")
            emulator = [f"qemu-{self.processor}", "-L", ROOT / "build" / "sysroot" / f"{self.processor}.libc"]
        return run(*emulator, self.folder / "bin" / program, *arguments)


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def build(request):
    made = Build(request.param)
    if not made.library.exists():
        pytest.skip(f"./dev wheel {request.param} builds it")
    return made


@pytest.fixture(scope="module")
def wheel(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    sysroot = ROOT / "build" / "sysroot" / build.processor
    return pathlib.Path(run(python(), FOLDER / "wheel.py", build.folder, sysroot, build.processor, folder).strip())


def python():
    """That of ./dev's environment with zig and auditwheel, which the compiler's script names."""
    script = (FOLDER / "zig-clang").read_text()
    return run("sh", "-c", script.replace("exec", "echo", 1).replace('/bin/zig" cc "$@"', '/bin/python"')).strip()


def readelf(build, *options):
    return run("readelf", "-W", *options, build.library)


def test_it_exports_the_c_interface_alone(build):
    declared = set(re.findall(r"^SOTTO_API [^;]*?\b(sotto_\w+)\(", HEADER.read_text(), re.MULTILINE | re.DOTALL))
    rows = [line.split() for line in readelf(build, "--dyn-syms").splitlines()]
    exported = {row[7] for row in rows if len(row) > 7 and row[4] in ("GLOBAL", "WEAK") and row[6] != "UND" and row[0] != "Num:"}
    assert exported == declared


def test_it_needs_glibc_alone_and_no_new_one(build):
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf(build, "-d")))
    assert {name for name in needed if not name.startswith("ld-linux")} <= LIBRARIES
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"Name: GLIBC_([\d.]+)", readelf(build, "-V"))}
    assert versions and max(versions) <= NEWEST
    assert not re.findall(r"Name: (?!GLIBC_)\S+", readelf(build, "-V"))


def test_the_tag_of_the_wheel_is_confirmed(build, wheel):
    assert wheel.name.endswith(f"-py3-none-manylinux_2_28_{build.processor}.whl")
    shown = " ".join(run(python(), "-m", "auditwheel", "show", wheel).split())
    least = re.search(rf'consistent with the following platform tag: "manylinux_2_(\d+)_{build.processor}"', shown)
    assert least and int(least[1]) <= NEWEST[1], shown


def test_the_wheel_is_small_and_complete(wheel, tmp_path):
    assert wheel.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(wheel) as packed:
        assert packed.testzip() is None
        names = set(packed.namelist())
        assert sum(entry.file_size for entry in packed.infolist()) <= 20_000_000
    sources = {f"sotto/{path.name}" for path in (ROOT / "python" / "sotto").glob("*.py")}
    assert sources | {"sotto/libsotto.so", "sotto/py.typed"} <= names
    run(python(), "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile", "--ignore-requires-python", "--platform",
        re.search(r"manylinux\w+", wheel.name)[0], "--only-binary=:all:", "--target", tmp_path, wheel)
    assert (tmp_path / "sotto" / "libsotto.so").stat().st_mode & 0o100


def test_kernels_on_every_target_and_golden_bytes(build):
    assert "[  PASSED  ]" in build.run("portable_test", "--gtest_brief=1")


@pytest.fixture(scope="module")
def lines_of_gcc(build_dir):
    """What g++'s library does."""
    native = Build("x86_64")
    if not native.library.exists():
        pytest.skip("./dev wheel builds the program that compares")
    return native.run("portable_codecs", build_dir / "sotto" / "capi" / "libsotto.so").splitlines()


def test_codecs_make_and_read_the_bytes_of_gcc(build, lines_of_gcc):
    lines = build.run("portable_codecs", build.library).splitlines()
    assert len(lines) == len(lines_of_gcc) > 2000
    different = [pair for pair in zip(lines_of_gcc, lines, strict=True) if pair[0] != pair[1]]
    assert not different, "\n".join("\n".join(pair) for pair in different[:20])
    assert sum(", decoded" in line and line.count(", ") < 4 for line in lines) > 0


def test_the_compiler_is_the_pinned_one():
    version = re.search(r"^ziglang==(\S+)", (FOLDER / "requirements.txt").read_text(), re.M)[1]
    for script in [*FOLDER.glob("zig-*"), ROOT / "tools" / "environment.sh"]:
        assert f"venv-ziglang{version}" in script.read_text(), script
