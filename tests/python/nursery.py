"""Starts ranks: processes that need not import torch again. Each line of stdin is JSON [what to run, the file for its output, the
file for its errors]; what to run is a wish of elastic_rank.py, the arguments of worker.py, or a script and its arguments.
Prints the process's id, and for each process that ends its id and status."""

import json
import os
import runpy
import select
import signal
import sys
import traceback

import torch.distributed  # noqa: F401
import torch._dynamo  # noqa: F401  optimizers import it

import elastic_rank
import worker


def become(what, out, err):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for jobs in the background
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    if "meeting" in what:
        return worker.run(**what)  # it ends as any process does
    status = 0
    try:
        if isinstance(what, dict):
            elastic_rank.run(what)
        else:
            sys.argv = what
            runpy.run_path(what[0], run_name="__main__")
    except SystemExit as end:
        status = end.code or 0
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main():
    waiting = b""
    children = set()
    while True:
        if select.select([0], [], [], 0.02)[0]:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                child = os.fork()
                if child == 0:
                    return become(*json.loads(line))
                children.add(child)
                print("started", child, flush=True)
        for child in list(children):
            if (ended := os.waitpid(child, os.WNOHANG)) != (0, 0):
                children.discard(child)
                print("ended", child, os.waitstatus_to_exitcode(ended[1]), flush=True)


main()
