"""What photos are called: ids from file names, each for one photo only."""

from __future__ import annotations

from collections.abc import Callable

from deixis.data.matching import stem_of
from deixis.errors import DatasetError
from deixis.files.names import is_plain

Wrong = Callable[[str], DatasetError]
"""Makes an error about one place in a file from what is wrong there."""


def shown(text: str) -> str:
    r"""A text from a file, quoted and cut, so that a message stays one short line.

    Examples
    --------
    >>> shown("two\nlines")
    "'two\\nlines'"
    """
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


class Names:
    """The names of the photos in one file, so that no two photos get the same id.

    Examples
    --------
    >>> names = Names()
    >>> names.id_of("a/1.jpg", DatasetError)
    '1'
    >>> names.id_of("b/1.jpg", DatasetError)
    Traceback (most recent call last):
    deixis.errors.DatasetError: 'a/1.jpg' and 'b/1.jpg' would both be photo '1'
    """

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def id_of(self, name: str, wrong: Wrong) -> str:
        """The id of a photo; the same name may come again."""
        if name in self._ids:
            return self._ids[name]
        found = stem_of(name)
        if not is_plain(found):
            raise wrong(f"{shown(name)} is not the name of a photo")
        if found in self._names:
            raise wrong(f"{shown(self._names[found])} and {shown(name)} would both be photo {shown(found)}")
        self._ids[name], self._names[found] = found, name
        return found

    def new_id_of(self, name: str, wrong: Wrong) -> str:
        """The id of a photo that must not have come before."""
        if name in self._ids:
            raise wrong(f"photo {shown(name)} comes a second time")
        return self.id_of(name, wrong)
