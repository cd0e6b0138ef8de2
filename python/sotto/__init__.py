"""Training of neural networks over slow links: compressed gradients for PyTorch.

    ddp = DistributedDataParallel(model)
    sotto.compress(ddp, "qsgd(4) | rans")

A codec says what is sent: `memory | transform | select | quantise | code`; `sotto codec list` prints its stages. Other
wrappers: `AllReduceDataParallel` (the same without DDP), `GossipDataParallel` (each rank mixes its model with its
neighbours' models), `LocalSGD` and `DiLoCo` (ranks take local steps, then exchange). The rest of this package:
ranks that come and go (`elastic`, `ElasticState`), state for checkpoints (`state_dict`, `load_state_dict`), statistics
(`stats`, `report`), single tensors as bytes (`Codec`), over a process group (`aggregate`) and among neighbours
(`Gossiper`), an optimiser (`optim`), captured gradients (`read_gradient`), what would fail here (`doctor`), and the
exceptions. `sotto.huggingface`, which is imported by itself, has a callback for Hugging Face's Trainer.
"""

from sotto import optim
from sotto._all_reduce import AllReduceDataParallel
from sotto._codec import Codec, Contract, aggregate
from sotto._ddp import compress
from sotto._doctor import doctor
from sotto._elastic import elastic
from sotto._elastic_state import ElasticState
from sotto._errors import CommError, ConfigError, Error, FileError, NumericError, WireError
from sotto._gossip import Gossiper, GossipDataParallel
from sotto._gradient import read_gradient
from sotto._library import version as __version__
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
    "ElasticState",
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
    "doctor",
    "elastic",
    "load_state_dict",
    "optim",
    "read_gradient",
    "report",
    "state_dict",
    "stats",
]
