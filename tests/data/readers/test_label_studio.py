"""Label Studio's export."""

import copy

import pytest

from deixis.data.readers import read_captions
from deixis.errors import DatasetError


def box(name, x, **more):
    value = {"x": x, "y": 20, "width": 10, "height": 50, "rotation": 0, "rectanglelabels": ["animals"]}
    return {
        "id": name,
        "type": "rectanglelabels",
        "original_width": 200,
        "original_height": 100,
        "value": value,
    } | more


def span(name, start, end, **more):
    return {"id": name, "type": "labels", "value": {"start": start, "end": end, "labels": ["animals"]}} | more


def relation(one, other):
    return {"type": "relation", "from_id": one, "to_id": other, "direction": "right"}


TASK = {
    "data": {"image": "/data/upload/3/0a1b2c3d-dog.jpg", "text": "A dog runs.\nThe dog and a cat."},
    "annotations": [
        {"was_cancelled": True, "result": []},
        {
            "result": [
                box("b1", 10),
                box("b2", 60),
                span("s1", 0, 5),
                span("s2", 12, 19),
                span("s3", 24, 29),
                relation("s1", "b1"),
                relation("b1", "s2"),
                relation("s3", "b2"),
            ]
        },
    ],
}


def test_relations_connect_phrases_with_boxes(write):
    source = read_captions(write("export.json", [TASK]))
    [photo] = source.photos
    assert (source.kind, photo.id, photo.width, photo.height) == ("label-studio", "dog", 200, 100)
    [first] = photo.captions[0].mentions
    second, cat = photo.captions[1].mentions
    assert [photo.captions[1].phrase(mention) for mention in (second, cat)] == ["The dog", "a cat"]
    assert first.chain == second.chain != cat.chain
    assert [box.xyxy for box in photo.boxes_of(first.chain)] == [(20, 20, 40, 70)]
    assert [box.xyxy for box in photo.boxes_of(cat.chain)] == [(120, 20, 140, 70)]


def test_notes_name_chains(write):
    task = copy.deepcopy(TASK)
    note = {"meta": {"text": ["chain 7"]}}
    task["annotations"] = [{"result": [box("b", 10, **note), span("s1", 0, 5, **note), span("s2", 12, 19, **note)]}]
    [photo] = read_captions(write("export.json", [task])).photos
    assert [mention.chain for caption in photo.captions for mention in caption.mentions] == ["7", "7"]
    assert len(photo.boxes_of("7")) == 1


@pytest.mark.parametrize(
    "region",
    [
        span("s", 8, 15),
        span("s", 0, 99),
        {"id": "p", "type": "polygonlabels", "value": {}},
        box("b", 10) | {"value": box("b", 10)["value"] | {"rotation": 30}},
    ],
)
def test_what_cannot_be_kept_is_refused(write, region):
    task = copy.deepcopy(TASK)
    task["annotations"] = [{"result": [region]}]
    with pytest.raises(DatasetError, match=r"export\.json"):
        list(read_captions(write("export.json", [task])).photos)
