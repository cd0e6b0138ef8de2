"""Compressed gradients for Hugging Face's Trainer."""

from __future__ import annotations

import gc
from typing import Any

import accelerate
import transformers
from torch.nn.parallel import DistributedDataParallel

from sotto._ddp import compress
from sotto._errors import ConfigError
from sotto._state import is_known


class SottoCallback(transformers.TrainerCallback):
    """Makes a Trainer that trains on several ranks compress the gradients that they average.

        trainer = Trainer(..., callbacks=[SottoCallback("qsgd(4) | rans")])

    The arguments are as for sotto.compress, which is called when training begins. With fp16=True `scaler` is the
    Trainer's own. A single rank sends nothing, so nothing is compressed. What memories hold back is not in the Trainer's
    checkpoints; sotto.state_dict(callback.module) gives it.
    """

    module: DistributedDataParallel | None = None
    """What was compressed, for sotto.stats and the like; None before training begins, and for a single rank."""

    def __init__(self, codec: str | None = None, **options: Any) -> None:
        self._codec, self._options = codec, options

    def on_train_begin(self, args: transformers.TrainingArguments, state: transformers.TrainerState,
                       control: transformers.TrainerControl, model: Any = None, **_: Any) -> None:
        if args.world_size == 1:
            return
        ddp, scaler = _prepared(model)
        if not is_known(ddp):  # a second train() has the same
            compress(ddp, self._codec, **{"scaler": scaler} | self._options)
        self.module = ddp


def _prepared(model: Any) -> tuple[DistributedDataParallel, Any]:
    """What the Trainer's Accelerator made of the model, and its scaler. A callback is told of neither."""
    objects = gc.get_objects()
    made = [one for one in objects if issubclass(type(one), DistributedDataParallel) and one.module is model]
    if len(made) != 1:
        raise ConfigError("SottoCallback: the Trainer has not wrapped its model in one DistributedDataParallel, whose gradients this "
                          "compresses; with FSDP or DeepSpeed there is none")
    scalers = [one.scaler for one in objects if issubclass(type(one), accelerate.Accelerator) and one.scaler is not None]
    if len(scalers) > 1:
        raise ConfigError("SottoCallback: there are several GradScalers in this process; say scaler=")
    return made[0], scalers[0] if scalers else None
