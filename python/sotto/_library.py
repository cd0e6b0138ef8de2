"""The C library, and how Python calls it: types, errors, texts and values. Only this module loads it. Nothing here needs torch."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from sotto import _errors

INTERFACE = 2  # SOTTO_INTERFACE of the header that this module was written for
F32, F16, BF16, F64, I32, I64, U8 = range(7)
FLOATS, BYTES, NUMBER = range(3)
OPS = ("avg", "sum", "min", "max")
CONTRACTS = ("exact", "rounding", "unbiased", "contraction", "none")

_Take = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)
SetKey = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("type", c_int), ("dimensions", c_size_t), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class Sink(Structure):
    _fields_ = [("take", _Take), ("context", c_void_p)]


class Value(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("data", c_void_p), ("count", c_size_t)]


_Visit = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Value))
FindKey = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(Sink))
AddKey = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, POINTER(c_int64))
SetFirst = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, POINTER(Sink))
Call = ctypes.CFUNCTYPE(None, c_void_p)
Move = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))


class Visitor(Structure):
    _fields_ = [("visit", _Visit), ("context", c_void_p)]


class Parameter(Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("dimensions", c_size_t), ("shape", POINTER(c_int64))]


class Store(Structure):
    _fields_ = [("set", SetKey), ("find", FindKey), ("add", AddKey), ("set_first", SetFirst), ("release", Call), ("context", c_void_p)]


class Term(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Phase(Structure):
    _fields_ = [("first_step", c_uint64), ("codec", c_char_p), ("aggregator", c_char_p)]


class Rule(Structure):
    _fields_ = [("name", c_char_p), ("parameters", POINTER(c_size_t)), ("parameter_count", c_size_t), ("phases", POINTER(Phase)),
                ("phase_count", c_size_t)]


class Gradient(Structure):
    _fields_ = [("parameter", c_size_t), ("data", c_void_p)]


class Bucket(Structure):
    _fields_ = [("gradients", POINTER(Gradient)), ("count", c_size_t), ("await", Call), ("done", c_void_p), ("context", c_void_p)]


class Former(Structure):
    _fields_ = [("rank", c_int), ("ranks", c_int), ("values", POINTER(Value)), ("count", c_size_t)]


class Model(Structure):
    _fields_ = [("read", Move), ("write", Move), ("context", c_void_p)]


class Statistic(Structure):
    _fields_ = [("name", c_char_p), ("shape", c_char_p), ("type", c_char_p), ("values", c_void_p), ("count", c_size_t)]


class Contract(Structure):
    _fields_ = [("kind", c_int), ("omega", c_double), ("delta", c_double), ("linear", c_int)]


class Sized(Structure):
    """Options, and what else may grow with the interface: the first member is the size."""

    def __init__(self, **members: Any) -> None:
        super().__init__(bytes=ctypes.sizeof(self), **members)


class GroupOptions(Sized):
    _fields_ = [("bytes", c_size_t), ("timeout", c_double), ("plain", c_int), ("interface", c_char_p), ("near_host", c_char_p),
                ("streams", c_int)]


class AveragerOptions(Sized):
    _fields_ = [("bytes", c_size_t), ("seed", c_uint64), ("bucket_bytes", c_size_t), ("propagate", c_int), ("threads", c_int),
                ("required_same", POINTER(Term)), ("required_same_count", c_size_t)]


class StepsOptions(Sized):
    _fields_ = [("bytes", c_size_t), ("codec", c_char_p), ("aggregator", c_char_p), ("topology", c_char_p), ("mixing", c_char_p),
                ("peers_per_step", c_char_p), ("node_size", c_int), ("seed", c_uint64), ("bucket_bytes", c_size_t), ("threads", c_int),
                ("required_same", POINTER(Term)), ("required_same_count", c_size_t)]


class AggregateOptions(Sized):
    _fields_ = [("bytes", c_size_t), ("op", c_int), ("denominator", c_double), ("codec", c_char_p), ("aggregator", c_char_p),
                ("seed", c_uint64), ("most", c_size_t), ("timeout", c_double)]


class Stats(Sized):
    _fields_ = [("bytes", c_size_t), ("steps", c_uint64), ("bytes_sent", c_uint64), ("bytes_received", c_uint64),
                ("dense_bytes", c_uint64), ("encode_seconds", c_double), ("network_seconds", c_double), ("decode_seconds", c_double)]


class Membership(Sized):
    _fields_ = [("bytes", c_size_t), ("id", c_int), ("rank", c_int), ("ranks", c_int), ("wants_change", c_int),
                ("generation", c_uint64), ("failure", c_char_p)]


_MADE = POINTER(c_void_p)
_SHAPE = (POINTER(c_int64), c_size_t)
_VALUES = (POINTER(Value), c_size_t)
_DATA = (c_void_p, c_size_t)
_STATE = (c_void_p, POINTER(c_uint64), Visitor)

# Functions that return a status, and their arguments.
_CHECKED: dict[str, tuple[Any, ...]] = {
    "codec_create": (c_char_p, c_int, _MADE),
    "codec_contract": (c_void_p, *_SHAPE, POINTER(Contract), POINTER(Sink)),
    "codec_facts": (c_char_p, c_char_p, c_char_p, POINTER(Parameter), c_size_t, Visitor),
    "codec_encode": (c_void_p, POINTER(Tensor), c_uint64, c_uint32, Sink),
    "codec_head": (*_DATA, c_uint64, POINTER(c_int), POINTER(c_int64), POINTER(c_size_t)),
    "codec_decode": (c_void_p, *_DATA, POINTER(Tensor)),
    "store_open": (c_char_p, ctypes.c_uint16, c_int, c_int, c_char_p, c_double, POINTER(Store)),
    "meeting_create": (POINTER(Store), c_int, c_int, c_double, _MADE),
    "meeting_connect": (c_void_p, POINTER(GroupOptions), _MADE),
    "group_create": (POINTER(Store), c_int, c_int, POINTER(GroupOptions), _MADE),
    "group_gather": (c_void_p, *_DATA, Sink),
    "averager_create": (c_void_p, POINTER(Parameter), c_size_t, POINTER(Rule), c_size_t, POINTER(AveragerOptions), _MADE),
    "averager_begin": (c_void_p, c_double, POINTER(c_uint64)),
    "averager_post": (c_void_p, POINTER(Bucket)),
    "averager_end": (c_void_p,),
    "averager_wait": (c_void_p,),
    "averager_fail": (c_void_p, c_char_p),
    "averager_stats": (c_void_p, POINTER(Stats)),
    "averager_methods": (c_void_p, Sink),
    "averager_state": _STATE,
    "averager_shared": (c_void_p, Visitor),
    "averager_identity": (c_void_p, Sink),
    "averager_load": (c_void_p, c_uint64, *_VALUES),
    "averager_spread": (c_void_p, c_uint64, POINTER(Former), c_size_t),
    "steps_create": (c_void_p, c_char_p, POINTER(Parameter), c_size_t, Model, POINTER(StepsOptions), _MADE),
    "steps_begin": (c_void_p, c_double),
    "steps_end": (c_void_p,),
    "steps_fail": (c_void_p, c_char_p),
    "steps_take_average": (c_void_p,),
    "steps_show_mean": (c_void_p,),
    "steps_show_own": (c_void_p,),
    "steps_average": (c_void_p, POINTER(Statistic), c_size_t),
    "steps_state": _STATE,
    "steps_shared": (c_void_p, Visitor),
    "steps_identity": (c_void_p, c_int, Sink),
    "steps_progress": (c_void_p, POINTER(c_uint64)),
    "steps_load": (c_void_p, c_uint64, *_VALUES),
    "steps_refuse_load": (c_void_p,),
    "steps_rejoin": (c_void_p, c_uint64, POINTER(Former)),
    "steps_gather": (c_void_p, *_DATA, Sink),
    "steps_stats": (c_void_p, POINTER(Stats)),
    "steps_methods": (c_void_p, Sink),
    "algorithm_gossips": (c_char_p, POINTER(c_int)),
    "gossiper_create": (c_void_p, c_char_p, c_char_p, c_char_p, c_uint64, c_int, _MADE),
    "gossiper_mix": (c_void_p, c_void_p, c_size_t, c_char_p, POINTER(c_double)),
    "gossiper_topology": (c_void_p, Sink),
    "gossiper_exact_after": (c_void_p, POINTER(c_int64)),
    "aggregate": (c_void_p, POINTER(Tensor), POINTER(AggregateOptions)),
    "member_create": (c_char_p, c_char_p, c_double, POINTER(c_int), _MADE),
    "member_join": (c_void_p, POINTER(c_int), POINTER(c_int)),
    "member_meet": (c_void_p, c_double, POINTER(c_int), POINTER(Store)),
    "member_next": (c_void_p, c_char_p, c_int, POINTER(c_int)),
    "member_leave": (c_void_p, c_char_p, c_int),
    "member_info": (c_void_p, POINTER(Membership)),
}
# Others: (what they return, arguments).
_PLAIN: dict[str, tuple[Any, ...]] = {
    "interface": (ctypes.c_uint,),
    "version": (c_char_p,),
    "last_error": (c_char_p, c_int),
    "codec_text": (c_char_p, c_void_p),
    "codec_free": (None, c_void_p),
    "meeting_free": (None, c_void_p),
    "meeting_give_up": (None, c_void_p, c_char_p),
    "group_free": (None, c_void_p),
    "group_rank": (c_int, c_void_p),
    "group_ranks": (c_int, c_void_p),
    "group_encrypts": (c_int, c_void_p),
    "group_give_up": (None, c_void_p, c_char_p),
    "averager_free": (None, c_void_p),
    "steps_free": (None, c_void_p),
    "steps_start_early": (c_int, c_void_p),
    "steps_failed": (c_int, c_void_p),
    "gossiper_free": (None, c_void_p),
    "member_free": (None, c_void_p),
    "gossiper_round": (c_uint64, c_void_p),
}

_ERRORS: tuple[type[Exception], ...] = (
    _errors.Error, _errors.ConfigError, _errors.WireError, _errors.CommError, _errors.FileError, _errors.NumericError, _errors.Error)
_MARK = re.compile("\x02([^\x1f\x03]*)(?:\x1f([^\x03]*))?\x03")


def spelled(text: str) -> str:
    """A text of the library with its options as arguments of Python."""
    return _MARK.sub(lambda mark: _argument(mark[1], mark[2] or ""), text)


def _argument(option: str, value: str) -> str:
    name = "bucket_mb" if option == "buckets" else option
    if not name.endswith("]"):  # no name of a parameter in rules[..]
        name = name.replace("-", "_")
    return f"{name}='{value}'" if value else name


class _Library:
    """The functions, without their prefix. Those with a status raise it as an exception."""

    def __init__(self, path: Path) -> None:
        try:
            self._dll = ctypes.CDLL(str(path))
        except OSError as error:
            raise ImportError(f"{path}, the library of sotto, does not load: {error}") from error
        for name, (returned, *arguments) in _PLAIN.items():
            function = getattr(self._dll, "sotto_" + name)
            function.restype, function.argtypes = returned, arguments
            setattr(self, name, function)
        if self.interface() < INTERFACE:
            raise ImportError(f"{path} has interface {self.interface()}, and this package needs {INTERFACE}; install sotto again")
        for name, taken in _CHECKED.items():
            function = getattr(self._dll, "sotto_" + name)
            function.argtypes, function.errcheck = taken, self._check
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # for type checkers: the functions are set above
        raise AttributeError(name)

    def _check(self, status: int, *_: Any) -> None:
        if status != 0:
            raise _ERRORS[status](spelled(self.last_error(1).decode(errors="replace")))


library = _Library(Path(__file__).parent / "libsotto.so")
version: str = library.version().decode()


_numbers = itertools.count(1)
_owned: dict[int, tuple[Callable[[int], None], int, int, bool]] = {}  # what is to be freed: see free_later(); in the order of its making
stores_in_use: set[int] = set()  # the contexts of stores that the library may still ask


class Handle:
    """What a `create` function made. It is freed with this object, once, and not in a process that was forked later: its
    threads are not there."""

    def __init__(self, kind: str, create: Callable[..., None], *arguments: Any) -> None:
        made = c_void_p()
        create(*arguments, byref(made))
        self.value = made.value
        free_later(self, getattr(library, kind + "_free"), made.value)


_within = threading.local()  # a callback, which runs on a thread of the library


def free_later(owner: Any, free: Callable[[int], None], value: Any, last: bool = False) -> None:
    """Calls free(value) when `owner` is gone, or when the program ends: `last`, after all that is not."""
    number = next(_numbers)
    _owned[number] = free, value, os.getpid(), last
    weakref.finalize(owner, _free, number).atexit = False


def _free(number: int) -> None:
    free, value, maker, _ = _owned.pop(number, (None, 0, 0, False))
    if free is None or os.getpid() != maker:
        return
    if getattr(_within, "depth", 0):  # the handle may wait for this very thread to end
        threading.Thread(target=free, args=(value,)).start()
    else:
        free(value)


@atexit.register
def _end() -> None:
    """Frees all. A thread of the library that asks a store later would find no interpreter: Python ends such a thread, and C++ then the
    process."""
    last = [number for number, (_, _, _, last) in _owned.items() if last]
    for number in sorted(_owned.keys() - last, reverse=True):  # what was made of a group before the group
        _free(number)
    patience = time.monotonic() + 10
    while stores_in_use and time.monotonic() < patience:
        time.sleep(0.002)
    for number in last:
        _free(number)


os.register_at_fork(after_in_child=stores_in_use.clear)


# --- callbacks ---------------------------------------------------------------------------------------------------------

_contexts: dict[int, Any] = {}  # by number: what callbacks are about


def remember(what: Any) -> int:
    """A context for callbacks, until forget()."""
    number = next(_numbers)
    _contexts[number] = what
    return number


def forget(number: int) -> None:
    _contexts.pop(number, None)


@contextlib.contextmanager
def called_back(number: int) -> Iterator[Any]:
    """What a callback is about."""
    _within.depth = getattr(_within, "depth", 0) + 1
    try:
        yield _contexts[number]
    finally:
        _within.depth -= 1


# --- texts, shapes and values ------------------------------------------------------------------------------------------


def text(value: str | None) -> bytes | None:
    """An argument; None is NULL. The C interface ends texts with a zero, so that they have none within."""
    if value is not None and "\0" in value:
        raise _errors.ConfigError(f"{value!r:.200}: a text has no zero byte")
    return None if value is None else value.encode()


def sizes(values: Sequence[int]) -> Any:
    return (c_int64 * len(values))(*values)


def parameter_array(parameters: Sequence[tuple[str, int, Sequence[int]]]) -> Any:
    """`parameters`: name, type and shape, in the order of memory."""
    return (Parameter * len(parameters))(*[Parameter(text(name), kind, len(shape), sizes(shape)) for name, kind, shape in parameters])


def term_array(terms: Sequence[tuple[str, str]]) -> Any:
    return (Term * len(terms))(*[Term(text(name), text(value)) for name, value in terms])


def keeping(found: list[bytes]) -> Sink:
    """A sink that appends what it takes."""
    return Sink(_Take(lambda _, data, size: found.append(ctypes.string_at(data, size))), None)


def taken(function: Callable[..., None], *arguments: Any) -> list[bytes]:
    """What a function, whose last argument is a sink, gives to it."""
    found: list[bytes] = []
    function(*arguments, keeping(found))
    return found


def taken_text(function: Callable[..., None], *arguments: Any) -> str:
    return taken(function, *arguments)[0].decode()


def visited(function: Callable[..., None], *arguments: Any, make: Callable[[int, int, int], Any] = lambda *_: None) -> dict[str, Any]:
    """Named values that a function, whose last argument is a visitor, gives to it. `make` gets kind, address and count."""
    found: dict[str, Any] = {}
    raised: list[BaseException] = []

    def visit(_: Any, given: Any) -> None:
        value = given.contents
        try:
            found[value.name.decode()] = make(value.kind, value.data or 0, value.count)
        except BaseException as error:  # no memory
            raised.append(error)

    function(*arguments, Visitor(_Visit(visit), None))
    if raised:
        raise raised[0]
    return found


def facts(name: str, codec: str, aggregator: str = "auto", shapes: Sequence[Sequence[int]] = ()) -> dict[str, str]:
    """See sotto_codec_facts()."""
    array = parameter_array([("", F32, list(shape)) for shape in shapes])
    found = visited(library.codec_facts, text(name), text(codec), text(aggregator), array, len(array),
                    make=lambda _, data, size: ctypes.string_at(data, size).decode())
    return {key: spelled(value) for key, value in found.items()}


def gossips(algorithm: str) -> bool:
    """Whether it mixes models along a graph. ConfigError if it is no algorithm."""
    answer = c_int()
    library.algorithm_gossips(text(algorithm), byref(answer))
    return bool(answer.value)


def statistics(function: Callable[..., None], methods: Callable[..., None], handle: int) -> dict[str, Any]:
    """As the arguments of sotto.Stats."""
    stats = Stats()
    function(handle, byref(stats))
    named = {name: getattr(stats, name) for name, _ in Stats._fields_[1:]}
    named["wire_seconds"] = named.pop("network_seconds")
    return named | {"methods": taken_text(methods, handle)}
