"""The public API: one page of names, imported on first use, and seen by editors; its page has working examples."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest

import deixis
from deixis.data.samples import SAMPLES

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
NAMES = {
    *("load", "index_photos", "open_index", "ground", "caption", "describe", "Dataset", "train", "evaluate", "models"),
    *("DeixisError", "evaluation", "data", "photo_score", "ref_photo_score"),
}
LAZY = ("annotate", "data", "evaluation", "language", "models", "search")


def test_the_package_shows_its_public_names_and_no_others() -> None:
    assert set(deixis.__all__) == NAMES
    assert set(dir(deixis)) == NAMES | {"__version__"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_there_and_documented(name: str) -> None:
    found = getattr(deixis, name)
    assert inspect.getdoc(found)
    if inspect.isfunction(found):
        assert "Examples\n--------" in inspect.getdoc(found)
        assert "Parameters\n----------" in inspect.getdoc(found)


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(AttributeError, match=r"'fly'.*caption.*train"):
        deixis.fly  # noqa: B018


@pytest.mark.parametrize("package", ["deixis", *(f"deixis.{name}" for name in LAZY)])
def test_editors_see_every_name(package: str) -> None:
    module = import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.asname for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assigned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    assert imported - {None} <= {*module.__all__} <= imported | assigned
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_package_is_typed() -> None:
    assert (Path(deixis.__file__).parent / "py.typed").is_file()


def test_models_is_a_list_and_a_package() -> None:
    from deixis.models import CCA

    names = [model.name for model in deixis.models()]
    assert {"captioner", "describer", "grounder", "two-branch"} <= set(names)
    assert names == sorted(names)
    assert CCA.__module__.startswith("deixis.models.")


def test_the_page_names_every_public_name() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {name for name in NAMES if f"deixis.{name}" not in page} == set()


def test_every_example_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("bee", "cat", "coffee", "dogs"):
        shutil.copy(SAMPLES / "images" / f"{name}.jpg", tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    page = re.sub(r"^```.*$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(page, {}, "docs/api.md", str(PAGE), 0)
    results = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(examples)
    assert results.attempted > 30
    assert results.failed == 0
