"""One rank for the examples: imports what they want once, and runs each that a line of stdin names in a child of its own,
with the variables of torchrun. Answers the child's exit status."""

import json
import os
import runpy
import sys

import accelerate  # noqa: F401
import pytorch_lightning  # noqa: F401
import torch._dynamo  # noqa: F401  what torch.compile wants
import torch.distributed  # noqa: F401
from transformers import Trainer  # noqa: F401

import sotto  # noqa: F401

for line in sys.stdin:
    script, port, folder, log = json.loads(line)
    child = os.fork()
    if child == 0:
        with open(log, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ["MASTER_PORT"] = port
        os.chdir(folder)
        sys.argv = [script]
        runpy.run_path(script, run_name="__main__")
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
