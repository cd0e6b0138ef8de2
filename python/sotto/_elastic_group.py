"""The process group of ranks that come and go."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import torch
import torch.distributed as dist

CHUNK = 8 << 20  # bytes
TAG = 0x7365  # of messages that never come


def all_groups() -> list[dist.ProcessGroup]:
    """The process groups of this rank, those that the user made with new_group() included."""
    return [group for group in dist.distributed_c10d._world.pg_map if isinstance(group, dist.ProcessGroup)]


def close(groups: list[dist.ProcessGroup]) -> None:
    """Closes the connections of groups, whoever still holds them: operations that run end in errors, here and on other ranks.

    Gloo closes all connections of a group when a wait runs out of time, and in no other way while somebody holds it.
    """
    for group in groups:
        for peer in range(group.size()):
            if peer != group.rank():
                with contextlib.suppress(Exception):
                    group.recv([torch.zeros(1)], peer, TAG).wait(timedelta(milliseconds=1))


def send_from(source: int, takers: list[int], rank: int, data: memoryview | None) -> bytearray:
    """The bytes of `source`, which has `data`, on ranks that are among the takers. Collective: all wait until these have it."""
    line = [source, *takers]
    size = torch.tensor([len(data) if data is not None else 0])
    dist.broadcast(size, source)
    taken = bytearray(int(size) if rank in takers else 0)
    for begin in range(0, int(size), CHUNK):
        if rank in line:
            piece = (memoryview(taken) if data is None else data)[begin : begin + CHUNK]
            _pass_on(torch.frombuffer(piece, dtype=torch.uint8), line, line.index(rank))
        dist.all_reduce(torch.zeros(1))  # however long it takes, nobody runs out of time, or misses that a rank is lost
    return taken


def _pass_on(piece: torch.Tensor, line: list[int], place: int) -> None:
    """Along a tree: in each round every rank that has the piece gives it to another one."""
    reach = 1
    while reach < len(line):
        if place < reach and place + reach < len(line):
            dist.send(piece, line[place + reach])
        elif reach <= place < 2 * reach:
            dist.recv(piece, line[place - reach])
        reach *= 2
