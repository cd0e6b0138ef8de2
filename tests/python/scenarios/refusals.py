"""The errors of calls that are refused."""

import sotto

__all__ = ["Refusals"]


class Refusals(dict):
    """The ConfigError of each call, by a name; "nothing" where the call succeeded."""

    def expect(self, name, call):
        try:
            call()
            self[name] = "nothing"
        except sotto.ConfigError as error:
            assert isinstance(error, ValueError)
            self[name] = str(error)
