"""Comparisons with torch's numbers, as on other processors: its libraries can be told to use fewer instructions than there are."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

TESTS = ["tests/cli/test_numerics.py", "tests/cli/test_text.py"]
MAGNIFY = "resnet or vgg or gpt or transformer"  # rounding, most


@pytest.mark.sample(1)
@pytest.mark.parametrize("variables", [
    {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX", "MKL_ENABLE_INSTRUCTIONS": "AVX"},
    {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},  # AVX2 where there is no AVX-512
    {"ATEN_CPU_CAPABILITY": "default"}, {"ONEDNN_MAX_CPU_ISA": "SSE41"}, {"MKL_CBWR": "COMPATIBLE"},
    {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"},
], ids=lambda variables: " ".join("=".join(one) for one in variables.items()))  # fmt: skip
def test_numbers_with_fewer_instructions(request, root, build_dir, variables):
    environment = os.environ | variables
    subprocess.run([build_dir / "bin" / "model_test", "--gtest_brief=1", "--gtest_filter=TwinTest.*:Bert.*"], env=environment, check=True, timeout=600)
    chosen = [] if request.config.getoption("--faults") else ["-k", MAGNIFY]
    subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--build-dir", build_dir, *chosen, *TESTS],
                   cwd=root, env=environment, check=True, timeout=1200)  # fmt: skip
