"""The models that rows are measured with: trained as ``deixis train`` does it, once, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from deixis import __version__
from deixis.experiments.records import Training
from deixis.experiments.runs import Runs, key_of
from deixis.files.atomic import new_file
from deixis.files.progress import OnProgress, silent

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset
    from deixis.tasks.bundle import Bundle
    from deixis.tasks.captions.captioning import CaptionBundle
    from deixis.tasks.fit.cca import CCATraining
    from deixis.tasks.fit.chosen import Chosen
    from deixis.tasks.learning import Learning

USUAL = ("text=tfidf",)
"""Instead of the papers' Fisher vectors, unless people say otherwise; the two-branch paper found them much alike."""

_NO_MATTER = frozenset(["device", "threads", "log_every", "save_every", "auxiliary"])
"""Settings that decide nothing about the result, or are said in another way."""

DONE = "done"


@dataclass(frozen=True)
class Workshop:
    """Where models are trained and kept.

    Attributes
    ----------
    dataset
        What they learn from.
    runs
        What has been trained before.
    changes
        What people want otherwise, as key=value; each goes to the models that have such a setting.
    on_progress
        Called as the work goes on.
    """

    dataset: Dataset
    runs: Runs
    changes: tuple[str, ...] = ()
    on_progress: OnProgress = silent

    @property
    def stores(self) -> tuple[Path, ...]:
        """Features that people have given instead of an encoder."""
        given = [change.partition("=")[2].strip() for change in self.changes if _name(change) == "features"]
        return tuple(Path(folder) for folder in given if folder)

    def chosen(self, training: Training, seed: int) -> Chosen:
        """All settings of a model."""
        from deixis.tasks.fit.chosen import choose

        usual, mine, seeded = (_changes_for(training, some) for some in (USUAL, self.changes, [f"seed={seed}"]))
        changes = [*usual, *training.changes, *mine, *seeded]
        return choose(_known(training.model), training.settings or None, changes)

    def text_of(self, training: Training, seed: int) -> str:
        """The text features of a model, in a word."""
        return str(self.chosen(training, seed).to_json().get("text", "none"))

    def about(self, training: Training, seed: int) -> dict[str, Any]:
        """Everything that decides what is learned."""
        settings = {
            name: value for name, value in self.chosen(training, seed).to_json().items() if name not in _NO_MATTER
        }
        helper = key_of(self.about(training.auxiliary, seed)) if training.auxiliary else ""
        return {
            "deixis": __version__,
            "data": self.dataset.manifest.hash,
            "model": training.model,
            "settings": settings,
            "auxiliary": helper,
        }

    def bundle(self, training: Training, seed: int) -> Bundle:
        """The model, read where it has been trained before and trained now where it has not."""
        from deixis.tasks.bundle import Bundle

        return Bundle.load(self.place(training, seed))

    def captioner(self, training: Training, seed: int) -> CaptionBundle:
        """The same for a model that writes captions."""
        from deixis.tasks.captions.captioning import CaptionBundle

        return CaptionBundle.load(self.place(training, seed))

    def train_split(self, training: Training, seed: int) -> str:
        """The split that a model learns from."""
        return str(self.chosen(training, seed).to_json()["train"])

    def place(self, training: Training, seed: int) -> Path:
        """Where the model is; trained now where it is not yet."""
        place = self.runs.model(training.model, self.about(training, seed))
        if training.model == "cca":
            self._solve(training, seed, place)
        else:
            self._train(training, seed, place)
        return place

    def _solve(self, training: Training, seed: int, place: Path) -> None:
        from deixis.tasks.bundle import new_bundle
        from deixis.tasks.fit.cca import fit_cca
        from deixis.training.settings import settings_from_all

        if place.is_dir():
            return
        chosen = self.chosen(training, seed)
        if training.auxiliary:
            helper = str(self.place(training.auxiliary, seed))
            chosen = chosen.with_parts(settings_from_all(chosen.parts, [f"auxiliary={helper}"]))
        with new_bundle(place) as unfinished:
            own, learning = cast("CCATraining", chosen.model), cast("Learning", chosen.learning)
            fitted = fit_cca(self.dataset, own, learning, on_progress=self.on_progress)
            fitted.bundle.write(unfinished)

    def _train(self, training: Training, seed: int, place: Path) -> None:
        from deixis.tasks.fit.fitting import fit
        from deixis.training.trainer import RUN

        if (place / DONE).exists():
            return
        fit(
            _known(training.model),
            self.dataset,
            self.chosen(training, seed),
            place,
            resume=(place / RUN).is_file(),
            on_progress=self.on_progress,
        )
        with new_file(place / DONE) as unfinished:
            unfinished.write_text("trained to the end\n", encoding="utf-8")


def refuse_unknown(changes: Sequence[str], trainings: Sequence[Training]) -> None:
    """Refuse a change that no model of a table has a setting for, with the nearest name that there is."""
    from deixis.tasks.fit.chosen import choose

    used: set[str] = set()
    for training in trainings:
        mine = _changes_for(training, changes)
        choose(
            _known(training.model), training.settings or None, [*training.changes, *mine]
        )  # together: they may depend
        used.update(mine)
    strange = [change for change in changes if change not in used]
    if strange and trainings:
        last = trainings[-1]
        choose(_known(last.model), last.settings or None, [*last.changes, strange[0]])


def _changes_for(training: Training, changes: Sequence[str]) -> list[str]:
    """Those of the changes that a model has a setting for."""
    from deixis.tasks.fit.chosen import choose

    plain = choose(_known(training.model), training.settings or None, training.changes)
    names = {field.name for part in plain.parts for field in fields(part)}
    return [change for change in changes if _name(change) in names]


def _name(change: str) -> str:
    return change.partition("=")[0].strip()


def _known(model: str) -> Any:
    """The name of a model as `deixis.tasks` types it."""
    return model


def words_of(bundle: Bundle, text: str) -> dict[str, str]:
    """What people should know of a model: who saw the photos, who read the texts, whose regions it points at."""
    encoder, learned = bundle.encoder, bundle.learned
    crops = ", ten crops" if encoder.crops else ""
    said = {"encoder": f"{encoder.name}{crops} ({encoder.fingerprint})"}
    said["text"] = "read word by word" if bundle.text is None else text
    if learned.learn != "sentences":
        said["proposals"] = f"{learned.proposals}, {learned.top} a photo"
    return said
