"""The types of the package, as mypy sees them in a user's script."""

import dataclasses
import inspect
import subprocess
import sys

SCRIPT = """
from typing import Any
import torch
import sotto

net = torch.nn.Linear(2, 2)
state = sotto.ElasticState(net=net, step=0)
state.step += 1
one: dict[str, Any] = sotto.state_dict(state.net)
ranks: list[dict[str, Any]] = sotto.state_dict(state.net, gather=True)
local = sotto.LocalSGD(net, torch.optim.SGD(net.parameters(), 0.1))
own: dict[str, Any] = local.state_dict()
local.load_state_dict(local.state_dict(gather=True))
ddp = sotto.compress(torch.nn.parallel.DistributedDataParallel(net), "int8", rules={"*.bias": "none"}, timeout=60)
model = sotto.AllReduceDataParallel(net, "int8", rules={"*.bias": "none"}, timeout=60)
wrong: int = sotto.state_dict(net)
sotto.compress(ddp, "int8", seed="1")
sotto.AllReduceDataParallel(net, "int8", rule={})
averager = sotto.Averager(net.state_dict(), "int8", nonfinite="propagate")
means: dict[str, Any] = averager.average(net.state_dict())
sotto.compres(ddp)
"""
WRONG = ["script.py:16: error: Incompatible types in assignment",
         'script.py:17: error: Argument "seed" to "compress" has incompatible type',
         'script.py:18: error: Unexpected keyword argument "rule" for "AllReduceDataParallel"',
         'script.py:21: error: Module has no attribute "compres"']
# Reading torch takes mypy a minute.
OPTIONS = "[mypy]\n[mypy-torch.*,numpy.*]\nfollow_imports = skip\nfollow_imports_for_stubs = True\n"


def test_a_script_that_uses_the_package(root, environment, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text(OPTIONS)
    checked = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "script.py"], cwd=tmp_path, text=True,
                             capture_output=True, env=environment | {"MYPYPATH": str(root / "python")})
    found = [line for line in checked.stdout.splitlines() if line.startswith("script.py:") and " error: " in line]
    assert len(found) == len(WRONG) and all(map(str.startswith, found, WRONG)), checked.stdout + checked.stderr


def test_all_who_average_gradients_take_the_same_options(package):
    """The same names, types and defaults, except for the default of the codec. Arrays have no scaler, and are no replicas."""
    ddp, module, arrays = (inspect.signature(one).parameters for one in (package.compress, package.AllReduceDataParallel, package.Averager))
    options = [field.name for field in dataclasses.fields(package._averaging.Options)]
    of_modules = [*options, "scaler", "check_replicas"]
    assert [ddp[name] for name in of_modules if name != "codec"] == [module[name] for name in of_modules if name != "codec"]
    assert [ddp[name] for name in options if name != "codec"] == [arrays[name] for name in options if name != "codec"]
    assert set(of_modules) == set(ddp) - {"ddp"} == set(module) - {"module", "process_group"}
    assert set(options) == set(arrays) - {"example", "group"}
