"""Region phrases."""

from deixis.data.formats import read_captions
from deixis.data.records import Box, Chain, Mention

OURS = {
    "images": [
        {
            "file_name": "train/1.jpg",
            "width": 640,
            "height": 480,
            "regions": [
                {"bbox": [10, 20, 30, 40], "phrases": ["a red hat", "the hat"]},
                {"bbox": [0, 0, 5, 5], "phrases": ["a dog"]},
            ],
        },
        {"file_name": "2.jpg", "regions": []},
    ]
}
CLOCK = {"region_id": 1382, "image_id": 1, "x": 421, "y": 57, "width": 82, "height": 139, "phrase": "green clock"}
SHADE = {"region_id": 1383, "image_id": 1, "x": -1, "y": 0, "width": 5, "height": 0, "phrase": "shade"}
BLANK = {"region_id": 1384, "image_id": 1, "x": 1, "y": 0, "width": 5, "height": 5, "phrase": "\n"}
GENOME = [{"id": 1, "regions": [CLOCK, SHADE, BLANK]}, {"image_id": 2, "regions": []}]


def test_each_region_is_a_box_with_a_chain_and_its_phrases(store):
    source = read_captions(store("regions.json", OURS))
    first, second = source.photos
    assert (source.kind, source.total) == ("region-phrases", 2)
    assert (first.id, first.annotated.file, first.width, first.height) == ("1", "train/1.jpg", 640, 480)
    assert first.chains == (Chain("1"), Chain("2"))
    assert first.boxes == (Box((10, 20, 40, 60), ("1",)), Box((0, 0, 5, 5), ("2",)))
    assert [(caption.text, caption.mentions) for caption in first.captions] == [
        ("a red hat", (Mention(0, 9, "1"),)),
        ("the hat", (Mention(0, 7, "1"),)),
        ("a dog", (Mention(0, 5, "2"),)),
    ]
    assert all(caption.region_phrase for caption in first.captions)
    assert (second.captions, second.width) == ((), None)


def test_visual_genome_names_photos_and_chains_by_number(store):
    first, second = read_captions(store("region_descriptions.json", GENOME)).photos
    assert (first.id, first.annotated.file, second.id) == ("1", "1.jpg", "2")
    assert first.chains == (Chain("1382"), Chain("1383"))
    assert first.boxes == (Box((421, 57, 503, 196), ("1382",)), Box((-1, 0, 4, 0), ("1383",)))
    assert [caption.text for caption in first.captions] == ["green clock", "shade"]
    assert first.captions[0].mentions == (Mention(0, 11, "1382"),)
    assert first.captions[0].region_phrase
