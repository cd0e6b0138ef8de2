"""Compressed gradients for Hugging Face's Trainer. Only this module of the package imports transformers."""

from __future__ import annotations

from typing import Any

import transformers

from sotto._ddp import compress
from sotto._state import is_known


class CompressCallback(transformers.TrainerCallback):
    """Makes a Trainer that trains on several ranks compress the gradients that they average.

        trainer = Trainer(...)
        trainer.add_callback(CompressCallback(trainer, "ef | topk(0.05) | qsgd(4)"))

    The other arguments are as for sotto.compress, which is called when training begins. With fp16=True `scaler` is the
    Trainer's own. A single rank sends nothing, so nothing is compressed. `sotto.stats(trainer.model_wrapped)` and the like
    work from then on. What memories hold back is not in the Trainer's checkpoints; sotto.state_dict gives it.
    """

    def __init__(self, trainer: transformers.Trainer, codec: str | None = None, **options: Any) -> None:
        self._trainer, self._codec, self._options = trainer, codec, options

    def on_train_begin(self, args: transformers.TrainingArguments, state: transformers.TrainerState,
                       control: transformers.TrainerControl, **_: Any) -> None:
        ddp = self._trainer.model_wrapped
        if args.world_size > 1 and not is_known(ddp):  # a second train() has the same
            compress(ddp, self._codec, **{"scaler": self._trainer.accelerator.scaler} | self._options)
