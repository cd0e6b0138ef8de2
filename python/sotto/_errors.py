"""The exceptions. Each message says what went wrong, where, and what to do."""


class Error(Exception):
    """Any error of the outside world; the base of the others."""


class ConfigError(Error, ValueError):
    """An argument, codec or option that cannot be used."""


class WireError(Error):
    """A bad message: damaged, truncated, or of another codec or tensor."""


class CommError(Error, RuntimeError):
    """A peer that died, stalled or could not be reached: names rank, peer, operation and step."""


class FileError(Error):
    """A state that is damaged or incomplete."""


class NumericError(Error, ArithmeticError):
    """A gradient that is not finite, or replicas that differ: names the tensor or rank, and the step."""
