#!/usr/bin/env python3
"""Packs python/sotto, libsotto.so and the package's program as a wheel for every Python 3.

    python cmake/portable/wheel.py build/portable build/sysroot/x86_64 x86_64 build/dist

Prints its path. The same files make the same bytes.
"""

import base64
import csv
import hashlib
import importlib.util
import io
import pathlib
import re
import stat
import sys
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def metadata(project, version):
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
             f"License-Expression: {project['license']}", f"Requires-Python: {project['requires-python']}",
             *(f"License-File: {name}" for name in project["license-files"]), *(f"Requires-Dist: {each}" for each in project["dependencies"]),
             *(f"Provides-Extra: {extra}" for extra in project["optional-dependencies"]),
             *(f'Requires-Dist: {each}; extra == "{extra}"' for extra, wanted in project["optional-dependencies"].items() for each in wanted),
             "Description-Content-Type: text/markdown", ""]  # fmt: skip
    return "\n".join(lines) + "\n" + (ROOT / project["readme"]).read_text()


def licences(sysroot):
    """What the licences of libraries in libsotto.so want to be passed on."""
    for path in sorted((sysroot / "usr" / "share" / "doc").glob("*/copyright")):
        yield f"licenses/{path.parent.name.removesuffix('-dev')}.txt", path.read_bytes()
    libraries = pathlib.Path(importlib.util.find_spec("ziglang").origin).parent / "lib"  # of the compiler, which runs this, too
    for name in ("libcxx", "libcxxabi", "libunwind"):
        yield f"licenses/llvm-{name}.txt", (libraries / name / "LICENSE.TXT").read_bytes()


def contents(project, version, build, sysroot, tag):
    """Names in the wheel, and bytes."""
    sources = ROOT / "python" / "sotto"
    for path in sorted([*sources.rglob("*.py"), sources / "py.typed"]):
        yield f"sotto/{path.relative_to(sources)}", path.read_bytes()
    yield "sotto/libsotto.so", (build / "sotto" / "capi" / "libsotto.so").read_bytes()
    yield "sotto/program", (build / "bin" / "sotto_package").read_bytes()
    info = f"{project['name']}-{version}.dist-info"
    yield f"{info}/METADATA", metadata(project, version).encode()
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: sotto\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    scripts = "".join(f"{name} = {call}\n" for name, call in project["scripts"].items())
    yield f"{info}/entry_points.txt", f"[console_scripts]\n{scripts}".encode()
    for name in project["license-files"]:
        yield f"{info}/licenses/{name}", (ROOT / name).read_bytes()
    for name, data in licences(sysroot):
        yield f"{info}/{name}", data


def record(files, own):
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([own, "", ""])
    return text.getvalue().encode()


def main():
    build, sysroot, processor, folder = (pathlib.Path(each) for each in sys.argv[1:])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.search(r'version = "([^"]+)"', (ROOT / "sotto" / "core" / "version.h").read_text())[1]
    tag = f"py3-none-manylinux_2_28_{processor}"
    files = list(contents(project, version, build, sysroot, tag))
    own = f"{project['name']}-{version}.dist-info/RECORD"
    files.append((own, record(files, own)))
    path = folder / f"{project['name']}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in files:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | (0o755 if name.endswith((".so", "/program")) else 0o644)) << 16
            wheel.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    main()
