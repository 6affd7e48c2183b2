"""Lazy exports: public names of a package that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from deixis.errors import missing_package


def lazy_exports(
    package: str, modules: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    `modules` has the names that each module exports, separated by spaces; under "", submodules of the package.
    Type checkers see the names in a block ``if TYPE_CHECKING``.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}
    public = sorted(homes)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(public)}")
        home = homes[name]
        try:
            return getattr(import_module(f"{package}.{home}"), name) if home else import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            raise missing_package(error) or error from None

    return public, get, lambda: public
