"""The exceptions. Each message says what went wrong, where, and what to do."""


class Error(Exception):
    """Any error of the outside world; the base of the others.

        try:
            mean = sotto.aggregate(tensor)
        except sotto.Error as error:
            print(error)
    """


class ConfigError(Error, ValueError):
    """An argument, codec or option that cannot be used.

        try:
            sotto.Codec("topk(2)")
        except sotto.ConfigError as error:
            print(error)  # codec='topk(2)': ratio must be in (0, 1] ..
    """


class WireError(Error):
    """A bad message: damaged, truncated, or of another codec or tensor.

        try:
            sotto.Codec("int8").decode(b"something else")
        except sotto.WireError as error:
            print(error)
    """


class CommError(Error, RuntimeError):
    """A peer that died, stalled or could not be reached: names rank, peer, operation and step.

        try:
            mean = sotto.aggregate(tensor, timeout=60)
        except sotto.CommError:
            raise SystemExit(75)  # the scheduler may start the job again
    """


class FileError(Error):
    """A state that is damaged or incomplete.

        try:
            sotto.load_state_dict(ddp, {"step": 3})
        except sotto.FileError as error:
            print(error)
    """


class NumericError(Error, ArithmeticError):
    """A gradient that is not finite, or replicas that differ: names the tensor or rank, and the step.

        try:
            sotto.Codec("int8").encode(torch.tensor([1.0, torch.inf]))
        except sotto.NumericError as error:
            print(error)
    """
