"""One rank for the examples. Imports the packages that they need once. Each line of stdin names an example, which runs in a
child process with the variables of torchrun. Prints the exit status of the child."""

import json
import os
import runpy
import sys

import accelerate  # noqa: F401
import pytorch_lightning  # noqa: F401
import torch._dynamo  # noqa: F401  torch.compile needs it
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
