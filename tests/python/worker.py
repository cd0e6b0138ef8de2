"""One rank of a job that a test drives. Each line from the test is JSON that names a function of scenarios/ and its arguments."""

import json
import os
import socket
import traceback

import torch
import torch.distributed as dist

import scenarios
from scenarios.net import DEVICE


def run(rank, size, meeting, port):
    """Does what the test asks for at that port, until it asks no more."""
    asked = socket.create_connection(("127.0.0.1", port)).makefile("rw")
    torch.set_num_threads(1)  # as torchrun has it
    torch.set_default_device(DEVICE)
    torch.use_deterministic_algorithms(DEVICE != "cpu")  # tests compare bits
    backend = os.environ.get("SOTTO_TEST_BACKEND", "gloo")
    os.environ["NCCL_HOSTID"] = str(rank)  # ranks share a GPU, which NCCL allows to ranks of different hosts alone
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=size)
    for line in asked:
        name, arguments = json.loads(line)
        try:
            answer = {"value": getattr(scenarios, name)(**arguments)}
        except Exception as error:
            traceback.print_exc()
            kinds = [kind.__name__ for kind in type(error).__mro__]
            answer = {"error": str(error), "kinds": kinds}
        print(json.dumps(answer), file=asked, flush=True)
