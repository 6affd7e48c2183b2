"""Training of the m-RNN on the captions of a data set: data, untrained model, objective and validation scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from deixis.arrays import IntArray
from deixis.data.dataset import Photos
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.items import sentences_of
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.captioning import CaptionPipeline, load_captioner, model_inputs, pool_cells
from deixis.models.m_rnn.evaluation import caption_cider, caption_perplexity
from deixis.models.m_rnn.match_ranking import MatchRanking
from deixis.models.m_rnn.model import MRNN, VectorsAndCells
from deixis.models.m_rnn.objective import CaptionSampler, LikelihoodObjective
from deixis.models.m_rnn.self_critical import CiderReward, PhotoSampler, Reward, RewardObjective
from deixis.models.m_rnn.spec import MONITOR, CaptionDataSettings, MRNNSettings
from deixis.models.m_rnn.wrong_words import WrongWordPenalty
from deixis.models.networks import word_tensors
from deixis.models.photo_features import PhotoFeatures
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.models.training.distributed import seeded
from deixis.models.training.objective import DevScores, Stage, Validation
from deixis.models.training.runner import Run, TrainingData, encoder_of
from deixis.models.training.settings import settings_to_json
from deixis.models.training.views import SIDES, encode_views, random_views
from deixis.storage.progress import OnProgress, track
from deixis.tokens import words as words_in

_TRAINING_ONLY = ("dropout", "word_dropout", "scheduled_sampling", "label_smoothing", "max_length")
"""Settings that may differ from those of the model that training starts from."""


@dataclass(frozen=True)
class Captions:
    """Photos as the model takes them, the words of their captions, and the number of each caption's photo."""

    photos: VectorsAndCells  # `views` rows of each photo
    words: list[tuple[str, ...]]
    photo_of_caption: NDArray[np.int64]
    views: int = 1

    def by_photo(self) -> list[list[tuple[str, ...]]]:
        """The captions of each photo."""
        found: list[list[tuple[str, ...]]] = [[] for _ in range(len(self.photos.vectors) // self.views)]
        for words, photo in zip(self.words, self.photo_of_caption.tolist(), strict=True):
            found[photo].append(words)
        return found


@dataclass(kw_only=True)
class CaptionData(TrainingData):
    """Captions of the training photos, and the encoder of the photos."""

    captions: Captions
    encoder: EncoderInfo


def prepare_data(run: Run) -> CaptionData:
    """Read the features of photos, or of views of them, and the words of their captions."""
    data = run.settings[CaptionDataSettings]
    grid = data.feature_grid if run.settings[MRNNSettings].attention else 0
    train = run.read_training_photos(data.feature_source)
    captions = _read_captions(train, grid, run.on_progress, with_photos=not data.views)
    if captions is None:
        raise DatasetError(f"{run.dataset.path}: no photo of split {run.train_split!r} has a caption to train on")
    if data.views:
        captions = _read_views(run, train, captions, grid)
    return CaptionData(
        train,
        sentences=len(captions.words),
        texts=f"{len(captions.words):,} captions",
        captions=captions,
        encoder=encoder_of(train, grid),
    )


def validation(run: Run, data: CaptionData, photos: Photos) -> Validation | None:
    """Perplexity of the captions and, if it selects the best epoch, CIDEr-D of generated ones."""
    settings = run.settings[CaptionDataSettings]
    features = run.read_photos(photos, settings.feature_source)
    dev = _read_captions(features, data.encoder.feature_grid, run.on_progress)
    if dev is None:
        return None

    def score(pipeline: CaptionPipeline) -> DevScores:
        found = caption_perplexity(pipeline.model, dev.photos, dev.words, dev.photo_of_caption)
        scores = {"perplexity": found.perplexity, "oov": found.oov or 0.0, MONITOR: -found.perplexity}
        if settings.monitor == "cider":
            scores["cider_d"] = caption_cider(pipeline.model, dev.photos, dev.by_photo())
        return DevScores("cider_d" if settings.monitor == "cider" else MONITOR, scores)

    return Validation(features, score)


def _read_captions(
    features: PhotoFeatures, grid: int, on_progress: OnProgress, *, with_photos: bool = True
) -> Captions | None:
    if not len(features.photos.sentence_rows()[0]):
        return None
    gold = sentences_of(features.photos)
    words = [tuple(words_in(text)) for text in gold.texts]
    photos = model_inputs(features, grid, on_progress) if with_photos else VectorsAndCells(features.vectors())
    return Captions(photos, words, np.array(gold.photo_of_sentence))


def _read_views(run: Run, features: PhotoFeatures, captions: Captions, grid: int) -> Captions:
    """Captions with views of their photos, which are encoded now."""
    folder, views = run.dataset.images, run.settings[CaptionDataSettings].views
    if folder is None:
        raise DatasetError(f"views={views}: {run.dataset.path} has no photos to encode")
    encoder, generator = encoder_of(features, grid).open(str(run.device)), np.random.default_rng(run.training.seed)
    paths = [folder / str(photo.file) for photo in features.photos]
    chosen = [
        random_views(views, generator, mirror=not any(SIDES & set(words) for words in texts))
        for texts in captions.by_photo()
    ]
    rows = views * len(paths)
    vectors = np.empty((rows, captions.photos.vectors.shape[1]), np.float32)
    # In half precision, as in the store, because the cells of all views are in memory together.
    cells = np.empty((rows, grid**2, encoder.channels), np.float16) if grid else None
    encoded = track(encode_views(encoder, paths, chosen), "encoding views of photos", len(paths), run.on_progress)
    for row, view in enumerate(view for photo in encoded for view in photo):
        vectors[row] = view.photo_vector(features.photo_vector)
        if cells is not None:
            cells[row] = pool_cells(view.cells, grid)
    return replace(captions, photos=VectorsAndCells(vectors, cells), views=views)


def build(run: Run, data: CaptionData) -> CaptionPipeline:
    """Make the untrained model, or read the one to start from (`init_from`)."""
    settings, init_from = run.settings[MRNNSettings], run.settings[CaptionDataSettings].init_from
    if init_from:
        model = _trained_model(init_from, settings, data.encoder)
    else:
        model = _new_model(data.captions, settings, run.training.seed)
    data.sources["words"] = f"{len(model.vocabulary):,}"
    pipeline = CaptionPipeline(model, Provenance(data.encoder))
    if match_model := run.settings[CaptionDataSettings].match_model:
        pipeline.ranking = MatchRanking(match_model, run.settings[CaptionDataSettings].match_weight)
        pipeline.ranker()  # raises if the model does not fit
    return pipeline


def _new_model(captions: Captions, settings: MRNNSettings, seed: int) -> MRNN:
    vocabulary = Vocabulary.fit(captions.words, settings.min_count)
    if not len(vocabulary):
        raise DeixisError(f"min_count={settings.min_count}: no word occurs so often in the captions; set a smaller one")
    vectors, cells = captions.photos
    with seeded(seed):
        model = MRNN(vectors.shape[1], vocabulary, settings, cell_size=0 if cells is None else cells.shape[2])
    return model.fit_statistics(captions.photos, seed)


def _trained_model(folder: str, settings: MRNNSettings, encoder: EncoderInfo) -> MRNN:
    """A trained model with the same network, and other settings of training."""
    pipeline = load_captioner(folder)
    trained = pipeline.model
    if pipeline.encoder != encoder:
        raise DeixisError(f"init_from={folder}: was trained on other features; set its encoder, crops and feature_grid")
    for name, value in settings_to_json(settings).items():
        theirs = getattr(trained.settings, name)
        if name not in _TRAINING_ONLY and value != theirs:
            raise DeixisError(f"init_from={folder}: its network has {name}={theirs}, not {name}={value}")
    model = MRNN(trained.photo_size, trained.vocabulary, settings, cell_size=trained.cell_size)
    model.network.load_state_dict(trained.network.state_dict())
    model.references_ = trained.references_
    return model


def objective(run: Run, pipeline: CaptionPipeline, data: CaptionData) -> Stage:
    """Batches of captions and their likelihood (eq. 6); or batches of photos and the expected reward."""
    model, settings = pipeline.model, run.settings[CaptionDataSettings]
    photos = data.captions.photos
    vectors = torch.from_numpy(photos.vectors).to(run.device)
    cells = None if photos.cells is None else torch.from_numpy(photos.cells).to(run.device)
    ids, lengths = word_tensors(data.captions.words, model.vocabulary)
    photo_of_caption = torch.from_numpy(data.captions.photo_of_caption)
    likelihood = LikelihoodObjective(vectors, photo_of_caption, ids, lengths, cells, data.captions.views)
    if settings.objective == "likelihood":
        return Stage(model.network, CaptionSampler(lengths, run.training.batch_size), likelihood)
    rewarded = RewardObjective(
        vectors,
        _reward(data.captions.by_photo(), model, settings),
        settings.reward_samples,
        model.settings.max_length,
        cells,
        likelihood if settings.likelihood_weight else None,
        settings.likelihood_weight,
        data.captions.views,
    )
    sampler = PhotoSampler(_reward_photos(run, data, settings.repeated_split), run.training.batch_size)
    return Stage(model.network, sampler, rewarded)


def _reward_photos(run: Run, data: CaptionData, repeated_split: str) -> IntArray:
    """The rows of the photos of an epoch."""
    rows = np.unique(data.captions.photo_of_caption)
    if not repeated_split:
        return rows
    repeated = set(run.dataset.split(repeated_split).ids)
    ids = data.train.photos.ids
    return np.concatenate([rows, [row for row in rows.tolist() if ids[row] in repeated]]).astype(np.int64)


def _reward(references: list[list[tuple[str, ...]]], model: MRNN, settings: CaptionDataSettings) -> Reward:
    """CIDEr-D, less the penalties."""
    cider_d = CiderReward(references, model.vocabulary, repetition_penalty=settings.repetition_penalty)
    penalty = settings.wrong_word_penalty
    if not penalty:
        return cider_d
    wrong = WrongWordPenalty(references, model.vocabulary)
    return lambda words, photos: cider_d(words, photos) - penalty * wrong(words, photos)


def finish(run: Run, pipeline: CaptionPipeline, data: CaptionData) -> None:
    """Save the training photos and captions, for reranking, into the folder ``neighbours`` of the run."""
    from deixis.models.consensus.reranking import FOLDER, Neighbours, RerankConfig

    config = RerankConfig("refined" if pipeline.model.settings.refines_images else "photo")
    Neighbours.from_features(data.train, data.encoder, config).save(run.out / FOLDER)
