"""How new ranks of an elastic job get the state."""

import torch.distributed as dist

from sotto import _elastic_group


def send_in_pieces():
    """Whether exactly the takers get the bytes, whoever has them."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole, _elastic_group.CHUNK = _elastic_group.CHUNK, 1000
    try:
        good = True
        for length in (1, 1000, 3456):
            data = bytes(i % 251 for i in range(length))
            for source in range(size):
                for takers in ([r for r in range(size) if r != source], [(source + 1) % size]):
                    got = _elastic_group.send_from(source, takers, rank, memoryview(bytearray(data)) if rank == source else None)
                    good = good and got == (data if rank in takers else b"")
        return good
    finally:
        _elastic_group.CHUNK = whole
