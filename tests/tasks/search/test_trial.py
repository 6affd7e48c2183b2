"""Queries for the photos of a data set, and what the models see of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES
from deixis.errors import DatasetError
from deixis.tasks.search.probability import Evidence
from deixis.tasks.search.relevance import Relevance
from deixis.tasks.search.searching import shipped_seer
from deixis.tasks.search.trial import (
    SeenSplit,
    absent_as_asked,
    absent_queries,
    likeness_of,
    queries_of,
    read_list,
    see_split,
)

LIST = Path(__file__).parents[3] / "benchmarks" / "absent_queries.txt"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("trial")
    names = sorted(path.stem for path in (SAMPLES / "images").glob("*.jpg"))
    for split, part in (("dev", names[:4]), ("train", names[4:6])):
        (folder / f"{split}.txt").write_text("\n".join(part))
    splits = {split: folder / f"{split}.txt" for split in ("dev", "train")}
    import_dataset(folder / "data", images=SAMPLES / "images", entities=SAMPLES / "entities", splits=splits)
    return Dataset(folder / "data")


@pytest.fixture(scope="module")
def seen(dataset: Dataset) -> SeenSplit:
    return see_split(dataset, "dev", shipped_seer())


def test_evidence_is_what_an_index_would_give(seen: SeenSplit) -> None:
    seer = shipped_seer()
    reads = seer.read_all(["a cat with green eyes", "coffee"])
    regions = np.split(seen.regions, seen.starts[1:])
    for read, found in zip(reads, seen.evidence(reads), strict=True):
        expected = Evidence.of(read, seen.whole, regions)
        assert np.allclose(found.whole, expected.whole, atol=1e-5)
        assert np.allclose(found.phrases, expected.phrases, atol=1e-5)
        assert np.allclose(found.regions, expected.regions, atol=1e-3)


def test_captions_and_phrases_are_shown_by_their_own_photos(seen: SeenSplit) -> None:
    queries = queries_of(seen, Relevance(seen.captions), shipped_seer(), every=1)
    assert {query.kind for query in queries} == {"caption", "phrase"}
    assert all(query.shown[query.photo] for query in queries)
    cosines, alike = likeness_of(seen, queries)
    assert alike.diagonal().all()
    assert np.allclose(cosines.diagonal(), 1, atol=1e-4)


def test_absent_queries_are_shown_by_no_photo(dataset: Dataset, seen: SeenSplit) -> None:
    relevance = Relevance(seen.captions)
    queries = absent_queries(dataset, "train", seen, relevance, shipped_seer(), count=20)
    assert len(queries) > 20
    assert not any(query.shown.any() for query in queries)
    assert absent_as_asked(shipped_seer().read_all(["an iceberg"]), seen)[0].kind == "absent"


def test_a_list_must_name_what_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("# things\n\na red giraffe | giraffe\na power line | power line\n")
    assert read_list(file, [["A power plant.", "A line."]]) == ["a red giraffe", "a power line"]
    with pytest.raises(DatasetError, match="line 3: a caption names 'giraffe'"):
        read_list(file, [["Two giraffes."]])
    file.write_text("a giraffe\n")
    with pytest.raises(DatasetError, match="line 1 is no query"):
        read_list(file, [])


def test_the_list_that_comes_with_the_benchmarks_has_two_hundred_queries() -> None:
    texts = read_list(LIST, [])
    assert len(texts) == len(set(texts)) == 200
