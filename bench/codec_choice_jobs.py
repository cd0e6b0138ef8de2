"""The jobs of bench/codec_choice.py: two models, and batches of a text or of MNIST."""

import gzip
import lzma

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.gather = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        split = self.attend(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.gather(functional.scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.think(self.between(x))


class Gpt(nn.Module):
    def __init__(self, symbols=256, length=64, width=256, heads=8, layers=4):
        super().__init__()
        self.symbol, self.place = nn.Embedding(symbols, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width), nn.Linear(width, symbols))

    def forward(self, x):
        return self.blocks(self.symbol(x) + self.place)


def lenet():  # Caffe's sizes, like sotto's lenet
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))  # fmt: skip


class Text:
    """Stretches of 64 bytes, and for each of their bytes the next one. The last tenth of the text is for testing."""

    def __init__(self, path):
        read = lzma.open if path.endswith(".xz") else open
        text = torch.frombuffer(bytearray(read(path, "rb").read()), dtype=torch.uint8).long()
        self.train, self.test = text.tensor_split([len(text) * 9 // 10])

    def batch(self, draw, part=None, size=4):
        part = self.train if part is None else part
        stretches = torch.stack([part[at : at + 65] for at in torch.randint(len(part) - 65, (size,), generator=draw)])
        return stretches[:, :-1], stretches[:, 1:]

    def tests(self):
        draw = torch.Generator().manual_seed(1)
        return [self.batch(draw, self.test, 32) for _ in range(4)]


class Digits:
    def __init__(self, folder):
        def read(name, skip):
            return torch.frombuffer(bytearray(gzip.open(f"{folder}/{name}.gz").read()[skip:]), dtype=torch.uint8)

        self.train, self.test = ((read(f"{part}-images-idx3-ubyte", 16).view(-1, 1, 28, 28) / 255.0,
                                  read(f"{part}-labels-idx1-ubyte", 8).long()) for part in ("train", "t10k"))  # fmt: skip

    def batch(self, draw):
        chosen = torch.randint(len(self.train[0]), (64,), generator=draw)
        return self.train[0][chosen], self.train[1][chosen]

    def tests(self):
        return [(self.test[0][i : i + 1000], self.test[1][i : i + 1000]) for i in range(0, 10000, 1000)]
