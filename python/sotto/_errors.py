"""What can go wrong, as classes. Each message names what, where and what to do."""


class Error(Exception):
    """Everything that the outside world can do wrong; the base of the others."""


class ConfigError(Error, ValueError):
    """An argument, sentence or option that cannot be used."""


class WireError(Error):
    """Bytes of a message that are not what they should be: damaged, truncated, of another codec or tensor."""


class CommError(Error, RuntimeError):
    """A peer that died, stalled or could not be reached: names rank, peer, operation and step."""


class FileError(Error):
    """A state that is damaged or incomplete."""


class NumericError(Error, ArithmeticError):
    """A gradient that is not finite, or replicas that differ: names the tensor or rank, and the step."""
