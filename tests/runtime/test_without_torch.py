"""The photo side runs where torch is not installed: in a process that refuses to import it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import deixis
from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES

REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "onnx", "onnxscript"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""

SERVE = """
import contextlib, io, json, traceback
for line in sys.stdin:
    code, *sys.argv[1:] = json.loads(line)
    out, error = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(out):
            exec(code, {"sys": sys})
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps([out.getvalue().strip(), error]), flush=True)
"""

BEGIN = """
import deixis
from deixis.data.samples import SAMPLES

photos = sorted((SAMPLES / "images").glob("*.jpg"))
"""
COMMAND = "from deixis.cli.main import _run; code = _run(sys.argv[1:]); assert code == 0, code"

Run = Callable[..., str]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run code in a process without torch; return what it prints."""
    command = [sys.executable, "-c", REFUSE + SERVE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout

        def ask(code: str, *arguments: str | Path) -> str:
            print(json.dumps([BEGIN + code, *map(str, arguments)]), file=process.stdin, flush=True)
            printed, error = json.loads(process.stdout.readline())
            assert not error, error
            return str(printed)

        yield ask
        process.stdin.close()


def test_torch_is_refused(run: Run) -> None:
    with pytest.raises(AssertionError, match="No module named 'torch'"):
        run("import torch")


def test_photos_and_sentences_are_encoded_and_compared(run: Run) -> None:
    code = """
model = deixis.load("two-branch")
names = [photo.stem for photo in photos]
scores = model.similarity(model.encode_images(photos), model.encode_sentences(["two dogs", "a bee on a flower"]))
print(*(names[row] for row in scores.argmax(axis=0)))
"""
    assert run(code).split()[1] == "bee"


def test_models_help_annotators(run: Run) -> None:
    code = """
from deixis.annotate.help.boxes import BoxCalibration, ground_mentions, proposed_boxes
from deixis.annotate.help.coreference import Coreference
from deixis.annotate.material import prepare_photo
from deixis.data.records import Caption, Photo
from deixis.models.grounding import load_grounding_model

captions = Caption.from_text("A dog."), Caption.from_text("The dog runs.")
material = prepare_photo(Photo("1", captions, width=90, height=60))
grounder = load_grounding_model()
found = ground_mentions(grounder, grounder.propose(SAMPLES / "images" / "dogs.jpg"), material)
print(len(proposed_boxes(found, BoxCalibration.shipped())), len(Coreference.shipped().probabilities(material)))
"""
    assert run(code) == "2 1"


def test_features_of_a_data_set_are_computed_and_evaluated(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    import_dataset(data, images=SAMPLES / "images", entities=SAMPLES / "entities")
    run(COMMAND, "features", data, "--encoder", "deixis", "--proposals", "head")
    options = ("--model", "two-branch", "--data", data, "--split", "train", "--json")
    assert json.loads(run(COMMAND, "evaluate", "retrieval", *options))["t2i_r5"] > 50


def test_hm_lstm_compares_grounds_and_describes(run: Run) -> None:
    code = """
model = deixis.load("hm-lstm")
print(model.similarity(model.encode_images(photos[:2]), model.encode_sentences(["A dog runs.", "a bee"])).shape)
print(*(phrase.text for phrase in model.ground(photos[4], "Two dogs run in the snow.").phrases), sep=", ")
print(len(model.describe(photos[4], top=2, regions=3)))
"""
    assert run(code).splitlines() == ["(2, 2)", "Two dogs, the snow", "3"]


def test_captions_are_written_scored_and_reranked(run: Run) -> None:
    code = """
import numpy as np
from deixis.models.m_rnn.consensus import Neighbours, Reranker

captioner = deixis.load("captioner")
found = captioner.caption(photos[:2], top=3)
print(all(1 <= len(each.captions) <= 3 for each in found))
model, (vectors, cells) = captioner.model, captioner.model.references_
words = [["a", "dog", "runs"], ["a", "man", "rides", "a", "bike"]]
scores = model.scores(model.prepare_visual((vectors, cells)), model.prepare_text(words))
print(scores.shape == (len(vectors), 2) and bool(np.isfinite(scores).all()))
neighbours = Neighbours(captioner.encoder, ["one", "two"], vectors[:2], [[each] for each in words])
ranked = Reranker(neighbours, model, neighbours.config.cider).scores(vectors[:2], [found[0].captions] * 2)
print([len(each) == len(found[0].captions) for each in ranked])
"""
    assert run(code).splitlines() == ["True", "True", "[True, True]"]
    assert "dogs.jpg: " in run(COMMAND, "caption", SAMPLES / "images" / "dogs.jpg")


def test_a_loaded_model_is_saved_again(run: Run, tmp_path: Path) -> None:
    code = """
deixis.load("two-branch").save_pretrained(sys.argv[1])
print(deixis.load(sys.argv[1]).encode_sentences(["a dog"]).shape)
"""
    assert run(code, tmp_path / "copy") == "(1, 512)"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of a user, trained for an epoch on the sample photos."""
    folder = tmp_path_factory.mktemp("trained")
    import_dataset(folder / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
    settings = {"visual_neighbour_weight": 0, "text_neighbour_weight": 0, "text_encoder": "gru", "device": "cpu"}
    deixis.train("two-branch", folder / "data", out=folder / "run", epochs=1, batch_size=4, **settings)
    return folder / "run"


def test_the_model_of_a_user_is_served_the_same_way(run: Run, trained: Path) -> None:
    code = """
model = deixis.load(sys.argv[1])
print(model.similarity(model.encode_images(photos[:2]), model.encode_sentences(["a dog", "", "two cats"])).shape)
"""
    assert run(code, trained) == "(2, 3)"
    expected = deixis.load(trained)
    ours = expected.encode_sentences(["a dog"])
    _ = expected.model.network  # from now on torch computes
    np.testing.assert_allclose(expected.encode_sentences(["a dog"]), ours, atol=1e-5)


@pytest.mark.parametrize(
    "code",
    [
        "deixis.train",
        "deixis.load('two-branch').model.network",
        "deixis.load('two-branch', device='cuda')",
        "__import__('deixis.vision.encoders').vision.encoders.open_encoder('efficientnet-lite2')",
    ],
)
def test_what_needs_torch_says_what_to_install(run: Run, code: str) -> None:
    tried = f"""
try:
    {code}
except deixis.DeixisError as error:
    print(error)
"""
    found = run(tried)
    assert "pip install 'deixis[train]'" in found
    assert "\n" not in found
