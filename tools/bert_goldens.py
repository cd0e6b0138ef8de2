#!/usr/bin/env python3
"""Prints what tests/model/bert_test.cc holds ours to: logits of Hugging Face's BertForMaskedLM, and its losses in 20 steps of
SGD. Weights and tokens are as in the test. Made with transformers 5.23.0 and torch 2.13.0."""

import math

import torch
from transformers import BertConfig, BertForMaskedLM

VOCABULARY, CONTEXT, PIECES = 23, 12, 3

torch.set_num_threads(1)
model = BertForMaskedLM(BertConfig(
    vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
    max_position_embeddings=CONTEXT, hidden_dropout_prob=0, attention_probs_dropout_prob=0, pad_token_id=None))  # fmt: skip
with torch.no_grad():
    for k, (name, parameter) in enumerate(model.named_parameters()):
        start = 1 if name.endswith("LayerNorm.weight") else 0
        values = [start + 0.3 * math.sin(2.399 * i + k) for i in range(parameter.numel())]
        parameter.copy_(torch.tensor(values, dtype=torch.float64).view(parameter.shape))

places = range(1, PIECES * CONTEXT, 5)
tokens = torch.tensor([(7 * i + i * i) % VOCABULARY for i in range(PIECES * CONTEXT)]).view(PIECES, CONTEXT)
labels = torch.full((PIECES * CONTEXT,), -100)
for i in places:
    labels[i] = 3 * i % VOCABULARY
labels = labels.view(PIECES, CONTEXT)

logits = model(tokens).logits.view(-1, VOCABULARY)
print("logits of the first predicted place:", ", ".join(f"{value:.8g}" for value in logits[places[0]].tolist()))

optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = model(tokens, labels=labels).loss
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("losses:", ", ".join(f"{value:.8g}" for value in losses))
