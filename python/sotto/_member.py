"""This process as a rank of a job with a coordinator, and the store in which the ranks of a group meet."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import byref, c_int
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from sotto import _library as c
from sotto._errors import CommError
from sotto._library import library
from sotto._store import LibraryStore

Result = TypeVar("Result")


class Member(c.Handle):
    """Joins the job whose coordinator is at "HOST:PORT", and says from now on that this rank lives.

    secret: the file with the job's secret. `asked` returns the number of a signal that should end this rank, or 0. What waits then
    ends with a CommError.
    """

    def __init__(self, coordinator: str, secret: str | None, wait: float, asked: Callable[[], int]) -> None:
        self._asked = asked
        self._host = coordinator.rpartition(":")[0].strip("[]")
        _interruptible(asked, lambda stop: super(Member, self).__init__(
            "member", lambda made: library.member_create(c.text(coordinator), c.text(secret), wait, stop, made)))

    def join(self) -> bool:
        """Waits for the first group that has this rank as a member. False if the run has come to its end without it."""
        joined = c_int()
        _interruptible(self._asked, lambda stop: library.member_join(self.value, stop, byref(joined)))
        return bool(joined.value)

    def next(self, reason: str, moved: bool) -> None:
        """Leaves the group because of `reason`, and waits for the next one. CommError if this rank has no place there."""
        _interruptible(self._asked, lambda stop: library.member_next(self.value, c.text(reason.replace("\0", "")), moved, stop))

    def meet(self, seconds: float) -> GroupStore:
        """Waits until all ranks of the group are here. CommError if one of them is lost before."""
        calls = c.Store()
        _interruptible(self._asked, lambda stop: library.member_meet(self.value, seconds, stop, byref(calls)))
        return GroupStore(LibraryStore(calls), timedelta(seconds=seconds), self._host)

    def _info(self) -> c.Membership:
        info = c.Membership()
        library.member_info(self.value, byref(info))
        return info

    def id(self) -> int:
        return self._info().id

    def rank(self) -> int:
        return self._info().rank

    def ranks(self) -> int:
        return self._info().ranks

    def generation(self) -> int:
        return self._info().generation

    def failure(self) -> str:
        """The failure after which no group trains; empty: this group trains."""
        return self._info().failure.decode(errors="replace")

    def wants_change(self) -> bool:
        """Whether others want to join, so that the members should leave this group together."""
        return bool(self._info().wants_change)

    def leave(self, words: str, failed: bool) -> None:
        """Tells the coordinator that this rank has ended, and why; empty: it has come to the end of the run."""
        library.member_leave(self.value, c.text(words.replace("\0", "")), failed)


def _interruptible(asked: Callable[[], int], work: Callable[[Any], Result]) -> Result:
    """Runs work that waits on another thread, so that this one can handle signals. Their exceptions end the wait."""
    stop, results, errors = c_int(0), list[Result](), list[BaseException]()

    def run() -> None:
        try:
            results.append(work(byref(stop)))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.05)
            stop.value = stop.value or asked()
    except BaseException:
        stop.value = stop.value or signal.SIGINT
        thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]


class GroupStore(dist.Store):
    """A store of the library's as one of torch's. Whoever uses it from C++ keeps no reference to this object: its maker must."""

    def __init__(self, store: LibraryStore, limit: timedelta, host: str) -> None:
        super().__init__()
        self.host = host  # which all ranks can reach
        self._store, self._limit = store, limit

    def clone(self) -> GroupStore:
        return GroupStore(self._store, self._limit, self.host)

    def set_timeout(self, timeout: timedelta) -> None:
        self._limit = timeout

    def set(self, key: str, value: str | bytes) -> None:
        with _as_torch_says():
            self._store.set(key, value.encode() if isinstance(value, str) else value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        with _as_torch_says():
            return self._store.get(key)

    def add(self, key: str, value: int) -> int:
        with _as_torch_says():
            return self._store.add(key, value)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        with _as_torch_says():
            return self._store.compare_set(key, str(expected or ""), desired.encode() if isinstance(desired, str) else desired)

    def check(self, keys: list[str]) -> bool:
        with _as_torch_says():
            return self._store.check(keys)

    def delete_key(self, key: str) -> bool:
        return False  # no key is used again

    def num_keys(self) -> int:
        raise NotImplementedError("the keys of this store are not counted")

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        end = time.monotonic() + (timeout or self._limit).total_seconds()
        pause = 0.002
        for key in keys:
            while not self.check([key]):
                if time.monotonic() > end:
                    raise dist.DistStoreError(f"nobody has written {key} in time")
                time.sleep(pause)
                pause = min(1.5 * pause, 0.1)


@contextlib.contextmanager
def _as_torch_says() -> Iterator[None]:
    try:
        yield
    except CommError as error:
        raise dist.DistStoreError(str(error)) from None
