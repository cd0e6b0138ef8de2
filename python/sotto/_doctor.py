"""What would fail on this machine."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import socket
import sys
import threading
import time
from ctypes import byref
from pathlib import Path
from typing import Any

from sotto import _library as c
from sotto._errors import ConfigError, Error
from sotto._library import library
from sotto._store import store_calls


def doctor(interface: str | None = None) -> bool:
    """Checks what training on several ranks needs of this machine. Prints a line for each finding, which begins with ok, warn or
    fail. Returns whether nothing would fail.

        sotto.doctor()

    interface: the network interface that training will use, such as "eth0".
    """
    if interface is not None and not isinstance(interface, str):
        raise ConfigError(f"interface={interface!r}: wants a name, such as \"eth0\"")
    findings = [_version(), _launch(), _threads(), *_interfaces(interface), _two_ranks(), _shared_memory(), _disk()]
    for verdict, topic, text in findings:
        print(f"{verdict:<4}  {topic:<10}  {text}")
    sys.stdout.flush()
    return all(verdict != "fail" for verdict, _, _ in findings)


Finding = tuple[str, str, str]  # "ok", "warn" or "fail"; what it is about; what was found


def _version() -> Finding:
    parts = [f"sotto {c.version}", f"Python {platform.python_version()}"]
    if (torch := _torch()) is None:
        return "warn", "version", ", ".join(parts) + "; no torch, so only sotto.Averager, Gossiper, aggregate and Codec work"
    parts.insert(1, f"torch {torch.__version__}")
    if not torch.distributed.is_available():
        return "fail", "version", ", ".join(parts) + "; this torch has no torch.distributed, so it trains on one rank alone"
    return "ok", "version", ", ".join(parts)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def _launch() -> Finding:
    said = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name in os.environ}
    if not said:
        return "ok", "launch", "no launcher's variables: start ranks with torchrun, or give init_process_group() an address"
    text = ", ".join(f"{name}={value}" for name, value in said.items())
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in said]
    if missing:
        return "fail", "launch", f"{text}, but {', '.join(missing)} not: set all, or unset these"
    try:
        socket.getaddrinfo(said["MASTER_ADDR"], said["MASTER_PORT"])
    except OSError as error:
        return "fail", "launch", f"{text}: {error.strerror or error}"
    return "ok", "launch", text


def _threads() -> Finding:
    cores = len(os.sched_getaffinity(0))
    variable = os.environ.get("OMP_NUM_THREADS")
    torch = _torch()
    computes = "" if torch is None else f", torch computes on {torch.get_num_threads()} threads"
    return "ok", "cores", (f"{cores} usable{computes}; OMP_NUM_THREADS is "
                           f"{variable or 'not set: ranks that share this machine should share its cores'}")


def _interfaces(wanted: str | None) -> list[Finding]:
    names = [name for _, name in socket.if_nameindex()]
    if wanted is not None and wanted not in names:
        return [("fail", "interface", f"interface={wanted!r}: there are {', '.join(names)}")]
    findings = []
    for name in names:
        state = Path(f"/sys/class/net/{name}/operstate")
        down = state.exists() and state.read_text().strip() == "down"
        verdict = "fail" if down and name == wanted else "ok"
        findings.append((verdict, "interface", f"{name} is {'down' if down else 'there'}"))
    return findings


class _Words:
    """A store for the threads of this process."""

    def __init__(self) -> None:
        self._words: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def set(self, key: str, value: bytes) -> None:
        with self._lock:
            self._words[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(key in self._words for key in keys)

    def get(self, key: str) -> bytes:
        return self._words[key]

    def add(self, key: str, number: int) -> int:
        with self._lock:
            total = int(self._words.get(key, b"0")) + number
            self._words[key] = str(total).encode()
        return total

    def compare_set(self, key: str, _: str, desired: bytes) -> bytes:
        with self._lock:
            return self._words.setdefault(key, desired)


def _two_ranks() -> Finding:
    """Two threads connect, and sum a megabyte."""
    words, found, rounds = _Words(), list[Any](), 5

    def rank(number: int) -> None:
        try:
            calls, options = store_calls(words), c.GroupOptions(timeout=30)
            group = c.Handle("group", lambda made: library.group_create(byref(calls), number, 2, byref(options), made))
            values = (ctypes.c_float * (1 << 18))(*[1.0] * (1 << 18))
            tensor = c.Tensor(ctypes.addressof(values), c.F32, 1, c.sizes([len(values)]), None)
            begin = time.monotonic()
            for _ in range(rounds):
                library.aggregate(group.value, byref(tensor), byref(c.AggregateOptions(op=c.OPS.index("sum"))))
            found.append((time.monotonic() - begin) / rounds)
            if values[0] != 2**rounds:
                raise Error("the sum over two ranks is wrong")
        except Exception as error:
            found.append(error)

    other = threading.Thread(target=rank, args=(1,))
    other.start()
    rank(0)
    other.join()
    for one in found:
        if isinstance(one, Exception):
            return "fail", "tcp", f"two ranks on the loopback: {one}"
    return "ok", "tcp", f"two ranks on the loopback: a megabyte summed in {1e3 * min(found):.2f} ms"


def _shared_memory() -> Finding:
    if not os.path.isdir("/dev/shm"):
        return "warn", "memory", "no /dev/shm: workers of a DataLoader cannot share tensors"
    free = shutil.disk_usage("/dev/shm").free
    return "warn" if free < 1 << 28 else "ok", "memory", f"{free / 1e9:.1f} GB of /dev/shm free, which workers of a DataLoader share"


def _disk() -> Finding:
    if not os.access(".", os.W_OK):
        return "fail", "disk", "this folder cannot be written to, so no checkpoint can be saved here"
    free = shutil.disk_usage(".").free
    return "ok" if free > 1e9 else "warn", "disk", f"{free / 1e9:.1f} GB free in this folder"
