"""Training of the captioner: views of photos, likelihood or CIDEr-D as the objective, and validation scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from deixis.arrays import IntArray
from deixis.data.dataset import Photos
from deixis.data.images import open_photo
from deixis.errors import DatasetError, DeixisError
from deixis.models.captioner.pipeline import (
    Captioner,
    CaptionerPipeline,
    VectorsAndCells,
    pool_cells,
    vectors_and_cells,
)
from deixis.models.captioner.ranking import MatchRanking
from deixis.models.captioner.self_critical import (
    CiderReward,
    PhotoSampler,
    Reward,
    RewardObjective,
    ViewLikelihood,
    WrongWordPenalty,
)
from deixis.models.captioner.spec import CaptionerDataSettings, CaptionerSettings
from deixis.models.m_rnn.evaluation import caption_cider
from deixis.models.m_rnn.objective import CaptionSampler
from deixis.models.m_rnn.spec import MONITOR
from deixis.models.m_rnn.training import CaptionData, Captions, caption_data, likelihood_inputs, perplexity_scores
from deixis.models.photo_features import PhotoFeatures
from deixis.models.pipeline import load
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.models.training.objective import DevScores, Stage, Validation
from deixis.models.training.reproducibility import seeded
from deixis.models.training.runner import Run, encoder_of
from deixis.models.training.settings import settings_to_json
from deixis.storage.atomic import new_directory
from deixis.storage.progress import track
from deixis.vision.encoder import FeatureMap, ImageEncoder, PreparedPhoto, map_ahead

_TRAINING_ONLY = ("dropout", "label_smoothing", "max_length")
"""Settings that may differ from those of the model that training starts from."""


def prepare_data(run: Run) -> CaptionData:
    """Read the features of photos, or of views of them, and the words of their captions."""
    data = run.settings[CaptionerDataSettings]
    train = run.read_training_photos(data.feature_source)
    found = caption_data(run, train, (), data.feature_grid)
    if data.views:
        found.photos = _read_views(run, train, found.captions)
    else:
        found.photos = vectors_and_cells(train, data.feature_grid, run.on_progress)
    return found


def validation(run: Run, data: CaptionData, photos: Photos) -> Validation | None:
    """Perplexity of the captions and, if it selects the best epoch, CIDEr-D of generated ones."""
    settings = run.settings[CaptionerDataSettings]
    features = run.read_photos(photos, settings.feature_source)
    dev = Captions.of(features)
    if dev is None:
        return None
    inputs = vectors_and_cells(features, settings.feature_grid, run.on_progress)

    def score(pipeline: CaptionerPipeline) -> DevScores:
        scores = perplexity_scores(pipeline.model, inputs, dev)
        if settings.monitor == "cider":
            scores["cider_d"] = caption_cider(pipeline.model, inputs, dev.by_photo())
        return DevScores("cider_d" if settings.monitor == "cider" else MONITOR, scores)

    return Validation(features, score)


def _read_views(run: Run, features: PhotoFeatures, captions: Captions) -> VectorsAndCells:
    """Encode views of photos: `views` rows for each photo."""
    data, folder = run.settings[CaptionerDataSettings], run.dataset.images
    if folder is None:
        raise DatasetError(f"views={data.views}: {run.dataset.path} has no photos to encode")
    paths = [folder / str(photo.file) for photo in features.photos]
    generator = np.random.default_rng(0 if data.views_folder else run.training.seed)
    chosen = [
        random_views(data.views, generator, mirror=not any(SIDES & set(words) for words in texts))
        for texts in captions.by_photo()
    ]
    if not data.views_folder:
        return _encode_views(run, features, paths, chosen)
    made_of = repr((encoder_of(features), data.feature_grid, features.photo_vector, paths, chosen))
    kept = Path(data.views_folder) / hashlib.sha256(made_of.encode()).hexdigest()[:16]
    if not kept.is_dir():
        with new_directory(kept) as partial:
            for name, array in _encode_views(run, features, paths, chosen)._asdict().items():
                np.save(partial / f"{name}.npy", array)
    # Mapped, so that trainings at the same time have one copy in memory.
    return VectorsAndCells(
        *(np.load(kept / f"{name}.npy", mmap_mode="c", allow_pickle=False) for name in VectorsAndCells._fields)
    )


def _encode_views(
    run: Run, features: PhotoFeatures, paths: Sequence[Path], chosen: Sequence[Sequence[View]]
) -> VectorsAndCells:
    data, encoder = run.settings[CaptionerDataSettings], encoder_of(features).open(str(run.device))
    rows = data.views * len(paths)
    vectors = np.empty((rows, features.vectors().shape[1]), np.float32)
    # In half precision, as in the store, because the cells of all views are in memory together.
    cells = np.empty((rows, data.feature_grid**2, encoder.channels), np.float16)
    encoded = track(encode_views(encoder, paths, chosen), "encoding views of photos", len(paths), run.on_progress)
    for row, view in enumerate(view for photo in encoded for view in photo):
        vectors[row] = view.photo_vector(features.photo_vector)
        cells[row] = pool_cells(view.cells, data.feature_grid)
    return VectorsAndCells(vectors, cells)


def build(run: Run, data: CaptionData) -> CaptionerPipeline:
    """Make the untrained model, or read the one to start from (`init_from`)."""
    settings, on = run.settings[CaptionerSettings], run.settings[CaptionerDataSettings]
    if on.init_from:
        model = _trained_model(on.init_from, settings, data.encoder)
    else:
        vectors, cells = data.photos
        vocabulary = data.captions.vocabulary(settings.min_count)
        with seeded(run.training.seed):
            model = Captioner(vectors.shape[1], vocabulary, settings, cell_size=cells.shape[2])
        model.fit_statistics(data.photos, run.training.seed)
    data.sources["words"] = f"{len(model.vocabulary):,}"
    pipeline = CaptionerPipeline(model, Provenance(data.encoder))
    if on.match_model:
        pipeline.ranking = MatchRanking(on.match_model, on.match_weight)
        pipeline.ranker()  # raises if the model does not fit
    return pipeline


def _trained_model(folder: str, settings: CaptionerSettings, encoder: EncoderInfo) -> Captioner:
    """A trained model with the same network, and other settings of training."""
    pipeline = load(folder)
    trained = pipeline.model
    if not isinstance(trained, Captioner):
        raise DeixisError(f"init_from={folder}: is a model of {pipeline.kind}, not a captioner")
    if pipeline.encoder != encoder:
        raise DeixisError(f"init_from={folder}: was trained on other features; set its encoder and feature_grid")
    for name, value in settings_to_json(settings).items():
        theirs = getattr(trained.settings, name)
        if name not in _TRAINING_ONLY and value != theirs:
            raise DeixisError(f"init_from={folder}: its network has {name}={theirs}, not {name}={value}")
    model = Captioner(trained.photo_size, trained.vocabulary, settings, cell_size=trained.cell_size)
    model.network.load_state_dict(trained.network.state_dict())
    model.references_ = trained.references_
    return model


def objective(run: Run, pipeline: CaptionerPipeline, data: CaptionData) -> Stage:
    """Batches of captions and their likelihood (eq. 6 of m-RNN); or batches of photos and the expected reward."""
    model, settings = pipeline.model, run.settings[CaptionerDataSettings]
    views = max(1, settings.views)
    inputs = likelihood_inputs(run, pipeline, data)
    likelihood = ViewLikelihood(*inputs, smoothing=model.settings.label_smoothing, views=views)
    if settings.objective == "likelihood":
        return Stage(model.network, CaptionSampler(likelihood.lengths, run.training.batch_size), likelihood)
    rewarded = RewardObjective(
        likelihood.photos,
        _reward(data.captions.by_photo(), model, settings),
        settings.reward_samples,
        model.settings.max_length,
        likelihood if settings.likelihood_weight else None,
        settings.likelihood_weight,
        views,
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


def _reward(references: list[list[tuple[str, ...]]], model: Captioner, settings: CaptionerDataSettings) -> Reward:
    """CIDEr-D, less the penalties."""
    cider_d = CiderReward(references, model.vocabulary, repetition_penalty=settings.repetition_penalty)
    penalty = settings.wrong_word_penalty
    if not penalty:
        return cider_d
    wrong = WrongWordPenalty(references, model.vocabulary)
    return lambda words, photos: cider_d(words, photos) - penalty * wrong(words, photos)


SIDES = frozenset({"left", "right"})
"""Words of captions that are wrong for a mirrored photo."""

_MIN_AREA = 0.5  # share of the photo that a view shows at least
_STRETCH = 0.2  # a side of a view is at most exp(this) times as long as that of a view of the same shape and area
_LIGHT = 0.3  # largest change of brightness and contrast

_READERS = 8
_BATCH = 64  # views


@dataclass(frozen=True)
class View:
    """A part of a photo in another light; by default the whole photo as it is.

    `box` has its left, top, right and bottom as shares of the photo. `brightness` and `contrast` are factors.
    """

    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    mirrored: bool = False
    brightness: float = 1.0
    contrast: float = 1.0

    def of(self, photo: Image.Image) -> Image.Image:
        """The view of a photo."""
        width, height = photo.size
        left, top, right, bottom = self.box
        x, y = int(left * width), int(top * height)
        seen = photo.convert("RGB").crop((x, y, max(x + 1, round(right * width)), max(y + 1, round(bottom * height))))
        if self.mirrored:
            seen = ImageOps.mirror(seen)
        if self.contrast != 1:
            seen = ImageEnhance.Contrast(seen).enhance(self.contrast)
        return ImageEnhance.Brightness(seen).enhance(self.brightness) if self.brightness != 1 else seen


def random_views(count: int, generator: np.random.Generator, *, mirror: bool = True) -> list[View]:
    """The whole photo, the mirrored whole photo, then random parts of it; without `mirror`, none is mirrored."""
    views = [View(), View(mirrored=mirror)][:count]
    while len(views) < count:
        scale = np.sqrt(generator.uniform(_MIN_AREA, 1))
        stretch = np.exp(generator.uniform(-_STRETCH, _STRETCH) / 2)
        width, height = min(1.0, scale * stretch), min(1.0, scale / stretch)
        left, top = generator.uniform(0, 1 - width), generator.uniform(0, 1 - height)
        mirrored = mirror and generator.random() < 0.5
        brightness, contrast = generator.uniform(1 - _LIGHT, 1 + _LIGHT, 2).tolist()
        views.append(View((left, top, left + width, top + height), mirrored, brightness, contrast))
    return views


def encode_views(
    encoder: ImageEncoder, paths: Iterable[Path], views: Iterable[Sequence[View]]
) -> Iterator[list[FeatureMap]]:
    """Encode some views of each photo. Threads decode ahead; a photo that cannot be read raises `PhotoError`."""

    def read(photo: tuple[Path, Sequence[View]]) -> list[PreparedPhoto]:
        path, wanted = photo
        image = open_photo(path)
        return [encoder.prepare(view.of(image)) for view in wanted]

    with closing(map_ahead(read, zip(paths, views, strict=True), _READERS, 2 * _READERS, "views")) as prepared:
        while group := list(islice(prepared, max(1, _BATCH // _READERS))):
            maps = iter(encoder.encode_prepared([view for photo in group for view in photo]))
            for photo in group:
                yield list(islice(maps, len(photo)))
