"""Ranks that come and go: `sotto coordinator --ranks 1:4 --listen 127.0.0.1:29400`, and for each rank, whenever you like,
`python examples/elastic.py 127.0.0.1:29400`. Kill one, or start another: the others continue."""
import sys
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import sotto

patterns = torch.rand(10, 64, generator=torch.Generator().manual_seed(0))

def batch(number, size=32):  # ten random patterns, with noise
    draw = torch.Generator().manual_seed(number)
    y = torch.randint(10, (size,), generator=draw)
    return patterns[y] + 0.3 * torch.randn(size, 64, generator=draw), y

@sotto.elastic(sys.argv[1])
def train(state, steps):  # called again for each group of ranks
    ddp = DistributedDataParallel(state.net)
    sotto.compress(ddp, "ef | topk(0.05) | qsgd(4)")
    while state.step < steps:
        x, y = batch(1000 * state.step + dist.get_rank())
        state.optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x), y).backward()
        state.optimizer.step()
        state.step += 1
        state.commit()  # what the next group starts from

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
state = sotto.ElasticState(net=net, optimizer=optimizer, step=0)
train(state, int(sys.argv[2]) if len(sys.argv) > 2 else 100)
x, y = batch(-1, 1000)
print(f"step {state.step}: accuracy {(net(x).argmax(1) == y).float().mean():.3f}")
