"""Meetings: ranks find each other to be connected."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from sotto import _C
from sotto._errors import ConfigError


@contextlib.contextmanager
def meeting(group: dist.ProcessGroup | None) -> Iterator[tuple[dist.ProcessGroup | None, _C.Meeting | None]]:
    """The group whose ranks are to be connected, and the place where they meet, unless they get a new group.

    Entered before any check, so that all ranks make their meetings in the same order. An exception of one rank within it
    ends the wait of the others.
    """
    meeting = None
    if group is not None and dist.get_backend(group) == dist.Backend.MPI:
        group = dist.new_group(dist.get_process_group_ranks(group), backend=dist.Backend.MPI)
    elif group is not None:
        meeting = _C.Meeting(group)
    try:
        yield group, meeting
    except Exception as error:
        if meeting is not None:
            meeting.give_up(str(error))
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
