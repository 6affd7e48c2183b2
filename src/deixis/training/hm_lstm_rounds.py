"""The learning procedure of the HM-LSTM paper (Figure 3): root losses first, then correspondences and phrases in turn.

Each stage is a run of the one loop in a directory of its own, and correspondences are a file beside them, so that a
killed procedure goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import torch

from deixis.errors import DeixisError
from deixis.evaluation.retrieval import recall_at_k
from deixis.files.progress import OnProgress, silent
from deixis.models.correspondence import Correspondences, find_correspondences
from deixis.models.hm_lstm import HMLSTM
from deixis.training.about import About
from deixis.training.base import DevScores, Evaluate
from deixis.training.distributed import chosen_device, number_from_first, process_number, processes
from deixis.training.hm_lstm import ParsedPhotos, PhraseObjective, PhraseSampler
from deixis.training.settings import TrainSettings
from deixis.training.trainer import RUN, Outcome, Trainer

ROOTS = "0-roots"
"""The directory of the first stage; then come `1-correspondences.jsonl`, `1-phrases`, `2-correspondences.jsonl`, …"""

AfterRound = Callable[[int, Correspondences], None]
"""Told of the correspondences of each round, from 1, before they are learned from."""


def _untold(number: int, found: Correspondences) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Alternation:
    """Figure 3 as something that can be begun and gone on with.

    Attributes
    ----------
    model
        What learns, by its settings. In the end it is that of the last round, at its best on dev.
    data
        Of the training split.
    settings
        Of the loop: of the first stage, and with `round_epochs` and `round_rate` of the model's settings of the rounds.
    out
        The directory of all stages.
    about
        What is trained on what.
    evaluate
        Measures dev; without it each stage ends with its last weights.
    gold
        What the data says of phrases and regions, for ``correspondences=gold``.
    keep
        Saves what the model belongs to into a folder, after each stage: the model's own `save` unless given.
    on_correspondences, on_progress
        Told how it goes.
    """

    model: HMLSTM
    data: ParsedPhotos
    settings: TrainSettings
    out: str | PathLike[str]
    about: About
    evaluate: Evaluate | None = None
    gold: Correspondences | None = None
    keep: Callable[[Path], None] | None = None
    on_correspondences: AfterRound = _untold
    on_progress: OnProgress = silent

    def train(self, *, resume: bool = False) -> list[Outcome]:
        """Go through all stages, or through those that are left, and give the outcome of each."""
        chosen = self.model.settings
        if chosen.rounds and (chosen.correspondences == "gold") != (self.gold is not None):
            raise DeixisError(
                f"correspondences={chosen.correspondences}: gold phrases and boxes are "
                + ("not given" if self.gold is None else "given but not used")
            )
        with processes(chosen_device(self.settings.device)) as device:
            # Root losses alone: "a simplified HM-LSTM".
            outcomes = [self._stage(ROOTS, self.settings, None, device, resume)]
            fine = replace(
                self.settings,
                epochs=chosen.round_epochs,
                learning_rate=self.settings.learning_rate * chosen.round_rate,
            )
            for number in range(1, chosen.rounds + 1):
                found = self._correspondences(number, device)  # step 2 (a)
                outcomes.append(self._stage(f"{number}-phrases", fine, found, device, resume))  # step 2 (b)
        return outcomes

    def _correspondences(self, number: int, device: torch.device) -> Correspondences | None:
        """What a round learns from: gold, those of the model as it is now, or none where phrases count nothing."""
        if not self.model.settings.phrase_weight:
            return None
        found = self._found(number, device) if self.gold is None else self.gold
        self.on_correspondences(number, found)
        return found

    def _found(self, number: int, device: torch.device) -> Correspondences:
        """Those of the model as it is now. The first process finds them, the others read its file."""
        path = Path(self.out) / f"{number}-correspondences.jsonl"
        for turn in (True, False):
            if turn == (process_number() == 0):
                data = self.data
                found = find_correspondences(
                    self.model, data.forest, data.photo, data.regions, path, self._told(f"round {number}")
                )  # fmt: skip
            number_from_first(0, device)  # the others wait here
        return found

    def _stage(
        self,
        name: str,
        settings: TrainSettings,
        found: Correspondences | None,
        device: torch.device,
        resume: bool,
    ) -> Outcome:
        model, folder = self.model, Path(self.out) / name
        sampler = PhraseSampler(self.data, settings.batch_size, found, model.settings.phrase_weight)
        regions = torch.from_numpy(self.data.regions.vectors).to(device)
        objective = PhraseObjective(model.settings, regions, model.word_rows(self.data.forest).to(device))
        trainer = Trainer(
            model.network,
            sampler,
            objective,
            settings,
            folder,
            about=replace(self.about, features={**self.about.features, "stage": name}),
            keep=self._keep,
            evaluate=self.evaluate,
            on_progress=self._told(name),
        )
        # A stage that is finished says so at once, and hands over its weights.
        return trainer.train(resume=resume and (folder / RUN).exists())

    def _told(self, stage: str) -> OnProgress:
        """Progress that says of which stage it is: each stage counts its steps from 1."""

        def told(doing: str, done: int, total: int | None) -> None:
            self.on_progress(f"{stage}: {doing}", done, total)

        return told

    def _keep(self, folder: Path) -> None:
        """Save the model, which from then on can point without the data it learned from."""
        self.model.note_phrases(self.data.forest)
        (self.keep or self.model.save)(folder)


def retrieval_on(model: HMLSTM, data: ParsedPhotos) -> DevScores:
    """Photos for sentences and sentences for photos: all scores, and their mean recall to choose the best by."""
    photos = model.prepare_visual(data.regions.vectors[data.regions.starts[:-1]])
    count = len(data.forest)
    sentences = model.node_vectors(data.forest, range(count), [0] * count)
    scores = recall_at_k(model.scores(photos, sentences), data.photo).scores
    recalls = [score for name, score in scores.items() if name[:5] in ("i2t_r", "t2i_r")]
    return DevScores("mean_recall", {**scores, "mean_recall": sum(recalls) / len(recalls)})
