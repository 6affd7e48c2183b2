"""Whatever network was chosen, trained: one door to the modules that each know one kind of model."""

from __future__ import annotations

from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.models.grounder import GrounderSettings
from deixis.models.hm_lstm import HMLSTMSettings
from deixis.models.m_rnn import MRNNSettings
from deixis.tasks.fit.chosen import Chosen, Model
from deixis.tasks.fit.grounder import GroundingData, fit_grounder
from deixis.tasks.fit.hm_lstm import PhraseData, fit_hm_lstm
from deixis.tasks.fit.m_rnn import CaptionData, fit_m_rnn
from deixis.tasks.fit.networks import fit_network
from deixis.tasks.fit.runs import Trained


def fit(
    model: Model, dataset: Dataset, chosen: Chosen, out: Path, *, resume: bool = False, on_progress: OnProgress = silent
) -> Trained | None:
    """Train a network as ``deixis train`` does; CCA is solved, by `deixis.tasks.fit.cca`.

    Parameters
    ----------
    model
        Its name.
    dataset
        What it learns from.
    chosen
        How, from `deixis.tasks.fit.chosen.choose` for the same model.
    out
        The run directory.
    resume
        Go on with the run that is there.
    on_progress
        Called in the first process as the work goes on.

    Returns
    -------
    Trained or None
        None in all processes but the first.
    """
    learning, own, training = chosen.learning, chosen.model, chosen.training
    if training is None:
        raise DeixisError(f"{model}: is solved and not trained")
    if isinstance(learning, GroundingData) and isinstance(own, GrounderSettings):
        return fit_grounder(
            dataset, learning, out, settings=own, training=training, resume=resume, on_progress=on_progress
        )
    if isinstance(learning, CaptionData) and isinstance(own, MRNNSettings):
        return fit_m_rnn(
            dataset, learning, out, settings=own, training=training, resume=resume, on_progress=on_progress
        )
    if isinstance(learning, PhraseData) and isinstance(own, HMLSTMSettings):
        return fit_hm_lstm(
            dataset, learning, out, settings=own, training=training, resume=resume, on_progress=on_progress
        )
    return fit_network(model, dataset, chosen, out, resume=resume, on_progress=on_progress)
