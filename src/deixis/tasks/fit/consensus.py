"""`deixis train consensus`: training photos with their captions, by which what a model writes is reranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.evaluation.captions import caption_scores
from deixis.files.progress import OnProgress, silent
from deixis.models.decoding import Decoding, Generated
from deixis.tasks.captions.captioning import DEFAULT, RERANKED_BEAM, CaptionBundle, load_captioner
from deixis.tasks.captions.consensus import ConsensusSettings, Similarity
from deixis.tasks.captions.reranking import Feature, HowReranked, Neighbours, feature_of, looked_up
from deixis.tasks.captions.scoring import on_best_device
from deixis.tasks.captions.tuned_consensus import Written, crossed_order, tuned
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.learning import refuse_no_photos, training_photos
from deixis.tasks.scores.scoring import DevScores, dev_split, seen_by


@dataclass(frozen=True)
class NeighbourData:
    """Whose captions are reranked, and by which photos.

    Attributes
    ----------
    model
        The model that writes: the directory of a run of ``deixis train m-rnn``, or a name.
    train
        The split whose photos and captions are asked.
    features
        Features that lie elsewhere than beside the data: a directory that ``deixis features`` made.
    """

    model: str = DEFAULT
    train: str = "train"
    features: str = ""


@dataclass(frozen=True)
class ConsensusTraining:
    """How captions are reranked.

    Attributes
    ----------
    feature
        By which vectors photos are alike: refined (g(V_I · I), §8.1) or photo.
    tune
        Choose k and m on dev, or val, where there is one, from those that are tried; else the three below hold.
    neighbours
        k of §8.2: photos whose captions are asked.
    best_bleu
        m of §8.2, for BLEU: so many of the most similar captions count.
    best_cider
        m of §8.2, for CIDEr.
    beam
        Sentences to choose from, while k and m are chosen.

    Examples
    --------
    >>> ConsensusTraining(beam=1)
    Traceback (most recent call last):
    deixis.errors.DeixisError: beam=1: must be 2 or more, or there is nothing to choose from
    """

    feature: Feature = "refined"
    tune: bool = True
    neighbours: int = 60
    best_bleu: int = 175
    best_cider: int = 125
    beam: int = RERANKED_BEAM

    def __post_init__(self) -> None:
        if self.beam < 2:
            raise DeixisError(f"beam={self.beam}: must be 2 or more, or there is nothing to choose from")
        self.how()

    def how(self) -> HowReranked:
        """What was chosen by hand."""
        return HowReranked(
            self.feature,
            ConsensusSettings("bleu", self.neighbours, self.best_bleu),
            ConsensusSettings("cider", self.neighbours, self.best_cider),
        )


@dataclass(frozen=True)
class FittedNeighbours:
    """What was made, and of what.

    Attributes
    ----------
    neighbours
        The training photos, and how they are asked.
    photos, sentences
        How many.
    left_out
        Why other photos of the split were left out, a line for each.
    dev
        BLEU-4 and CIDEr of dev without and with reranking; None where there is no dev, or k and m were given.
    phrases
        None.
    """

    neighbours: Neighbours
    photos: int
    sentences: int
    left_out: tuple[str, ...] = ()
    dev: DevScores | None = None
    phrases: int = 0


def fit_consensus(
    dataset: Dataset, data: NeighbourData, chosen: ConsensusTraining, *, on_progress: OnProgress = silent
) -> FittedNeighbours:
    """Gather the training photos and their captions, and choose k and m on dev.

    The scores on dev are honest: each half of dev is reranked by the k and m that are best on the other half. Those
    that are kept are the best on all of dev.
    """
    photos = training_photos(dataset, data.train)
    bundle = on_best_device(load_captioner(data.model))
    if chosen.feature == "refined" and feature_of(bundle.model) == "photo":
        into = bundle.model.settings.photo_into
        raise DeixisError(f"feature=refined: {data.model} refines no photos (photo_into={into}); take feature=photo")
    also = [Path(data.features)] if data.features else []
    seen = seen_by(bundle.encoder, dataset, photos, also=also, on_progress=on_progress)
    refuse_no_photos(dataset, seen, data.train)
    found = Neighbours.of(seen, bundle.encoder, chosen.how())
    split = dev_split(dataset, data.train)
    dev = None
    if chosen.tune and split:
        dev_seen = seen_by(bundle.encoder, dataset, dataset.split(split), also=also, on_progress=on_progress)
        if len(dev_seen.photos.sentence_rows()[0]):
            found.how, scores = _tuned(bundle, found, dev_seen, chosen.beam, on_progress)
            dev = DevScores(split, len(dev_seen.photos), scores, dev_seen.left_out)
    return FittedNeighbours(found, len(found.photos), sum(map(len, found.captions)), seen.left_out, dev)


def _tuned(
    bundle: CaptionBundle, neighbours: Neighbours, seen: SeenPhotos, beam: int, on_progress: OnProgress
) -> tuple[HowReranked, dict[str, float]]:
    """The best k and m, and what they are worth."""
    captioned = [place for place, photo in enumerate(seen.photos) if photo.sentences]
    own = [[caption.text for caption in photo.sentences] for photo in seen.photos if photo.sentences]
    photos, how = bundle.photos_of(seen, on_progress), neighbours.how
    on_progress("writing captions", 0, len(seen.photos))
    made = bundle.model.generate(photos, Decoding(beam=beam, count=beam, longest=bundle.model.settings.longest))
    made = [made[place] for place in captioned]
    vectors = looked_up(bundle.model, seen.vectors()[captioned], how.feature)
    written = Written(vectors, [[each.words for each in some] for some in made], own)
    consensus = neighbours.consensus(bundle.model)
    scores = _scores("", made, own, [0] * len(made))
    similarities: tuple[Similarity, ...] = ("bleu", "cider")
    best = {}
    for similarity in similarities:
        on_progress(f"choosing k and m for {similarity}", 0, None)
        best[similarity] = tuned(consensus, written, similarity)
        order, _ = crossed_order(consensus, written, similarity)
        scores |= _scores(f"_by_{similarity}", made, own, [int(places[0]) for places in order])
        scores |= {f"k_{similarity}": best[similarity].neighbours, f"m_{similarity}": best[similarity].captions}
    return replace(how, bleu=best["bleu"], cider=best["cider"], tuned_on=len(made)), scores


def _scores(
    name: str, made: Sequence[Sequence[Generated]], own: Sequence[Sequence[str]], chosen: Sequence[int]
) -> dict[str, float]:
    written = {str(row): some[place].text for row, (some, place) in enumerate(zip(made, chosen, strict=True))}
    found = caption_scores(written, {str(row): texts for row, texts in enumerate(own)})
    return {f"bleu4{name}": found.bleu4, f"cider_d{name}": found.cider_d}
