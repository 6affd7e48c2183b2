"""Saved directories: atomic, plain, and refused with a DeixisError that names the file if they are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import deixis
from deixis.errors import DeixisError
from deixis.storage.artifacts import (
    CARD,
    CONFIG,
    WEIGHTS,
    Artifact,
    Storable,
    add_part,
    damaged,
    fingerprint_artifact,
    read_artifact,
    write_artifact,
)
from tests.unchecked import change_config, without_checksums


class Line(Storable):
    KIND = "line"

    def __init__(self, slope: np.ndarray) -> None:
        self.slope = slope

    def to_artifact(self) -> Artifact:
        return Artifact(self.KIND, {"size": len(self.slope)}, {"slope": self.slope})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Line:
        if len(artifact.arrays["slope"]) != artifact.settings["size"]:
            raise ValueError("slope has another size")
        return cls(artifact.arrays["slope"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    part = Artifact("inner", {}, {"b": np.arange(4, dtype=np.float32)})
    provenance = {"encoder": {"name": "deixis"}, "summary": "an example"}
    whole = Artifact(
        "outer", {"seed": 1, "words": ["é", "b"]}, {"a": np.eye(2)}, {"part": part}, provenance, "# Card\n"
    )
    write_artifact(tmp_path / "saved", whole)
    return tmp_path / "saved"


def refused(folder: Path) -> str:
    with pytest.raises(DeixisError) as caught:
        read_artifact(folder, "outer")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mapped", [False, True])
def test_an_artifact_round_trips(folder: Path, mapped: bool) -> None:
    found = read_artifact(folder, "outer", mapped=mapped)
    assert found.settings == {"seed": 1, "words": ["é", "b"]}
    assert (found.provenance["summary"], found.card) == ("an example", "# Card\n")
    np.testing.assert_array_equal(found.arrays["a"], np.eye(2))
    np.testing.assert_array_equal(found.parts["part"].arrays["b"], np.arange(4))
    assert found.arrays["a"].flags.writeable is not mapped


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, bool])
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5)])
def test_mapped_arrays_are_those_that_were_written(tmp_path: Path, dtype: type, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: (10 * rng.normal(size=shape)).astype(dtype) for name in ("one", "two")} | {"odd": np.ones(3, bool)}
    write_artifact(tmp_path / "made", Artifact("any", {}, arrays))
    found = read_artifact(tmp_path / "made", mapped=True).arrays
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_half_precision_halves_the_file_and_is_read_as_single(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
    part = Artifact("inner", {}, {"w": weights})
    write_artifact(
        tmp_path / "half", Artifact("outer", {}, {"w": weights, "n": np.arange(3)}, {"part": part}, half=True)
    )
    stored = load_file(tmp_path / "half" / WEIGHTS)
    assert (stored["w"].dtype, stored["n"].dtype) == (np.float16, np.int64)
    assert read_artifact(tmp_path / "half", keep_half=True).arrays["w"].dtype == np.float16
    found = read_artifact(tmp_path / "half")
    np.testing.assert_array_equal(found.arrays["w"], weights.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(found.parts["part"].arrays["w"], weights)
    write_artifact(tmp_path / "again", found)
    assert (tmp_path / "again" / WEIGHTS).read_bytes() == (tmp_path / "half" / WEIGHTS).read_bytes()


def test_saving_again_replaces_everything(folder: Path) -> None:
    write_artifact(folder, Artifact("outer", {"seed": 2}))
    assert read_artifact(folder).settings == {"seed": 2}
    assert not [name for name in (WEIGHTS, CARD, "part") if (folder / name).exists()]


def test_a_part_is_added_and_replaced_without_changing_the_rest(folder: Path) -> None:
    before = read_artifact(folder)
    weights = (folder / WEIGHTS).read_bytes()
    for number in (1, 2):
        add_part(folder, "more", Artifact("example", {"number": number}))
        found = read_artifact(folder)
        assert found.parts["more"].settings == {"number": number}
        assert {name: found.parts[name].settings for name in before.parts} == {
            name: part.settings for name, part in before.parts.items()
        }
        assert (found.kind, found.settings, found.provenance) == (before.kind, before.settings, before.provenance)
        assert (folder / WEIGHTS).read_bytes() == weights


def test_a_part_that_was_written_with_the_rest_is_replaced(folder: Path) -> None:
    name = next(iter(read_artifact(folder).parts))
    add_part(folder, name, Artifact("example", {"number": 3}))
    assert read_artifact(folder).parts[name].settings == {"number": 3}


def test_a_missing_directory_is_named_and_one_of_the_package_tells_to_reinstall(tmp_path: Path) -> None:
    assert "nowhere" in refused(tmp_path / "nowhere")
    assert "reinstall" not in refused(tmp_path / "nowhere")
    assert "reinstall deixis" in refused(Path(deixis.__file__).parent / "language" / "models" / "nowhere")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"format": "deixis"}', "[" * 100_000, "\ud800"])
def test_a_damaged_config_is_named(folder: Path, text: str) -> None:
    (folder / CONFIG).write_bytes(text.encode("utf-8", errors="surrogatepass"))
    assert CONFIG in refused(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "other"),
        ("version", 99),
        ("kind", "other"),
        ("kind", ["outer"]),
        ("settings", 3),
        ("parts", ["../saved"]),
        ("parts", [3]),
        ("parts", 3),
        ("provenance", [1, 2]),
    ],
)
def test_a_hostile_config_is_named(folder: Path, key: str, value: object) -> None:
    change_config(folder, **{key: value})
    assert CONFIG in refused(folder)


def test_a_missing_part_is_named(folder: Path) -> None:
    change_config(folder, parts=["gone"])
    assert "gone" in refused(folder)


@pytest.mark.parametrize("mapped", [False, True])
def test_truncated_or_foreign_weights_are_named(folder: Path, mapped: bool) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    for content in (b"", b"not weights", b"\xff" * 64, whole[:5], whole[:40], whole[:-8], whole + b"x"):
        (folder / WEIGHTS).write_bytes(content)
        with pytest.raises(DeixisError, match=WEIGHTS):
            read_artifact(folder, mapped=mapped)


def test_a_part_that_links_to_its_own_directory_is_not_followed_for_ever(folder: Path) -> None:
    change_config(folder, parts=["again"])
    (folder / "again").symlink_to(folder)
    assert "again" in refused(folder)


def test_a_class_refuses_other_kinds_and_weights_that_do_not_fit(tmp_path: Path) -> None:
    Line(np.ones(3)).save(tmp_path / "line")
    np.testing.assert_array_equal(Line.load(tmp_path / "line").slope, np.ones(3))
    without_checksums(tmp_path)
    save_file({"slope": np.ones(4)}, tmp_path / "line" / WEIGHTS)
    with pytest.raises(DeixisError, match="slope has another size"):
        Line.load(tmp_path / "line")
    (tmp_path / "line" / WEIGHTS).unlink()
    with pytest.raises(DeixisError, match="line"):
        Line.load(tmp_path / "line")
    write_artifact(tmp_path / "line", Artifact("curve", {}))
    with pytest.raises(DeixisError, match="'curve', not 'line'"):
        Line.load(tmp_path / "line")


def test_the_fingerprint_changes_with_the_weights_and_their_encoder_but_not_with_the_description(folder: Path) -> None:
    before = fingerprint_artifact(folder)
    (folder / CARD).write_text("# Other card\n")
    change_config(folder, provenance={"encoder": {"name": "deixis"}, "summary": "other words"})
    assert fingerprint_artifact(folder) == before
    change_config(folder, provenance={"encoder": {"name": "other"}})
    other_encoder = fingerprint_artifact(folder)
    save_file({"b": np.zeros(4, np.float32)}, folder / "part" / WEIGHTS)
    assert len({before, other_encoder, fingerprint_artifact(folder)}) == 3


def test_a_reason_of_many_lines_becomes_one() -> None:
    with pytest.raises(DeixisError, match=r"^a: .*one two\)$"), damaged(Path("a")):
        raise ValueError("one\n\ttwo")


def test_an_error_of_settings_is_prefixed_with_the_file_unless_it_names_it() -> None:
    with pytest.raises(DeixisError, match=r"^made/config.json: size=0$"), damaged(Path("made/config.json")):
        raise DeixisError("size=0")
    with pytest.raises(DeixisError, match=r"^made/config.json: no kind$"), damaged(Path("made/config.json")):
        raise DeixisError("made/config.json: no kind")
