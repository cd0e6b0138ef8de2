"""Averages the gradients of a module while backward computes others: in DistributedDataParallel, or in our own wrapper."""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections.abc import Callable, Sequence
from ctypes import byref, c_uint64
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from sotto import _library as c
from sotto._errors import ConfigError, NumericError
from sotto._gradients import AveragerOptions, GradientAverager
from sotto._library import library
from sotto._meeting import Group
from sotto._tensors import TYPES, dense_strides, is_dense, memory_shape, name_of, packed, unpacked, value_of

@dataclass(frozen=True)
class HookOptions:
    check_replicas: int  # compares replicas every `check_replicas` steps; 0: never
    # The factor by which the loss was multiplied. None: 1. Asked at the first gradient of a backward.
    scale: Callable[[], float] | None
    advice: Callable[[], str]  # what the user may do, added to a NumericError about a gradient
    problem: Callable[[], str]  # why a backward must not continue, or nothing; asked at its first gradient


class _Job:
    """Gradients that are posted together: one of DDP's buckets, or one gradient."""

    def __init__(self) -> None:
        self.buffer: torch.Tensor | None = None
        self.host: torch.Tensor | None = None  # the buffer itself, or a dense copy on the host
        self.future: Any = None
        self.event: Any = None  # of the copy from a device
        self.bucket = c.Bucket()
        self.number = c.remember(self)

    def bring(self, buffer: torch.Tensor, strides: Sequence[int]) -> int:
        """Its address on the host, with these strides, in the order of the stream that made it."""
        self.buffer = buffer
        on_device = buffer.device.type != "cpu"
        if not on_device and buffer.stride() == tuple(strides):
            self.host = buffer
            return buffer.data_ptr()
        old = self.host
        if (old is None or old is buffer or old.shape != buffer.shape or old.stride() != tuple(strides) or old.dtype != buffer.dtype
                or old.device.type != "cpu"):
            old = torch.empty_strided(buffer.shape, strides, dtype=buffer.dtype, pin_memory=on_device)
        self.host = old
        old.copy_(buffer, non_blocking=True)
        if on_device:
            self.event = torch.Event(buffer.device)
            self.event.record()
            setattr(self.bucket, "await", _await)
            self.bucket.context = self.number
        return old.data_ptr()

    def hold(self, gradients: Any) -> None:
        self.gradients = gradients
        self.bucket.gradients, self.bucket.count = gradients, len(gradients)

    def give_back(self) -> None:
        """The means are on the host."""
        if self.host is not self.buffer and self.buffer is not None and self.host is not None:
            self.buffer.copy_(self.host, non_blocking=True)

    def drop(self) -> None:
        """Keeps no gradient alive that the optimizer has used."""
        if self.host is self.buffer:
            self.host = None
        self.buffer = None


@c.Call
def _await(number: int) -> None:
    with c.called_back(number) as job:
        job.event.synchronize()


class Hook(GradientAverager):
    """Averages the gradients of one module.

    Nothing waits before the last gradient of a backward. It waits there for all means, so that neither DDP's futures nor this
    interpreter's lock go from one thread to another. An error is an exception of backward().
    """

    pack, unpack = staticmethod(packed), staticmethod(unpacked)

    def __init__(self, group: Group, parameters: list[tuple[str, torch.Tensor]], averager: AveragerOptions, options: HookOptions) -> None:
        super().__init__(group, [(name, gradient_type(name, p), memory_shape(p)) for name, p in parameters], averager)
        self._parameters, self._options = parameters, options
        self._index = {id(p): i for i, (_, p) in enumerate(parameters)}
        self._jobs: dict[int, _Job] = {}  # by DDP's bucket, or by parameter
        weakref.finalize(self, _forget, self._jobs)
        self._posted: list[_Job] = []
        self._missing = len(parameters)  # gradients of this backward that have not come yet
        self._within = False  # a backward that has not ended

    def state(self) -> dict[str, torch.Tensor | int]:
        return self.values(value_of)

    def attach(self, reducer: Any) -> None:
        """Registers this with DDP, which keeps it alive."""
        dist._register_comm_hook(reducer, self, _run)

    # On the thread of backward.

    def take(self, bucket: Any) -> Any:
        """For DDP: one of its buckets."""
        job = self._job(bucket.index())
        try:
            if bucket.index() == 0:
                self._begin()
            buffer = bucket.buffer()
            if job.host is not job.buffer or job.buffer is None or buffer.data_ptr() != job.buffer.data_ptr():
                self._fill(job, bucket, buffer)
        except Exception as error:
            self.fail(error)
            raise
        self._post(job)
        self._missing -= job.bucket.count
        if bucket.is_last():
            try:
                self._require_all()
            except Exception as error:
                self.fail(error)
                raise
            self._end()
            self.wait()
        return job.future

    def offer(self, parameter: int, gradient: torch.Tensor) -> None:
        """Without DDP: called in every backward once for each parameter, in any order. wait() replaces the gradient by the mean."""
        job = self._job(parameter)
        try:
            if not self._within:
                self._begin()
            name, tensor = self._parameters[parameter]
            if gradient.layout != torch.strided or gradient.shape != tensor.shape or gradient.dtype != tensor.dtype:
                raise ConfigError(f"the gradient of {name} is sparse, or of another shape or type than the parameter was when it was "
                                  "wrapped; wrap the module again")
            as_it_is = gradient.stride() == tensor.stride() and is_dense(gradient)
            address = job.bring(gradient.detach(), gradient.stride() if as_it_is else dense_strides(tensor))
            job.hold((c.Gradient * 1)(c.Gradient(parameter, address)))
        except Exception as error:
            self.fail(error)
            raise
        self._post(job)
        self._missing -= 1
        if self._missing == 0:
            self._end()

    def wait(self) -> None:
        """Until all means are there. Raises the error that ended a step."""
        try:
            library.averager_wait(self.value)
        except NumericError as error:
            about_replicas = "other parameters than" in str(error)
            raise error if about_replicas else NumericError(str(error) + self._options.advice()) from None
        posted, self._posted = self._posted, []
        for job in posted:
            job.give_back()
        for job in posted:  # after all copies to a device
            if job.future is None:
                job.drop()
            elif not job.future.done():
                job.future.set_result(job.buffer)

    def refuse(self, why: str) -> None:
        """A gradient cannot be averaged: ends the step on all ranks."""
        self.fail(ConfigError(why))
        self.idle()

    def _job(self, number: int) -> _Job:
        if number not in self._jobs:
            self._jobs[number] = _Job()
        return self._jobs[number]

    def _begin(self) -> None:
        options = self._options
        if why := options.problem():
            raise ConfigError(why)
        due = options.check_replicas > 0 and self._step % options.check_replicas == 0
        replica = byref(c_uint64(_hash_of(self._parameters))) if due else None
        library.averager_begin(self.value, options.scale() if options.scale is not None else 1.0, replica)
        if self._within:
            self.idle()  # the last backward raised an error: its buckets are free only now
        self._within, self._missing, self._posted = True, len(self._parameters), []

    def _post(self, job: _Job) -> None:
        self._posted.append(job)
        library.averager_post(self.value, byref(job.bucket))

    def _end(self) -> None:
        library.averager_end(self.value)
        self._within = False
        self._step += 1

    def _fill(self, job: _Job, bucket: Any, buffer: torch.Tensor) -> None:
        if buffer.layout != torch.strided:
            raise ConfigError("sparse gradients cannot be compressed; make them dense")
        begin = job.bring(buffer, buffer.stride())
        gradients = []
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            index = self._index.get(id(parameter))
            if index is None:
                raise ConfigError("DDP reduces a parameter that its module no longer has")
            if buffer.dtype != parameter.dtype:
                raise ConfigError(f"the gradient of {self._parameters[index][0]} is of another type than the parameter was when it was "
                                  "compressed")
            offset = gradient.storage_offset() - buffer.storage_offset()
            gradients.append(c.Gradient(index, begin + offset * buffer.element_size()))
        job.hold((c.Gradient * len(gradients))(*gradients))
        job.future = torch.futures.Future(devices=[] if buffer.device.type == "cpu" else [buffer.device])
        if job.host is buffer:  # what DDP reads when backward ends
            job.future.set_result(buffer)

    def _require_all(self) -> None:
        if self._missing == 0:
            return
        posted = {one.parameter for job in self._posted for one in job.gradients}
        names = ", ".join(name for i, (name, _) in enumerate(self._parameters) if i not in posted)
        raise ConfigError(f"DDP does not reduce {names}: frozen when DistributedDataParallel was made, or added since; make it again, "
                          "and call sotto.compress again")


def _run(hook: Hook, bucket: Any) -> Any:
    return hook.take(bucket)


def _forget(jobs: dict[int, _Job]) -> None:
    for job in jobs.values():
        c.forget(job.number)


def gradient_type(name: str, parameter: torch.Tensor) -> int:
    kind = TYPES.get(parameter.dtype, c.F64)
    if kind <= c.BF16:
        return kind
    raise ConfigError(f"parameter {name} is of type {name_of(parameter.dtype)}; gradients can be compressed in float32, float16 and "
                      "bfloat16")


def _hash_of(parameters: list[tuple[str, torch.Tensor]]) -> int:
    # The optimiser has finished the last step, and does not touch the parameters during backward.
    digest = hashlib.sha256()
    for _, tensor in parameters:
        values = tensor.detach().cpu().contiguous()
        if values.numel():
            digest.update((ctypes.c_char * (values.numel() * values.element_size())).from_address(values.data_ptr()))
    return int.from_bytes(digest.digest()[:8], "little")
