"""The ranks of examples. Imports the packages that these need once. Each line of stdin is an example, which child processes run
with the variables of torchrun. Prints the exit statuses of the children."""

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
    command, port, folder, logs = json.loads(line)
    children = []
    for rank, log in enumerate(logs):
        children.append(os.fork())
        if children[-1] == 0:
            with open(log, "w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.environ |= {"MASTER_PORT": port, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            os.chdir(folder)
            sys.argv = command
            runpy.run_path(command[0], run_name="__main__")
            sys.exit()
    print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children), flush=True)
