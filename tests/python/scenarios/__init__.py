"""The functions that tests call on ranks. Each runs on every rank of a job and returns plain values."""

from .aggregate import *
from .all_reduce import *
from .averages import *
from .checkpoints import *
from .documents import *
from .elastic import *
from .errors import *
from .gossiper import *
from .meddled_steps import *
from .own_speed import *
from .scaler import *
from .steps import *
from .threads import *
from .wrong_steps import *
