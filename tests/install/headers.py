"""The headers that `cmake --install` installs, and the two lists of public headers, in the build and in docs/api.md."""

import re
import subprocess

from documents import ROOT, blocks


def install_headers(folder):
    """Installs the headers of a build with LibTorch, without building anything."""
    subprocess.run(["cmake", "-D", f"SOURCE={ROOT}", "-D", f"DESTINATION={folder}", "-D", "TORCH=ON", "-P",
                    ROOT / "cmake" / "InstallHeaders.cmake"], check=True)
    return folder


def public_headers(table="SOTTO_PUBLIC(_TORCH)?_HEADERS"):
    """The public headers, such as "sotto/core/error.h", as they are installed."""
    text = (ROOT / "cmake" / "SottoHeaders.cmake").read_text()
    lists = re.findall(rf"set\({table}\s(.*?)\)", text, re.DOTALL)
    sources = [header for found in lists for header in (found if isinstance(found, str) else found[-1]).split()]
    return [f"sotto/{header.removeprefix('sotto/')}" for header in sources]


def described_headers():
    """The header of each section of docs/api.md, with the section's blocks in C++."""
    page = ROOT / "docs" / "api.md"
    lines = page.read_text().splitlines()
    sections = [(line.removeprefix("### "), number) for number, line in enumerate(lines, 1) if line.startswith("### ")]
    ends = [number for _, number in sections[1:]] + [len(lines) + 1]
    its_blocks = [block for block in blocks("cpp") if block.page == "docs/api.md"]
    return {header: [block for block in its_blocks if begin < block.line < end] for (header, begin), end in zip(sections, ends)}
