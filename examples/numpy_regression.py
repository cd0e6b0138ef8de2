"""Logistic regression in numpy on several processes, each of which sees a part of the data. Nothing but numpy is needed.

    for rank in 0 1; do RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python examples/numpy_regression.py & done; wait
"""

import numpy as np

import sotto

ranks = sotto.init()
rng = np.random.default_rng(ranks.rank)  # other data on each rank
truth = np.linspace(-0.2, 0.2, 1000, dtype=np.float32)
x = rng.standard_normal((4000, 1000), dtype=np.float32)
y = (rng.random(4000) < 1 / (1 + np.exp(-x @ truth))).astype(np.float32)

weights = np.zeros(1000, np.float32)
averager = sotto.Averager(weights, "qsgd(4)")
for step in range(100):
    gradient = x.T @ (1 / (1 + np.exp(-x @ weights)) - y) / len(y)
    weights -= averager.average(gradient)
accuracy = sotto.aggregate(np.mean((x @ weights > 0) == y, keepdims=True))
if ranks.rank == 0:
    print(f"{accuracy[0]:.1%} right, {sotto.stats(averager).ratio:.1f} times fewer bytes")
