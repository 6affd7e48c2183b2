"""Train the part-of-speech tagger in ``deixis.language.models``.

python scripts/train_tagger.py --treebank treebank.zip --conll conll2000.zip --silver silver.jsonl

The zips are NLTK's (the 5 % Penn Treebank sample and the CoNLL-2000 chunking data); ``silver.jsonl`` comes from
``scripts/silver_tags.py``. The last twenty files of the Treebank sample, CoNLL's test file and every twentieth
silver caption are held out; the accuracy on each is printed and stored in its ``config.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from perceptron import LabelledSentence, learn
from ship_model import ship_part

from deixis.language.tagger import TAGGER_TEMPLATES, FeatureRows, SequenceModel, Tagger, WordFacts

Tagged = list[tuple[str, str]]

TAGGER_BITS = 18

BRACKETS = {
    "-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]",
}  # fmt: skip
# OntoNotes has a few tags that are not in the Treebank.
TAG_OF = {"(": "-LRB-", ")": "-RRB-", "HYPH": ":", "NFP": ":", "ADD": "NN", "AFX": "JJ", "XX": "FW"}
HELD_OUT_TREEBANK = {f"wsj_{number:04d}.mrg" for number in range(180, 200)}


def treebank_files(path: Path) -> Iterator[tuple[str, list[Tagged]]]:
    """Iterate over the files of the Treebank sample: name and tagged sentences."""
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".mrg"):
                yield Path(name).name, list(tagged_trees(archive.read(name).decode()))


def tagged_trees(text: str) -> Iterator[Tagged]:
    """Iterate over the leaves of each tree; every tree starts in the first column."""
    for tree in re.split(r"(?m)^\(", text)[1:]:
        leaves = re.findall(r"\(([^\s()]+) ([^\s()]+)\)", tree)
        sentence = [(BRACKETS.get(word, word.replace("\\/", "/")), tag) for tag, word in leaves if tag != "-NONE-"]
        if sentence:
            yield sentence


def conll_sentences(path: Path, name: str) -> Iterator[Tagged]:
    """The sentences of a CoNLL-2000 file."""
    with zipfile.ZipFile(path) as archive:
        text = archive.read(f"conll2000/{name}.txt").decode()
    for block in text.strip().split("\n\n"):
        cells = [line.split(" ") for line in block.splitlines()]
        yield [(cell[0], TAG_OF.get(cell[1], cell[1])) for cell in cells]


def silver_sentences(path: Path) -> Iterator[tuple[str, Tagged]]:
    """Iterate over photo ids and tagged captions."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            photo_id, tokens, tags = json.loads(line)
            if "_SP" not in tags:
                yield photo_id, [(token, TAG_OF.get(tag, tag)) for token, tag in zip(tokens, tags, strict=True)]


def labelled(sentences: Iterable[Tagged], labels: list[str]) -> list[LabelledSentence]:
    """Convert sentences to training sentences."""
    facts, rows = WordFacts(), FeatureRows(TAGGER_TEMPLATES, TAGGER_BITS)
    number_of = {label: number for number, label in enumerate(labels)}
    return [
        LabelledSentence(
            rows(facts([word for word, _ in sentence])).astype(np.int32),
            np.array([number_of[tag] for _, tag in sentence]),
        )
        for sentence in sentences
    ]


def accuracy(model: SequenceModel, sentences: list[Tagged]) -> float:
    """Return the fraction of correct tags."""
    tagger = Tagger(model)
    correct = total = 0
    for sentence in sentences:
        tags = tagger.tag([word for word, _ in sentence])
        correct += sum(predicted == gold for predicted, (_, gold) in zip(tags, sentence, strict=True))
        total += len(sentence)
    return correct / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--treebank", type=Path, required=True)
    parser.add_argument("--conll", type=Path, required=True)
    parser.add_argument("--silver", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("src/deixis/language/models"))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    training: list[Tagged] = []
    held_out: dict[str, list[Tagged]] = {"treebank": [], "conll2000": list(conll_sentences(args.conll, "test"))}
    for name, sentences in treebank_files(args.treebank):
        (held_out["treebank"] if name in HELD_OUT_TREEBANK else training).extend(sentences)
    training.extend(conll_sentences(args.conll, "train"))
    silver = list(silver_sentences(args.silver))
    training.extend(sentence for number, (_, sentence) in enumerate(silver) if number % 20)
    held_out["captions (agreement with the larger tagger)"] = [sentence for _, sentence in silver[::20]]

    labels = sorted({tag for sentence in training for _, tag in sentence})
    ids = sorted({photo_id for photo_id, _ in silver})
    about = {
        "learned_from": "Penn Treebank 5 % sample (NLTK), CoNLL-2000 train, captions tagged by spaCy en_core_web_md",
        "caption_ids": {"count": len(ids), "sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest()},
        "sentences": len(training),
        "epochs": args.epochs,
        "seed": args.seed,
    }
    model = learn(
        labelled(training, labels),
        labels,
        bits=TAGGER_BITS,
        epochs=args.epochs,
        seed=args.seed,
        about=about,
        after_epoch=lambda epoch, share: print(f"epoch {epoch + 1}: {share:.4f}", flush=True),
    )
    about["accuracy_held_out"] = {name: round(accuracy(model, some), 4) for name, some in held_out.items()}
    print(json.dumps(about["accuracy_held_out"], indent=1))
    ship_part(model.to_artifact(), args.out / "tagger")


if __name__ == "__main__":
    main()
