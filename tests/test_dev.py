"""The Python environments that ./dev makes, with a torch and a mkdocs of a few bytes instead of the real ones."""

import base64
import hashlib
import os
import pathlib
import shutil
import subprocess
import sysconfig
import zipfile

import pytest

pytestmark = pytest.mark.slow

SCRIPTS = pathlib.Path(sysconfig.get_path("scripts"))


def write_wheel(folder, name, version):
    """A package with one module and one program; the program prints the prefix of the interpreter that runs it. The module
    prints its arguments, and fails if there is a file `broken`."""
    module = """import os, sys
def main(): print(sys.prefix)
if __name__ == "__main__": sys.exit(print(*sys.argv[1:], file=sys.stderr) or os.path.exists("broken"))
"""
    files = {
        f"{name}.py": module,
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-{version}.dist-info/entry_points.txt": f"[console_scripts]\n{name}run = {name}:main\n",
    }
    record = f"{name}-{version}.dist-info/RECORD"
    rows = [f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
            for path, text in files.items()]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in (files | {record: "\n".join([*rows, f"{record},,"]) + "\n"}).items():
            wheel.writestr(path, text)


class Clone:
    """A folder with ./dev in it, its own cache and its own index of packages."""

    def __init__(self, root, folder):
        self.folder = folder / "clone"
        self.wheels = folder / "wheels"
        self.venv = folder / "cache" / "sotto" / "venv-torch2.0.0"
        self.docs_venv = self.venv.with_name("venv-docs")
        for made in (self.folder, self.folder / "tools", self.wheels):
            made.mkdir()
        for name in ("dev", "tools/environment.sh"):
            shutil.copy(root / name, self.folder / name)
        for name in ("torch", "other", "mkdocs"):
            write_wheel(self.wheels, name, "2.0.0")
        (self.folder / "requirements.txt").write_text("torch==2.0.0\n")
        (self.folder / "tools" / "docs_requirements.txt").write_text("mkdocs==2.0.0\n")

    def dev(self, *arguments, status=0):
        """What ./dev prints to standard error."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
        result = subprocess.run(
            ["./dev", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=1800,
            env=kept | {"XDG_CACHE_HOME": str(self.venv.parents[1]), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1",
                        "PIP_FIND_LINKS": str(self.wheels)})
        assert result.returncode == status, result.stderr
        return result.stderr

    def setup(self, *requirements):
        (self.folder / "requirements.txt").write_text("".join(f"{r}==2.0.0\n" for r in requirements))
        return self.dev("setup")

    def starts(self, name):
        """Whether the program `name` of the environment starts with the environment's own interpreter."""
        result = subprocess.run([self.venv / "bin" / name], capture_output=True, text=True, timeout=600)
        return result.stdout.strip() == str(self.venv)


@pytest.fixture(scope="module")
def clone(root, tmp_path_factory):
    clone = Clone(root, tmp_path_factory.mktemp("dev"))
    assert "making a Python environment" in clone.setup("torch")
    return clone


def test_programs_of_a_fresh_environment_start(clone):
    assert clone.starts("torchrun")
    activate = f'. {clone.venv}/bin/activate && echo "$VIRTUAL_ENV" && command -v torchrun'
    result = subprocess.run(["bash", "-c", activate], capture_output=True, text=True, timeout=600)
    assert result.stdout.split() == [str(clone.venv), str(clone.venv / "bin" / "torchrun")], result


def test_an_environment_with_dead_programs_is_mended(clone):
    for script in ("torchrun", "activate"):
        path = clone.venv / "bin" / script
        path.write_text(path.read_text().replace(clone.venv.name, f"{clone.venv.name}.new"))
    with pytest.raises(FileNotFoundError):
        clone.starts("torchrun")
    assert "making" not in clone.setup("torch")
    assert clone.starts("torchrun")
    assert ".new" not in (clone.venv / "bin" / "activate").read_text()


def test_an_environment_is_completed_in_place(clone):
    (clone.venv / "mine").touch()
    assert "adding to the Python environment" in clone.setup("torch", "other")
    assert clone.starts("torchrun") and clone.starts("otherrun")
    assert (clone.venv / "mine").exists()


def test_the_site_has_its_own_environment(clone):
    first = clone.dev("docs")
    assert "making a Python environment with mkdocs" in first and "\nbuild --strict -d build/site\n" in first
    second = clone.dev("docs")
    assert "making" not in second and "build --strict" in second
    with (clone.folder / "tools" / "docs_requirements.txt").open("a") as requirements:
        requirements.write("other==2.0.0\n")
    assert "making" not in clone.dev("docs")
    assert (clone.docs_venv / "bin" / "otherrun").exists()


def test_mistakes_of_pages_fail(clone):
    (clone.folder / "broken").touch()
    assert "the pages have mistakes" in clone.dev("docs", status=1)
    (clone.folder / "broken").unlink()
    assert "takes no arguments" in clone.dev("docs", "security.md", status=1)


def test_programs_of_the_environment_have_its_interpreter():
    for script in SCRIPTS.iterdir():
        first = script.open("rb").readline() if script.is_file() else b""
        if first.startswith(b"#!"):
            interpreter = first[2:].split()[0].decode()
            assert os.access(interpreter, os.X_OK), f"{script} begins with {first}"
    result = subprocess.run([SCRIPTS / "torchrun", "--help"], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0 and "--nproc-per-node" in result.stdout, result.stderr
