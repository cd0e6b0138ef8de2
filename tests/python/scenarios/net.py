"""The network that ranks train, and its training."""

import hashlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


DEVICE = os.environ.get("SOTTO_TEST_DEVICE", "cpu")  # where worker.py makes tensors


class Net(nn.Module):
    """Convolution, batch norm, layers of several sizes; a part that is used only when asked for."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4 * 6 * 6, 32)
        self.extra = nn.Linear(32, 32)
        self.out = nn.Linear(32, 10)

    def forward(self, x, extra=True):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        x = torch.relu(self.hidden(x))
        return self.out(self.extra(x) if extra else x)


def make(dtype="float32", memory_format=torch.contiguous_format, **options):
    torch.manual_seed(7)
    net = Net().to(getattr(torch, dtype)).to(memory_format=memory_format)
    return DDP(net, **({"bucket_cap_mb": 0.01} | options))


def batch(step, dtype=torch.float32):
    """The batch of this rank."""
    x, y = images(1000 * step + dist.get_rank())
    return x.to(dtype), y


def images(seed):
    """Eight images and their labels, the same ones on every device."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, 1, 8, 8, generator=generator, device="cpu").to(DEVICE),
            torch.randint(0, 10, (8,), generator=generator, device="cpu").to(DEVICE))


def loss_of(ddp, step, **how):
    x, y = batch(step, next(ddp.parameters()).dtype)
    return nn.functional.cross_entropy(ddp(x, **how).float(), y)


def train(ddp, steps, first=0, lr=0.1, optimiser=None, **how):
    optimiser = optimiser or torch.optim.SGD(ddp.parameters(), lr)
    for step in range(first, first + steps):
        optimiser.zero_grad()
        loss_of(ddp, step, **how).backward()
        optimiser.step()


def digest(ddp):
    return hashlib.sha256(b"".join(p.detach().float().cpu().numpy().tobytes() for p in ddp.parameters())).hexdigest()


def flat(gradients):
    return torch.cat([g.detach().flatten().double() for g in gradients])
