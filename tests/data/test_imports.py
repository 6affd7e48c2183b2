"""Import of photos, captions and boxes from several files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.data.imports import CaptionFile, ImportReport, import_dataset
from deixis.data.records import Box, Chain
from deixis.errors import DatasetError, DeixisError

XML = """<annotation><filename>{id}.jpg</filename>
<size><width>100</width><height>50</height><depth>3</depth></size>
<object><name>7</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>50</xmax><ymax>50</ymax></bndbox></object>
<object><name>8</name><scene>1</scene><nobndbox>1</nobndbox></object></annotation>"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two photos, three captioned names, two annotated ids; only one photo has all three."""
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (200, 100)).save(images / "1000268201_693b08cb0e.webp")
    Image.new("RGB", (40, 40)).save(images / "9999_0123456789.png")
    entities = tmp_path / "entities"
    for number in ("1000268201", "5"):
        for folder, text in (
            ("Sentences", "[/EN#7/animals A dog] in [/EN#8/scene snow] .\nA dog .\n"),
            ("Annotations", XML),
        ):
            (entities / folder).mkdir(parents=True, exist_ok=True)
            suffix = ".txt" if folder == "Sentences" else ".xml"
            (entities / folder / (number + suffix)).write_text(text.replace("{id}", number))
    (entities / "train.txt").write_text("1000268201\n5\n")
    (entities / "UNRELATED_CAPTIONS").write_text("# format\n1000268201 2\n")
    rows = ["1000268201_693b08cb0e.jpg#0\tA black dog", "9999_0123456789.jpg#0\tA cat", "4444_0123456789.jpg#0\tA cow"]
    (tmp_path / "captions.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "dev.txt").write_text("9999_0123456789.jpg\n4444_0123456789.jpg\n")
    return tmp_path


def run(files: Path, *kinds: str, **options: Any) -> ImportReport:
    """Import the files of these kinds into `data`."""
    inputs = {name: files / name for name in ("images", "entities")} | {
        "captions": [CaptionFile(files / "captions.txt")]
    }
    return import_dataset(files / "data", **{kind: inputs[kind] for kind in kinds}, **options)


def test_only_annotations_with_photos_are_imported_and_entities_captions_come_first(files: Path) -> None:
    report = run(files, "images", "captions", "entities")
    dog, cat = Dataset(files / "data").photos
    assert dog.id == "1000268201_693b08cb0e"
    assert dog.file == "1000268201_693b08cb0e.webp"
    assert [caption.text for caption in dog.captions] == ["A dog in snow .", "A dog ."]
    assert [caption.related for caption in dog.captions] == [True, False]
    assert dog.splits == ("train",)
    assert (cat.id, cat.captions[0].text, cat.splits) == ("9999_0123456789", "A cat", ())
    assert report.without_photo == 1  # the cow; Entities' photo 5 was never read


def test_boxes_are_scaled_to_the_photo_file(files: Path) -> None:
    run(files, "images", "entities")
    (dog,) = Dataset(files / "data").photos
    assert (dog.width, dog.height) == (200, 100)
    assert dog.boxes == (Box((0, 0, 100, 100), ("7",)),)
    assert dog.chains == (Chain("7"), Chain("8", scene=True, no_box=True))
    assert dog.annotated is not None
    assert (dog.annotated.id, dog.annotated.width, dog.annotated.height) == ("1000268201", 100, 50)


def test_without_photos_all_text_and_boxes_are_imported(files: Path) -> None:
    run(files, "captions", "entities")
    photos = list(Dataset(files / "data").photos)
    assert {photo.id for photo in photos} == {"5", "1000268201_693b08cb0e", "9999_0123456789", "4444_0123456789"}
    assert all(photo.file is None for photo in photos)


def test_split_lists_replace_the_splits_of_the_files(files: Path) -> None:
    report = run(files, "images", "captions", "entities", splits={"dev": files / "dev.txt"})
    dataset = Dataset(files / "data")
    assert dataset.manifest.splits == {"dev": 1}
    assert [photo.id for photo in dataset.split("dev")] == ["9999_0123456789"]
    assert report.not_in_data == {"dev": 1}


def test_an_unreadable_photo_is_reported_and_skipped(files: Path) -> None:
    (files / "images" / "broken.jpg").write_bytes(b"no photo")
    report = run(files, "images", "entities")
    assert [error.reason for error in report.unreadable] == ["not a photo in a known format"]
    assert len(Dataset(files / "data").photos) == 1


def test_a_folder_of_unreadable_photos_says_so(files: Path) -> None:
    for path in (files / "images").iterdir():
        path.write_bytes(b"no photo")
    with pytest.raises(DatasetError, match="1000268201"):
        run(files, "images", "entities")


def test_the_same_files_give_the_same_hash_and_other_captions_another(files: Path) -> None:
    def hash_of(name: str) -> str:
        import_dataset(files / name, captions=[CaptionFile(files / "captions.txt")])
        return Dataset(files / name).manifest.hash

    first = hash_of("a")
    assert hash_of("b") == first
    (files / "captions.txt").write_text("1.jpg#0\tSomething else\n")
    assert hash_of("c") != first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "--captions FILE or --entities DIR"),
        ({"captions": "nowhere.txt"}, "nowhere.txt"),
        ({"entities": "images"}, "images: not Flickr30k Entities"),
        ({"captions": "captions.txt", "images": "nowhere"}, "nowhere"),
        ({"captions": "captions.txt", "images": "entities"}, "entities: no photos"),
        ({"captions": "other.csv", "images": "images"}, "none of the 2 photos"),
        ({"captions": "captions.txt", "splits": {"dev": "train.txt"}}, "split 'dev'"),
        ({"captions": "captions.txt", "splits": {"dev": "nowhere.txt"}}, "nowhere.txt"),
        ({"captions": "captions.txt", "splits": {"dev": "empty.txt"}}, "empty.txt"),
    ],
)
def test_a_failed_import_names_the_cause_and_leaves_nothing(files: Path, arguments: dict, message: str) -> None:
    (files / "other.csv").write_text("image,caption\nunknown.jpg,A dog\n")
    (files / "train.txt").write_text("x.jpg\n")
    (files / "empty.txt").write_text("# nobody\n")
    converters = {
        "captions": lambda name: [CaptionFile(files / name)],
        "splits": lambda lists: {name: files / file for name, file in lists.items()},
    }
    options = {key: converters.get(key, lambda name: files / name)(value) for key, value in arguments.items()}
    before = sorted(files.iterdir())
    with pytest.raises(DatasetError, match=message) as error:
        import_dataset(files / "data", **options)
    assert "\n" not in str(error.value)
    assert sorted(files.iterdir()) == before


def test_two_annotations_of_one_photo_are_refused(files: Path) -> None:
    (files / "captions.txt").write_text("1000268201.jpg#0\tA dog\n1000268201_693b08cb0e.jpg#0\tA dog\n")
    with pytest.raises(DatasetError, match="1000268201_693b08cb0e"):
        run(files, "images", "captions")


def test_photos_without_a_split_in_entities_keep_that_of_the_captions(files: Path) -> None:
    (files / "entities" / "train.txt").unlink()
    run(files, "entities", captions=[CaptionFile(files / "captions.txt", split="held-out")])
    dataset = Dataset(files / "data")
    assert dataset.photo("1000268201_693b08cb0e").splits == ("held-out",)
    assert dataset.photo("5").splits == ()


def test_photos_without_sentences_in_entities_keep_their_captions(files: Path) -> None:
    (files / "entities" / "Sentences" / "1000268201.txt").unlink()
    run(files, "images", "captions", "entities")
    dog = Dataset(files / "data").photo("1000268201_693b08cb0e")
    assert [caption.text for caption in dog.captions] == ["A black dog"]
    assert dog.boxes == (Box((0, 0, 100, 100), ("7",)),)


@pytest.mark.parametrize(
    "listed",
    [
        "1000268201",
        "1000268201.jpg",
        "1000268201_693b08cb0e.jpg",
        "holiday.jpg",  # what the annotation calls the file
        "1000268201_ffffffffff\n1000268201_eeeeeeeeee\n1000268201",  # others of the same number decide nothing
    ],
)
def test_a_list_may_use_any_name_of_a_photo(files: Path, listed: str) -> None:
    annotation = files / "entities" / "Annotations" / "1000268201.xml"
    annotation.write_text(annotation.read_text().replace("1000268201.jpg", "holiday.jpg"))
    (files / "dev.txt").write_text(listed + "\n")
    run(files, "images", "entities", splits={"dev": files / "dev.txt"})
    assert [photo.id for photo in Dataset(files / "data").split("dev")] == ["1000268201_693b08cb0e"]


def test_the_id_of_the_annotation_is_looked_up_when_the_photos_name_is_not_listed(files: Path) -> None:
    (files / "images" / "1000268201_693b08cb0e.webp").rename(files / "images" / "1000268201.webp")
    # Two names of one Flickr number: the number alone, which is the photo's name, tells nothing.
    (files / "dev.txt").write_text("1000268201_693b08cb0e.jpg\n1000268201_ffffffffff.jpg\n")
    run(files, "images", "captions", splits={"dev": files / "dev.txt"})
    assert [photo.id for photo in Dataset(files / "data").split("dev")] == ["1000268201"]


def test_the_manifest_has_the_licence_the_sources_and_where_the_photos_are(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    import_dataset(
        Path("data"),
        images=Path("images"),
        captions=[CaptionFile(Path("captions.txt"))],
        entities=Path("entities"),
        licence="for research only",
    )
    manifest = Dataset("data").manifest
    assert manifest.licence == "for research only"
    assert manifest.images == str(files / "images")
    assert manifest.sources == (
        {"kind": "flickr-token", "name": "captions.txt"},
        {"kind": "flickr30k-entities", "name": "entities"},
    )
    import_dataset(Path("other"), captions=[CaptionFile(Path("captions.txt"))])
    assert Dataset("other").manifest.licence == "not stated; ask the makers of the data"
    assert Dataset("other").manifest.images is None


def test_photos_of_the_same_name_and_photos_without_a_caption_are_reported(files: Path) -> None:
    (files / "images" / "more").mkdir()
    Image.new("RGB", (9, 9)).save(files / "images" / "more" / "9999_0123456789.png")
    Image.new("RGB", (9, 9)).save(files / "images" / "nobody.png")
    report = run(files, "images", "captions")
    assert report.same_name == ["more/9999_0123456789.png"]
    assert report.photos_without_caption == 1
    assert Dataset(files / "data").photo("9999_0123456789").width == 40  # the first of the two


@pytest.mark.parametrize("inside", ["images", "captions.txt", "entities"])
def test_a_directory_that_contains_an_input_is_not_replaced(files: Path, inside: str) -> None:
    run(files, "entities")
    paths = {name: files / name for name in ("images", "captions.txt", "entities")}
    paths[inside] = paths[inside].rename(files / "data" / inside)
    before = sorted(files.rglob("*"))
    with pytest.raises(DeixisError, match=f"not replaced, .*{inside}"):
        import_dataset(
            files / "data",
            images=paths["images"],
            captions=[CaptionFile(paths["captions.txt"])],
            entities=paths["entities"],
            replace_old=True,
        )
    assert sorted(files.rglob("*")) == before
