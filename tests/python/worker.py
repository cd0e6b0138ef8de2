"""One rank of a job that a test drives. Each line of stdin is JSON that names a function of scenarios/ and its arguments."""

import json
import os
import sys
import traceback

import torch
import torch.distributed as dist

import scenarios


def main():
    rank, size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # so that output of libraries is not taken for an answer
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"value": getattr(scenarios, name)(**arguments)}
        except Exception as error:
            traceback.print_exc()
            kinds = [kind.__name__ for kind in type(error).__mro__]
            answer = {"error": str(error), "kinds": kinds}
        print(json.dumps(answer), file=answers, flush=True)


main()
