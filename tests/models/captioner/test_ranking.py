"""Captions ranked by how well they match the photo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.language.tagger import tag
from deixis.models.captioner import ranking
from deixis.models.captioner.confidence_fitting import fit_confidence, read_caption_sources
from deixis.models.captioner.ranking import (
    AGREEMENT,
    ARTICLE_AND_PLURAL,
    DOUBLED_WORD,
    FEATURES,
    LOG_PROBABILITIES,
    MATCH_FEATURES,
    NO_NOUN,
    NUMBER_AND_SINGULAR,
    REPETITION,
    SURE,
    UNFINISHED,
    WRONG_ARTICLE,
    Confidence,
    MatchRanker,
    MatchRanking,
    TaggedCaption,
    choose_captions,
    features,
    fix_articles,
    problems,
    shorter_captions,
)
from deixis.models.grounding import HubnessCorrection
from deixis.models.installed import SHIPPED
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.pipeline import CaptionPipeline, load_captioner
from deixis.models.provenance import EncoderInfo
from deixis.tokens import words

pytestmark = pytest.mark.usefixtures("small_encoder")


class LongTexts:
    """A matching model that finds long sentences similar to all photos."""

    name = "two-branch"
    has_common_space = True

    def __init__(self, encoder: EncoderInfo) -> None:
        self.encoder = encoder
        self.hubness = None
        self.calls: list[list[str]] = []

    def encode_photos(self, vectors: np.ndarray) -> np.ndarray:
        return np.ones((len(vectors), 1), np.float32)

    def compare(self, visual: np.ndarray, text: np.ndarray) -> np.ndarray:
        return visual @ text.T

    def encode_sentences(self, sentences: Sequence[str]) -> np.ndarray:
        self.calls.append(list(sentences))
        return np.array([[len(text.split())] for text in sentences], np.float32)


@pytest.fixture
def captioner(captioner_folder: Path) -> CaptionPipeline:
    return load_captioner(captioner_folder / "run")


@pytest.fixture
def paths(captioner_folder: Path) -> list[Path]:
    return [captioner_folder / "images" / f"{number:04d}.png" for number in (8, 9)]


def use(monkeypatch: pytest.MonkeyPatch, matcher: Any) -> list[Path]:
    """Open this model from every folder; the folders that were opened."""
    opened: list[Path] = []

    def load(folder: Path) -> Any:
        opened.append(folder)
        return matcher

    monkeypatch.setattr(ranking, "load_embedding_model", load)
    return opened


def test_a_score_is_the_log_probability_per_word_plus_the_weighted_similarity() -> None:
    rng = np.random.default_rng(0)
    texts = {"a dog": rng.normal(size=4), "a dog runs": rng.normal(size=4), "a cat": rng.normal(size=4)}
    weights = rng.normal(size=(6, 4))
    matcher: Any = SimpleNamespace(
        encode_photos=lambda vectors: vectors @ weights,
        compare=lambda visual, text: visual @ text.T,
        encode_sentences=lambda sentences: np.stack([texts[text] for text in sentences]),
    )
    photos = rng.normal(size=(2, 6))
    sentences = [
        [GeneratedSentence(("a", "dog"), -3.0), GeneratedSentence(("a", "dog", "runs"), -5.0, finished=False)],
        [GeneratedSentence(("a", "cat"), -1.5), GeneratedSentence(("a", "dog"), -6.0)],
    ]
    found = MatchRanker(matcher, 0.7).scores(photos, sentences)
    words = [[3, 3], [3, 3]]  # with the end token
    for row in range(2):
        for column, one in enumerate(sentences[row]):
            similarity = sum(a * b for a, b in zip(photos[row] @ weights, texts[one.text], strict=True))
            expected = one.log_probability / words[row][column] + 0.7 * similarity
            assert found[row][column] == pytest.approx(expected, abs=1e-5)


def test_the_features_are_the_similarity_of_each_sentence_and_the_familiarity_of_the_photo() -> None:
    rng = np.random.default_rng(1)
    texts = {"a dog": rng.normal(size=4), "a dog runs": rng.normal(size=4)}
    bank, photos = rng.normal(size=(30, 4)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    correction = HubnessCorrection.fit(bank / 10, bank / 10, neighbours=2)
    asked: list[list[str]] = []

    def encode(sentences: Sequence[str]) -> np.ndarray:
        asked.append(list(sentences))
        return np.stack([texts[text] for text in sentences])

    matcher: Any = SimpleNamespace(
        encode_photos=lambda vectors: vectors,
        compare=lambda visual, text: visual @ text.T,
        encode_sentences=encode,
        hubness=correction,
    )
    ranker = MatchRanker(matcher, 1.0)
    one, other = GeneratedSentence(("a", "dog"), -3.0), GeneratedSentence(("a", "dog", "runs"), -5.0)
    sentences = [[one, other], [other], [one]]
    for photo, each, found in zip(photos, sentences, ranker.features(photos, sentences), strict=True):
        nearest = sorted(float(photo @ row) for row in correction.codes["sentences"] * correction.step)[-2:]
        assert found == pytest.approx(
            np.array([[10 * (photo @ texts[one.text] - 0.5), 10 * (sum(nearest) / 2 - 0.4)] for one in each]), abs=1e-4
        )
    ranker.scores(photos, sentences)
    assert asked == [["a dog", "a dog runs"]]  # sentences of the call before are not encoded again


def test_the_confidence_of_a_model_with_a_ranking_is_fitted_with_the_match_and_uses_it(
    captioner: CaptionPipeline, captioner_folder: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = LongTexts(captioner.encoder)
    use(monkeypatch, matcher)
    dataset = Dataset(captioner_folder / "data", images=captioner_folder / "images")
    splits = [("colours", dataset, "dev")]
    assert not fit_confidence(read_caption_sources(captioner, splits)).uses_match
    captioner.ranking = MatchRanking()
    fitted = fit_confidence(read_caption_sources(captioner, splits))
    assert fitted.uses_match
    assert len(fitted.calibrator.weights) == FEATURES + MATCH_FEATURES
    assert min(fitted.calibrator.weights[FEATURES:]) >= 0
    captioner.confidence = Confidence([0, 0, 0, 0, 0, 1.0, 0], 0.5)
    for rerank in ("match", "none"):
        [long] = captioner.caption(paths[:1], rerank=rerank)
        words = len(long.captions[0].words)
        assert long.confidence[0] == pytest.approx(1 / (1 + np.exp(-10 * (words - 0.5))))


def test_a_model_with_a_ranking_ranks_by_it_unless_told_otherwise(
    captioner: CaptionPipeline, paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert captioner.default_rerank == "none"
    captioner.ranking = MatchRanking("two-branch", 50.0)
    captioner.save_pretrained(tmp_path / "model")
    saved = load_captioner(tmp_path / "model")
    assert saved.default_rerank == "match"
    opened = use(monkeypatch, LongTexts(captioner.encoder))
    ranked = saved.caption(paths, top=5)
    assert opened == [SHIPPED / "two-branch"]
    for one, by_probability in zip(ranked, saved.caption(paths, top=5, rerank="none"), strict=True):
        lengths = [len(caption.words) for caption in one.captions]
        assert lengths == sorted(lengths, reverse=True)
        assert {caption.text for caption in one.captions} == {caption.text for caption in by_probability.captions}
        probabilities = [caption.log_probability for caption in by_probability.captions]
        assert probabilities == sorted(probabilities, reverse=True)
        assert not one.consensus
        assert "consensus" not in one.as_json()["captions"][0]
    assert len(set(map(len, (ranked[0].captions[0].words, ranked[0].captions[-1].words)))) == 2


def test_a_model_with_the_fast_encoder_uses_that_of_the_matching_model(
    captioner: CaptionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, fast = (replace(captioner.encoder, name=name, fingerprint=name) for name in ("deixis", "deixis-fast"))
    monkeypatch.setattr(EncoderInfo, "faster", lambda _: fast)
    opened = use(monkeypatch, LongTexts(full))
    for encoder in (full, fast):
        MatchRanking().open(encoder)
    assert opened == [SHIPPED / "two-branch"] * 2
    with pytest.raises(DeixisError, match="two-branch"):
        MatchRanking().open(replace(full, fingerprint="other"))


def test_a_matching_model_of_other_features_or_without_vectors_is_refused(
    captioner: CaptionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = LongTexts(replace(captioner.encoder, fingerprint="other"))
    use(monkeypatch, matcher)
    with pytest.raises(DeixisError, match="two-branch"):
        captioner.ranker("match")
    matcher.encoder, matcher.has_common_space = captioner.encoder, False
    with pytest.raises(DeixisError, match="two-branch"):
        captioner.ranker("match")


def test_a_name_means_the_shipped_model_even_if_the_working_directory_has_another(
    captioner: CaptionPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captioner.save_pretrained(tmp_path / "two-branch")
    captioner.save_pretrained(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    matcher: Any = LongTexts(captioner.encoder)  # called two-branch, which is the model in the working directory
    opened = use(monkeypatch, LongTexts(captioner.encoder))
    MatchRanking("two-branch").open(captioner.encoder, matcher)
    MatchRanking("own").open(captioner.encoder)
    assert opened == [SHIPPED / "two-branch", Path("own")]


BY_NOUNS = Confidence([3.0, 0.0, 2.0, 0.0, 0.0])
"""Sure if no noun has a log-probability much below −1."""


def generated(text: str, **log_p: float) -> GeneratedSentence:
    """A sentence whose words have log-probability −0.1 unless another one is given."""
    words = tuple(text.split())
    values = (*(log_p.get(word, -0.1) for word in words), -0.1)
    return GeneratedSentence(words, sum(values), True, values)


def tagged(text: str) -> TaggedCaption:
    words = tuple(text.split())
    return TaggedCaption(words, tuple(tag(words)), (-0.1,) * len(words))


def test_ungrammatical_sentences_are_passed_over_and_articles_are_corrected() -> None:
    sentences = [
        generated("a white is standing"),
        generated("a elephant in a field"),
        generated("two dogs run in snow"),
    ]
    found = choose_captions(sentences, None)
    assert [each.sentence.text for each in found] == ["an elephant in a field", "two dogs run in snow"]
    assert [(each.changed, each.rank) for each in found] == [(True, 1), (False, 2)]
    assert [(each.confidence, each.sure) for each in found] == [(None, None), (None, None)]


def test_a_sentence_without_alternative_is_shortened_or_not_sure() -> None:
    [shortened] = choose_captions([generated("a dog in the water with a")], None)
    assert shortened.sentence.text == "a dog in the water"
    assert shortened.sure is None
    for confidence in (None, Confidence([9.0, 0, 0, 0, 0])):
        [bad] = choose_captions([generated("a white is")], confidence)
        assert (bad.sentence.text, bad.sure) == ("a white is", False)


def test_an_unsure_caption_is_replaced_by_its_longest_sure_part() -> None:
    text = "a man in a red jacket is standing on a bench"
    [whole] = choose_captions([generated(text)], BY_NOUNS)
    assert (whole.sentence.text, whole.sure, whole.changed) == (text, True, False)
    [end] = choose_captions([generated(text, bench=-3)], BY_NOUNS)
    assert (end.sentence.text, end.sure, end.changed) == ("a man in a red jacket is standing", True, True)
    [middle] = choose_captions([generated(text, jacket=-3)], BY_NOUNS)
    assert (middle.sentence.text, middle.sure) == ("a man is standing on a bench", True)
    [neither] = choose_captions([generated(text, man=-3)], BY_NOUNS)
    assert (neither.sentence.text, neither.sure) == (text, False)
    assert 0 < neither.confidence < SURE < middle.confidence < 1  # type: ignore[operator]


def test_of_a_caption_without_a_sure_part_the_most_probable_part_is_shown() -> None:
    text = "a man in a red jacket is standing on a bench"
    found, other = choose_captions([generated(text, man=-2, bench=-3), generated("two dogs run in snow")], BY_NOUNS)
    assert (found.sentence.text, found.sure, found.changed) == ("a man in a red jacket is standing", False, True)
    assert other.sentence.text == "two dogs run in snow"


def test_a_calibration_says_from_where_captions_are_sure() -> None:
    sentence = generated("two dogs run in the snow")
    for weight, sure_from, sure in ((0.5, 0.6, True), (0.5, 0.7, False)):
        [found] = choose_captions([sentence], Confidence([weight, 0, 0, 0, 0], sure_from))
        assert found.confidence == pytest.approx(0.62, abs=0.01)
        assert found.sure is sure


def test_shorter_captions_are_grammatical_parts_that_say_something() -> None:
    found = [
        " ".join(each.words) for each in shorter_captions(tagged("an old man with a hat is riding a bike on a street"))
    ]
    assert found[0] == "a man with a hat is riding a bike on a street"
    assert "an old man is riding a bike" in found
    assert not {"an old man is", "a man", "an old man is riding", "a man with"} & set(found)
    assert [len(each.split()) for each in found] == sorted((len(each.split()) for each in found), reverse=True)
    assert shorter_captions(tagged("a person is standing on a rock")) == []


def test_captions_in_the_past_tense_are_not_shortened_before_their_verb() -> None:
    """The rules of grammar know "was"; those for shorter captions, which the confidence was fitted to, only "is"."""
    found = {" ".join(each.words) for each in shorter_captions(tagged("a man in a red jacket was standing on a bench"))}
    assert "a man in a jacket was standing on a bench" in found
    assert "a man was standing on a bench" not in found


def test_the_words_that_a_caption_was_started_with_are_kept() -> None:
    sentence = generated("an old man is riding a bike on a street", street=-3, man=-0.9)
    [found] = choose_captions([sentence], BY_NOUNS, ["an", "old"])
    assert found.sentence.text == "an old man is riding a bike"
    started = choose_captions([generated("a old man is riding a bike")], None, ["a", "old"])
    assert [(each.sentence.text, each.sure) for each in started] == [("a old man is riding a bike", False)]


def test_the_confidence_does_not_fall_with_the_probability_of_a_word() -> None:
    rng = np.random.default_rng(0)
    confidence = Confidence([0.3, 1.0, 0.5, 0.2, -0.1])
    words = ["a", "brown", "dog", "is", "running", "in", "the", "snow"]
    for _ in range(20):
        log_p = rng.uniform(-3, 0, len(words))
        higher = log_p + rng.uniform(0, 1, len(words))
        low, high = (TaggedCaption(tuple(words), tuple(tag(words)), tuple(each.tolist())) for each in (log_p, higher))
        assert confidence.of(low) <= confidence.of(high)
        assert (features(low)[LOG_PROBABILITIES] <= features(high)[LOG_PROBABILITIES]).all()
    assert features(low).shape == (FEATURES,)


def test_the_match_of_a_sentence_counts_for_its_parts_too() -> None:
    by_match = Confidence([0, 0, 0, 0, 0, 2.0, 0.5])
    assert by_match.uses_match
    assert not BY_NOUNS.uses_match
    sentences = [generated("a man is riding a bike"), generated("two dogs run in snow")]
    good, bad = choose_captions(sentences, by_match, matches=[[1.0, 1.0], [-1.0, 1.0]])
    assert [good.confidence, bad.confidence] == pytest.approx([1 / (1 + np.exp(-2.5)), 1 / (1 + np.exp(1.5))])
    assert good.sure
    assert not bad.sure
    [part] = choose_captions([generated("a man in a red jacket is sitting on a bench")], by_match, matches=[[-1.0, 0]])
    assert part.confidence == pytest.approx(1 / (1 + np.exp(2)))


def test_the_confidence_is_saved(tmp_path: Path) -> None:
    Confidence([0.1, 0.2, 0.3, 0.4, 0.5], 0.7).save(tmp_path / "confidence")
    found = Confidence.load(tmp_path / "confidence")
    assert (found.calibrator.weights, found.sure_from) == ((0.1, 0.2, 0.3, 0.4, 0.5), 0.7)
    with pytest.raises(ValueError, match="weights"):
        Confidence([1.0])


BAD = {
    "a white is standing in a hallway": NO_NOUN,
    "a black and white is sitting on a bench": NO_NOUN,
    "a large white is parked on the side of the road": NO_NOUN,
    "a man is standing in front of a large": NO_NOUN,
    "a woman in a blue is walking": NO_NOUN,
    "a boy in is playing": NO_NOUN,
    "the black and white is running": NO_NOUN,
    "a red and white in the air": NO_NOUN,
    "a elephant is standing in a field": WRONG_ARTICLE,
    "an man riding a horse": WRONG_ARTICLE,
    "a man in a shirt and a man in a shirt": REPETITION,
    "a man with a hat is wearing a hat": REPETITION,
    "a kitchen with a stove and a stove": REPETITION,
    "a train on the tracks on the tracks": REPETITION,
    "a bus driving down a street with a bus": REPETITION,
    "a pizza sitting on top of a pizza": REPETITION,
    "a cat sitting on top of a cat": REPETITION,
    "a bed with a white bed": REPETITION,
    "a bird on the window of a window": REPETITION,
    "a blue and blue bus on a city street": REPETITION,
    "a city with buildings and buildings": REPETITION,
    "a group of people standing in the the street": DOUBLED_WORD,
    "a person is are skiing": DOUBLED_WORD,
    "a red flags": ARTICLE_AND_PLURAL,
    "a zebras standing in a field": ARTICLE_AND_PLURAL,
    "a man is wearing a sunglasses": ARTICLE_AND_PLURAL,
    "a young children playing in the park": ARTICLE_AND_PLURAL,
    "two man are playing in the sand": NUMBER_AND_SINGULAR,
    "three young girl in dresses": NUMBER_AND_SINGULAR,
    "two dogs is running in the snow": AGREEMENT,
    "a dog are running in the grass": AGREEMENT,
    "people is walking in the street": AGREEMENT,
    "a man in a": UNFINISHED,
    "a table with a plate of food and": UNFINISHED,
    "a little girl is standing next": UNFINISHED,
}

GOOD = [
    "two dogs run through the snow",
    "a black and white dog is running in the grass",
    "a man in a red shirt and a man in a blue shirt",
    "a man in a hat and a woman in a hat",
    "a woman in white is standing next to a man in black",
    "a group of people are standing in the snow",
    "a few people are sitting on a bench",
    "a couple of girls is dancing",
    "a train on a train track",
    "a sports car on the road",
    "a man jumps from one bed to another",
    "a two story house with an open window",
    "several sheep are in a field",
    "a boy is looking at something he is standing on",
    "there are two dogs",
    "a black dog splashes in the water",
]


@pytest.mark.parametrize(("sentence", "name"), BAD.items())
def test_bad_sentences_are_found_and_the_problem_is_named(sentence: str, name: str) -> None:
    assert name in problems(sentence.split())


@pytest.mark.parametrize("sentence", GOOD)
def test_good_sentences_have_no_problem(sentence: str) -> None:
    assert problems(sentence.split()) == []


def test_few_captions_of_people_are_refused(real_data: Path) -> None:
    folder = real_data / "flickr8k"
    dev = set((folder / "Flickr_8k.devImages.txt").read_text().split())
    captions = [
        words(text)
        for name, _, text in (line.partition("\t") for line in (folder / "Flickr8k.token.txt").open(encoding="utf-8"))
        if name.partition("#")[0] in dev
    ][::5]
    refused = [caption for caption in captions if set(problems(caption)) - {WRONG_ARTICLE}]
    assert len(captions) == 1000
    assert len(refused) / len(captions) < 0.015


def test_articles_follow_the_sound_of_the_next_word() -> None:
    wrong = "a hour on an unicycle with a umbrella and an one-way sign beside an uniform a x-ray an european a"
    right = "an hour on a unicycle with an umbrella and a one-way sign beside a uniform an x-ray a european a"
    assert " ".join(fix_articles(wrong.split())) == right


def test_any_words_can_be_checked() -> None:
    assert problems([]) == []
    for sentence in ("a", "is", "and a", "of of of of", "two", "the the", "'s a 's"):
        problems(sentence.split())
