"""Trees are parsed once, and parsed again when something has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.language.sentence import Sentence
from deixis.models import trees_cache
from deixis.models.trees_cache import parsed_forest

TEXTS = ["A dog runs.", "Two men in the snow"]


def sentences(*texts: str) -> list[Sentence]:
    return [Sentence(text) for text in texts]


def test_what_was_parsed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = parsed_forest(sentences(*TEXTS), tmp_path / "cache")
    monkeypatch.setattr(trees_cache, "parse_together", lambda *_: pytest.fail("parsed again"))
    again = parsed_forest(sentences(*TEXTS), tmp_path / "cache")
    assert again.words == first.words
    assert (again.parent == first.parent).all()


def test_other_sentences_or_another_order_are_parsed_anew(tmp_path: Path) -> None:
    parsed_forest(sentences(*TEXTS), tmp_path)
    parsed_forest(sentences(*reversed(TEXTS)), tmp_path)
    parsed_forest(sentences(*TEXTS[:1]), tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_tree_that_is_brought_along_is_kept(tmp_path: Path) -> None:
    own = "(X (NP (DT A) (NN dog) (VBZ runs)) (. .))"
    forest = parsed_forest([Sentence(TEXTS[0], tree=own)], tmp_path)
    assert forest.text(0, 1) == "A dog runs"
    assert parsed_forest(sentences(TEXTS[0]), tmp_path).text(0, 1) == "A dog"


def test_parsing_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, "A cat sleeps.", "Snow", ""]
    whole = parsed_forest(sentences(*texts), tmp_path / "whole")
    monkeypatch.setattr(trees_cache, "SENTENCES_IN_A_FILE", 2)

    class Killed(BaseException):
        pass

    def kill(doing: str, done: int, total: int | None) -> None:
        if done == 4:
            raise Killed

    with pytest.raises(Killed):
        parsed_forest(sentences(*texts), tmp_path / "broken", kill)
    told: list[int] = []
    again = parsed_forest(sentences(*texts), tmp_path / "broken", lambda doing, done, total: told.append(done))
    assert told == [5]
    assert again.words == whole.words
    for name in ("starts", "parent", "word", "noun_phrase", "depth", "span"):
        assert (getattr(again, name) == getattr(whole, name)).all(), name
