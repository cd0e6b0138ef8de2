"""torch's process groups: the stores in which their ranks meet, and modules that begin alike."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from sotto._errors import ConfigError


def group_of(what: str, group: Any) -> dist.ProcessGroup:
    """The given process group, or the group of all ranks."""
    if not is_initialized():
        raise ConfigError(f"{what} needs torch.distributed.init_process_group(...) first")
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, dist.ProcessGroup):
        raise ConfigError(f"process_group={group!r}: this rank is no member of it, or it is no process group")
    return group


def is_initialized() -> bool:
    return dist.is_available() and dist.is_initialized()


def store_of(group: dist.ProcessGroup) -> tuple[Any, str | None]:
    """And the machine that serves it, if it is another process's."""
    store = dist.distributed_c10d._world.pg_map[group][1]
    store = _store_of_mpi(group) if store is None else store
    inner = store
    while (within := getattr(inner, "underlying_store", None)) is not None:
        inner = within
    host = getattr(inner, "host", None)
    return store, host if isinstance(host, str) else None


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
