"""Wrong types in Python raise `DeixisError`, for every argument of every name on the page of the API."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deixis
from deixis.data.samples import SAMPLES

PHOTO = "photos/cat.jpg"
WRONG = [None, 3, 1.5, b"x", "", [], [None], [3], ("a", None), {}, object(), True, np.zeros(3), float("nan")]
FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "load": lambda wrong: deixis.load(wrong),
    "load device": lambda wrong: deixis.load("two-branch", device=wrong),
    "ground": lambda wrong: deixis.ground(wrong, "a dog"),
    "ground sentence": lambda wrong: deixis.ground(PHOTO, wrong),
    "caption": lambda wrong: deixis.caption(wrong),
    "caption beam": lambda wrong: deixis.caption(PHOTO, beam=wrong),
    "caption top": lambda wrong: deixis.caption(PHOTO, top=wrong),
    "describe": lambda wrong: deixis.describe(wrong),
    "describe region": lambda wrong: deixis.describe(PHOTO, region=wrong),
    "describe regions": lambda wrong: deixis.describe(PHOTO, regions=wrong),
    "describe top": lambda wrong: deixis.describe(PHOTO, top=wrong),
    "index_photos": lambda wrong: deixis.index_photos(wrong, into="new.deixis"),
    "index_photos into": lambda wrong: deixis.index_photos("missing", into=wrong),
    "open_index": lambda wrong: deixis.open_index(wrong),
    "Dataset": lambda wrong: deixis.Dataset(wrong),
    "Dataset images": lambda wrong: deixis.Dataset("missing.data", images=wrong),
    "train": lambda wrong: deixis.train(wrong, "missing.data"),
    "train data": lambda wrong: deixis.train("cca", wrong),
    "train out": lambda wrong: deixis.train("cca", "missing.data", out=wrong),
    "train setting": lambda wrong: deixis.train("cca", "missing.data", embedding_dim=wrong),
    "evaluate": lambda wrong: deixis.evaluate(wrong, "missing.data"),
    "evaluate data": lambda wrong: deixis.evaluate("retrieval", wrong, model="two-branch"),
    "evaluate model": lambda wrong: deixis.evaluate("retrieval", "missing.data", model=wrong),
    "evaluate scores": lambda wrong: deixis.evaluate("retrieval", "missing.data", scores=wrong),
    "evaluate predictions": lambda wrong: deixis.evaluate("captions", "missing.data", predictions=wrong),
}
METHODS: dict[str, Callable[[Any, Any], object]] = {
    "encode_images": lambda model, wrong: model.encode_images(wrong),
    "encode_sentences": lambda model, wrong: model.encode_sentences(wrong),
    "similarity": lambda model, wrong: model.similarity(wrong, np.zeros((1, 512), np.float32)),
    "similarity to": lambda model, wrong: model.similarity(np.zeros((1, 512), np.float32), wrong),
    "ground": lambda model, wrong: model.ground(wrong, "a dog"),
    "ground sentence": lambda model, wrong: model.ground(PHOTO, wrong),
    "match": lambda model, wrong: model.match(wrong, ["a dog"]),
    "match sentences": lambda model, wrong: model.match(PHOTO, wrong),
    "save_pretrained": lambda model, wrong: model.save_pretrained(wrong),
    "from_pretrained": lambda model, wrong: type(model).from_pretrained(wrong),
}
ARGUMENTS = ("top", "explain", "after", "before", "folder", "camera", "like", "like_weight", "everything")
SEARCHES: dict[str, Callable[[Any, Any], object]] = {
    "search": lambda photos, wrong: photos.search(wrong),
    "like": lambda photos, wrong: photos.like(wrong),
    "photo": lambda photos, wrong: photos.photo(wrong),
    "regions": lambda photos, wrong: photos.regions(wrong),
    "thumbnail": lambda photos, wrong: photos.thumbnail(wrong),
    "browse": lambda photos, wrong: photos.browse(wrong),
    "browse count": lambda photos, wrong: photos.browse(count=wrong),
    **{
        f"search {name}": lambda photos, wrong, name=name: photos.search("a cat", **{name: wrong}) for name in ARGUMENTS
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("types")
    (path / "photos").mkdir()
    shutil.copy(SAMPLES / "images" / "cat.jpg", path / "photos")
    return path


@pytest.fixture(autouse=True)
def _inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@contextmanager
def only_errors_for_users(wrong: object) -> Iterator[None]:
    """Some wrong values are right, such as None for a default; none may fail in any other way."""
    try:
        yield
    except deixis.DeixisError as error:
        assert "\n" not in str(error)
        assert str(error)
    except Exception as error:
        raise AssertionError(f"{wrong!r}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    for wrong in WRONG:
        with only_errors_for_users(wrong):
            FUNCTIONS[name](wrong)


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_a_model(name: str) -> None:
    model = deixis.load("two-branch")
    for wrong in WRONG:
        with only_errors_for_users(wrong):
            METHODS[name](model, wrong)


@pytest.mark.parametrize("name", SEARCHES)
def test_methods_of_an_index(name: str, sample_index: Path) -> None:
    with deixis.open_index(sample_index) as photos:
        for wrong in WRONG:
            with only_errors_for_users(wrong):
                SEARCHES[name](photos, wrong)


@pytest.mark.parametrize("call", [lambda: deixis.load(3), lambda: deixis.Dataset(None), lambda: deixis.ground(3, "a")])
def test_a_wrong_type_is_named(call: Callable[[], object]) -> None:
    with pytest.raises(deixis.DeixisError, match=r"not (int|NoneType)"):
        call()


def test_a_search_for_nothing_is_refused(sample_index: Path) -> None:
    with deixis.open_index(sample_index) as photos, pytest.raises(deixis.DeixisError, match="None"):
        photos.search(None)
