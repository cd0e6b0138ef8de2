"""Ranks find each other, and are connected: through the store of a process group."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from ctypes import byref
from typing import Any

import torch
import torch.distributed as dist

from sotto import _library as c
from sotto._errors import ConfigError
from sotto._library import library

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
    """Where the ranks of a process group meet to be connected. All ranks make their meetings in the same order."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        store = _store_of(group)
        self.near_host = _host_of(store)
        self.interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0] or None  # Gloo takes several
        calls = store_calls(store)
        super().__init__("meeting", library.meeting_create, byref(calls), group.rank(), group.size(), REQUEST_SECONDS)

    def give_up(self, why: str) -> None:
        library.meeting_give_up(self.value, why.replace("\0", "").encode())

    def connect(self, timeout: float, encrypt: bool, interface: str | None) -> Group:
        """Collective. `interface` is that of the network to use; None: as Gloo does, or the one that leads to the store."""
        return Group(self, timeout, encrypt, interface or self.interface)


def _store_of(group: dist.ProcessGroup) -> Any:
    store = dist.distributed_c10d._world.pg_map[group][1]
    return _store_of_mpi(group) if store is None else store


def _store_of_mpi(group: dist.ProcessGroup) -> Any:
    """MPI starts without a store: rank 0 serves one, and tells the others where."""
    import socket

    place: list[Any] = [None]
    if group.rank() == 0:
        host = socket.gethostname()
        store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
        place = [(host, store.port)]
    dist.broadcast_object_list(place, src=dist.get_global_rank(group, 0), group=group)
    return store if group.rank() == 0 else dist.TCPStore(*place[0], is_master=False, wait_for_workers=False)


def _host_of(store: Any) -> str | None:
    """Of the machine that serves the store, if it is another process's."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    host = getattr(store, "host", None)
    return host if isinstance(host, str) else None


# The library's requests to the store, on its threads. The store is gone if they raise an exception.


def store_calls(store: Any) -> c.Store:
    return c.Store(_set, _find, _add, _set_first, _release, c.remember(store))


def _request(context: int, work: Any) -> int:
    try:
        with c.called_back(context) as store:
            work(store)
        return 0
    except Exception:
        return 1


def _give(value: bytes, sink: Any) -> None:
    sink.contents.take(sink.contents.context, ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p), len(value))


@c.SetKey
def _set(context: int, key: bytes, value: int, size: int) -> int:
    return _request(context, lambda store: store.set(key.decode(), ctypes.string_at(value, size)))


@c.FindKey
def _find(context: int, key: bytes, sink: Any) -> int:
    def find(store: Any) -> None:
        if store.check([key.decode()]):
            _give(store.get(key.decode()), sink)

    return _request(context, find)


@c.AddKey
def _add(context: int, key: bytes, number: int, total: Any) -> int:
    def add(store: Any) -> None:
        total[0] = store.add(key.decode(), number)

    return _request(context, add)


@c.SetFirst
def _set_first(context: int, key: bytes, value: int, size: int, sink: Any) -> int:
    return _request(context, lambda store: _give(store.compare_set(key.decode(), "", ctypes.string_at(value, size)), sink))


@c.Call
def _release(context: int) -> None:
    c.forget(context)


@contextlib.contextmanager
def meeting(group: dist.ProcessGroup | None) -> Iterator[Meeting | None]:
    """Where the group's ranks meet to be connected; None without a group.

    Entered before any check, so that all ranks make their meetings in the same order. An exception of one rank within it
    ends the wait of the others.
    """
    place = None if group is None else Meeting(group)
    try:
        yield place
    except Exception as error:
        if place is not None:
            place.give_up(str(error))
        raise


def group_of(what: str, group: Any) -> dist.ProcessGroup:
    """The given process group, or the group of all ranks."""
    if not dist.is_available() or not dist.is_initialized():
        raise ConfigError(f"{what} needs torch.distributed.init_process_group(...) first")
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, dist.ProcessGroup):
        raise ConfigError(f"process_group={group!r}: this rank is no member of it, or it is no process group")
    return group


def sent_at_the_start(module: torch.nn.Module) -> list[tuple[str, str]]:
    """Names and forms of what start_alike() sends in addition to trained parameters: it must be the same on all ranks."""
    tensors = [("frozen parameter " + name, p) for name, p in module.named_parameters() if not p.requires_grad]
    tensors += [("buffer " + name, buffer) for name, buffer in module.named_buffers()]
    return [(name, f"{str(tensor.dtype).removeprefix('torch.')} ({', '.join(map(str, tensor.shape))})") for name, tensor in tensors]


def start_alike(module: torch.nn.Module, group: dist.ProcessGroup) -> None:
    """Copies parameters and buffers from the group's rank 0, as DistributedDataParallel does."""
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            values = tensor.detach().contiguous()
            dist.broadcast(values, group=group, group_src=0)
            if values.data_ptr() != tensor.data_ptr():
                tensor.copy_(values)
