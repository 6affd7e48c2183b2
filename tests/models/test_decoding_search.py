"""Rows of sentences that grow together; the searches themselves are tried in `test_decoding`."""

from __future__ import annotations

import pytest
import torch

from deixis.models.decoding_search import Growing

PHOTOS, WIDTH = 3, 2


@pytest.mark.parametrize("places", [[0, 1, 2, 3, 4, 5], [1, 2, 5], [4], []])
@pytest.mark.parametrize("width", [1, 2])
def test_a_sentence_has_the_row_of_its_photo(places: list[int], width: int) -> None:
    there = [place for place in places if place < PHOTOS * width]
    rows = torch.arange(PHOTOS * 4.0).view(PHOTOS, 4)
    growing = Growing(PHOTOS, width, torch.tensor(there, dtype=torch.int64))
    assert growing.of_photos(rows).tolist() == [rows[place // width].tolist() for place in there]


@pytest.mark.parametrize("width", [1, 2])
def test_where_all_the_room_is_taken_rows_need_no_places(width: int) -> None:
    rows = torch.arange(PHOTOS * 4.0).view(PHOTOS, 4)
    everywhere = Growing(PHOTOS, width, torch.arange(PHOTOS * width))
    torch.testing.assert_close(Growing(PHOTOS, width).of_photos(rows), everywhere.of_photos(rows))


def test_the_row_of_one_photo_serves_all_its_sentences() -> None:
    assert Growing(1, 4, torch.tensor([0, 3])).of_photos(torch.ones(1, 5)).shape == (1, 5)


@pytest.mark.parametrize("places", [None, [0, 1, 2, 3, 4, 5], [1, 2, 5], []])
def test_rows_come_back_from_their_photos(places: list[int] | None) -> None:
    growing = Growing(PHOTOS, WIDTH, None if places is None else torch.tensor(places, dtype=torch.int64))
    count = PHOTOS * WIDTH if places is None else len(places)
    rows = torch.arange(1.0, 1 + 4 * count).view(count, 4)
    by_photo = growing.by_photo(rows)
    assert by_photo.shape == (PHOTOS, WIDTH, 4)
    assert by_photo.sum() == rows.sum()
    torch.testing.assert_close(growing.one_after_another(by_photo), rows)
