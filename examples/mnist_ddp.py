"""A small network on handwritten digits, on several processes: torchrun --nproc-per-node 2 examples/mnist_ddp.py"""
import gzip, os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def digits(folder):  # MNIST's files if they are there; otherwise ten random patterns and noise
    if os.path.exists(f"{folder}/train-images-idx3-ubyte.gz"):
        read = lambda name, skip: torch.frombuffer(bytearray(gzip.open(f"{folder}/{name}.gz").read()[skip:]), dtype=torch.uint8)
        return read("train-images-idx3-ubyte", 16).view(-1, 784) / 255.0, read("train-labels-idx1-ubyte", 8).long()
    y = torch.randint(10, (6000,), generator=torch.Generator().manual_seed(1))
    patterns = torch.rand(10, 784, generator=torch.Generator().manual_seed(2))
    return 0.5 * patterns[y] + 0.5 * torch.rand(6000, 784, generator=torch.Generator().manual_seed(3)), y

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))
ddp = DistributedDataParallel(net)
import sotto; sotto.compress(ddp, "qsgd(4) | rans")  # the one line
optimiser = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
x, y = (part[dist.get_rank()::dist.get_world_size()] for part in digits("data/mnist"))
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
for step in range(steps):
    if step == min(5, steps - 1): start = time.time()
    batch = torch.arange(step * 64, step * 64 + 64) % len(x)
    optimiser.zero_grad()
    loss = nn.functional.cross_entropy(ddp(x[batch]), y[batch])
    loss.backward()
    optimiser.step()
ms = 1000 * (time.time() - start) / max(1, steps - 5)
if dist.get_rank() == 0: print(f"loss {loss:.3f}, {ms:.1f} ms a step")
