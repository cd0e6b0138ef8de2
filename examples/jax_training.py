"""Data-parallel training of a small network in JAX: each process computes gradients of another batch, and sotto averages them.

    for rank in 0 1; do RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python examples/jax_training.py & done; wait
"""

import jax
import jax.numpy as jnp

import sotto


def loss(params, x, y):
    hidden = jax.nn.relu(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return jnp.mean((hidden @ params["out"] - y) ** 2)


ranks = sotto.init()
keys = jax.random.split(jax.random.key(0), 2)  # the same parameters on all ranks
params = {"hidden": {"kernel": jax.random.normal(keys[0], (8, 64)) / 3, "bias": jnp.zeros(64)},
          "out": jax.random.normal(keys[1], (64, 1)) / 8}
averager = sotto.Averager(params, "qsgd(4)", rules={"*.bias": "none"})
gradient = jax.jit(jax.value_and_grad(loss))
for step in range(300):
    x = jax.random.normal(jax.random.key(1000 * ranks.rank + step), (32, 8))  # other data on each rank
    value, grads = gradient(params, x, jnp.sin(x[:, :1]))
    grads = averager.average(grads)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    if ranks.rank == 0 and step % 100 == 99:
        print(f"step {step + 1}  loss {value:.3f}  {sotto.stats(averager).ratio:.1f} times fewer bytes")
