"""Errors for users. Each has a one-line message that says what is wrong and where."""

from __future__ import annotations

import re
from os import PathLike

_EXTRA_OF = {
    "argon2": "data",
    "defusedxml": "data",
    "matplotlib": "plot",
    "onnx": "train",
    "pyarrow": "data",
    "scipy": "data",
    "sqlalchemy": "data",
    "torch": "train",
}
"""The extra that installs each package which searching, grounding and captioning photos does not need."""


_PASSWORD = re.compile(
    r"([a-z]:/{1,2}[^\s/:@]*|\bpostgres\w*\W{0,3}[^\s/:@]*|(?<=')[\w.+-]+):(?!//)\S*@", re.IGNORECASE
)
_PASSWORD_SETTING = re.compile(
    r"""([?&]\w*password=)[^\s&]*?(?=[:,;)'"]*(?:[\s&]|$))"""
    r"""|(\b\w*password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|\S*?(?=[:,;)'"]*(?:\s|$)))""",
    re.IGNORECASE,
)
"""A setting of a connection, such as ``host=db password='two words'``, or an option of an address."""


def hide_passwords(text: str) -> str:
    """Remove the passwords of addresses, of what looks like one after a missing character, and of ``password=``.

    Examples
    --------
    >>> hide_passwords("postgresql:/ann:secret@db/photos: no such file")
    'postgresql:/ann@db/photos: no such file'
    """
    return _PASSWORD_SETTING.sub(r"\1\2…", _PASSWORD.sub(r"\1@", text))


class DeixisError(Exception):
    """A problem that the user can fix. The command line prints the message and exits with status 2."""

    def __str__(self) -> str:
        """Return the message on one line, even if a file name contains line breaks, and without passwords."""
        return hide_passwords(" ".join(super().__str__().splitlines()))


class DatasetError(DeixisError):
    """A data set, or a file that one is imported from, cannot be used."""


class DivergedError(DeixisError):
    """A training ended because its loss is not finite."""


class UnavailableError(DeixisError):
    """A service such as a database does not respond. The same call may succeed later."""


class PhotoError(DeixisError):
    """A photo cannot be read; `is_temporary` if its disk or the memory failed, so that another attempt may succeed."""

    def __init__(self, path: str | PathLike[str], reason: str, is_temporary: bool = False) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = str(path)
        self.reason = reason
        self.is_temporary = is_temporary

    def __reduce__(self) -> tuple[type[PhotoError], tuple[str, str, bool]]:
        """Pickle path and reason, not the joined message."""
        return PhotoError, (self.path, self.reason, self.is_temporary)


def short_reason(error: Exception) -> str:
    """Return the message of another library as one short line."""
    return " ".join(str(error).split())[:200]


def missing_package(error: ModuleNotFoundError) -> DeixisError | None:
    """Say which extra installs the package that could not be imported; None if it is none of an extra.

    Examples
    --------
    >>> str(missing_package(ModuleNotFoundError(name="pyarrow.compute")))
    "this needs pyarrow, which is not installed: pip install 'deixis[data]'"
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRA_OF:
        return None
    return DeixisError(f"this needs {package}, which is not installed: pip install 'deixis[{_EXTRA_OF[package]}]'")
