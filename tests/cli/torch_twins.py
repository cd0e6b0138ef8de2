"""The networks of `sotto train` as a user of PyTorch would write them, with the names of tensors in checkpoints."""
import torch
import torch.nn.functional as F
from torch import nn


class Tree(nn.Module):
    """Modules by dotted names."""

    def __init__(self, **modules):
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)


class Lenet(nn.Module):
    def __init__(self, channels=3, side=32):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(50 * ((side - 4) // 2 // 2 - 2) ** 2, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class FullyConnected(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(3072, 48), nn.Linear(48, 24), nn.Linear(24, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class Logreg(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3072, 10)

    def forward(self, x):
        return self.linear(x.flatten(1))


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.stride, self.new = stride, after - before

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        short = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.new // 2, self.new // 2))
        return F.relu(y + short)


class Resnet(nn.Module):
    """Three layers of blocks: resnet(depth=6 blocks + 2)."""

    def __init__(self, blocks):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1), *(Block(16, 16, 1) for _ in range(blocks - 1)))
        self.layer2 = nn.Sequential(Block(16, 32, 2), *(Block(32, 32, 1) for _ in range(blocks - 1)))
        self.layer3 = nn.Sequential(Block(32, 64, 2), *(Block(64, 64, 1) for _ in range(blocks - 1)))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


class Projecting(Block):
    """A block whose shortcut is a convolution where the shape changes."""

    def __init__(self, before, after, stride):
        super().__init__(before, after, stride)
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class Resnet18(nn.Module):
    """The form for small images."""

    def __init__(self, width=64):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Projecting(width, width, 1), Projecting(width, width, 1))
        self.layer2 = nn.Sequential(Projecting(width, 2 * width, 2), Projecting(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(Projecting(2 * width, 4 * width, 2), Projecting(4 * width, 4 * width, 1))
        self.layer4 = nn.Sequential(Projecting(4 * width, 8 * width, 2), Projecting(8 * width, 8 * width, 1))
        self.fc = nn.Linear(8 * width, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


class Vgg11(nn.Module):
    """With norms."""

    def __init__(self, width=64):
        super().__init__()
        layers, before = [], 3
        for times in (1, 0, 2, 0, 4, 4, 0, 8, 8, 0, 8, 8, 0):
            after = times * width
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()] if after else [nn.MaxPool2d(2)]
            before = after or before
        self.features, self.classifier = nn.Sequential(*layers), nn.Linear(8 * width, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Alexnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Linear(256, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class DenseLayer(nn.Module):
    def __init__(self, before, growth):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))], 1)


class Densenet(nn.Module):
    """Three blocks: densenet-bc(depth=6 layers + 4)."""

    def __init__(self, layers, growth):
        super().__init__()
        channels = 2 * growth
        self.features = Tree(conv0=nn.Conv2d(3, channels, 3, padding=1, bias=False))
        for block in (1, 2, 3):
            names = {f"denselayer{i + 1}": DenseLayer(channels + i * growth, growth) for i in range(layers)}
            self.features.add_module(f"denseblock{block}", Tree(**names))
            channels += layers * growth
            if block < 3:
                halves = Tree(norm=nn.BatchNorm2d(channels), conv=nn.Conv2d(channels, channels // 2, 1, bias=False))
                self.features.add_module(f"transition{block}", halves)
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, 10)

    def forward(self, x):
        for name, part in self.features.named_children():
            if name.startswith("denseblock"):
                for layer in part.children():
                    x = layer(x)
            elif name.startswith("transition"):
                x = F.avg_pool2d(part.conv(F.relu(part.norm(x))), 2)
            else:
                x = part(x)
        return self.classifier(F.relu(x).mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(256, width), nn.Linear(width, 256)
        self.rnn0, self.rnn1 = (nn.LSTM(width, width, batch_first=True) for _ in range(2))

    def forward(self, tokens):
        return self.decoder(self.rnn1(self.rnn0(self.encoder(tokens))[0])[0])


class Linear(nn.Module):
    """One weight for each feature."""

    def __init__(self, features):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(features) / 10), nn.Parameter(torch.zeros(1))

    def forward(self, rows):
        return rows @ self.weight + self.bias
