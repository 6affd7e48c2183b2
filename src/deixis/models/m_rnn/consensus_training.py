"""``deixis train consensus``: training photos with their captions, and the best k and m on the validation split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from deixis.data.dataset import Photos
from deixis.errors import DeixisError
from deixis.evaluation.captions import caption_scores
from deixis.models.m_rnn.consensus import Candidates, CaptionMeasure, RerankSettings, cross_validated_order, tune
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.pipeline import CaptionPipeline, load_captioner
from deixis.models.m_rnn.reranking import ConsensusPipeline, Neighbours, RerankConfig, neighbour_vectors
from deixis.models.m_rnn.spec import ConsensusDataSettings, ConsensusSettings
from deixis.models.photo_features import PhotoFeatures, find_or_compute_features
from deixis.models.training.data import refuse_no_photos, training_photos
from deixis.models.training.objective import DevScores, Validation
from deixis.models.training.runner import Run, TrainingData
from deixis.storage.progress import OnProgress

MONITOR = "cider_d_by_cider"


@dataclass(kw_only=True)
class ConsensusData(TrainingData):
    """Training and validation photos, the captioner that they are for, and the scores that `build` measures."""

    dev: PhotoFeatures | None  # None if k and m are not tuned
    captioner: CaptionPipeline
    scores: dict[str, float] | None = None


def prepare_data(run: Run) -> ConsensusData:
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
    refuse_no_photos(run.dataset, train, run.train_split)
    dev = None
    for photos in islice(run.validation.values(), 1 if settings.tune else 0):
        dev = find_or_compute_features(captioner.encoder, run.dataset, photos, also=also, on_progress=run.on_progress)
        dev = dev if len(dev.photos.sentence_rows()[0]) else None
    sentences = len(train.photos.sentence_rows()[0])
    texts = f"{sentences:,} captions"
    return ConsensusData(train=train, dev=dev, sentences=sentences, texts=texts, captioner=captioner)


def build(run: Run, data: ConsensusData) -> ConsensusPipeline:
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


def validation(run: Run, data: ConsensusData, photos: Photos) -> Validation | None:
    """BLEU-4 and CIDEr-D on the validation photos, without and with reranking, and the chosen k and m.

    Each half of the photos is reranked with the k and m of the other half, so the scores are not optimistic. The saved
    k and m are the best on all of them.
    """
    if data.dev is None:
        return None
    return Validation(data.dev, lambda pipeline: DevScores(MONITOR, data.scores or {}))


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
