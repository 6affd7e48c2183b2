"""The real Flickr30k Entities: round trip and published statistics."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset
from deixis.data.formats import convert_dataset
from deixis.data.imports import import_dataset
from deixis.data.statistics import compute_statistics

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def released(real_data: Path) -> Path:
    return real_data / "flickr30k_entities" / "annotations.zip"


@pytest.fixture(scope="module")
def dataset(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("entities") / "data"
    import_dataset(out, entities=released.parent)
    return Dataset(out)


def flat(data: bytes) -> list[tuple[str, str]]:
    return [(node.tag, (node.text or "").strip()) for node in ET.fromstring(data).iter()]


def test_every_sentence_and_annotation_round_trips(dataset: Dataset, released: Path) -> None:
    out = dataset.path.parent / "entities"
    convert_dataset(dataset, "entities", out)
    with zipfile.ZipFile(released) as archive:
        names = archive.namelist()
        assert len(names) == 2 * len(dataset.photos)
        for name in names:
            was, now = archive.read(name), (out / name).read_bytes()
            assert now == was or (name.startswith("Annotations/") and flat(now) == flat(was)), name


def test_the_figures_are_close_to_the_papers(dataset: Dataset) -> None:
    """Our copy lacks the test split, so counts are smaller; shares and means must be alike."""
    found = compute_statistics(dataset)
    assert (found.photos, found.captions) == (30_068, 150_340)
    assert found.chains_with_several_mentions_percent == pytest.approx(48.6, abs=1)
    assert found.chains_with_one_box_percent == pytest.approx(59.1, abs=1)
    assert found.chains_with_several_boxes_percent == pytest.approx(20.0, abs=1)
    assert found.chains_without_box_percent == pytest.approx(20.9, abs=1)
    published = {  # mentions per chain, boxes per chain, percent of photos
        "people": (3.17, 1.95, 94.2),
        "clothing": (1.76, 1.44, 69.9),
        "bodyparts": (1.50, 1.42, 28.0),
        "animals": (3.63, 1.44, 12.0),
        "vehicles": (2.77, 1.21, 13.8),
        "instruments": (2.85, 1.61, 4.3),
        "scene": (2.03, 0.62, 79.7),
        "other": (1.94, 1.04, 91.8),
    }
    assert found.mentions_per_chain == pytest.approx(2.25, abs=0.02)
    assert found.boxes_per_chain == pytest.approx(1.27, abs=0.02)
    for row in found.types:
        mentions_per_chain, boxes_per_chain, photos_percent = published[row.type]
        assert row.mentions_per_chain == pytest.approx(mentions_per_chain, abs=0.02)
        assert row.boxes_per_chain == pytest.approx(boxes_per_chain, abs=0.02)
        assert row.photos_percent == pytest.approx(photos_percent, abs=1)


def test_no_dev_photo_is_in_the_text_splits(dataset: Dataset, real_data: Path) -> None:
    names = (real_data / "flickr8k" / "Flickr_8k.devImages.txt").read_text().split()
    dev = {name.split("_")[0] for name in names}
    assert len(dev) == 1000
    for split in ("train", "val"):
        assert dev.isdisjoint(photo.id for photo in dataset.split(split))


@pytest.mark.skipif(os.name == "nt", reason="the example is for a POSIX shell")
def test_the_worked_example_of_the_docs_prints_the_documented_output(real_data: Path, tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "reference" / "data.md").read_text()
    found = re.search(r"```sh\n(deixis data import .*?)```\nprints\n```\n(.*?)```", docs, re.DOTALL)
    assert found is not None
    command, printed = found.groups()
    in_shell = f'deixis() {{ "{sys.executable}" -m deixis.cli.main "$@"; }}\n{command}'
    environment = {**os.environ, "DEIXIS_DATA": str(real_data)}
    done = subprocess.run(
        ["sh", "-c", in_shell], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    made, splits, _ = printed.splitlines()
    assert made.endswith("7,091 photos, 35,455 captions, 110,273 mentions, 42,616 chains, 45,828 boxes")
    assert made in done.stdout.splitlines()
    manifest = Dataset(tmp_path / "flickr8k.data").manifest
    assert manifest.splits == {"train": 6000, "dev": 1000}
    assert all(f"{name} {count:,}" in splits for name, count in manifest.splits.items())
    assert manifest.licence == "research and education, under Flickr's terms"
