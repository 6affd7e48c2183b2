"""What models that write captions score on a split: by what they write, or by how likely they find what people did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from deixis.evaluation.of_data import regions_of, sentences_of
from deixis.evaluation.retrieval import recall_at_k, region_retrieval
from deixis.experiments.outcomes import Outcome
from deixis.experiments.scored import Scored, captioned
from deixis.models.decoding import Decoding, Generated
from deixis.tasks.captions.consensus import Similarity, best_first, oracle_scores
from deixis.tasks.captions.reranking import HowReranked, Neighbours, looked_up
from deixis.tasks.captions.scoring import captioner_regions, captioner_retrieval, on_best_device
from deixis.tasks.captions.tuned_consensus import Written, crossed_order
from deixis.tasks.scores.scoring import seen_by
from deixis.training.captions import perplexity_of

if TYPE_CHECKING:
    from deixis.data.dataset import Photos
    from deixis.experiments.records import Writing
    from deixis.tasks.captions.captioning import CaptionBundle
    from deixis.tasks.features_of import SeenPhotos


def seen_by_captioner(bundle: CaptionBundle, on: Scored) -> SeenPhotos:
    """The photos as the encoder of a model sees them."""
    return seen_by(bundle.encoder, on.dataset, on.photos, also=on.stores, on_progress=on.on_progress).require_all()


def score_written(bundle: CaptionBundle, on: Scored, writing: Writing, training: Photos) -> Outcome:
    """The captions of a model beside those of people, and the perplexity of these.

    Parameters
    ----------
    bundle
        The model.
    on
        What is scored.
    writing
        How captions are written. Where they are reranked by the captions of training photos, k and m for each half of
        the photos are those that are best on the other half.
    training
        The photos that the model learned from.
    """
    model, seen, gold = on_best_device(bundle).model, seen_by_captioner(bundle, on), sentences_of(on.photos)
    photos = bundle.photos_of(seen, on.on_progress)
    on.on_progress("writing captions", 0, len(seen.photos))
    made = model.generate(photos, _decoding(writing, model.settings.longest))
    own = {photo.id: tuple(caption.text for caption in photo.sentences) for photo in on.photos}
    chosen, said = _chosen(bundle, on, writing, made, list(own.values()), training)
    captions = {photo: (text, own[photo]) for photo, text in zip(seen.photos.ids, chosen, strict=True)}
    found = perplexity_of(model, photos, gold.texts, np.array(gold.photo_of_sentence))
    outcome = captioned(captions, sentences_of(training).texts, found.perplexity)
    words = {"words": f"{len(model.vocabulary):,} known, {found.oov or 0:.1f} % of those scored unknown"}
    return replace(outcome, about=words_of_captioner(bundle) | words | said)


def score_likely(bundle: CaptionBundle, on: Scored) -> Outcome:
    """Image–sentence retrieval by log P(w | I) − log P(w)."""
    gold, seen = sentences_of(on.photos), seen_by_captioner(bundle, on)
    found = recall_at_k(captioner_retrieval(bundle, seen, gold.texts, on.on_progress), gold.photo_of_sentence)
    return Outcome(found.scores, found.rankings, words_of_captioner(bundle))


def score_likely_regions(bundle: CaptionBundle, on: Scored) -> Outcome:
    """Region–phrase retrieval by the same: gold regions ask for their phrases."""
    gold, seen = regions_of(on.photos), seen_by_captioner(bundle, on)
    scores = captioner_regions(bundle, seen, gold, on.on_progress)
    found = region_retrieval(scores, gold.positives, phrases=gold.phrases, photo_of_region=gold.photo_of_region)
    return Outcome(found.scores, found.rankings, words_of_captioner(bundle))


def words_of_captioner(bundle: CaptionBundle) -> dict[str, str]:
    """What people should know of a model that writes."""
    crops = ", ten crops" if bundle.encoder.crops else ""
    return {"encoder": f"{bundle.encoder.name}{crops} ({bundle.encoder.fingerprint})"}


def _decoding(writing: Writing, longest: int) -> Decoding:
    if writing.beam == 1:
        return Decoding(method="greedy", longest=longest)
    return Decoding(beam=writing.beam, count=1 if writing.rerank == "none" else writing.beam, longest=longest)


def _chosen(
    bundle: CaptionBundle,
    on: Scored,
    writing: Writing,
    made: Sequence[Sequence[Generated]],
    own: Sequence[Sequence[str]],
    training: Photos,
) -> tuple[list[str], dict[str, str]]:
    """The caption of each photo, and what people should know of how it was chosen."""
    if writing.rerank == "none":
        return [some[0].text for some in made], {}
    sentences = [[each.words for each in some] for some in made]
    said = {}
    if writing.rerank in ("bleu-oracle", "cider-oracle"):
        scores = oracle_scores(sentences, own, "bleu" if writing.rerank == "bleu-oracle" else "cider")
        order = list(map(best_first, scores))
    else:
        similarity: Similarity = "bleu" if writing.rerank == "bleu" else "cider"
        photos = seen_by_captioner(bundle, on)
        learned = seen_by(bundle.encoder, on.dataset, training, also=on.stores, on_progress=on.on_progress)
        neighbours = Neighbours.of(learned, bundle.encoder, HowReranked(writing.feature))
        written = Written(looked_up(bundle.model, photos.vectors(), writing.feature), sentences, own)
        order, settings = crossed_order(neighbours.consensus(bundle.model), written, similarity)
        said = {
            f"k and m of {similarity}, each from the other half": ", ".join(
                f"{each.neighbours} and {each.captions}" for each in settings
            )
        }
    return [some[int(places[0])].text for some, places in zip(made, order, strict=True)], said
