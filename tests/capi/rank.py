"""A rank that meets others by the C interface, through torch's store: python rank.py LIBRARY HOST PORT RANK RANKS PLAIN"""

import ctypes
import sys

import torch.distributed as dist

Take = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Sink(ctypes.Structure):
    _fields_ = [("take", Take), ("context", ctypes.c_void_p)]


Set = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
Find = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Sink))
Add = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))
SetFirst = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Sink))


class Store(ctypes.Structure):
    _fields_ = [("set", Set), ("find", Find), ("add", Add), ("set_first", SetFirst), ("release", ctypes.c_void_p),
                ("context", ctypes.c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("timeout", ctypes.c_double), ("plain", ctypes.c_int), ("interface", ctypes.c_char_p),
                ("near_host", ctypes.c_char_p), ("streams", ctypes.c_int)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int), ("dimensions", ctypes.c_size_t),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


class Aggregate(ctypes.Structure):  # the members after `op` are unknown to this caller
    _fields_ = [("bytes", ctypes.c_size_t), ("op", ctypes.c_int)]


def calls_of(store):
    def set_value(_, key, value, size):
        store.set(key.decode(), ctypes.string_at(value, size))
        return 0

    def give(value, sink):
        sink.contents.take(sink.contents.context, ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p), len(value))
        return 0

    def find(_, key, sink):
        return give(store.get(key.decode()), sink) if store.check([key.decode()]) else 0

    def add(_, key, number, total):
        total[0] = store.add(key.decode(), number)
        return 0

    def set_first(_, key, wish, size, sink):
        return give(store.compare_set(key.decode(), "", ctypes.string_at(wish, size)), sink)

    return Store(Set(set_value), Find(find), Add(add), SetFirst(set_first), None, None)


def main(path, host, port, rank, ranks, plain):
    library = ctypes.CDLL(path)
    library.sotto_last_error.restype = ctypes.c_char_p
    store = dist.TCPStore(host, int(port), is_master=rank == "0", wait_for_workers=False)
    calls, group = calls_of(store), ctypes.c_void_p()
    options = Options(ctypes.sizeof(Options), 120, int(plain), None, host.encode(), 0)
    status = library.sotto_group_create(ctypes.byref(calls), int(rank), int(ranks), ctypes.byref(options), ctypes.byref(group))
    assert status == 0, library.sotto_last_error(0).decode()
    values, shape = (ctypes.c_float * 1000)(*([float(rank)] * 1000)), (ctypes.c_int64 * 1)(1000)
    tensor = Tensor(ctypes.cast(values, ctypes.c_void_p), 0, 1, shape, None)
    how = Aggregate(ctypes.sizeof(Aggregate), 1)
    status = library.sotto_aggregate(group, ctypes.byref(tensor), ctypes.byref(how))
    assert status == 0, library.sotto_last_error(0).decode()
    print("encrypted" if library.sotto_group_encrypts(group) else "plain", values[999])
    store.add("done", 1)
    while store.add("done", 0) < int(ranks):  # the store of rank 0 ends last
        pass
    library.sotto_group_free(group)


if __name__ == "__main__":
    main(*sys.argv[1:])
