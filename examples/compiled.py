"""torch.compile, with compressed gradients: torchrun --nproc-per-node 2 examples/compiled.py"""
import sys
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import sotto

dist.init_process_group("gloo")
rank = dist.get_rank()
patterns = torch.rand(10, 64, generator=torch.Generator().manual_seed(0))

def batch(number, size=32):  # ten random patterns, with noise
    draw = torch.Generator().manual_seed(number)
    y = torch.randint(10, (size,), generator=draw)
    return patterns[y] + 0.3 * torch.randn(size, 64, generator=draw), y

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
ddp = DistributedDataParallel(net)
sotto.compress(ddp, "ef | topk(0.05) | qsgd(4)")  # the one line: on the DistributedDataParallel itself
model = torch.compile(ddp)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
    x, y = batch(1000 * step + rank)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
x, y = batch(-1, 1000)
accuracy = (net(x).argmax(1) == y).float().mean()
if rank == 0: print(f"accuracy {accuracy:.3f}; {sotto.stats(ddp).ratio:.1f} times fewer bytes sent")
dist.destroy_process_group()
