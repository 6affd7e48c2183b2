"""Inference functions of the network: one word at a time as whole sentences, and by ONNX Runtime as by torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.runtime import Functions
from deixis.storage.artifacts import read_artifact, write_artifact
from tests.models.m_rnn.networks import CAPTIONERS, PAPERS, WORDS, make_network, photo_tensors

KINDS = {**PAPERS, **CAPTIONERS}
EXPORTED = ["papers/m-rnn", "papers/rnn-base", "papers/m-rnn-vis-in-rnn-both", "heads", "layers"]
PHOTOS, WIDTH = 3, 2


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_gives_the_log_probabilities_of_the_network(kind: str) -> None:
    network = make_network(KINDS[kind])
    photos = photo_tensors(network, PHOTOS)
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
    network = make_network(KINDS[kind]).float()
    module = Functions(network)
    write_artifact(tmp_path / "model", module.to_artifact("m-rnn", {}))
    session = Functions(artifact=read_artifact(tmp_path / "model"), make_module=lambda: network)
    rng = np.random.default_rng(0)
    settings, photos = network.settings, [part.float().numpy() for part in photo_tensors(network, PHOTOS)]

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
        size = (network.recurrent.state_parts, count, width, network.recurrent.hidden_size)
        state = tuple(rng.normal(size=size).astype(np.float32))
        same("step", words, *state, *some)
        same("best_words", np.array([3]), words, *state, *some)
        language, *after = same("read_word", words, *state, *some[:read])
        for texts in (1, count) if some[read:] else (count,):  # texts of all photos, or of each
            chosen = rng.integers(width * (WORDS + 2), size=(count, 6))
            states = [after[0][:texts]] if network.attends else []
            same("score_words", chosen, language[:texts], *states, *some[read:])
    assert session.has_sessions
