"""Clang's thread-safety analysis (sotto/core/thread.h): python tools/locks.py COMPILE_COMMANDS [FILE ...]

Checks the sources of sotto/, adapters/, app/ and python/ that include the annotations, or a header that does: only those can name such members.
Prints each use of a member without its lock, and exits with 1 if there is any."""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

ANNOTATIONS = "sotto/core/thread.h"
CHECK = ["-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror"]


def includes(name):
    with open(name, encoding="utf-8") as file:
        return re.findall(r'^#include "((?:sotto|adapters|app|python)/[^"]+)"', file.read(), re.MULTILINE)


def may_lock(name):
    own = includes(name)
    return ANNOTATIONS in own or any(ANNOTATIONS in includes(header) for header in own if os.path.exists(header))


def check(command):
    words = shlex.split(command["command"])
    arguments = [word for word in words[words.index(next(w for w in words if w.startswith("-"))):] if word != "-c"]
    if "-o" in arguments:
        del arguments[arguments.index("-o"):arguments.index("-o") + 2]
    return subprocess.run(["clang++-19", *arguments, *CHECK], cwd=command["directory"], stderr=subprocess.STDOUT,
                          stdout=subprocess.PIPE, text=True, check=False)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        commands = json.load(file)
    wanted = [os.path.abspath(name) for name in sys.argv[2:]]
    ours = tuple(os.path.abspath(folder) + os.sep for folder in ("sotto", "adapters", "app", "python"))
    commands = [c for c in commands if c["file"].startswith(ours) and may_lock(c["file"])]
    commands = [c for c in commands if not wanted or c["file"] in wanted]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = list(pool.map(check, commands))
    for run in runs:
        print(run.stdout, end="")
    failed = sum(run.returncode != 0 for run in runs)
    print(f"{len(runs)} sources, {failed} that fail")
    sys.exit(failed > 0)


main()
