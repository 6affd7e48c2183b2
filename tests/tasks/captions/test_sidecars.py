"""Captions in XMP files beside photos."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from deixis.errors import DeixisError
from deixis.tasks.captions.sidecars import sidecar_of, write_sidecar

DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"
RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"


def test_the_caption_is_the_description_whatever_letters_it_has(tmp_path: Path) -> None:
    for text in ("a dog runs", 'a <dog> & a "cat" – größer'):
        path = write_sidecar(tmp_path / "dog.jpg", text)  # the second takes the place of the first
        assert path == tmp_path / "dog.jpg.xmp"
        [item] = ElementTree.parse(path).getroot().findall(f".//{DESCRIPTION}/{RDF}Alt/{RDF}li")
        assert item.text == text
        assert item.get("{http://www.w3.org/XML/1998/namespace}lang") == "x-default"
    assert [each.name for each in tmp_path.iterdir()] == ["dog.jpg.xmp"]


@pytest.mark.parametrize("name", ["dog.jpg.xmp", "dog.xmp"])
def test_what_another_program_wrote_stays_as_it_is(tmp_path: Path, name: str) -> None:
    write_sidecar(tmp_path / "dog.jpg", "a dog runs")
    changed = sidecar_of(tmp_path / "dog.jpg").read_text().replace('x:xmptk="deixis', 'x:xmptk="Somebody')
    (tmp_path / name).write_text(changed)
    with pytest.raises(DeixisError, match=f"{name}: left alone, another program wrote it"):
        write_sidecar(tmp_path / "dog.jpg", "a cat")
    assert (tmp_path / name).read_text() == changed


def test_photos_of_one_name_have_a_file_each(tmp_path: Path) -> None:
    assert write_sidecar(tmp_path / "dog.jpg", "one") != write_sidecar(tmp_path / "dog.png", "two")
