"""Lightning's Trainer with compressed gradients: torchrun --nproc-per-node 2 examples/lightning_module.py"""
import sys
import pytorch_lightning as lightning
import torch
from torch import nn
import sotto
from sotto.integrations.lightning import SottoCallback

class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, _): return nn.functional.cross_entropy(self.net(batch[0]), batch[1])
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

torch.manual_seed(0)
patterns, y = torch.rand(10, 64), torch.randint(10, (4000,))
x = patterns[y] + 0.3 * torch.randn(4000, 64)  # ten random patterns, with noise
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
callback = SottoCallback("ef | topk(0.05) | qsgd(4)")  # the one line
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 2,
                            callbacks=[callback], logger=False, enable_checkpointing=False, enable_progress_bar=False)
model = Classifier()
trainer.fit(model, loader)
accuracy = (model.net(x).argmax(1) == y).float().mean()
if trainer.is_global_zero: print(f"accuracy {accuracy:.3f}; {sotto.stats(callback.module).ratio:.1f} times fewer bytes sent")
