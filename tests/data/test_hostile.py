"""Readers of arbitrary files yield photos or raise a one-line error."""

import copy
import io
import json
import random
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.data.formats import read_captions
from deixis.data.records import Photo
from deixis.errors import DatasetError

SURROGATES_TOO = st.text(max_size=6)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | SURROGATES_TOO
    | st.sampled_from(["", "..", "a/b", "1.jpg", "\ud800", "\0", 10**400, 2**64, -1, 1e308, "x" * 1000])
)
WORDS = """
    images annotations sentences regions raw filename file_name id image_id caption captions text mentions span chain
    chains boxes box bbox image split splits x y width height phrase phrases region_id annotated
"""
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | SURROGATES_TOO, inner, max_size=6),
    max_leaves=12,
)

WRITTEN = Path(__file__).parent / "formats" / "written"


def written(file, line=None):
    """A document that one of our writers has made."""
    text = (WRITTEN / file).read_text(encoding="utf-8")
    return json.loads(text if line is None else text.splitlines()[line])


REGION = {"bbox": [1, 2, 3, 4], "phrases": ["a dog"]}
DOCUMENTS = {
    "karpathy": written("karpathy/dataset.json"),
    "coco-captions": written("coco/captions_train.json"),
    "region-phrases": {"images": [{"file_name": "1.jpg", "width": 4, "regions": [REGION]}]},
    "jsonl": written("jsonl/photos.jsonl", line=0),
    "odvg": written("odvg/train.jsonl", line=0),
}
OTHERS = {
    "label-studio": written("label-studio/tasks.json")[:1],
    "genome": [{"id": 1, "regions": [{"region_id": 1, "x": 1, "y": 2, "width": 3, "height": 4, "phrase": "a dog"}]}],
    "simple": [{"image": "1.jpg", "captions": ["A dog ."], "split": "val"}],
}
INSTANCES = written("coco/instances_train.json")


ODD_FILES = (
    *(b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\xff\xfe{\x00}\x00", b"image,caption\n\x00,\x00\n"),
    *(b"{}", b"[{}]", b'{"id":"1"}{"id":"2"}'),
)


def assert_photos_or_one_line(path, **instances):
    try:
        for photo in read_captions(path, **instances).photos:
            assert isinstance(photo, Photo)
            repr(photo).encode()
            for text in (photo.id, *(caption.text for caption in photo.captions)):
                text.encode()
    except DatasetError as error:
        message = str(error)
        message.encode()
        assert str(path.parent) in message
        assert "\n" not in message


def places_in(value, path=()):
    """The path to every value inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places_in(inner, (*path, key))


def with_change(document, path, value):
    if not path:
        return value
    changed = copy.deepcopy(document)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return changed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.mark.parametrize("data", ODD_FILES)
def test_odd_bytes_raise_at_most_a_dataset_error(folder, data):
    path = folder / "bytes"
    path.write_bytes(data)
    assert_photos_or_one_line(path)


@pytest.mark.parametrize("kind", DOCUMENTS | OTHERS)
def test_any_value_anywhere_in_a_document_raises_at_most_a_dataset_error(folder, kind):
    path, document = folder / "document", (DOCUMENTS | OTHERS)[kind]
    places = list(places_in(document))

    @settings(max_examples=150, deadline=None)
    @given(st.sampled_from(places), JSON)
    def check(place, value):
        path.write_text(json.dumps(with_change(document, place, value)), encoding="utf-8")
        assert_photos_or_one_line(path)

    check()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(places_in(INSTANCES))), JSON)
def test_any_value_anywhere_in_instances_raises_at_most_a_dataset_error(folder, place, value):
    path, instances = folder / "captions", folder / "instances"
    path.write_text(json.dumps(DOCUMENTS["coco-captions"]), encoding="utf-8")
    instances.write_text(json.dumps(with_change(INSTANCES, place, value)), encoding="utf-8")
    assert_photos_or_one_line(path, instances=instances)


COCO = DOCUMENTS["coco-captions"]["images"][0]
CLOCK = OTHERS["genome"][0]["regions"][0]
RESULT = (0, "annotations", 0, "result")
LONG = {"type": "labels", "id": "s", "value": {"start": 0, "end": 99}}
ZEBRA = {"bbox": [1, 2, 3, 4], "phrase": "zebra"}
ROTATED = {"type": "rectanglelabels", "id": "b", "value": {"rotation": 30}}


@pytest.mark.parametrize(
    ("kind", "place", "value", "where"),
    [
        ("coco-captions", ("annotations", 0, "image_id"), 7, "annotations[0].image_id: "),
        ("coco-captions", ("annotations", 0, "image_id"), True, "annotations[0].image_id: "),
        ("coco-captions", ("annotations", 0), {"image_id": 101}, "annotations[0]: "),
        ("coco-captions", ("images",), [COCO, COCO], "images[1].id: "),
        ("coco-captions", ("images",), [COCO, COCO | {"id": 2}], "images[1]: "),
        ("coco-captions", ("images", 0, "width"), 0, "images[0].width: "),
        ("karpathy", ("images", 0, "sentences", 1, "raw"), " ", "images[0].sentences[1].raw: "),
        ("karpathy", ("images", 0, "sentences", 1), {}, "images[0].sentences[1]: "),
        ("karpathy", ("images", 0, "sentences", 0, "raw"), "\ud83d", "images[0].sentences[0].raw: "),
        ("karpathy", ("images", 1, "split"), "../x", "images[1].split: "),
        ("karpathy", ("images", 1, "filename"), "103.png", "images[2]: "),
        ("region-phrases", ("images", 0, "regions", 0), REGION | {"bbox": [0, 0, -1, 5]}, "images[0].regions[0]: "),
        ("region-phrases", ("images", 0, "regions", 0), {"phrases": []}, 'images[0].regions[0]: "bbox"'),
        ("region-phrases", ("images", 0, "regions", 0, "phrases"), [" "], "images[0].regions[0].phrases[0]: "),
        ("genome", (0, "regions", 0, "x"), "1", "[0].regions[0].x: "),
        ("genome", (0, "regions"), [CLOCK, CLOCK], "[0].regions[1]: "),
        ("genome", (0, "id"), None, '[0]: "id"'),
        ("odvg", ("grounding", "regions", 0, "bbox"), [3, 2, 1, 4], "line 1: grounding.regions[0].bbox: "),
        ("odvg", ("grounding", "regions", 0, "tokens_positive"), [[0, 99]], "line 1: grounding.regions[0]: "),
        (
            "odvg",
            ("grounding", "regions", 0),
            {"bbox": [1, 2, 3, 4], "phrase": "zebra"},
            "line 1: grounding.regions[0]: ",
        ),
        ("label-studio", (*RESULT, 0), {"type": "polygonlabels"}, "[0].annotations[0].result[0]: "),
        ("label-studio", (*RESULT, 0), ROTATED, "[0].annotations[0].result[0].value: "),
        ("label-studio", (*RESULT, 0), LONG, "[0].annotations[0].result[0].value: "),
    ],
)
def test_a_bad_value_is_named_by_its_path(folder, kind, place, value, where):
    path = folder / "named"
    path.write_text(json.dumps(with_change((DOCUMENTS | OTHERS)[kind], place, value)), encoding="utf-8")
    with pytest.raises(DatasetError) as error:
        list(read_captions(path).photos)
    assert str(error.value).startswith(f"{path}: {where}")


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_truncated_anywhere_is_a_one_line_error(folder, kind):
    path = folder / "cut"
    text = json.dumps(DOCUMENTS[kind], ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    assert read_captions(path).kind == kind
    for length in range(1, len(text)):
        path.write_text(text[:length], encoding="utf-8")
        with pytest.raises(DatasetError, match=r"line 1 column .* truncated"):
            read_captions(path)


def test_a_damaged_zip_raises_at_most_a_dataset_error(folder):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("00/25.eng", "<DOC><DESCRIPTION>a dog; it runs;</DESCRIPTION><IMAGE>25.jpg</IMAGE></DOC>" * 3)
    chance = random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole.getvalue())
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(4, len(damaged))] = chance.randrange(256)
        path = folder / "zip"
        path.write_bytes(damaged)
        assert_photos_or_one_line(path)


def test_deeply_nested_xml_raises_at_most_a_dataset_error(folder):
    path = folder / "deep"
    path.mkdir()
    (path / "1.eng").write_text("<DOC>" + "<a>" * 200_000 + "</a>" * 200_000 + "</DOC>", encoding="utf-8")
    assert_photos_or_one_line(path)
