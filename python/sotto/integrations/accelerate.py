"""Compressed gradients for loops of accelerate."""

from __future__ import annotations

from typing import Any

import accelerate
from torch.nn.parallel import DistributedDataParallel

from sotto._ddp import compress
from sotto._errors import ConfigError


def prepare(accelerator: accelerate.Accelerator, *objects: Any, codec: str | None = None, **options: Any) -> Any:
    """accelerator.prepare(*objects), after which the model's gradients are compressed.

        net, optimizer, loader = prepare(accelerator, net, optimizer, loader, codec="qsgd(4) | rans")

    The other arguments are as for sotto.compress; `scaler` is the accelerator's own. A single rank sends nothing, so nothing is
    compressed.
    """
    made = accelerator.prepare(*objects)
    if accelerator.num_processes == 1:
        return made
    models = [one for one in (made if isinstance(made, (list, tuple)) else [made]) if isinstance(one, DistributedDataParallel)]
    if not models:
        raise ConfigError("sotto.integrations.accelerate.prepare: accelerate has made no DistributedDataParallel of any of these; "
                          "with FSDP or DeepSpeed there is none")
    for model in models:
        compress(model, codec, **{"scaler": accelerator.scaler} | options)
    return made
