"""Modules of a user: what they train, and what cannot be averaged."""

from __future__ import annotations

import fnmatch
import weakref
from collections.abc import Callable, Collection
from typing import Any

import torch

from sotto._errors import ConfigError
from sotto._tensors import is_dtensor


def plain_module(value: Any) -> torch.nn.Module:
    """A module whose parameters are whole on this rank, and which nothing else keeps the same on all ranks."""
    if not isinstance(value, torch.nn.Module):
        raise ConfigError(f"module: wants a torch.nn.Module, not {type(value).__name__}")
    for name, part in value.named_modules():
        kinds = {kind.__name__ for kind in type(part).__mro__ if kind.__module__.split(".")[0] in ("torch", "sotto")}
        if found := kinds & _WRAPPERS:
            raise ConfigError(f"module: {name or 'it'} is a {found.pop()}, which exchanges with other ranks itself; wrap the "
                              "plain module" + (", module.module" if not name else ""))
    for name, parameter in value.named_parameters():
        if is_dtensor(parameter):
            raise ConfigError(f"parameter {name} is a DTensor (FSDP2, tensor parallel), of which each rank holds a part; sotto "
                              "wants parameters that are whole on every rank")
        if torch.nn.parameter.is_lazy(parameter) or parameter.is_meta:
            raise ConfigError(f"parameter {name} has no values yet; "
                              + ("call module.to_empty(), and initialise it" if parameter.is_meta else "run the module once")
                              + " before it is wrapped")
    for kind, named in (("parameter", value.named_parameters()), ("buffer", value.named_buffers())):
        for name, tensor in named:
            if tensor.layout != torch.strided:
                raise ConfigError(f"{kind} {name} is sparse; ranks exchange dense tensors: make it one with to_dense(), or keep it "
                                  "outside of the module")
    return value


def wrapped_parameters(module: torch.nn.Module, wrapped: Collection[int]) -> None:
    """ConfigError if the module trains a parameter that is none of these, by id: each rank would train its own."""
    if not torch.compiler.is_compiling() and (why := other_parameter(module, wrapped)):
        raise ConfigError(why)


def other_parameter(module: torch.nn.Module, wrapped: Collection[int]) -> str:
    """What is wrong if the module trains a parameter that is none of these, by id; empty if it does not. Asked in each step, so it
    makes no names before it needs one: those take several times as long."""
    parts: list[torch.nn.Module | None] = [module]
    while parts:
        if (part := parts.pop()) is None:
            continue
        for parameter in part._parameters.values():
            if parameter is not None and parameter.requires_grad and id(parameter) not in wrapped:
                name = next(name for name, one in module.named_parameters() if one is parameter)
                return (f"parameter {name} was not wrapped with the others, since it was frozen then, or is another one now; wrap "
                        "the module again")
        parts.extend(part._modules.values())
    return ""


_WRAPPERS = {"DistributedDataParallel", "FullyShardedDataParallel", "AllReduceDataParallel", "GossipDataParallel"}


def scaler(value: Any) -> Callable[[], float] | None:
    """A function that returns the GradScaler's scale; None if it scales nothing."""
    if value is None:
        return None
    if not isinstance(value, torch.amp.GradScaler):
        raise ConfigError(f"scaler: wants a torch.amp.GradScaler, not {type(value).__name__}")
    return value.get_scale if value.is_enabled() else None


def trains_others(module: torch.nn.Module, own: Collection[int]) -> Callable[[], str]:
    """A function that says what is wrong if the module trains a parameter that is none of these, by id. It does not keep the module."""
    reference = weakref.ref(module)

    def problem() -> str:
        there = reference()
        return "" if there is None else other_parameter(there, own)

    return problem


def trained_parameters(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Names and parameters whose gradients are to be averaged: those that are not frozen."""
    return averaged_parameters(module, lambda p: p.requires_grad)


def refuse_sparse_gradients(module: torch.nn.Module) -> None:
    for name, part in module.named_modules():
        if getattr(part, "sparse", False) and isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            raise ConfigError(f"{name or 'the module'} makes sparse gradients, which cannot be compressed; give it sparse=False")


def averaged_parameters(module: torch.nn.Module,
                        wanted: Callable[[torch.nn.Parameter], bool]) -> list[tuple[str, torch.Tensor]]:
    """Names and parameters that are wanted. ConfigError if their gradients cannot be averaged."""
    refuse_sparse_gradients(plain_module(module))
    parameters: list[tuple[str, torch.Tensor]] = [(name, p) for name, p in module.named_parameters() if wanted(p)]
    devices = sorted({str(p.device) for _, p in parameters})
    if len(devices) > 1:
        raise ConfigError(f"the parameters are on {', '.join(devices)}; all must be on one device")
    return parameters


def tied_to(module: torch.nn.Module, pattern: str, names: list[str]) -> str:
    """Explains a pattern that matches only further names of shared parameters, which go by their first name."""
    first = {id(parameter): name for name, parameter in module.named_parameters()}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        twin = first[id(parameter)]
        if twin in names and fnmatch.fnmatchcase(name, pattern):
            return f"{name} is tied to {twin}, whose name counts"
    return ""
