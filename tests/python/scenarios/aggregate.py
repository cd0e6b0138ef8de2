"""Means of single tensors."""

import os
import threading

import torch
import torch.distributed as dist

import sotto



def aggregates():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4).t() + rank  # not contiguous
    own = x.clone()
    result = {"avg": sotto.aggregate(x), "sum": sotto.aggregate(x, "sum"), "min": sotto.aggregate(x, "min"),
              "max": sotto.aggregate(x, "max"), "codec": sotto.aggregate(x, codec="f16"),
              "sum of codec": sotto.aggregate(x, "sum", codec="int8"), "bf16": sotto.aggregate(x.bfloat16()),
              "i64": sotto.aggregate(x.long(), "sum")}
    assert torch.equal(x, own)
    base = own - rank
    mean = base + (size - 1) / 2
    assert torch.equal(result["avg"], mean) and torch.equal(result["codec"], mean)
    assert torch.equal(result["sum"], size * mean) and torch.equal(result["min"], base)
    assert torch.equal(result["max"], base + size - 1) and torch.equal(result["i64"], (size * mean).long())
    assert result["bf16"].dtype == torch.bfloat16
    assert (result["sum of codec"] - size * mean).abs().max() < size * 0.2
    try:
        sotto.aggregate(torch.full((4,), 40000.0).half(), "sum", codec="int8")
        raise AssertionError("a sum that float16 cannot hold")
    except sotto.NumericError as error:
        assert "the sum of all ranks reaches 80000" in str(error), error
    everywhere = [torch.empty(4, 3) for _ in range(size)]
    dist.all_gather(everywhere, result["sum of codec"].contiguous())
    assert all(torch.equal(one, everywhere[0]) for one in everywhere)
    group = dist.new_group([1])
    if rank == 1:
        assert torch.equal(sotto.aggregate(x, group=group), x)
    else:
        try:
            sotto.aggregate(x, group=group)
            raise AssertionError("a group that this rank is not in")
        except sotto.ConfigError:
            pass
    return list(result["avg"].shape)


def aggregates_that_are_not_finite():
    """The kind of error of each call; "" if there is none. Rank 1 has what is not finite, or all ranks have large values."""
    rank, said = dist.get_rank(), {}

    def call(name, *tensor, **how):
        try:
            sotto.aggregate(*tensor, **how)
            said[name] = ""
        except sotto.Error as error:
            said[name] = f"{type(error).__name__}: {error}"

    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for value in ("nan", "inf", "-inf"):
            bad = torch.tensor([1.0, float(value) if rank == 1 else 2.0], dtype=dtype)
            for op in ("avg", "sum", "min", "max"):
                call(f"{op} {dtype} {value}", bad, op)
            call(f"denominator {dtype} {value}", bad, denominator=3)
        large = torch.full((2,), torch.finfo(dtype).max, dtype=dtype)
        call(f"large sum {dtype}", large, "sum")
        call(f"large quotient {dtype}", large, denominator=0.5)
    for dtype in (torch.uint8, torch.int32, torch.int64):
        most = torch.iinfo(dtype).max
        call(f"large sum {dtype}", torch.tensor([1, most if rank == 0 else 1], dtype=dtype), "sum")
        assert sotto.aggregate(torch.tensor([most - rank], dtype=dtype), "min").item() == most - dist.get_world_size() + 1
        assert sotto.aggregate(torch.tensor([most if rank == 0 else 0], dtype=dtype), "sum").item() == most
    call("large sum, coded", torch.full((2,), 3e38), "sum", codec="int8")
    call("coded", torch.full((2,), float("nan")) if rank == 1 else torch.ones(2), codec="int8")
    assert sotto.aggregate(torch.full((2,), 60000.0).half()).tolist() == [60000.0] * 2
    assert sotto.aggregate(torch.tensor([1e300 + rank], dtype=torch.float64)).tolist() == [1e300]
    assert sotto.aggregate(torch.tensor([float(rank)], dtype=torch.float64)).dtype == torch.float64
    return said


def others_run_meanwhile(folder):
    """Rank 1 takes part only when rank 0's main thread says so. The main thread runs while another thread of rank 0 waits."""
    go = f"{folder}/go"
    if dist.get_rank() == 0:
        results = []
        thread = threading.Thread(target=lambda: results.append(sotto.aggregate(torch.ones(4), "sum").tolist()))
        thread.start()
        with open(go, "w"):
            pass
        thread.join()
        return results[0]
    while not os.path.exists(go):
        pass
    return sotto.aggregate(torch.ones(4), "sum").tolist()
