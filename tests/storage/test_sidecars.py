"""XMP sidecars: captions and ratings beside photos."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from deixis.errors import DeixisError
from deixis.storage.sidecars import Favourites, write_caption, write_rating

DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"
RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"


def test_the_sidecar_holds_the_caption_as_description_with_any_characters(tmp_path: Path) -> None:
    for text in ("a dog runs", 'a <dog> & a "cat" – größer'):
        path = write_caption(tmp_path / "dog.jpg", text)  # the second replaces the first
        assert path == tmp_path / "dog.jpg.xmp"
        [item] = ElementTree.parse(path).getroot().findall(f".//{DESCRIPTION}/{RDF}Alt/{RDF}li")
        assert item.text == text
        assert item.get("{http://www.w3.org/XML/1998/namespace}lang") == "x-default"
    assert [each.name for each in tmp_path.iterdir()] == ["dog.jpg.xmp"]


@pytest.mark.parametrize("name", ["dog.jpg.xmp", "dog.xmp"])
def test_a_sidecar_of_another_program_is_not_replaced(tmp_path: Path, name: str) -> None:
    write_caption(tmp_path / "dog.jpg", "a dog runs")
    changed = (tmp_path / "dog.jpg.xmp").read_text().replace('x:xmptk="deixis', 'x:xmptk="Somebody')
    (tmp_path / name).write_text(changed)
    with pytest.raises(DeixisError, match=name):
        write_caption(tmp_path / "dog.jpg", "a cat")
    assert (tmp_path / name).read_text() == changed


def test_photos_with_the_same_stem_have_their_own_sidecars(tmp_path: Path) -> None:
    assert write_caption(tmp_path / "dog.jpg", "one") != write_caption(tmp_path / "dog.png", "two")


RATING = "{http://ns.adobe.com/xap/1.0/}Rating"
OTHERS = {
    "attribute": '<rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:Rating="3" a:b="x > y"/>',
    "element": '<rdf:Description xmlns:xmp="http://ns.adobe.com/xap/1.0/"><xmp:Rating>3</xmp:Rating></rdf:Description>',
    "none": """<rdf:Description rdf:about="" a:b='x > y'>text</rdf:Description>""",
    "closed": '<rdf:Description a:b="1" />',
}


@pytest.mark.parametrize("inside", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("name", ["dog.jpg.xmp", "dog.xmp"])
def test_a_rating_changes_nothing_else_in_the_sidecar_of_another_program(
    tmp_path: Path, name: str, inside: str
) -> None:
    sidecar, photo = tmp_path / name, tmp_path / "dog.jpg"
    photo.touch()
    sidecar.write_bytes(
        f"""<?xpacket begin="\ufeff"?>\r\n<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Somebody 1" xmlns:a="a">
        <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">{inside}</rdf:RDF></x:xmpmeta>""".encode()
    )
    before = sidecar.read_bytes()
    assert write_rating(photo, 5) == sidecar
    rated = sidecar.read_bytes()
    [description] = ElementTree.fromstring(rated.decode()).iter(f"{RDF}Description")
    assert description.get(RATING) or description.findtext(RATING) == "5"
    assert Favourites().read([tmp_path]) == {photo}
    assert rated.replace(b"5", b"").startswith(before[:100])
    write_rating(photo, 3)
    assert sidecar.read_bytes() == (before if b"Rating" in before else rated.replace(b'"5"', b'"3"'))


def test_a_caption_keeps_the_rating_and_a_rating_the_caption(tmp_path: Path) -> None:
    photo = tmp_path / "dog.jpg"
    write_rating(photo, 5)
    write_caption(photo, "a dog")
    text = (tmp_path / "dog.jpg.xmp").read_text()
    assert 'xmp:Rating="5"' in text
    assert "a dog" in text
    write_rating(photo, 0)
    assert "a dog" in (tmp_path / "dog.jpg.xmp").read_text()


def test_a_sidecar_that_only_has_a_rating_goes_with_it(tmp_path: Path) -> None:
    write_rating(tmp_path / "dog.jpg", 5)
    write_rating(tmp_path / "dog.jpg", 0)
    write_rating(tmp_path / "dog.jpg", 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"no XMP", "<rdf:Description/>".encode("utf-16")])
def test_a_sidecar_that_is_not_understood_is_not_changed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "dog.jpg.xmp").write_bytes(content)
    with pytest.raises(DeixisError, match="dog.jpg.xmp"):
        write_rating(tmp_path / "dog.jpg", 5)
    assert (tmp_path / "dog.jpg.xmp").read_bytes() == content


def test_favourites_follow_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deixis.storage.sidecars._VALID_S", 0)
    photos = [tmp_path / name for name in ("dog.jpg", "cat.png", "cat.jpg")]
    for photo in photos:
        photo.touch()
    favourites = Favourites()
    favourites.change(photos[:2], True)
    assert favourites.read([tmp_path, tmp_path / "gone"]) == set(photos[:2])
    write_rating(photos[0], 4)  # by another program
    assert favourites.read([tmp_path]) == {photos[1]}
    (tmp_path / "cat.png.xmp").unlink()
    assert favourites.read([tmp_path]) == set()


def test_a_large_sidecar_is_not_cut(tmp_path: Path) -> None:
    sidecar = tmp_path / "dog.jpg.xmp"
    sidecar.write_bytes(b"<rdf:Description/>" + bytes(8 * 2**20))
    with pytest.raises(DeixisError, match="larger than 8 MB"):
        write_rating(tmp_path / "dog.jpg", 5)
    assert sidecar.stat().st_size > 8 * 2**20


def test_a_rating_of_thousands_of_digits_hides_no_favourites(tmp_path: Path) -> None:
    photos = [tmp_path / "dog.jpg", tmp_path / "cat.jpg"]
    for photo in photos:
        photo.touch()
        write_rating(photo, 5)
    hostile = tmp_path / "dog.jpg.xmp"
    hostile.write_text(hostile.read_text().replace('Rating="5"', f'Rating="{"9" * 5000}"'))
    assert Favourites().read([tmp_path]) == {photos[1]}


def test_a_name_that_is_too_long_for_a_sidecar_is_refused(tmp_path: Path) -> None:
    photo = tmp_path / f"{'x' * 249}.jpg"
    photo.touch()
    for write in (lambda: write_rating(photo, 5), lambda: write_caption(photo, "a dog")):
        with pytest.raises(DeixisError, match="too long"):
            write()
