#!/usr/bin/env python3
"""Prints, for models of Hugging Face's transformers, what tests/model/huggingface_test.cc holds ours to: the CRC-32 of the names and
shapes of all parameters, in order. Made with transformers 5.23.0."""

import zlib

import torch
from transformers import GPT2Config, GPT2LMHeadModel

for name, model in [("gpt2", lambda: GPT2LMHeadModel(GPT2Config()))]:
    with torch.device("meta"):
        made = model()
    text = "".join(f"{name} {', '.join(str(side) for side in tensor.shape)}\n" for name, tensor in made.named_parameters())
    print(f'{{"{name}", 0x{zlib.crc32(text.encode()):08x}}},')
