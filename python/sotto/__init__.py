"""Training of neural networks over slow links, sending little: compressed gradients for PyTorch.

    ddp = DistributedDataParallel(model)
    sotto.compress(ddp, "qsgd(4) | rans")

What is sent is a sentence, `memory | transform | select | quantise | code`; `sotto codec list` prints its words. Other
ways for ranks to agree: `AllReduceDataParallel` (the same without DDP), `GossipDataParallel` (models are mixed with those of
neighbours), `LocalSGD` and `DiLoCo` (steps of each rank's own, then an exchange). The rest of this package: the state of
what communicates for checkpoints (`state_dict`, `load_state_dict`), what it sent (`stats`, `report`), single tensors to
bytes (`Codec`), over a process group (`aggregate`) and among neighbours (`Gossiper`), an optimiser (`optim`), and the
exceptions.
"""

import torch as _torch  # noqa: F401  the extension module is linked against its libraries

try:
    from sotto._C import version as __version__
except ImportError as error:
    raise ImportError(
        f"the extension of sotto does not load into torch {_torch.__version__}: {error}. It was probably built against "
        "another torch; build it again with `pip install --no-build-isolation .`"
    ) from error
from sotto import optim
from sotto._all_reduce import AllReduceDataParallel
from sotto._codec import Codec, Contract, aggregate
from sotto._ddp import compress
from sotto._errors import CommError, ConfigError, Error, FileError, NumericError, WireError
from sotto._gossip import Gossiper, GossipDataParallel
from sotto._local import DiLoCo, LocalSGD
from sotto._report import report
from sotto._state import Stats, load_state_dict, state_dict, stats

__all__ = [
    "AllReduceDataParallel",
    "Codec",
    "CommError",
    "ConfigError",
    "Contract",
    "DiLoCo",
    "Error",
    "FileError",
    "GossipDataParallel",
    "Gossiper",
    "LocalSGD",
    "NumericError",
    "Stats",
    "WireError",
    "__version__",
    "aggregate",
    "compress",
    "load_state_dict",
    "optim",
    "report",
    "state_dict",
    "stats",
]
