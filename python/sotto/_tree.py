"""Arrays within mappings, lists and tuples, as frameworks keep parameters."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from sotto._arrays import is_array
from sotto._errors import ConfigError

Rebuild = Callable[[Sequence[Any]], Any]


def flatten(tree: Any, name: str) -> tuple[list[tuple[str, Any]], Rebuild]:
    """Names ("layers.0.kernel") and arrays, mappings in the order of their keys; and what makes a tree of other arrays."""
    if "jax" in sys.modules:  # which also knows the trees that its users registered
        return _by_jax(tree)
    found: list[tuple[str, Any]] = []
    rebuild = _flatten(tree, "", found, name)
    return found, lambda arrays: rebuild(iter(arrays))


def _flatten(tree: Any, place: str, found: list[tuple[str, Any]], name: str) -> Callable[[Any], Any]:
    def within(key: Any, part: Any) -> Callable[[Any], Any]:
        return _flatten(part, f"{place}.{key}" if place else str(key), found, name)

    if tree is None:
        return lambda _: None
    if is_array(tree) or isinstance(tree, (bytearray, memoryview)) or _is_buffer(tree):
        found.append((place or "value", tree))
        return next
    if isinstance(tree, Mapping):
        parts = [(key, within(key, tree[key])) for key in _sorted(tree)]
        return lambda arrays: _mapping_like(tree, {key: part(arrays) for key, part in parts})
    if isinstance(tree, (list, tuple)):
        several = [within(i, part) for i, part in enumerate(tree)]
        if hasattr(tree, "_fields"):  # a named tuple
            return lambda arrays: type(tree)(*[part(arrays) for part in several])
        return lambda arrays: type(tree)(part(arrays) for part in several)
    raise ConfigError(f"{name}: wants arrays, in dicts, lists or tuples; at {place or 'its top'} is {type(tree).__name__} {tree!r:.80}")


def _mapping_like(tree: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """The same kind of mapping with these parts, in the order of `tree`."""
    if not isinstance(tree, MutableMapping):
        return type(tree)({key: parts[key] for key in tree})  # type: ignore[call-arg]
    made = copy.copy(tree)  # a defaultdict, for example, keeps what makes its values
    made.update(parts)
    return made


def _is_buffer(value: Any) -> bool:
    try:
        return not isinstance(value, (str, bytes)) and memoryview(value).nbytes >= 0
    except TypeError:
        return False


def _sorted(tree: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(tree)
    except TypeError:  # keys of several kinds
        return sorted(tree, key=str)


def _by_jax(tree: Any) -> tuple[list[tuple[str, Any]], Rebuild]:
    from jax import tree_util

    leaves, form = tree_util.tree_flatten_with_path(tree)
    names = [".".join(_key(part) for part in path) or "value" for path, _ in leaves]
    return [(name, leaf) for name, (_, leaf) in zip(names, leaves)], lambda arrays: tree_util.tree_unflatten(form, arrays)


def _key(part: Any) -> str:
    """Of a DictKey, SequenceKey, GetAttrKey or FlattenedIndexKey."""
    return str(next(getattr(part, name) for name in ("key", "idx", "name") if hasattr(part, name)))
