"""Runs blocks of the documentation with the objects that they mention, and then some steps of the model that they made."""

import ast
import os
import types

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import sotto

from . import net as nets


class Stage:
    """Makes the objects that a block uses but does not make itself, as its page describes them."""

    def __init__(self, compressed):
        self.compressed = compressed  # whether `ddp` is compressed
        self.names = {"torch": torch, "dist": dist, "nn": nn, "sotto": sotto}

    def need(self, name):
        if name not in self.names:
            self.names[name] = getattr(self, name)()
        return self.names[name]

    def rank(self):
        return dist.get_rank()

    def group(self):
        return None

    def tensor(self):
        return torch.arange(1000.0) + dist.get_rank()

    def sums(self):
        return torch.arange(3.0) + dist.get_rank()

    def examples(self):
        return 100  # on all ranks together

    def weight(self):
        return 1.0

    def evaluate(self):
        return lambda module: nets.loss_of(module, 0)

    def loss(self):
        return lambda module: nets.loss_of(module, 0)

    def net(self):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 10))  # above 1 MB

    def optimizer(self):
        owner = self.names.get("ddp") or self.need("net")
        return torch.optim.SGD(owner.parameters(), 0.1)

    def ddp(self):
        self.names["ddp"] = nets.DDP(self.need("net"))
        if self.compressed:
            sotto.compress(self.names["ddp"], "ef | topk(0.01)")
            self.step(self.names["ddp"])
        return self.names["ddp"]

    def model(self):
        self.names["model"] = sotto.GossipDataParallel(self.need("net"), "push_sum")
        self.step(self.names["model"])
        return self.names["model"]

    def trainer(self):
        """What SottoCallback uses of Hugging Face's Trainer. Its example runs with the real one."""
        from sotto.integrations import huggingface

        self.names["ddp"] = nets.DDP(self.need("net"))
        huggingface._prepared = lambda model: (self.names["ddp"], None)
        begin = (types.SimpleNamespace(world_size=2), None, None)
        return types.SimpleNamespace(add_callback=lambda callback: callback.on_train_begin(*begin))

    def parameters(self):
        return {"kernel": np.ones((4, 5), np.float32), "bias": np.ones(5, np.float32)}

    def gradients(self):
        return {name: array * dist.get_rank() for name, array in self.parameters().items()}

    def step(self, module):
        optimizer = self.need("optimizer")
        optimizer.zero_grad()
        nets.loss_of(module, 0).backward()
        optimizer.step()


def names_of(statement, context):
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, context)]


def run_block(text, where, folder):
    """Runs the block in a folder; returns a hash of the model after some more steps."""
    torch.manual_seed(0)
    tree = ast.parse(text)
    stage, made = Stage(compressed="compress(" not in text), set()
    for statement in tree.body:
        for name in names_of(statement, ast.Load):
            if name not in made and hasattr(stage, name):
                stage.need(name)
        made |= set(names_of(statement, ast.Store))
    os.chdir(folder)
    exec(compile(tree, where, "exec"), stage.names)
    for name in ("ddp", "model", "net"):
        if name in stage.names:
            for _ in range(3):
                stage.step(stage.names[name])
            dist.barrier()
            return nets.digest(stage.names[name])
    return ""
