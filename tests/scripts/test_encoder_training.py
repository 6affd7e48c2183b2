"""Parts of the encoder training: drawing, boxes, losses, progress, checkpoints, packs, towers, and their shipping."""

from __future__ import annotations

import io
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
import unpack_photos
from average_models import average_towers
from check_training import renumbered
from coco_texts import CocoPhoto, things_of
from encoder_data import draw_groups, photos_without_text, read_photos, source_shares
from encoder_losses import Losses, box_targets, iou, kept_boxes, nms
from encoder_steps import Checkpoint, Pace, settings_from
from encoder_towers import PhotoTower, TextTower, WordTable, load_towers, read_towers, save_towers
from PIL import Image
from ship_model import ship_part
from torch import Tensor, nn
from train_captioner import views_of
from train_encoder import Settings

from deixis.storage.artifacts import Artifact, read_artifact, write_artifact
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.proposals.head import HeadShape
from deixis.vision.proposals.head_network import ProposalHead


def test_shares_of_sources_are_rates_of_their_photos() -> None:
    arrays = {"sources": np.array(["a", "b"]), "train_source": np.array([0, 1, 1])}
    assert source_shares(arrays, "b=0.5", "cpu").tolist() == [1.0, 0.5, 0.5]
    with pytest.raises(SystemExit, match="no source is named c"):
        source_shares(arrays, "c=2", "cpu")


def test_unknown_settings_are_refused() -> None:
    assert settings_from(Settings(), ["batch=8", "text=transformer"]).batch == 8
    with pytest.raises(SystemExit, match="barch"):
        settings_from(Settings(), ["barch=8"])


def test_groups_are_photos_with_near_neighbours_and_no_photo_is_drawn_twice() -> None:
    torch.manual_seed(0)
    topics = torch.arange(800) // 8
    vectors = nn.functional.normalize(nn.functional.one_hot(topics, 100) + 0.01 * torch.rand(800, 100), dim=1)
    share = torch.ones(800).index_fill(0, torch.arange(0, 800, 2), 0)  # even photos are never drawn
    for _ in range(20):
        rows = draw_groups(vectors, share, 16, 4, nearest=7)
        assert len(set(rows.tolist())) == 16
        assert (rows % 2 == 1).all()
        _, counts = topics[rows].unique(return_counts=True)
        assert counts[counts >= 3].sum() >= 8  # the others replace photos that were drawn twice


def greedy(boxes: Tensor, threshold: float) -> list[int]:
    kept: list[int] = []
    for row in range(len(boxes)):
        if all(iou(boxes[row : row + 1], boxes[other : other + 1]).item() <= threshold for other in kept):
            kept.append(row)
    return kept


def test_nms_in_rounds_is_greedy_and_kept_boxes_are_padded_with_the_best() -> None:
    torch.manual_seed(0)
    centre, size = torch.rand(3, 40, 2), torch.rand(3, 40, 2) * 0.5
    boxes, logits = torch.cat([centre - size / 2, centre + size / 2], dim=2), torch.rand(3, 40)
    for row in range(3):
        ranked = boxes[row][logits[row].argsort(descending=True)]
        wanted = greedy(ranked, 0.3)
        assert nms(ranked[None], 0.3)[0].nonzero()[:, 0].tolist() == wanted
        for count in (3, 40):
            found = kept_boxes(logits, boxes, count, 0.3)[row]
            assert torch.equal(found[: len(wanted)], ranked[wanted][:count])
            assert (found[len(wanted) :] == ranked[0]).all()


def test_the_head_for_classes_ignores_photos_without_labels_and_learns_the_others() -> None:
    torch.manual_seed(0)
    losses = Losses(0.0, 6, 2)
    cells = torch.randn(4, 6, 3, 3)
    labels = torch.tensor([[1, 0], [0, 1], [-1, -1], [-1, -1]], dtype=torch.int8)
    assert losses.labels(cells, labels).isclose(losses.labels(cells[:2], labels[:2]))
    assert losses.labels(cells, labels.clamp(max=-1)) == 0
    optimizer = torch.optim.Adam(losses.parameters(), lr=0.1)
    first = losses.labels(cells, labels).item()
    for _ in range(50):
        optimizer.zero_grad()
        losses.labels(cells, labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert losses.labels(cells, labels).item() < first / 4


@pytest.mark.parametrize("kind", ["gru", "transformer"])
def test_padding_does_not_change_the_vector_of_a_text(kind: str) -> None:
    torch.manual_seed(0)
    words = WordTable(np.eye(6, dtype=np.float32), np.array([-1, -1, 0, 1, 2, 3]), 3, 0.0)
    tower = TextTower(words, 8, 5, 0.0, kind, 2).eval()
    short, long = torch.tensor([[2, 3]]), torch.tensor([[2, 3, 0, 0, 0]])
    torch.testing.assert_close(tower.sentences(short), tower.sentences(long), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(tower.sentences(short), tower.sentences(torch.tensor([[3, 2]])), atol=1e-3)


def test_progress_by_time_has_a_reserve_and_continues_with_what_is_left() -> None:
    pace = Pace(2.0, started=time.monotonic() - 30, reserve=30)  # a minute is left for the steps
    assert pace.done < 0.1
    pace._started -= 45
    assert pace.step() == pytest.approx(0.75, abs=0.05)
    resumed = Pace(1.0)
    resumed.load_state_dict(pace.state_dict())
    assert resumed.number == 1
    assert resumed.done == pytest.approx(0.75, abs=0.05)
    resumed._started -= 61
    assert resumed.done == 1
    assert Pace(0.0, 0).step() == 1


def test_a_resumed_training_is_the_same_as_one_without_interruption(tmp_path: Path) -> None:
    def train(steps: int, file: Path) -> Tensor:
        torch.manual_seed(0)
        layer = nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(layer.parameters(), lr=0.01)
        pace = Pace(0.0, 10)
        checkpoint = Checkpoint(file, {"layer": layer, "optimizer": optimizer, "pace": pace})
        checkpoint.restore()
        while pace.number < steps:
            optimizer.zero_grad()
            layer(torch.randn(4, 3)).square().sum().backward()
            optimizer.step()
            pace.step()
        checkpoint.save()
        return layer.weight.detach()

    train(4, tmp_path / "killed.pt")
    assert torch.equal(train(10, tmp_path / "killed.pt"), train(10, tmp_path / "whole.pt"))
    assert not torch.equal(train(10, tmp_path / "whole.pt"), train(4, tmp_path / "short.pt"))


def pack(file: Path, colours: dict[str, int]) -> None:
    blobs = []
    for colour in colours.values():
        written = io.BytesIO()
        Image.new("RGB", (8, 8), (colour, 0, 0)).save(written, "PNG")
        blobs.append(written.getvalue())
    ends = np.cumsum([0, *map(len, blobs)])
    np.savez(file, ids=np.array(list(colours)), offsets=ends, data=np.frombuffer(b"".join(blobs), np.uint8))


def test_photos_are_read_in_the_order_of_the_files_from_all_parts(tmp_path: Path) -> None:
    pack(tmp_path / "photos_00.npz", {"a": 10, "coco2017/b": 20})
    pack(tmp_path / "photos_01.npz", {"c": 30, "d": 40})
    files = ["c.webp", "a.jpg", "coco2017/b.jpg", "c.png"]
    assert read_photos(tmp_path, files, "cpu")[:, 0, 0, 0].tolist() == [30, 10, 20, 30]
    with pytest.raises(SystemExit, match="1 of 2 photos"):
        read_photos(tmp_path, ["a.jpg", "e.jpg"], "cpu")
    examples = {"train_files": np.array(["c.webp"]), "dev_files": np.array(["a.jpg"])}
    assert photos_without_text(tmp_path, examples) == ["coco2017/b", "d"]


def test_decoded_packs_are_read_like_those_that_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(tmp_path / "photos_00.npz", {"a": 10, "coco2017/b": 20, "c": 30})
    files = ["c.webp", "coco2017/b.jpg", "a.jpg"]
    before = read_photos(tmp_path, files, "cpu")
    arguments = ["", str(tmp_path / "photos_00.npz"), "--images", str(tmp_path / "images"), "--processes", "2"]
    monkeypatch.setattr("sys.argv", arguments)
    unpack_photos.main()
    monkeypatch.setattr("encoder_data.decode", None)  # nothing is decoded again
    assert torch.equal(read_photos(tmp_path, files, "cpu"), before)
    with Image.open(tmp_path / "images" / "coco2017" / "b.webp") as photo:
        assert photo.getpixel((0, 0)) == (20, 0, 0)


def test_views_of_photos_with_sides_in_their_captions_are_not_mirrored() -> None:
    torch.manual_seed(0)
    mirrored = torch.arange(200) % 2.0
    flips = [views_of(torch.arange(200), number, mirrored).flip for number in range(3)]
    assert all((flip[::2] == 1).all() for flip in flips)
    whole, mirror, part = (int((flip == -1).sum()) for flip in flips)
    assert (whole, mirror) == (0, 100)
    assert 0 < part < 100


def test_anchors_find_the_gold_box_that_overlaps_them_most() -> None:
    torch.manual_seed(0)
    corner = torch.rand(60, 2) * 0.6
    anchors = torch.cat([corner, corner + 0.1 + torch.rand(60, 2) * 0.3], dim=1)
    gold = torch.stack([anchors[[3, 7]], torch.stack([anchors[5], -torch.ones(4)]), -torch.ones(2, 4)])
    found = box_targets(anchors, gold)
    assert found.positive[0, [3, 7]].all()
    assert torch.equal(found.boxes[0, [3, 7]], anchors[[3, 7]])
    assert found.positive[1, 5]
    assert not found.positive[2].any()
    assert not found.near[2].any()
    for row in range(60):  # near is an overlap of more than 0.2 with any gold box
        assert found.near[0, row] == bool(iou(anchors[row : row + 1], gold[0]).max() > 0.2)
    assert len(box_targets(anchors, gold[:0]).boxes) == 0


def test_pairs_of_photos_and_nouns_are_renumbered() -> None:
    pairs = np.array([(0, 7), (2, 8), (3, 9)])
    assert renumbered(pairs, np.array([3, 0])).tolist() == [[1, 7], [0, 9]]


def test_photos_with_boxes_alone_are_described_by_their_things() -> None:
    box = (0.0, 0.0, 1.0, 1.0)
    photo = CocoPhoto(1, boxes=[("dog", box), ("person", box), ("person", box), ("bus", box)])
    assert things_of(photo) == "people, a dog and a bus"
    assert things_of(CocoPhoto(1, boxes=[("cat", box)])) == "a cat"


def test_saved_towers_are_read_with_int8_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encoder_towers.FILE_BYTES", 5_000_000)
    torch.manual_seed(0)
    arrays = {
        "vectors": np.random.default_rng(0).normal(size=(4, 6)).astype(np.float16),
        "word_rows": np.array([-1, -1, 0, 1, 2, 3], dtype=np.int32),
        "taught": np.array(3),
    }
    encoder = VisionTransformer(ViTShape(grid=18))
    head = ProposalHead(HeadShape(384, 8, ((0.2, 0.3), (0.5, 0.6))))
    photos = PhotoTower(encoder, 384, head, 10)
    texts = TextTower(WordTable(arrays["vectors"].astype(np.float32), arrays["word_rows"], 3, 0.0), 5, 10, 0.0)
    about = {"training": {"embedding": 10, "hidden": 5, "text": "gru", "text_layers": 1}, "head": asdict(head.shape)}
    save_towers(photos, texts, about, tmp_path)
    weights, described = read_towers(tmp_path)
    assert described["head"]["width"] == 8
    assert described["files"] == 5
    assert max(file.stat().st_size for file in tmp_path.iterdir()) < 5_100_000
    before = nn.ModuleDict({"photos": photos, "texts": texts}).state_dict()
    assert weights.keys() == before.keys()
    for name, tensor in before.items():
        assert (weights[name] - tensor).abs().max() <= tensor.abs().max() / 250 + 1e-3, name
    for parameter in photos.parameters():
        parameter.data += 1
    save_towers(photos, texts, about, tmp_path / "other")
    average_towers(tmp_path / "mean", [tmp_path, tmp_path / "other"])
    mean, _ = read_towers(tmp_path / "mean")
    name = "photos.region.2.weight"
    torch.testing.assert_close(mean[name], weights[name] + 0.5, atol=0.02, rtol=0)
    assert torch.equal(mean["texts.sentence.bias"], weights["texts.sentence.bias"])
    numbers = torch.tensor([[2, 3, 0]])
    _, loaded = load_towers(arrays, tmp_path)
    torch.testing.assert_close(loaded.sentences(numbers), texts.eval().sentences(numbers), atol=0.05, rtol=0)


def test_parts_that_were_fitted_to_the_old_model_are_not_shipped(tmp_path: Path) -> None:
    bank = Artifact("bank", {}, {"a": np.zeros(2)})
    write_artifact(tmp_path / "model", Artifact("model", {}, {"a": np.zeros(2)}, parts={"bank": bank, "kept": bank}))
    ship_part(Artifact("model", {}, {"a": np.ones(2)}, parts={"kept": bank}), tmp_path / "model")
    assert [each.name for each in (tmp_path / "model").iterdir() if each.is_dir()] == ["kept"]
    assert list(read_artifact(tmp_path / "model").parts) == ["kept"]
