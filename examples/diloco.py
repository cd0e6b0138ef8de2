"""AdamW on each rank, and a common Nesterov step every 20 steps: torchrun --nproc-per-node 4 examples/diloco.py"""
import sys
import torch, torch.distributed as dist
from torch import nn
import sotto

dist.init_process_group("gloo")
rank = dist.get_rank()
patterns = torch.rand(10, 64, generator=torch.Generator().manual_seed(0))

def batch(number, size=32):  # ten random patterns, with noise
    draw = torch.Generator().manual_seed(number)
    y = torch.randint(10, (size,), generator=draw)
    return patterns[y] + 0.3 * torch.randn(size, 64, generator=draw), y

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.003)
diloco = sotto.DiLoCo(net, optimizer, every=20, outer_lr=0.7, outer_momentum=0.9, shards=2, codec="ef | int8", bucket_mb=0.01)
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
    x, y = batch(1000 * step + rank)
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()  # after every tenth step one half of the model is exchanged
x, y = batch(-1, 1000)
with diloco.average():  # the mean model, to evaluate and to save
    accuracy = (net(x).argmax(1) == y).float().mean()
if rank == 0: print(f"accuracy {accuracy:.3f}; {diloco.stats().ratio:.1f} times fewer bytes sent")
dist.destroy_process_group()
