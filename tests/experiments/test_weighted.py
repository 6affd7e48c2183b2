"""Two models together, against eq. 2 and eq. 8 in plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.experiments import weighted
from deixis.experiments.records import Training, Weights
from deixis.experiments.runs import Runs
from deixis.experiments.scored import Scored
from deixis.experiments.trained import Workshop
from deixis.experiments.weighted import weighted_scores
from deixis.tasks.bundle import Bundle
from tests.tasks.quarters import make_quarters, use_small_encoders


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 18)


def models(dataset: Dataset) -> tuple[Bundle, Bundle]:
    workshop = Workshop(dataset, Runs(dataset.path / "runs"), ("components=2", "regularisation=0.01", "top=4"))
    return tuple(workshop.bundle(Training("cca", f"papers/cca-{row}"), 0) for row in ("sentences", "chunks"))  # type: ignore[return-value]


def plainly(wholes: Bundle, parts: Bundle, weights: Weights, on: Scored, most: int) -> np.ndarray:
    """Photo by photo, sentence by sentence, phrase by phrase."""
    seen, near = on.seen_by(wholes), on.seen_by(parts, regions=True)
    squared, share, exponent = (True, 0.7, 1.5) if weights == "entities" else (False, 0.8, 1.0)
    rows = []
    for place, photo in enumerate(on.photos):
        regions = near.proposal_vectors(photo.id)[:most]
        if weights == "entities":
            regions = np.concatenate([regions, near.vectors(place, place + 1)])
        vectors = parts.model.prepare_visual(regions)
        whole = wholes.model.prepare_visual(seen.vectors(place, place + 1))[0]
        row = []
        for caption in (caption for each in on.photos for caption in each.sentences):
            apart = np.linalg.norm(whole - wholes.encode_sentences([caption.text])[0])
            phrases = [caption.phrase(mention) for mention in caption.mentions]
            nearest = [
                min(np.linalg.norm(vector - parts.encode_sentences([phrase])[0]) for vector in vectors)
                for phrase in phrases
            ]
            power = 2 if squared else 1
            local = sum(each**power for each in nearest) / len(phrases) ** exponent if phrases else apart**power
            row.append(-(share * apart**power + (1 - share) * local))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize(("weights", "most"), [("entities", 2), ("two-branch", 3)])
def test_distances_of_wholes_and_of_phrases_to_their_nearest_regions_are_added(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, weights: Weights, most: int
) -> None:
    monkeypatch.setitem(weighted._REGIONS, weights, most)
    wholes, parts = models(dataset)
    on = Scored(dataset, dataset.split("dev"))
    found = weighted_scores(wholes, parts, weights, on)
    np.testing.assert_allclose(found, plainly(wholes, parts, weights, on, most), atol=1e-4)


def test_the_papers_look_at_19_regions_beside_the_photo_and_at_200() -> None:
    assert weighted._REGIONS == {"entities": 19, "two-branch": 200}
