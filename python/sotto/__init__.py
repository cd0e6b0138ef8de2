"""Training of neural networks over slow links: compressed gradients for PyTorch, JAX and numpy.

    ddp = DistributedDataParallel(model)
    sotto.compress(ddp, "qsgd(4) | rans")

A codec says what is sent: `memory | transform | select | quantise | code`; `sotto codec list` prints its stages. Other
wrappers: `AllReduceDataParallel` (the same without DDP), `GossipDataParallel` (each rank mixes its model with its
neighbours' models), `LocalSGD` and `DiLoCo` (ranks take local steps, then exchange). The rest of this package:
ranks that come and go (`elastic`, `ElasticState`), state for checkpoints (`state_dict`, `load_state_dict`), statistics
(`stats`, `report`), an optimiser (`optim`), captured gradients (`read_gradient`), what would fail here (`doctor`), and
the exceptions. `sotto.integrations` has modules for Hugging Face's Trainer, Lightning and accelerate.

These need no torch, and take arrays of any framework: averages step by step (`Averager`), single arrays as bytes
(`Codec`), over all ranks (`aggregate`) and among neighbours (`Gossiper`). Where there is no torch.distributed, `init`
brings the ranks together.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sotto._averager import Averager
from sotto._codec import Codec, Contract, aggregate
from sotto._doctor import doctor
from sotto._errors import CommError, ConfigError, Error, FileError, NumericError, WireError
from sotto._gossiper import Gossiper
from sotto._library import version as __version__
from sotto._ranks import Ranks, init
from sotto._state import Stats, load_state_dict, state_dict, stats

if TYPE_CHECKING:
    from sotto import optim
    from sotto._all_reduce import AllReduceDataParallel
    from sotto._ddp import compress
    from sotto._elastic import elastic
    from sotto._elastic_state import ElasticState
    from sotto._gossip import GossipDataParallel
    from sotto._gradient import read_gradient
    from sotto._local import DiLoCo, LocalSGD
    from sotto._report import report

__all__ = [
    "AllReduceDataParallel",
    "Averager",
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
    "Ranks",
    "Stats",
    "WireError",
    "__version__",
    "aggregate",
    "compress",
    "doctor",
    "elastic",
    "init",
    "load_state_dict",
    "optim",
    "read_gradient",
    "report",
    "state_dict",
    "stats",
]

_OF_TORCH = {
    "AllReduceDataParallel": "_all_reduce",
    "DiLoCo": "_local",
    "ElasticState": "_elastic_state",
    "GossipDataParallel": "_gossip",
    "LocalSGD": "_local",
    "compress": "_ddp",
    "elastic": "_elastic",
    "optim": "optim",
    "read_gradient": "_gradient",
    "report": "_report",
}


if not TYPE_CHECKING:  # which would otherwise take any name for one of sotto's

    def __getattr__(name: str) -> Any:
        """Imports what needs torch when it is asked for: the rest works without."""
        if name not in _OF_TORCH:
            raise AttributeError(f"module 'sotto' has no attribute {name!r}")
        try:
            module = importlib.import_module("sotto." + _OF_TORCH[name])
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError(f"sotto.{name} needs PyTorch: pip install torch") from None
        found = module if name == "optim" else getattr(module, name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_OF_TORCH])
