"""torchrun starts all ranks again when one is lost, and they resume from the checkpoint, bit for bit:
torchrun --nproc-per-node 2 --max-restarts 3 examples/restarts.py"""
import os, sys
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import sotto

# A part of torchrun's store for each start: without it, torch 2.13 finds the addresses of ranks that are gone.
store, rank, size = next(dist.rendezvous("env://"))
store = dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
torch.manual_seed(0)
patterns = torch.rand(10, 64, generator=torch.Generator().manual_seed(0))

def batch(number, size=32):  # ten random patterns, with noise
    draw = torch.Generator().manual_seed(number)
    y = torch.randint(10, (size,), generator=draw)
    return patterns[y] + 0.3 * torch.randn(size, 64, generator=draw), y

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
ddp = sotto.compress(DistributedDataParallel(net), "ef | topk(0.05) | qsgd(4)")
first = 0
if os.path.exists("restarts.pt"):
    saved = torch.load("restarts.pt", weights_only=True)
    first = saved["step"]
    ddp.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    sotto.load_state_dict(ddp, saved["sotto"])  # of all ranks; on another number of ranks, too
    if rank == 0: print(f"continues from step {first}", flush=True)
for step in range(first, int(sys.argv[1]) if len(sys.argv) > 1 else 200):
    if step % 50 == 0:
        states = sotto.state_dict(ddp, gather=True)  # on rank 0; what a codec holds back differs by rank
        if rank == 0:
            torch.save({"step": step, "model": ddp.state_dict(), "optimizer": optimizer.state_dict(), "sotto": states}, "restarts.new")
            os.replace("restarts.new", "restarts.pt")
    x, y = batch(1000 * step + rank)
    optimizer.zero_grad()
    nn.functional.cross_entropy(ddp(x), y).backward()
    optimizer.step()
x, y = batch(-1, 1000)
if rank == 0: print(f"accuracy {(net(x).argmax(1) == y).float().mean():.3f}, weights {sum(p.double().sum() for p in net.parameters()):.12f}")
dist.destroy_process_group()
