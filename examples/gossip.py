"""Each rank trains a model, and mixes it with its neighbours' models: torchrun --nproc-per-node 4 examples/gossip.py"""
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
model = sotto.GossipDataParallel(net, "push_sum", topology="exponential")  # or "push_sum(overlap=true)", "d_psgd" ..
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
    x, y = batch(1000 * step + rank)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()  # now the parameters are mixed
model.eval()
x, y = batch(-1, 1000)
own = (model(x).argmax(1) == y).float().mean()
with model.average():  # the mean model, to evaluate and to save
    mean = (model(x).argmax(1) == y).float().mean()
if rank == 0: print(f"accuracy {own:.3f}, of the mean model {mean:.3f}; {sotto.stats(model).bytes_sent} bytes sent")
dist.destroy_process_group()
