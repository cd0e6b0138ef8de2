"""Hugging Face's Trainer with compressed gradients: torchrun --nproc-per-node 2 examples/huggingface_trainer.py"""
import sys, tempfile, torch
from torch import nn
from transformers import Trainer, TrainingArguments
import sotto
from sotto.integrations.huggingface import SottoCallback

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

torch.manual_seed(0)
patterns, y = torch.rand(10, 64), torch.randint(10, (4000,))
x = patterns[y] + 0.3 * torch.randn(4000, 64)  # ten random patterns, with noise
arguments = TrainingArguments(tempfile.mkdtemp(), use_cpu=True, ddp_backend="gloo", per_device_train_batch_size=32, save_strategy="no",
                              learning_rate=0.003, num_train_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 1, report_to=[], disable_tqdm=True)
callback = SottoCallback("ef | topk(0.05) | qsgd(4)")  # the one line
trainer = Trainer(Classifier(), arguments, train_dataset=[{"x": a, "labels": b} for a, b in zip(x, y)], callbacks=[callback])
for _ in range(2): trainer.train()
accuracy = (trainer.model.net(x).argmax(1) == y).float().mean()
if trainer.is_world_process_zero(): print(f"accuracy {accuracy:.3f}; {sotto.stats(callback.module).ratio:.1f} times fewer bytes sent")
