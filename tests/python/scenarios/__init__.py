"""What ranks do in the tests. Each function runs on every rank of a job and gives back plain values."""

from .aggregate import *
from .averages import *
from .checkpoints import *
from .errors import *
