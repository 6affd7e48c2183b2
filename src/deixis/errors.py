"""Errors for users. Each has a one-line message that says what is wrong and where."""

from __future__ import annotations

from os import PathLike


class DeixisError(Exception):
    """A problem that the user can fix. The command line prints the message and exits with status 2."""

    def __str__(self) -> str:
        """Return the message on one line, even if a file name contains line breaks."""
        return " ".join(super().__str__().splitlines())


class DatasetError(DeixisError):
    """A data set, or a file that one is imported from, cannot be used."""


class UnavailableError(DeixisError):
    """A service such as a database does not respond. The same call may succeed later."""


class PhotoError(DeixisError):
    """A photo cannot be read."""

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = str(path)
        self.reason = reason

    def __reduce__(self) -> tuple[type[PhotoError], tuple[str, str]]:
        """Pickle path and reason, not the joined message."""
        return PhotoError, (self.path, self.reason)
