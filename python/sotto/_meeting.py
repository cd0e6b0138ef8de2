"""Ranks find each other, and are connected: through the store of a process group, or of sotto.init()."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from ctypes import byref
from typing import Any

from sotto import _library as c
from sotto import _ranks
from sotto._errors import ConfigError
from sotto._library import library
from sotto._ranks import Ranks
from sotto._store import store_calls

# A store may answer late, so requests have more time than they need.
REQUEST_SECONDS = 300.0


class Group(c.Handle):
    """Ranks that are connected over TCP."""

    def __init__(self, meeting: Meeting, timeout: float, encrypt: bool, interface: str | None) -> None:
        options = c.GroupOptions(timeout=timeout, plain=not encrypt, interface=c.text(interface), near_host=c.text(meeting.near_host))
        super().__init__("group", library.meeting_connect, meeting.value, byref(options))
        self.rank: int = library.group_rank(self.value)
        self.ranks: int = library.group_ranks(self.value)

    @property
    def encrypts(self) -> bool:
        return bool(library.group_encrypts(self.value))

    def gather(self, own: bytes) -> list[bytes]:
        """Collective: the bytes of all ranks on rank 0, nothing elsewhere."""
        return c.taken(library.group_gather, self.value, own, len(own))


class Meeting(c.Handle):
    """Where ranks meet to be connected. All ranks make their meetings in the same order.

    `group`: a process group of torch's, or Ranks.
    """

    def __init__(self, group: Any) -> None:
        if isinstance(group, Ranks):
            store, rank, ranks = group.store, group.rank, group.size
            self.near_host: str | None = group.host or None
        else:
            from sotto._process_group import store_of

            (store, self.near_host), rank, ranks = store_of(group), group.rank(), group.size()
        self.interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0] or None  # Gloo takes several
        calls = store_calls(store)
        super().__init__("meeting", library.meeting_create, byref(calls), rank, ranks, REQUEST_SECONDS)

    def give_up(self, why: str) -> None:
        library.meeting_give_up(self.value, why.replace("\0", "").encode())

    def connect(self, timeout: float, encrypt: bool, interface: str | None) -> Group:
        """Collective. `interface` is that of the network to use; None: as Gloo does, or the one that leads to the store."""
        return Group(self, timeout, encrypt, interface or self.interface)


@contextlib.contextmanager
def meeting(group: Any) -> Iterator[Meeting]:
    """Where the group's ranks meet to be connected.

    Entered before any check, so that all ranks make their meetings in the same order. An exception of one rank within it
    ends the wait of the others.
    """
    place = Meeting(group)
    try:
        yield place
    except Exception as error:
        place.give_up(str(error))
        raise


def ranks_of(what: str, group: Any, name: str = "group") -> Any:
    """The given ranks: a process group or Ranks; None: those of sotto.init(), or all of torch.distributed."""
    if group is None and _ranks.current is not None:
        return _ranks.current
    if isinstance(group, Ranks):
        return group
    if "torch" in sys.modules:
        from sotto._process_group import dist, is_initialized

        if is_initialized():
            group = dist.group.WORLD if group is None else group
            if not isinstance(group, dist.ProcessGroup):
                raise ConfigError(f"{name}={group!r}: this rank is no member of it, or it is no process group")
            return group
    raise ConfigError(f"{what} needs torch.distributed.init_process_group(...) or sotto.init(...) first")
