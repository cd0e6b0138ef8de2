#!/usr/bin/env python3
"""Prints, for models of Hugging Face's transformers, what tests/model/huggingface_test.cc holds ours to: the CRC-32 of the names and
shapes of all parameters, in order. Made with transformers 5.23.0."""

import zlib

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config()),
    "bert-base": lambda: BertForMaskedLM(BertConfig()),
    "bert-mini": lambda: BertForMaskedLM(BertConfig(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)),
    "transformer-base": lambda: MarianMTModel(MarianConfig(
        vocab_size=37000, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048, share_encoder_decoder_embeddings=True, pad_token_id=0)),
}  # fmt: skip

for name, model in MODELS.items():
    with torch.device("meta"):
        made = model()
    text = "".join(f"{name} {', '.join(str(side) for side in tensor.shape)}\n"
                   for name, tensor in made.named_parameters() if "embed_positions" not in name)  # fmt: skip
    print(f'{{"{name}", 0x{zlib.crc32(text.encode()):08x}}},')
