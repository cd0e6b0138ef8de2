"""README in a fresh clone, its lines one after another as they are pasted, in one shell: `./dev fresh`.

The clone, the home and the Python environment in it are new. Only the compiler's cache and pip's are the caller's.
The first command, the demo, runs as it is, and once more while the machine has other work. Trainings after it are cut short by
tests/cli/stand_in.py. No variable is set that users do not set, except for the caches and the stand-in.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from documents import ROOT, blocks_of

LEFT_OUT = {"./dev test": "continuous integration runs all tests itself"}
FIRST = "./dev demo"
# A demo is seconds of work; where six loops have the cores, too, minutes. One that hangs is killed after ten.
AFTER_FIRST = """
trap 'kill $(jobs -p)' EXIT
for i in 1 2 3 4 5 6; do while :; do :; done & done
timeout --kill-after 10 600 ./dev demo | tee build/demo.txt
kill $(jobs -p)
trap - EXIT
for codec in none 'qsgd(4) | rans'; do grep -F "$codec  " build/demo.txt; done
[[ $(grep -c ' %  ' build/demo.txt) == 4 ]]
"""
PATH_BLOCK = "PATH="
# What the README takes to be there, once there is an environment; and whether its programs are those that are met.
AFTER_PATH = """
for program in python pip torchrun; do
  [[ $(type -P $program) == "$HOME"/.cache/sotto/*/bin/$program ]] || { type -a $program; exit 1; }
done
PYTHONPATH=build/release/python torchrun --nproc-per-node 2 examples/mnist_ddp.py
export STAND_IN_SOTTO="$(type -P sotto)"
[[ $STAND_IN_SOTTO == "$PWD/build/release/bin/sotto" ]]
sotto() { "$STAND_IN_PYTHON" tests/cli/stand_in.py sotto "$@"; }
"""
AFTER_INSTALL = """
[[ $(cd / && python -c 'import sotto; print(sotto.__file__)') == "$HOME"/.cache/sotto/*/site-packages/sotto/__init__.py ]]
"""


def script():
    """The blocks of the README in sh, each after its line number and the seconds so far."""
    parts = []
    for block in blocks_of(ROOT / "README.md"):
        if block.language != "sh":
            continue
        lines = [line for line in block.text.splitlines() if line.split("  #")[0].strip() not in LEFT_OUT]
        parts += [f'echo "== $SECONDS s: {block}"', *lines]
        if block.text.startswith(FIRST):
            parts.append(AFTER_FIRST)
        if block.text.startswith(PATH_BLOCK):
            parts.append(AFTER_PATH)
        if block.text.startswith("pip install"):
            parts.append(AFTER_INSTALL)
    assert {AFTER_FIRST, AFTER_PATH, AFTER_INSTALL} <= set(parts), "the README has other blocks than this expects"
    return "\n".join(parts) + "\n"


def caches():
    """The caches of the caller and his settings of pip, which lie in his home."""
    home = pathlib.Path(os.environ["HOME"])
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", home / ".cache"))
    found = {"PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(cache / "pip"))}
    ccache = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True)
    found["CCACHE_DIR"] = ccache.stdout.strip()
    settings = home / ".config" / "pip" / "pip.conf"
    if settings.exists():
        found["PIP_CONFIG_FILE"] = str(settings)
    return found


def environment(clone):
    # The home lies in the clone, so that ccache knows files again that include torch, whose folder is in their text.
    home = clone / "build" / "home"
    home.mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items()
            if name in ("PATH", "LANG", "TMPDIR") or name.startswith(("PIP_", "SSL_", "REQUESTS_")) or name.endswith("_proxy")}
    return kept | caches() | {
        "HOME": str(home), "STAND_IN_PAGE": "README.md", "STAND_IN_PYTHON": sys.executable, "CC": "cc", "CXX": "c++",
        "CCACHE_BASEDIR": str(clone), "CCACHE_NOHASHDIR": "1", "SKBUILD_CMAKE_DEFINE": "SOTTO_WARNINGS_ARE_ERRORS=ON"}  # as ./dev, for the cache


def main():
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sotto-fresh-") as folder:
        clone = pathlib.Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        job = subprocess.run(["bash", "-euo", "pipefail", "-c", script()], cwd=clone, env=environment(clone),
                             stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    print(f"README from a fresh clone: {'failed' if job.returncode else 'passed'} in {time.monotonic() - begin:.0f} s")
    return job.returncode


if __name__ == "__main__":
    sys.exit(main())
