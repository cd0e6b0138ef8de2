"""A user's own topologies, written as text for the library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Union

from sotto._errors import ConfigError

Peers = Sequence[Sequence[int]]  # the ranks that rank 0 sends to, that rank 1 sends to, ...
Topology = Union[str, Peers, Sequence[Peers], Any]  # Any: a tensor or an array

_WANTED = (
    'wants a name, such as "ring", the path of a .toml file, for each rank a list of the ranks that it sends to (or a list '
    "of such lists, of rounds that take turns), or as tensor or array a matrix of shares (or several)"
)


def expression_of(topology: Topology) -> str:
    if isinstance(topology, str):
        return topology
    if hasattr(topology, "tolist") and hasattr(topology, "shape"):  # a tensor or an array
        shape, matrices = list(topology.shape), topology.tolist()
        if len(shape) not in (2, 3) or shape[-1] != shape[-2] or 0 in shape:
            raise ConfigError(f"topology: a matrix has a row and a column for each rank, not the shape {shape}")
        rounds = [_of_matrix(m) for m in (matrices if len(shape) == 3 else [matrices])]
    elif _is_list(topology) and topology and all(_is_list(row) for row in topology):
        several = all(row and all(_is_list(peers) for peers in row) for row in topology)
        rounds = [_of_lists(r) for r in (topology if several else [topology])]
    else:
        raise ConfigError(f"topology={topology!r:.200}: {_WANTED}")
    return f"graph({' / '.join(rounds)})"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _of_lists(lists: Peers) -> str:
    for peers in lists:
        if not _is_list(peers) or not all(type(peer) is int for peer in peers):
            raise ConfigError(f"topology: {peers!r:.200} is not a list of ranks")
    return "; ".join(" ".join(map(str, peers)) for peers in lists)


def _of_matrix(matrix: list[list[float]]) -> str:
    """Entry (i, j) is the share of rank j's value that rank i has after the round."""
    if not all(0 <= share <= 1 for row in matrix for share in row):
        raise ConfigError("topology: shares of a matrix are numbers from 0 to 1")
    columns = [[float(share) for share in column] for column in zip(*matrix)]
    for rank, column in enumerate(columns):
        if abs((total := math.fsum(column)) - 1) > 1e-6:
            raise ConfigError(f"topology: column {rank} of the matrix adds up to {total:g}: what rank {rank} keeps and sends must "
                              "add up to 1")
    return "; ".join(" ".join(f"{to}:{share!r}" for to, share in enumerate(column) if to != rank and share > 0)
                     for rank, column in enumerate(columns))
