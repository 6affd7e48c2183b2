"""Inference functions of the network: one word at a time as whole sentences, and by ONNX Runtime as by torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.models.m_rnn.network import MRNNNetwork
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.runtime import Functions
from deixis.storage.artifacts import read_artifact, write_artifact
from tests.models.presets import paper_presets

PAPER_NETWORKS = paper_presets("m-rnn", MRNNSettings)

SIZES = {"first_embedding_dim": 4, "second_embedding_dim": 6, "hidden_size": 6, "multimodal_dim": 8}
GATED = MRNNSettings(**{**SIZES, "hidden_size": 5}, recurrent_cell="lstm", dropout=0.5)
KINDS = {name: replace(settings, **SIZES) for name, settings in PAPER_NETWORKS.items()} | {
    "lstm": replace(GATED, attention=True),
    "lstm-both": replace(GATED, attention=True, attention_heads=2, attention_dim=6, image_input="both"),
    "lstm-layers": replace(
        GATED, attention=True, attention_heads=2, attention_dim=6, second_attention=True, cell_layers=1, cell_dim=4
    ),
    "lstm-not-standardized": replace(GATED, attention=True, standardize_images=False),
    "lstm-first": replace(GATED, image_input="recurrent", multimodal_word_input="first"),
    "gru": replace(GATED, recurrent_cell="gru"),
    "gru-both": replace(GATED, recurrent_cell="gru", image_input="both", single_embedding=True, tie_word_weights=True),
}
EXPORTED = ["papers/m-rnn", "papers/rnn-base", "lstm-both", "lstm-layers", "lstm-first", "gru-both"]
PHOTO, KNOWN, CELL = 5, 7, 3
PHOTOS, WIDTH, CELLS = 3, 2, 4


def make_network(kind: str) -> MRNNNetwork:
    torch.manual_seed(0)
    network = MRNNNetwork(PHOTO, KNOWN, KINDS[kind], CELL if KINDS[kind].attention else 0).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=0.7)
        for part in (network.photo_mean, network.cell_mean):
            part.normal_()
        for part in (network.photo_scale, network.cell_scale):
            part.uniform_(0.5, 2)
    return network


def photos_of(kind: str) -> list[torch.Tensor]:
    torch.manual_seed(1)
    photos = [torch.randn(PHOTOS, PHOTO), torch.randn(PHOTOS, CELLS, CELL)]
    return photos if KINDS[kind].attention else photos[:1]


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_gives_the_log_probabilities_of_the_network(kind: str) -> None:
    network, photos = make_network(kind).double(), [part.double() for part in photos_of(kind)]
    words = torch.tensor([[[network.start] * 2] * 3, [[3, 1], [0, 2], [6, 6]], [[0, 7], [1, 1], [2, 7]]])
    with torch.inference_mode():
        context = network.photo_terms(*photos)
        state = tuple(part.view(PHOTOS, WIDTH, -1) for part in network.initial_state(PHOTOS * WIDTH))
        for step in range(len(words)):
            terms = network.word_terms(words[step].flatten()).view(PHOTOS, WIDTH, -1)
            values, best, *_ = network.best_words(torch.tensor([4]), terms, *state, *context)
            log_p, *state = network.step(terms, *state, *context)
            read = words[: step + 1].permute(1, 2, 0).flatten(0, 1)
            expected = network(network.visual_context(*photos).repeat(WIDTH), read)[0][:, -1].log_softmax(-1)
            torch.testing.assert_close(log_p.flatten(0, 1), expected)
            highest = expected.topk(4)
            torch.testing.assert_close(values.flatten(0, 1), highest.values)
            assert torch.equal(best.flatten(0, 1), highest.indices)


@pytest.mark.parametrize("kind", EXPORTED)
def test_a_session_computes_what_the_module_does(kind: str, tmp_path: Path) -> None:
    network = make_network(kind)
    module = Functions(network)
    write_artifact(tmp_path / "model", module.to_artifact("m-rnn", {}))
    session = Functions(artifact=read_artifact(tmp_path / "model"), make_module=lambda: network)
    rng = np.random.default_rng(0)
    settings, photos = network.settings, [part.numpy() for part in photos_of(kind)]

    def same(function: str, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        expected = module(function, *inputs)
        for one, other in zip(session(function, *inputs), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        return expected

    context = () if kind == "papers/rnn-base" else same("photo_terms", *photos)
    if settings.refines_images:
        same("refine", photos[0])
    (terms,) = same("word_terms", np.array([1, 3, 9, 7, 2]))
    for count, width in ((PHOTOS, 4), (1, 1)):
        some = tuple(part[:count] for part in context)
        read = 0 if settings.language_ignores_image else 1
        words = terms[rng.integers(5, size=(count, width))]
        size = (settings.state_parts, count, width, settings.hidden_size)
        state = tuple(rng.normal(size=size).astype(np.float32))
        same("step", words, *state, *some)
        same("best_words", np.array([3]), words, *state, *some)
        language, *after = same("read_word", words, *state, *some[:read])
        for texts in (1, count) if some[read:] else (count,):  # texts of all photos, or of each
            chosen = rng.integers(width * (KNOWN + 2), size=(count, 6))
            states = [after[0][:texts]] if settings.attention else []
            same("score_words", chosen, language[:texts], *states, *some[read:])
    assert session.has_sessions
