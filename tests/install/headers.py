"""The headers that `cmake --install` leaves, and the lists of them: of the build, and of docs/api.md."""

import re
import subprocess

from documents import ROOT, blocks


def install_headers(folder):
    """Those of a build with LibTorch; nothing is built for that."""
    subprocess.run(["cmake", "-D", f"SOURCE={ROOT}", "-D", f"DESTINATION={folder}", "-D", "TORCH=ON", "-P",
                    ROOT / "cmake" / "InstallHeaders.cmake"], check=True)
    return folder


def public_headers(table="SOTTO_PUBLIC(_TORCH)?_HEADERS"):
    """"sotto/core/error.h" and the others that users include, as the build lists them."""
    text = (ROOT / "cmake" / "SottoHeaders.cmake").read_text()
    lists = re.findall(rf"set\({table}\s(.*?)\)", text, re.DOTALL)
    return [f"sotto/{header}" for found in lists for header in (found if isinstance(found, str) else found[-1]).split()]


def described_headers():
    """The header of each section of docs/api.md, with its blocks in C++."""
    page = ROOT / "docs" / "api.md"
    lines = page.read_text().splitlines()
    sections = [(line.removeprefix("### "), number) for number, line in enumerate(lines, 1) if line.startswith("### ")]
    ends = [number for _, number in sections[1:]] + [len(lines) + 1]
    its_blocks = [block for block in blocks("cpp") if block.page == "docs/api.md"]
    return {header: [block for block in its_blocks if begin < block.line < end] for (header, begin), end in zip(sections, ends)}
