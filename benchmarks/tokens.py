"""Compare `deixis.tokens.words` with the Java tokenizer of pycocoevalcap on all captions under $DEIXIS_DATA.

Needs java and pycocoevalcap. Prints, for each source, the share of captions with the same words and the time of each
tokenizer, and then the first captions that differ.
"""

from __future__ import annotations

import os
import re
import sys
import time
import zipfile
from pathlib import Path

from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from deixis.tokens import words

SHOWN = 5


def flickr8k(folder: Path) -> list[str]:
    lines = (folder / "flickr8k" / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()
    return [line.split("\t", 1)[1] for line in lines]


def entities(folder: Path) -> list[str]:
    captions = []
    with zipfile.ZipFile(folder / "flickr30k_entities" / "annotations.zip") as archive:
        for name in archive.namelist():
            if "Sentences/" in name and name.endswith(".txt"):
                text = re.sub(r"\[/EN#\S+ ([^\]]*)\]", r"\1", archive.read(name).decode("utf-8"))
                captions += [line for line in text.splitlines() if line.strip()]
    return captions


def join_punctuation(caption: str) -> str:
    """Join punctuation and clitics to the word before them: 'a man 's hat .' is "a man's hat."."""
    caption = re.sub(r" (n't|'(?:s|m|d|re|ve|ll)?)(?= )", r"\1", caption)
    caption = re.sub(r'" ([^"]*) "', r'"\1"', caption)
    return re.sub(r" ([.,;:!?%)])", r"\1", caption.replace("( ", "(")).strip()


def compare(source: str, captions: list[str]) -> None:
    began = time.perf_counter()
    scored = PTBTokenizer().tokenize({0: [{"caption": caption} for caption in captions]})[0]
    java_s = time.perf_counter() - began

    began = time.perf_counter()
    ours = [words(caption) for caption in captions]
    ours_s = time.perf_counter() - began

    triples = zip(captions, (caption.split() for caption in scored), ours, strict=True)
    different = [triple for triple in triples if triple[1] != triple[2]]
    agreement = 100 * (1 - len(different) / len(captions))
    print(
        f"{source}: {agreement:.4f} % of {len(captions):,} captions agree; "
        f"java {java_s:.1f} s, deixis {ours_s:.1f} s, ratio {java_s / ours_s:.2f}"
    )
    for caption, theirs, own in different[:SHOWN]:
        print(f"  {caption}\n    java:   {' '.join(theirs)}\n    deixis: {' '.join(own)}")


def main() -> None:
    if "DEIXIS_DATA" not in os.environ:
        sys.exit("set DEIXIS_DATA to a folder that contains flickr8k and flickr30k_entities")
    folder = Path(os.environ["DEIXIS_DATA"])
    for source, captions in (("Flickr8k", flickr8k(folder)), ("Flickr30k Entities", entities(folder))):
        compare(source, captions)
        compare(f"{source}, natural punctuation", [join_punctuation(caption) for caption in captions])


if __name__ == "__main__":
    main()
