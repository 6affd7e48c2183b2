"""Train a model that comes with deixis again, from a data set directory, in one command.

python scripts/retrain.py MODEL DATA OUT [--text TEXT] [--set STAGE.KEY=VALUE …]

MODEL is encoder (with its proposal head), two-branch, grounder, m-rnn, describer or search. DATA is a data set
directory with photos, boxes and the splits train and dev. OUT gets the model, and what the stages before it left. Run
again, it does only the stages that are missing, and goes on with a training that was stopped. TEXT, for encoder and
two-branch, is a data set directory of sentences alone; without it, those of DATA are all there is.

docs/models/retrain.md says what each takes and leaves, and how it gets into the package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError

SCRIPTS = Path(__file__).parent
FINISHED = "finished.json"
Command = list[str | Path]


@dataclass(frozen=True)
class Stage:
    """A part of the work, done by a command of its own.

    Attributes
    ----------
    name
        What ``--set`` calls it.
    command
        Without its settings.
    set_as
        How it is told its settings: ``--set a=1 --set b=2``, ``--set a=1 b=2``, or ``--a 1 --b 2``.
    run
        The directory of a training run that can be taken up again with ``--resume``.
    """

    name: str
    command: Command
    set_as: Literal["each", "together", "flags"] = "each"
    run: Path | None = None


@dataclass(frozen=True)
class Places:
    """What there is to learn from, and where everything goes."""

    data: Path
    text: Path
    out: Path

    @property
    def photos(self) -> Path:
        """The folder of the photos."""
        folder = Dataset(self.data).images
        if folder is None:
            raise DeixisError(f"{self.data}: has no photos; import it with --images")
        return folder


def stages_of_encoder(at: Places) -> list[Stage]:
    """`encoder.safetensors` and `proposals.safetensors`, and beside them the text side that learned with them."""
    examples = at.out / "examples.npz"
    return [
        Stage("examples", [script("encoder_examples"), at.data, "--text", at.text, "--out", examples]),
        Stage("encoder", [script("train_encoder"), examples, at.photos, "--out", at.out], "together"),
    ]


def stages_of_two_branch(at: Places) -> list[Stage]:
    """The encoder, then a smaller text side on it, as a model."""
    examples, small, encoder = at.out / "examples.npz", at.out / "small", at.out / "encoder.safetensors"
    learn: Command = [script("train_text_side"), examples, at.photos, at.out, "--out", small, "--encoder", encoder]
    export: Command = [script("export_text_side"), examples, small, "--out", at.out / "model", "--encoder", encoder]
    return [*stages_of_encoder(at), Stage("text-side", learn), Stage("export", export, "flags")]


def stages_of_grounder(at: Places) -> list[Stage]:
    """One run, on the features of the encoder that comes with deixis."""
    return [trained("grounder", at, "grounder", "deixis/grounder", at.out / "run")]


def stages_of_m_rnn(at: Places) -> list[Stage]:
    """First the words of people; then its own sentences, rewarded by CIDEr-D. Seed 1 was the better of two."""
    seed, begin = ("--set", "seed=1"), ("--set", f"begin_with={at.out / 'words'}")
    words = trained("words", at, "m-rnn", "deixis/captioner", at.out / "words", *seed)
    return [words, trained("rewarded", at, "m-rnn", "deixis/captioner-cider", at.out / "run", *seed, *begin)]


def stages_of_describer(at: Places) -> list[Stage]:
    """CCA, the phrase bank and how scores become chances."""
    return [Stage("describer", [script("train_describer"), at.data, "--out", at.out / "model"], "flags")]


def stages_of_search(at: Places) -> list[Stage]:
    """What makes scores of two-branch and grounder probabilities."""
    return [Stage("search", [script("fit_search"), at.data, "--out", at.out / "certainty.json"], "flags")]


MODELS: dict[str, Callable[[Places], list[Stage]]] = {
    "encoder": stages_of_encoder,
    "two-branch": stages_of_two_branch,
    "grounder": stages_of_grounder,
    "m-rnn": stages_of_m_rnn,
    "describer": stages_of_describer,
    "search": stages_of_search,
}


def script(name: str) -> Path:
    return SCRIPTS / f"{name}.py"


def trained(name: str, at: Places, model: str, settings: str, run: Path, *more: str) -> Stage:
    command: Command = ["-m", "deixis", "train", model, "--data", at.data, "--settings", settings, "--out", run, *more]
    return Stage(name, command, run=run)


def run_all(stages: Sequence[Stage], out: Path, settings: Sequence[str]) -> None:
    """Run the stages that are not finished, in their order."""
    names = [stage.name for stage in stages]
    for given in settings:
        if given.partition(".")[0] not in names or "=" not in given:
            raise DeixisError(f"--set {given}: write STAGE.KEY=VALUE; the stages are {', '.join(names)}")
    file = out / FINISHED
    finished = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    for number, stage in enumerate(stages, start=1):
        if stage.name in finished:
            print(f"{number} of {len(stages)}, {stage.name}: done before", flush=True)
            continue
        print(f"{number} of {len(stages)}, {stage.name} …", flush=True)
        own = [given.partition(".")[2] for given in settings if given.partition(".")[0] == stage.name]
        command = [sys.executable, *map(str, stage.command), *options(stage, own)]
        if subprocess.run(command, check=False).returncode:  # noqa: S603 (our own scripts)
            raise DeixisError(f"{stage.name} did not finish; the same command goes on from here")
        finished.append(stage.name)
        file.write_text(json.dumps(finished) + "\n", encoding="utf-8")


def options(stage: Stage, settings: Sequence[str]) -> list[str]:
    """What is added to the command of a stage."""
    if stage.set_as == "together":
        return ["--set", *settings] if settings else []
    if stage.set_as == "flags":
        return [part for setting in settings for part in f"--{setting}".split("=", 1)]
    again = ["--resume"] if stage.run is not None and stage.run.exists() else []
    return [part for setting in settings for part in ("--set", setting)] + again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--text", type=Path, help="a data set directory of sentences alone")
    parser.add_argument("--set", action="append", default=[], metavar="STAGE.KEY=VALUE")
    chosen = parser.parse_args()
    try:
        at = Places(chosen.data, chosen.text or chosen.data, chosen.out)
        stages = MODELS[chosen.model](at)
        chosen.out.mkdir(parents=True, exist_ok=True)
        run_all(stages, chosen.out, chosen.set)
    except DeixisError as error:
        raise SystemExit(f"retrain: {error}") from None
    print(f"finished: {chosen.out}")


if __name__ == "__main__":
    main()
