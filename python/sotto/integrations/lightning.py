"""Compressed gradients for PyTorch Lightning's Trainer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from torch.nn.parallel import DistributedDataParallel

from sotto._ddp import compress
from sotto._errors import ConfigError
from sotto._report import metrics
from sotto._state import is_known, total_stats

# The package has two names, with different classes. One that the program has imported comes first.
if TYPE_CHECKING:
    from pytorch_lightning import Callback
elif "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


class SottoCallback(Callback):
    """Makes a Trainer with strategy="ddp" compress the gradients that its ranks average.

        trainer = Trainer(strategy="ddp", devices=2, callbacks=[SottoCallback("qsgd(4) | rans")])

    The arguments are as for sotto.compress, which is called when training begins. With precision="16-mixed" `scaler` is the
    Trainer's own. Every `log_every_n_steps` steps the Trainer's loggers get what was sent: sotto/ratio and the like.
    """

    module: DistributedDataParallel | None = None
    """What was compressed, for sotto.stats and the like; None before training begins, and for a single rank."""

    def __init__(self, codec: str | None = None, **options: Any) -> None:
        self._codec, self._options, self._last = codec, options, None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.world_size == 1:
            return
        ddp = trainer.strategy.model
        if not isinstance(ddp, DistributedDataParallel):
            raise ConfigError(f"SottoCallback: the Trainer's strategy has made {type(ddp).__name__} of the module; take strategy=\"ddp\"")
        if not is_known(ddp):
            compress(ddp, self._codec, **{"scaler": getattr(trainer.precision_plugin, "scaler", None)} | self._options)
        self.module, self._last = ddp, total_stats(ddp)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if self.module is None or not trainer.is_global_zero or trainer.global_step % trainer.log_every_n_steps:
            return
        now = total_stats(self.module)
        if now.steps > self._last.steps:
            for logger in trainer.loggers:
                logger.log_metrics(metrics(now.since(self._last)), trainer.global_step)
            self._last = now
