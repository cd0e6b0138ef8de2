"""Ranks that find each other without torch.distributed."""

from __future__ import annotations

import os
from ctypes import byref
from datetime import timedelta
from typing import Any

from sotto import _check
from sotto import _library as c
from sotto._errors import ConfigError
from sotto._library import library
from sotto._store import LibraryStore


class Ranks:
    """The ranks of a job that sotto.init() brought together. `with` closes them at its end.

        with sotto.init(rank=0, size=1) as ranks:
            mean = sotto.aggregate(tensor, group=ranks)
    """

    def __init__(self, rank: int, size: int, host: str, store: LibraryStore) -> None:
        self.rank = rank
        self.size = size
        self.host = host
        self._store: LibraryStore | None = store

    @property
    def store(self) -> LibraryStore:
        if self._store is None:
            raise ConfigError("these ranks were closed; call sotto.init(...) again")
        return self._store

    def close(self) -> None:
        """Leaves the meeting place. What was connected there stays connected."""
        global current
        self._store = None
        if current is self:
            current = None

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sotto.Ranks: rank {self.rank} of {self.size}{' (closed)' if self._store is None else ''}>"


current: Ranks | None = None  # those of the last init()


def init(
    rank: int | None = None,
    size: int | None = None,
    address: str | None = None,
    *,
    secret: str | os.PathLike[str] | None = None,
    timeout: float | timedelta | None = 60.0,
) -> Ranks:
    """Brings the ranks of a job together without torch.distributed.

        sotto.init(rank=0, size=2, address="10.0.0.1:29500")  # rank 0 runs on the machine 10.0.0.1
        mean = sotto.aggregate(numpy.ones(3))

    From then on sotto.Averager, sotto.Gossiper and sotto.aggregate use these ranks, unless they are given others. Every
    rank calls it, with its own `rank`. Rank 0 listens at `address` until it closes them, or ends.

    rank, size, address: None: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as launchers set them; without those
        variables this process is the only rank.
    secret: the file of `sotto secret new` that all ranks have. Nobody else can then take part, or read what is sent between
        hosts. Without it whoever reaches the port can (docs/security.md).
    timeout: of the search for rank 0, and of each request there.

    ConfigError, CommError if rank 0 is not found. A second call replaces the ranks of the first.
    """
    global current
    given = {"rank": rank, "size": size, "address": address}
    if all(value is None for value in given.values()):
        rank, size, address = _of_launcher()
    elif rank is None or size is None:
        raise ConfigError(f"sotto.init: say {', '.join(name for name, value in given.items() if value is None)}, too")
    if _check.whole("size", size, 16) < 1 or _check.whole("rank", rank, 16) >= size:
        raise ConfigError(f"rank={rank!r}, size={size!r}: a rank is below their number")
    host, port = ("", 0) if size == 1 and address is None else _split(address)
    if secret is not None and not isinstance(secret, (str, os.PathLike)):
        raise ConfigError(f"secret={secret!r}: wants the path of a file, not {type(secret).__name__}")
    file = None if secret is None else c.text(os.fspath(secret))
    calls = c.Store()
    library.store_open(c.text(host), port, rank, size, file, _check.seconds(timeout), byref(calls))
    current = Ranks(rank, size, host, LibraryStore(calls))
    return current


def _of_launcher() -> tuple[int, int, str | None]:
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    said = [os.environ.get(name) for name in names]
    if said == [None] * 4:
        return 0, 1, None
    missing = [name for name, value in zip(names, said) if value is None]
    if missing:
        raise ConfigError(f"sotto.init: {', '.join(missing)} is not set, though a launcher set others; or give rank, size and address")
    rank, size, host, port = (str(value) for value in said)
    if not rank.isdecimal() or not size.isdecimal():
        raise ConfigError(f"sotto.init: RANK={rank} and WORLD_SIZE={size} are no numbers")
    return int(rank), int(size), f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _split(address: Any) -> tuple[str, int]:
    host, _, port = _check.text("address", address, '"HOST:PORT", of rank 0').rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"address={address!r}: wants \"HOST:PORT\", of rank 0")
    return host.strip("[]"), int(port)
