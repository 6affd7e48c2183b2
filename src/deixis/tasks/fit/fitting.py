"""Whatever network was chosen, trained: one door to the modules that each know one kind of model."""

from __future__ import annotations

from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.models.grounder import GrounderSettings
from deixis.models.hm_lstm import HMLSTMSettings
from deixis.models.m_rnn import MRNNSettings
from deixis.tasks.fit.chosen import Chosen, Model, defaults
from deixis.tasks.fit.grounder import GroundingData, fit_grounder
from deixis.tasks.fit.hm_lstm import PhraseData, fit_hm_lstm
from deixis.tasks.fit.m_rnn import CaptionData, fit_m_rnn
from deixis.tasks.fit.networks import fit_network
from deixis.tasks.fit.runs import Run, Trained, refuse_unusable
from deixis.tasks.fit.typed import command_of
from deixis.training.distributed import chosen_device, process_number, processes


def fit(
    model: Model, dataset: Dataset, chosen: Chosen, out: Path, *, resume: bool = False, on_progress: OnProgress = silent
) -> Trained | None:
    """Train a network as ``deixis train`` does; CCA is solved, by `deixis.tasks.fit.cca`.

    Features that are missing are computed first and kept beside the data.

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
    training = chosen.training
    if training is None:
        raise DeixisError(f"{model}: is solved and not trained")
    refuse_unusable(out, resume)
    command = command_of(model, dataset, *chosen.parts, usual=[defaults(model).training])
    with processes(chosen_device(training.device)) as device:
        told = on_progress if process_number() == 0 else silent
        return _fit(Run(model, dataset, chosen, command, training, out, resume, device, told))


def _fit(run: Run) -> Trained | None:
    data, own = run.chosen.learning, run.chosen.model
    if isinstance(data, GroundingData) and isinstance(own, GrounderSettings):
        return fit_grounder(run, data, own)
    if isinstance(data, CaptionData) and isinstance(own, MRNNSettings):
        return fit_m_rnn(run, data, own)
    if isinstance(data, PhraseData) and isinstance(own, HMLSTMSettings):
        return fit_hm_lstm(run, data, own)
    return fit_network(run)
