"""IAPR TC-12."""

import zipfile

import pytest

from deixis.data.formats import read_captions
from deixis.errors import DatasetError


def document(number=25, description="a yellow building; two palm trees;", before=""):
    return f"""{before}<DOC>
<DOCNO>annotations/00/{number}.eng</DOCNO>
<TITLE>Plaza de Armas</TITLE>
<DESCRIPTION>{description}</DESCRIPTION>
<NOTES></NOTES>
<LOCATION>Cochabamba, Bolivia</LOCATION>
<DATE>1 February 2002</DATE>
<IMAGE>images/00/{number}.jpg</IMAGE>
<THUMBNAIL>thumbnails/00/{number}.jpg</THUMBNAIL>
</DOC>
"""


def texts(photo):
    return [caption.text for caption in photo.captions]


def test_the_parts_of_a_description_are_captions(store):
    folder = store("iapr/annotations/00/25.eng", document()).parents[2]
    store("iapr/annotations/01/1000.eng", document(1000, "a boy\nin a hat ;  ; a wall"))
    store("iapr/annotations/01/1000.ger", "ein Junge")
    source = read_captions(folder)
    first, second = source.photos
    assert (source.kind, source.total) == ("iapr-tc12", 2)
    assert (first.id, first.annotated.file) == ("25", "images/00/25.jpg")
    assert texts(first) == ["a yellow building", "two palm trees"]
    assert texts(second) == ["a boy in a hat", "a wall"]


def test_a_zip_reads_as_its_folder_would(tmp_path):
    path = tmp_path / "iapr.data"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("annotations_complete_eng/00/25.eng", document())
    assert texts(next(read_captions(path).photos)) == ["a yellow building", "two palm trees"]


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [("iso-8859-1", ""), ("utf-8", ""), ("iso-8859-1", "iso-8859-1"), ("utf-8", "utf-8"), ("utf-8-sig", "utf-8")],
)
def test_accents_are_read_in_the_encoding_of_the_file(store, encoding, declared):
    before = f'<?xml version="1.0" encoding="{declared}"?>\n' if declared else ""
    folder = store("iapr/25.eng", document(description="Tucumán;", before=before).encode(encoding)).parent
    assert texts(next(read_captions(folder).photos)) == ["Tucumán"]


def test_a_photo_without_a_description_has_no_captions(store):
    folder = store("iapr/25.eng", "<DOC><IMAGE>images/00/25.jpg</IMAGE></DOC>").parent
    assert next(read_captions(folder).photos).captions == ()


BOMB = '<!DOCTYPE DOC [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
OUTSIDE = '<!DOCTYPE DOC [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (document(before=BOMB), "refused"),
        (document(description="&a;", before=OUTSIDE), "refused"),
        (document(before="<!DOCTYPE DOC>"), "refused"),
        (document()[:100], "not well-formed XML"),
        (document(description="fish & chips"), "not well-formed XML"),
        (document(before='<?xml version="1.0" encoding="klingon"?>'), "not well-formed XML"),
        ("<annotation/>", "expected <DOC>"),
        ("<DOC><DESCRIPTION>a dog</DESCRIPTION></DOC>", "<IMAGE>"),
        ("", "not well-formed XML"),
    ],
)
def test_a_bad_document_is_named(store, refused, content, where):
    refused(store("iapr/00/25.eng", content).parents[1], f"00/25.eng: {where}")


@pytest.mark.parametrize(
    ("photo", "problem"),
    [("images/00", r"b/25\.eng: .*images/00/25\.jpg"), ("images/01", r"images/00/25\.jpg.*images/01/25\.jpg")],
)
def test_two_documents_about_one_photo_or_one_number_are_refused(store, photo, problem):
    folder = store("iapr/a/25.eng", document()).parents[1]
    store("iapr/b/25.eng", document().replace("images/00", photo))
    with pytest.raises(DatasetError, match=problem):
        list(read_captions(folder).photos)


def test_a_document_that_cannot_be_read_is_named(store):
    folder = store("iapr/25.eng", document()).parent
    source = read_captions(folder)
    (folder / "25.eng").unlink()
    with pytest.raises(DatasetError, match=r"25\.eng"):
        list(source.photos)
