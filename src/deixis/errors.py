"""The few errors that people see. Each carries one line that says what is wrong and where."""

from __future__ import annotations

from os import PathLike


class DeixisError(Exception):
    """A mistake that its reader can mend. The command line prints it and exits with 2."""

    def __str__(self) -> str:
        """One line, whatever is in the names of a stranger's files."""
        return " ".join(super().__str__().splitlines())


class DatasetError(DeixisError):
    """Something in a data set, or in the files it is made from, cannot be used."""


class UnavailableError(DeixisError):
    """Something that is needed, such as a database, does not answer now. Nobody's mistake: the same may work later."""


class PhotoError(DeixisError):
    """A photo cannot be read: which one, and why."""

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = str(path)
        self.reason = reason

    def __reduce__(self) -> tuple[type[PhotoError], tuple[str, str]]:
        """How it travels between processes: the line alone does not tell the path from the reason."""
        return PhotoError, (self.path, self.reason)
