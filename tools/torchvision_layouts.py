#!/usr/bin/env python3
"""Prints, for models of torchvision, what tests/model/torchvision_test.cc holds ours to: the CRC-32 of the names and shapes of all
parameters and buffers, in order. Run where torchvision is installed; made with torchvision 0.28.0."""

import zlib

import torch
from torchvision import models

NAMES = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "wide_resnet50_2", "vgg11", "vgg13", "vgg16", "vgg19",
         "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn", "alexnet", "densenet121"]  # fmt: skip


def lines(tensors):
    return "".join(f"{name} {', '.join(str(side) for side in tensor.shape)}\n" for name, tensor in tensors if not name.endswith("num_batches_tracked"))


for name in NAMES:
    with torch.device("meta"):
        model = getattr(models, name)()
    text = lines(model.named_parameters()) + lines(model.named_buffers())
    print(f'{{"{name}", 0x{zlib.crc32(text.encode()):08x}}},')
