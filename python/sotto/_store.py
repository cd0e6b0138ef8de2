"""Stores, in which ranks leave words for each other: the library's as objects of Python, and objects of Python for the library."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int64, c_void_p
from typing import Any

from sotto import _library as c
from sotto._errors import CommError
from sotto._library import library


class LibraryStore:
    """A store of the library, which is released with this object. CommError if it is gone."""

    def __init__(self, calls: c.Store) -> None:
        self._calls = calls
        c.free_later(self, calls.release, calls.context, last=True)  # groups that met there are freed before

    def set(self, key: str, value: bytes) -> None:
        _require(self._calls.set(self._calls.context, key.encode(), ctypes.cast(c_char_p(value), c_void_p), len(value)))

    def find(self, key: str) -> bytes | None:
        found = list[bytes]()
        sink = c.keeping(found)
        _require(self._calls.find(self._calls.context, key.encode(), ctypes.pointer(sink)))
        return found[0] if found else None

    def check(self, keys: list[str]) -> bool:
        return all(self.find(key) is not None for key in keys)

    def get(self, key: str) -> bytes:
        found = self.find(key)
        if found is None:
            raise CommError(f"the key {key} is gone")
        return found

    def add(self, key: str, number: int) -> int:
        total = c_int64()
        _require(self._calls.add(self._calls.context, key.encode(), number, ctypes.pointer(total)))
        return total.value

    def compare_set(self, key: str, expected: str, desired: bytes) -> bytes:
        if expected:
            raise NotImplementedError("this store replaces no values")
        found = list[bytes]()
        sink = c.keeping(found)
        _require(self._calls.set_first(self._calls.context, key.encode(), ctypes.cast(c_char_p(desired), c_void_p), len(desired),
                                       ctypes.pointer(sink)))
        return found[0]


def _require(status: int) -> None:
    if status != 0:
        raise CommError(c.spelled(library.last_error(1).decode(errors="replace")))


# The library's requests to an object, on its threads. The store is gone if they raise an exception.


def store_calls(store: Any) -> c.Store:
    """`store` has set, check, get, add and compare_set, as torch's stores do."""
    context = c.remember(store)
    c.stores_in_use.add(context)
    return c.Store(_set, _find, _add, _set_first, _release, context)


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
        if isinstance(store, LibraryStore):  # in one request
            value = store.find(key.decode())
        else:
            value = store.get(key.decode()) if store.check([key.decode()]) else None
        if value is not None:
            _give(value, sink)

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
    c.stores_in_use.discard(context)
    c.forget(context)
