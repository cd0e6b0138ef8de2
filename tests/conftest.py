import collections
import contextlib
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


# Files that take longest, which begin first: no process is left with one of them when the others have nothing to do.
LONG = ["test_elastic_function", "test_shell_blocks", "test_own_network", "test_install", "test_package", "test_replay",
        "test_elastic", "test_coordinator", "test_slurm", "test_resume"]  # fmt: skip


def pytest_addoption(parser):
    parser.addoption("--matching", metavar="REGEX", help="only tests whose names match, as ctest -R does")
    parser.addoption("--quick", action="store_true", help="without tests that are marked `slow`")
    parser.addoption("--faults", action="store_true", help="all cases of tests that are marked `sample`")
    parser.addoption("--build-dir", default=str(ROOT / "build" / "release"), help="where the programs were built")


def pytest_configure(config):
    config.addinivalue_line("markers", "sample(count): without --faults only the first `count` cases run")
    config.addinivalue_line("markers", "slow: it builds, waits for seconds, or trains for long; `./dev test` leaves it out")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--faults"):
        seen = collections.Counter()
        items[:] = [item for item in items if in_sample(item, seen)]
    if config.getoption("--quick"):
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]
    regex = config.getoption("--matching")
    if regex is not None:
        items[:] = [item for item in items if re.search(regex, item.nodeid)]
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def in_sample(item, seen):
    seen[item.function] += 1
    mark = item.get_closest_marker("sample")
    return mark is None or seen[item.function] <= mark.args[0]


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def build_dir(request):
    """The folder of the build under test."""
    return pathlib.Path(request.config.getoption("--build-dir")).resolve()


@pytest.fixture(scope="session")
def sotto(build_dir):
    """The program under test."""
    program = build_dir / "bin" / "sotto"
    assert program.exists(), f"{program} is not built"
    return program


@pytest.fixture
def cable(root):
    """Two network namespaces joined by a cable of any rate (bench/cable.py); skips the test where that is not possible."""
    spec = importlib.util.spec_from_file_location("cable", root / "bench" / "cable.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(module.Cable())
        except module.CableError as error:
            pytest.skip(str(error))
        yield made
