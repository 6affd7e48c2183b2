"""Train a shipped model again from a data set directory, in one command.

python scripts/retrain.py MODEL DATA OUT [--set STAGE.KEY=VALUE …]

MODEL is encoder (with its proposal head and the model two-branch), fast-encoder, grounder, captioner, m-rnn, hm-lstm,
describer or search. DATA is a data set directory with photos, boxes and the splits train and dev. OUT receives the
model and the results of earlier stages. Running the command again skips finished stages and resumes an interrupted
training.

For the encoders: --start is DINOv2 and --fast-start TinyViT (scripts/start_weights.py), --text a data set directory
with more sentences (by default the sentences of DATA are used), --names a folder of photos that are named by their
files. Splits that end with _dev are evaluated like dev. --coco adds COCO train2017: a folder of texts
(scripts/coco_texts.py) and one of photos. --also names data set directories of other sources, for the encoders, search,
presence and the confidence of captions.

docs/reference/models/retrain.md describes the stages and how a model gets into the package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError

SCRIPTS = Path(__file__).parent
FINISHED = "finished.json"
CAPTIONERS = 3
"""Captioners that begin with the same weights and are averaged."""
Command = list[str | Path]


@dataclass(frozen=True)
class Stage:
    """A stage of the training, run as a command.

    Attributes
    ----------
    name
        Name for ``--set``.
    command
        Command without settings.
    set_as
        Form of the settings: ``--set a=1 --set b=2``, ``--set a=1 b=2``, or ``--a 1 --b 2``.
    run
        Directory of a training run that ``--resume`` can continue.
    """

    name: str
    command: Command
    set_as: Literal["each", "together", "flags"] = "each"
    run: Path | None = None


@dataclass(frozen=True)
class Paths:
    """The data and the output directory."""

    data: Path
    text: Path
    out: Path
    start: Path | None = None
    fast_start: Path | None = None
    names: Path | None = None
    also: tuple[Path, ...] = ()
    coco: tuple[Path, Path] | None = None


def stages_of_encoder(paths: Paths) -> list[Stage]:
    """The encoder, the proposal head and the retrieval model, which are trained together."""
    examples, photos, towers = paths.out / "examples.npz", paths.out / "photos", paths.out / "towers"
    if paths.start is None:
        raise DeixisError("give --start: DINOv2 as ONNX; scripts/start_weights.py says where it is")
    collect: Command = [script("encoder_examples")]
    pack: Command = [script("pack_photos")]
    for data in (paths.data, *paths.also):
        collect += ["--train", f"{data.stem}={data}:train"]
        pack += ["--source", f"{data}:train"]
        for split in dev_splits(data):
            name = split if data == paths.data else f"{data.stem}_{split}"
            collect += ["--dev", f"{name}={data}:{split}"]
            pack += ["--source", f"{data}:{split}"]
    if paths.coco is not None:
        collect += ["--coco", paths.coco[0]]
        pack += ["--coco", paths.coco[1], "--examples", examples]
    if paths.names is not None:
        collect += ["--names", paths.names]
        pack += ["--names", paths.names]
    learn: Command = [script("train_encoder"), examples, photos, "--start", paths.start, "--out", towers]
    return [
        Stage("examples", [*collect, "--text", f"all={paths.text}:train", "--out", examples]),
        Stage("photos", [*pack, "--out", photos]),
        Stage("encoder", learn, "together"),
        Stage("export", [script("export_encoder"), examples, towers, "--out", paths.out / "made", "--int8"], "flags"),
    ]


def stages_of_fast_encoder(paths: Paths) -> list[Stage]:
    """The encoder, then the fast one, which learns its maps."""
    examples, photos, towers = paths.out / "examples.npz", paths.out / "photos", paths.out / "towers"
    if paths.fast_start is None:
        raise DeixisError("give --fast-start: TinyViT as ONNX; scripts/start_weights.py says where it is")
    begin: Command = ["--start", paths.fast_start, "--out", paths.out / "fast"]
    export: Command = [script("export_encoder"), examples, towers, "--fast", paths.out / "fast", "--int8"]
    return [
        *stages_of_encoder(paths),
        Stage("fast", [script("distil_encoder"), examples, photos, towers, *begin], "together"),
        Stage("fast-export", [*export, "--out", paths.out / "made-fast"], "flags"),
    ]


def mirror_stage(paths: Paths) -> tuple[Stage, Paths]:
    """A data set with mirrored training photos as well, and the paths with it."""
    data = paths.out / "mirrored.data"
    return Stage("mirror", [script("mirror_data"), paths.data, data], "flags"), replace(paths, data=data)


def stages_of_grounder(paths: Paths) -> list[Stage]:
    """One run on the features of the shipped encoder, with mirrored photos; then the fit of presence."""
    mirror, mirrored = mirror_stage(paths)
    run = paths.out / "run"
    fit: Command = [script("fit_presence"), paths.data, *paths.also, "--split", *dev_splits(paths.data), "--model", run]
    return [
        mirror,
        train_stage("grounder", mirrored, "grounder", "deixis/grounder", run),
        Stage("presence", fit, "flags"),
    ]


def stages_of_captioner(paths: Paths) -> list[Stage]:
    """Likelihood training; from that, self-critical training with three seeds; their mean, and its confidence."""
    words, model = paths.out / "words", paths.out / "model"
    splits = [part for split in dev_splits(paths.data) for part in ("--split", split)]
    calibrate: Command = ["-m", "deixis", "calibrate", paths.data, *paths.also, *splits, "--captions", model]
    views = f"views_folder={paths.out / 'views'}"
    runs, rewarded = [], []
    for number in range(1, CAPTIONERS + 1):
        run = paths.out / f"run-{number}"
        changes = (f"init_from={words}", f"seed={number}", views)
        runs.append(run)
        rewarded.append(train_stage(run.name, paths, "captioner", "deixis/captioner-cider", run, *changes))
    return [
        train_stage("words", paths, "captioner", "deixis/captioner", words, views),
        *rewarded,
        Stage("average", [script("average_models"), model, *runs], "flags"),
        Stage("confidence", calibrate, "flags"),
    ]


def stages_of_m_rnn(paths: Paths) -> list[Stage]:
    """The paper's network, on the features of the shipped encoder."""
    return [train_stage("m-rnn", paths, "m-rnn", "papers/m-rnn", paths.out / "run", "epochs=3")]


def stages_of_hm_lstm(paths: Paths) -> list[Stage]:
    """One run on the features of the shipped encoder and head: root losses, then two rounds of phrase losses."""
    return [train_stage("hm-lstm", paths, "hm-lstm", "deixis/hm-lstm", paths.out / "run")]


def stages_of_describer(paths: Paths) -> list[Stage]:
    """CCA, the phrase bank and the calibration of scores."""
    return [Stage("describer", [script("train_describer"), paths.data, "--out", paths.out / "model"], "flags")]


def stages_of_search(paths: Paths) -> list[Stage]:
    """The calibration of the scores of two-branch and grounder."""
    command: Command = [script("fit_search"), paths.data, *paths.also, "--out", paths.out / "calibration.json"]
    if paths.coco is not None:
        command += ["--coco-texts", paths.coco[0]]
    return [Stage("search", command, "flags")]


MODELS: dict[str, Callable[[Paths], list[Stage]]] = {
    "encoder": stages_of_encoder,
    "fast-encoder": stages_of_fast_encoder,
    "grounder": stages_of_grounder,
    "captioner": stages_of_captioner,
    "m-rnn": stages_of_m_rnn,
    "hm-lstm": stages_of_hm_lstm,
    "describer": stages_of_describer,
    "search": stages_of_search,
}


def dev_splits(data: Path) -> list[str]:
    """Names of the splits that models are evaluated on."""
    return [split for split in Dataset(data).manifest.splits if split == "dev" or split.endswith("_dev")]


def script(name: str) -> Path:
    return SCRIPTS / f"{name}.py"


def train_stage(name: str, paths: Paths, model: str, settings: str, run: Path, *changes: str) -> Stage:
    command: Command = [
        "-m",
        "deixis",
        "train",
        model,
        "--data",
        paths.data,
        "--settings",
        settings,
        "--out",
        run,
        *set_options(changes),
    ]
    return Stage(name, command, run=run)


def set_options(settings: Sequence[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def run_all(stages: Sequence[Stage], out: Path, settings: Sequence[str]) -> None:
    """Run the unfinished stages in order."""
    names = [stage.name for stage in stages]
    for setting in settings:
        if setting.partition(".")[0] not in names or "=" not in setting:
            raise DeixisError(f"--set {setting}: must be STAGE.KEY=VALUE; the stages are {', '.join(names)}")
    file = out / FINISHED
    finished = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    for number, stage in enumerate(stages, start=1):
        if stage.name in finished:
            print(f"{number} of {len(stages)}, {stage.name}: already done", flush=True)
            continue
        print(f"{number} of {len(stages)}, {stage.name} …", flush=True)
        own = [setting.partition(".")[2] for setting in settings if setting.partition(".")[0] == stage.name]
        command = [sys.executable, *map(str, stage.command), *options(stage, own)]
        if subprocess.run(command, check=False).returncode:  # noqa: S603 (our own scripts)
            raise DeixisError(f"{stage.name} failed; run the same command to continue")
        finished.append(stage.name)
        file.write_text(json.dumps(finished) + "\n", encoding="utf-8")


def options(stage: Stage, settings: Sequence[str]) -> list[str]:
    """Return the options for the settings of a stage, and --resume."""
    if stage.set_as == "together":
        return ["--set", *settings] if settings else []
    if stage.set_as == "flags":
        return [part for setting in settings for part in f"--{setting}".split("=", 1)]
    resume = ["--resume"] if stage.run is not None and stage.run.exists() else []
    return set_options(settings) + resume


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--text", type=Path, help="data set directory with more sentences")
    parser.add_argument("--start", type=Path, help="DINOv2, for the encoders")
    parser.add_argument("--fast-start", type=Path, help="TinyViT, for the fast encoder")
    parser.add_argument("--names", type=Path, help="folder of photos that are named by their files")
    parser.add_argument(
        "--coco", type=Path, nargs=2, metavar=("TEXTS", "PHOTOS"), help="COCO train2017, for the encoders and search"
    )
    parser.add_argument(
        "--also",
        type=Path,
        nargs="+",
        default=[],
        metavar="DATA",
        help="other sources, for the encoders, search, grounder and captioner",
    )
    parser.add_argument("--set", action="append", default=[], metavar="STAGE.KEY=VALUE")
    chosen = parser.parse_args()
    try:
        paths = Paths(
            chosen.data,
            chosen.text or chosen.data,
            chosen.out,
            chosen.start,
            chosen.fast_start,
            chosen.names,
            tuple(chosen.also),
            tuple(chosen.coco) if chosen.coco else None,
        )
        stages = MODELS[chosen.model](paths)
        chosen.out.mkdir(parents=True, exist_ok=True)
        run_all(stages, chosen.out, chosen.set)
    except DeixisError as error:
        raise SystemExit(f"retrain: {error}") from None
    print(f"finished: {chosen.out}")


if __name__ == "__main__":
    main()
