"""What holds for every proposer that needs only the photo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from deixis import geometry
from deixis.errors import DeixisError
from deixis.vision.encoder import FeatureMap
from deixis.vision.proposals import PROPOSERS, FixedProposer, Proposer, best_boxes, open_proposer, shipped_boxes
from deixis.vision.proposals.opencv import EdgeBoxes, EdgeBoxesSettings

UNUSED = FeatureMap(np.zeros((1, 1, 1), np.float32), np.zeros(1, np.float32), (1, 1))
WHOLE = FixedProposer([[0, 0, 1, 1]])
QUICK: dict[str, Proposer] = {"edge-boxes": EdgeBoxes(EdgeBoxesSettings(side=90)), "fixed": shipped_boxes()}


@pytest.fixture(params=QUICK)
def proposer(request: pytest.FixtureRequest) -> Proposer:
    """Each proposer, at a small input size."""
    if request.param == "edge-boxes":
        pytest.importorskip("cv2.ximgproc", reason="needs the extra 'proposals'")
    return QUICK[request.param]


def scene(size: tuple[int, int], seed: int = 0, shapes: int = 6) -> Image.Image:
    """Ellipses and rectangles on a uniform background."""
    rng = np.random.default_rng(seed)
    photo = Image.new("RGB", size, tuple(rng.integers(0, 256, 3).tolist()))
    draw = ImageDraw.Draw(photo)
    for number in range(shapes):
        corners = np.sort(rng.random((2, 2)) * size, axis=0).ravel().tolist()
        colour = tuple(rng.integers(0, 256, 3).tolist())
        (draw.ellipse if number % 2 else draw.rectangle)(corners, fill=colour)
    return photo


def check(proposer: Proposer, photo: Image.Image, top: int) -> None:
    found = proposer.propose(photo, UNUSED, top)
    width, height = photo.size
    assert 1 <= len(found.boxes) == len(found.scores) <= top
    assert np.isfinite(found.scores).all()
    assert (np.diff(found.scores) <= 0).all()
    assert (found.boxes >= 0).all()
    assert (found.boxes <= [width, height, width, height]).all()
    assert (geometry.area(found.boxes) > 0).all()
    assert len(np.unique(found.boxes, axis=0)) == len(found.boxes)


@given(width=st.integers(1, 400), height=st.integers(1, 400), seed=st.integers(0, 99), top=st.integers(1, 50))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_boxes_are_sorted_distinct_and_inside_the_photo(
    proposer: Proposer, width: int, height: int, seed: int, top: int
) -> None:
    check(proposer, scene((width, height), seed), top)


ODD_PHOTOS = {
    **{f"{width} × {height}": scene((width, height)) for width, height in ((1, 1), (2, 1), (3000, 20), (5, 2000))},
    **{mode: scene((60, 40)).convert(mode) for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F")},
    "I;16": scene((60, 40)).convert("L").convert("I").convert("I;16"),
    **{colour: Image.new("RGB", (90, 70), colour) for colour in ("black", "white", "red")},
}


@pytest.mark.parametrize("photo", ODD_PHOTOS.values(), ids=ODD_PHOTOS.keys())
def test_photos_of_every_size_mode_and_colour_have_boxes(proposer: Proposer, photo: Image.Image) -> None:
    check(proposer, photo, top=20)


def test_the_same_photo_has_the_same_boxes(proposer: Proposer) -> None:
    photo = scene((200, 150), shapes=12)
    first, again = (proposer.propose(photo, UNUSED, 100) for _ in range(2))
    assert (first.boxes == again.boxes).all()
    assert (first.scores == again.scores).all()


def test_fewer_boxes_are_the_beginning_of_more(proposer: Proposer) -> None:
    photo = scene((200, 150), shapes=12)
    few, many = (proposer.propose(photo, UNUSED, top).boxes for top in (10, 60))
    assert (few == many[: len(few)]).all()


@pytest.mark.parametrize("size", [(300, 200), (1200, 800), (75, 50)], ids=str)
@pytest.mark.parametrize("colours", [("white", "black"), ("#c00000", "#006e00")], ids=["lightness", "colour"])
def test_an_object_is_found_at_any_size_and_by_colour_alone(size: tuple[int, int], colours: tuple[str, str]) -> None:
    pytest.importorskip("cv2.ximgproc", reason="needs the extra 'proposals'")
    thing = np.array([0.55, 0.3, 0.8, 0.7])
    gold = thing * np.tile(size, 2)
    photo = Image.new("RGB", size, colours[0])
    ImageDraw.Draw(photo).rectangle((*gold[:2], *(gold[2:] - 1)), fill=colours[1])
    found = open_proposer("edge-boxes").propose(photo, UNUSED, top=10)
    assert geometry.iou(found.boxes, [gold]).max() > 0.75


def test_everything_that_affects_boxes_changes_the_fingerprint() -> None:
    pytest.importorskip("cv2.ximgproc", reason="needs the extra 'proposals'")
    alike = [(EdgeBoxes(), EdgeBoxes()), (WHOLE, FixedProposer([[0, 0, 1, 1]]))]
    assert all(one.fingerprint == same.fingerprint for one, same in alike)
    others = [EdgeBoxes(EdgeBoxesSettings(blur=3.0)), FixedProposer([[0, 0, 0.5, 1]])]
    assert len({proposer.fingerprint for proposer in [*(one for one, _ in alike), *others]}) == 4


def test_the_version_of_opencv_changes_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    cv2 = pytest.importorskip("cv2", reason="needs the extra 'proposals'")
    before = open_proposer("edge-boxes").fingerprint
    monkeypatch.setattr(cv2, "__version__", "0.0.1")
    assert open_proposer("edge-boxes").fingerprint != before


def test_without_opencv_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(DeixisError, match=r"edge-boxes .*pip install 'deixis\[proposals\]'$"):
        open_proposer("edge-boxes").propose(scene((40, 30)), UNUSED, 5)
    with pytest.raises(DeixisError, match="OpenCV"):
        open_proposer("edge-boxes").fingerprint  # noqa: B018  computed before the first photo is read


def test_an_opencv_without_its_contributed_modules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", type(sys)("cv2"))
    with pytest.raises(DeixisError, match="contributed modules"):
        open_proposer("edge-boxes").propose(scene((40, 30)), UNUSED, 5)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(DeixisError, match=f"boxes; .*{', '.join(PROPOSERS)}"):
        open_proposer("boxes")


def test_opening_a_proposer_does_not_load_opencv() -> None:
    script = (
        "import sys; from deixis.vision.proposals import open_proposer;"
        f"[open_proposer(name) for name in {tuple(QUICK)}]; sys.exit('cv2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("encoder", ["timm:vit_small", "deixis:mine.safetensors"])
def test_the_head_requires_its_own_encoder(encoder: str) -> None:
    with pytest.raises(DeixisError, match="head .*encoder deixis"):
        open_proposer("head", encoder)
    assert open_proposer("fixed", encoder).name == "fixed"


def test_the_head_reads_its_encoder_at_other_sizes_too() -> None:
    assert open_proposer("head", "deixis@side=224").name == "head"


SIDE = st.integers(-20, 60)
ROWS = st.lists(st.tuples(SIDE, SIDE, SIDE, SIDE, st.integers(0, 5)), max_size=30)


def plainly(rows: list[tuple[int, ...]], width: int, height: int, top: int) -> list[tuple[float, ...]]:
    """The same, one box after the other."""
    found: list[tuple[float, ...]] = []
    for x1, y1, x2, y2, score in sorted(rows, key=lambda row: -row[4]):
        box = (max(min(x1, width), 0), max(min(y1, height), 0), max(min(x2, width), 0), max(min(y2, height), 0))
        if box[2] > box[0] and box[3] > box[1] and box not in [each[:4] for each in found]:
            found.append((*box, score))
    return (found or [(0, 0, width, height, 0)])[:top]


@given(ROWS, st.integers(1, 40), st.integers(1, 40), st.integers(1, 12))
def test_boxes_are_clipped_sorted_and_distinct_as_in_a_plain_loop(
    rows: list[tuple[int, ...]], width: int, height: int, top: int
) -> None:
    given_rows = np.array(rows, dtype=float).reshape(-1, 5)
    found = best_boxes(given_rows[:, :4], given_rows[:, 4], (width, height), top)
    assert np.column_stack([found.boxes, found.scores]).tolist() == [
        list(map(float, row)) for row in plainly(rows, width, height, top)
    ]


def test_boxes_are_fractions_of_the_photo() -> None:
    found = FixedProposer([[0.1, 0.5, 0.2, 1.0]]).propose(Image.new("L", (50, 8)), None, top=5)
    assert np.allclose(found.boxes, [[5, 4, 10, 8]])


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "{}", '{"boxes": [[0, 0, 1]]}', '{"boxes": [[0, 0, 1, 2]]}', '{"boxes": [["a", 0, 1, 1]]}',
     '{"boxes": [[0.5, 0, 0.5, 1]]}', '{"boxes": []}', '{"boxes": [[0, 0, NaN, 1]]}', '{"boxes": 3}'],
)  # fmt: skip
def test_an_invalid_or_missing_file_is_named(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "boxes.json").write_text(text)
    with pytest.raises(DeixisError, match=r"boxes\.json"):
        FixedProposer.load(tmp_path / "boxes.json")
