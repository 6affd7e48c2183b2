"""Training of the m-RNN on the captions of a data set, and of consensus reranking (section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from deixis.data.dataset import Photos
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.captions import caption_scores
from deixis.evaluation.items import sentences_of
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.consensus import (
    FOLDER,
    Candidates,
    CaptionMeasure,
    ConsensusPipeline,
    Neighbours,
    RerankConfig,
    RerankSettings,
    cross_validated_order,
    neighbour_vectors,
    tune,
)
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.evaluation import caption_perplexity
from deixis.models.m_rnn.model import MRNN, PhotoArrays
from deixis.models.m_rnn.objective import CaptionSampler, LikelihoodObjective
from deixis.models.m_rnn.pipeline import CaptionPipeline, load_captioner
from deixis.models.m_rnn.spec import (
    MONITOR,
    CaptionDataSettings,
    ConsensusDataSettings,
    ConsensusSettings,
    MRNNSettings,
)
from deixis.models.networks import word_tensors
from deixis.models.photo_features import PhotoFeatures, find_or_compute_features
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.models.training.data import training_photos
from deixis.models.training.objective import DevScores, Stage, Validation
from deixis.models.training.reproducibility import seeded
from deixis.models.training.runner import Run, TrainingData, encoder_of
from deixis.storage.progress import OnProgress
from deixis.tokens import words as words_in


@dataclass(frozen=True)
class Captions:
    """The words of captions, the number of each caption's photo, and the number of photos."""

    words: list[tuple[str, ...]]
    photo_of_caption: NDArray[np.int64]
    photo_count: int

    @classmethod
    def of(cls, features: PhotoFeatures) -> Captions | None:
        """Read the captions of photos; None if they have none."""
        if not features.sentence_count:
            return None
        gold = sentences_of(features.photos)
        words = [tuple(words_in(text)) for text in gold.texts]
        return Captions(words, np.array(gold.photo_of_sentence), len(features.photos))

    def by_photo(self) -> list[list[tuple[str, ...]]]:
        """The captions of each photo."""
        found: list[list[tuple[str, ...]]] = [[] for _ in range(self.photo_count)]
        for words, photo in zip(self.words, self.photo_of_caption.tolist(), strict=True):
            found[photo].append(words)
        return found

    def vocabulary(self, min_count: int) -> Vocabulary:
        """Return the words that occur often enough."""
        found = Vocabulary.fit(self.words, min_count)
        if not len(found):
            raise DeixisError(f"min_count={min_count}: no word occurs so often in the captions; set a smaller one")
        return found


@dataclass(kw_only=True)
class CaptionData(TrainingData):
    """Training photos as the model takes them, their captions, and their encoder."""

    captions: Captions
    photos: PhotoArrays
    encoder: EncoderInfo


def prepare_data(run: Run) -> CaptionData:
    """Read the features of photos and the words of their captions."""
    train = run.read_training_photos(run.settings[CaptionDataSettings].feature_source)
    return caption_data(run, train, (train.vectors(),))


def caption_data(run: Run, train: PhotoFeatures, photos: PhotoArrays, feature_grid: int = 0) -> CaptionData:
    captions = Captions.of(train)
    if captions is None:
        raise DatasetError(f"{run.dataset.path}: no photo of split {run.train_split!r} has a caption to train on")
    return CaptionData(
        train,
        sentences=len(captions.words),
        texts=f"{len(captions.words):,} captions",
        captions=captions,
        photos=photos,
        encoder=encoder_of(train, feature_grid),
    )


def validation(run: Run, data: CaptionData, photos: Photos) -> Validation | None:
    """Perplexity of the captions."""
    features = run.read_photos(photos, run.settings[CaptionDataSettings].feature_source)
    dev = Captions.of(features)
    if dev is None:
        return None
    vectors = (features.vectors(),)
    return Validation(features, lambda pipeline: DevScores(MONITOR, perplexity_scores(pipeline.model, vectors, dev)))


def perplexity_scores(model: MRNN, photos: PhotoArrays, captions: Captions) -> dict[str, float]:
    found = caption_perplexity(model, photos, captions.words, captions.photo_of_caption)
    return {"perplexity": found.perplexity, "oov": found.oov or 0.0, MONITOR: -found.perplexity}


def build(run: Run, data: CaptionData) -> CaptionPipeline:
    """Make the untrained model."""
    settings = run.settings[MRNNSettings]
    vocabulary = data.captions.vocabulary(settings.min_count)
    with seeded(run.training.seed):
        model = MRNN(data.photos[0].shape[1], vocabulary, settings)
    data.sources["words"] = f"{len(vocabulary):,}"
    return CaptionPipeline(model.fit_statistics(data.photos, run.training.seed), Provenance(data.encoder))


def objective(run: Run, pipeline: CaptionPipeline, data: CaptionData) -> Stage:
    """Batches of captions and their likelihood (eq. 6)."""
    likelihood = LikelihoodObjective(*likelihood_inputs(run, pipeline, data))
    return Stage(pipeline.model.network, CaptionSampler(likelihood.lengths, run.training.batch_size), likelihood)


def likelihood_inputs(
    run: Run, pipeline: CaptionPipeline, data: CaptionData
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor, torch.Tensor]:
    """The first four arguments of `LikelihoodObjective`."""
    photos = tuple(torch.from_numpy(part).to(run.device) for part in data.photos)
    ids, lengths = word_tensors(data.captions.words, pipeline.model.vocabulary)
    return photos, torch.from_numpy(data.captions.photo_of_caption), ids, lengths


def finish(run: Run, pipeline: CaptionPipeline, data: CaptionData) -> None:
    """Save the training photos and captions, for reranking, into the folder ``neighbours`` of the run."""
    config = RerankConfig("refined" if pipeline.model.settings.refines_images else "photo")
    Neighbours.from_features(data.train, data.encoder, config).save(run.out / FOLDER)


CONSENSUS_MONITOR = "cider_d_by_cider"


@dataclass(kw_only=True)
class ConsensusData(TrainingData):
    """Training and validation photos, the captioner that they are for, and the scores that `build` measures."""

    dev: PhotoFeatures | None  # None if k and m are not tuned
    captioner: CaptionPipeline
    scores: dict[str, float] | None = None


def prepare_consensus(run: Run) -> ConsensusData:
    """Open the captioner, and read the features of photos by its encoder."""
    data, settings = run.settings[ConsensusDataSettings], run.settings[ConsensusSettings]
    photos = training_photos(run.dataset, run.train_split)
    captioner = load_captioner(data.captioner).use_best_device()
    if settings.neighbour_feature == "refined" and not captioner.model.settings.refines_images:
        raise DeixisError(
            f"neighbour_feature=refined: {data.captioner} has no refined features, because its image does not feed the "
            "multimodal layer; set neighbour_feature=photo"
        )
    also = [Path(data.features_dir)] if data.features_dir else []
    train = find_or_compute_features(captioner.encoder, run.dataset, photos, also=also, on_progress=run.on_progress)
    run.refuse_empty(train)
    dev = None
    for photos in islice(run.validation.values(), 1 if settings.tune else 0):
        dev = find_or_compute_features(captioner.encoder, run.dataset, photos, also=also, on_progress=run.on_progress)
        dev = dev if dev.sentence_count else None
    texts = f"{train.sentence_count:,} captions"
    return ConsensusData(train=train, dev=dev, sentences=train.sentence_count, texts=texts, captioner=captioner)


def build_consensus(run: Run, data: ConsensusData) -> ConsensusPipeline:
    """Gather the training photos and their captions, and choose k and m on the validation photos."""
    settings = run.settings[ConsensusSettings]
    config = RerankConfig(
        settings.neighbour_feature,
        RerankSettings("bleu", settings.neighbours, settings.top_captions_bleu),
        RerankSettings("cider", settings.neighbours, settings.top_captions_cider),
        neighbour_distance=settings.neighbour_distance,
        bleu_form=settings.bleu_form,
    )
    neighbours = Neighbours.from_features(data.train, data.captioner.encoder, config)
    if data.dev is not None:
        neighbours.config, data.scores = _tune(data.captioner, neighbours, data.dev, settings.beam, run.on_progress)
    return ConsensusPipeline(data.captioner, neighbours)


def consensus_validation(run: Run, data: ConsensusData, photos: Photos) -> Validation | None:
    """BLEU-4 and CIDEr-D on the validation photos, without and with reranking, and the chosen k and m.

    Each half of the photos is reranked with the k and m of the other half, so the scores are not optimistic. The saved
    k and m are the best on all of them.
    """
    if data.dev is None:
        return None
    return Validation(data.dev, lambda pipeline: DevScores(CONSENSUS_MONITOR, data.scores or {}))


def _tune(
    captioner: CaptionPipeline, neighbours: Neighbours, dev: PhotoFeatures, beam: int, on_progress: OnProgress
) -> tuple[RerankConfig, dict[str, float]]:
    rows = [row for row, photo in enumerate(dev.photos) if photo.sentences]
    references = [[caption.text for caption in photo.sentences] for photo in dev.photos if photo.sentences]
    photos, config = captioner.model_inputs(dev, on_progress), neighbours.config
    on_progress("generating captions", 0, len(dev.photos))
    generated = captioner.model.generate(photos, captioner.beam_search(beam, beam))
    sentences = [generated[row] for row in rows]
    vectors = neighbour_vectors(captioner.model, dev.vectors()[rows], config.neighbour_feature)
    candidates = Candidates(vectors, [[each.words for each in some] for some in sentences], references)
    consensus = neighbours.consensus(captioner.model)
    scores = _scores("", sentences, references, [0] * len(sentences))
    similarities: tuple[CaptionMeasure, ...] = ("bleu", "cider")
    for similarity in similarities:
        on_progress(f"choosing k and m for {similarity}", 0, None)
        best = tune(consensus, candidates, similarity)
        order, _ = cross_validated_order(consensus, candidates, similarity)
        scores |= _scores(f"_by_{similarity}", sentences, references, [int(each[0]) for each in order])
        scores |= {f"k_{similarity}": best.neighbours, f"m_{similarity}": best.m}
        config = replace(config, **{similarity: best})  # type: ignore[arg-type]
    return config, scores


def _scores(
    suffix: str,
    sentences: Sequence[Sequence[GeneratedSentence]],
    references: Sequence[Sequence[str]],
    chosen: Sequence[int],
) -> dict[str, float]:
    captions = {str(row): some[index].text for row, (some, index) in enumerate(zip(sentences, chosen, strict=True))}
    found = caption_scores(captions, {str(row): texts for row, texts in enumerate(references)})
    return {f"bleu4{suffix}": found.bleu4, f"cider_d{suffix}": found.cider_d}
