"""A rank that has no torch: `python array_rank.py SCENARIO RANK SIZE ADDRESS SECRET`. Prints one line of JSON."""

import collections
import json
import sys

import numpy as np

import sotto

Layer = collections.namedtuple("Layer", "kernel bias")


def averages(rank, size):
    """Trees of numpy and JAX keep their form; ranks get the same bits; a state continues as if nothing had happened."""
    import jax.numpy as jnp

    draw = np.random.default_rng(rank).standard_normal
    def gradients():
        return {"b": [draw(3).astype(np.float32), None], "a": Layer(jnp.asarray(draw((4, 5)), jnp.float32), draw(5).astype(np.float16))}
    example = gradients()
    averager = sotto.Averager(example, "ef | topk(0.5)", rules={"a.bias": "none"})
    first = averager.average(gradients())
    state = sotto.state_dict(averager)
    kept = [gradients() for _ in range(3)]
    wanted = [averager.average(one) for one in kept]
    sotto.load_state_dict(averager, state)
    again = [averager.average(one) for one in kept]
    same = all(np.array_equal(np.asarray(a[k][i]), np.asarray(b[k][i])) for a, b in zip(wanted, again) for k, i in (("b", 0), ("a", 0), ("a", 1)))
    dense = sotto.Averager(example, "none").average(example)
    return {"form": [type(first).__name__, type(first["b"]).__name__, type(first["a"]).__name__, first["b"][1],
                     type(first["a"].kernel).__module__.split(".")[0], str(first["a"].bias.dtype)],
            "same": same, "bits": [np.asarray(wanted[-1]["a"].kernel).tobytes().hex(), wanted[-1]["b"][0].tobytes().hex()],
            "own": [example["b"][0].tolist(), dense["b"][0].tolist()], "encrypts": averager._engine._group.encrypts, "states": len(sotto.state_dict(averager, gather=True)),
            "stats": [sotto.stats(averager).steps, sotto.stats(averager).bytes_sent > 0]}


def singles(rank, size):
    """aggregate and Gossiper take what numpy can read; what can be written to is changed in place, the rest is new."""
    import array

    import jax.numpy as jnp

    gossiper = sotto.Gossiper(topology="complete")
    written, half, buffer = np.full((2, 3), rank, np.float32)[:, ::-1], np.full(4, rank, np.float16), array.array("f", [rank, 1])
    for one in (written, half, buffer):
        assert gossiper.average(one) is one
    frozen = jnp.full(3, float(rank))
    new = gossiper.average(frozen)
    try:
        gossiper.mix(frozen)
        said = ""
    except sotto.ConfigError as error:
        said = str(error)
    return {"gossip": [written.tolist(), half.tolist(), list(buffer), new.tolist(), frozen.tolist()], "said": said,
            "sum": sotto.aggregate(np.array([rank, 2**40]), "sum").tolist(),
            "max": sotto.aggregate(memoryview(bytes([rank, 7])), "max").tolist(),
            "avg": sotto.aggregate(jnp.full(2, rank, jnp.bfloat16), codec="none").tolist(),
            "big endian": sotto.aggregate(np.array([rank], ">f8")).tolist()}


def refusals(rank, size):
    """What one rank refuses ends the call on all."""
    said = []
    averager = sotto.Averager(np.ones(3, np.float32))
    try:
        averager.average(np.ones(3 + rank, np.float32))
    except sotto.Error as error:
        said.append([type(error).__name__, str(error)])
    try:
        sotto.Averager(np.ones(3, np.float32), "int8" if rank == 0 else "tokp")
    except sotto.Error as error:
        said.append([type(error).__name__, str(error)])
    try:
        sotto.aggregate(np.array([np.nan if rank else 1.0]))
    except sotto.Error as error:
        said.append([type(error).__name__, str(error)])
    return said


if __name__ == "__main__":
    scenario, rank, size, address, secret = sys.argv[1:]
    with sotto.init(int(rank), int(size), address, secret=secret or None) as ranks:
        answer = globals()[scenario](ranks.rank, ranks.size)
    assert "torch" not in sys.modules
    print(json.dumps(answer))
