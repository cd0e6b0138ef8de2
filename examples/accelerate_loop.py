"""A loop of accelerate with compressed gradients: torchrun --nproc-per-node 2 examples/accelerate_loop.py"""
import sys
import torch
from accelerate import Accelerator
from torch import nn
import sotto
from sotto.integrations.accelerate import prepare

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
patterns = torch.rand(10, 64)
y = torch.randint(10, (4000,))
x = patterns[y] + 0.3 * torch.randn(4000, 64)  # ten random patterns, with noise
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
net, optimizer, loader = prepare(accelerator, net, optimizer, loader, codec="ef | topk(0.05) | qsgd(4)")  # the one line
for epoch in range(int(sys.argv[1]) if len(sys.argv) > 1 else 2):
    for inputs, labels in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(net(inputs), labels))
        optimizer.step()
accuracy = (net(x).argmax(1) == y).float().mean()
accelerator.print(f"accuracy {accuracy:.3f}; {sotto.stats(net).ratio:.1f} times fewer bytes sent")
accelerator.end_training()
