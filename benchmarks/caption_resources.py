"""Make the data files of METEOR again: `python benchmarks/caption_resources.py METEOR_FOLDER`.

METEOR_FOLDER holds Meteor's `meteor-1.5.jar` and `data/paraphrase-en.gz`, as the package pycocoevalcap has them in its
folder `meteor`. The captions that decide which paraphrases are kept are those of the Entities train split under
$DEIXIS_DATA. The files go where `deixis.evaluation.captions` reads them; `data/README.md` there describes them.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import deixis.evaluation.captions
from deixis.evaluation.captions.meteor_words import normalised
from deixis.tokens import words

OUT = Path(deixis.evaluation.captions.__file__).parent / "data"
IN_THE_JAR = ("synonym/english.synsets", "synonym/english.exceptions", "function/english.words")
LONGEST_PHRASE = 7
TIMES_SEEN = 2


def write(name: str, lines: Iterable[str]) -> None:
    """Write gzipped text that is the same, byte for byte, whenever it is made."""
    text = "".join(f"{line}\n" for line in lines)
    (OUT / name).write_bytes(gzip.compress(text.encode("utf-8"), 9, mtime=0))
    print(f"{name}: {text.count(chr(10)):,} lines, {(OUT / name).stat().st_size:,} bytes")


def couples(text: str) -> Iterator[tuple[str, list[str]]]:
    """Lines two by two: a word, and what belongs to it."""
    lines = text.splitlines()
    return ((word, rest.split()) for word, rest in zip(lines[::2], lines[1::2], strict=True))


def senses(text: str) -> Iterator[str]:
    """One line a word: the senses that it shares with other single words, numbered anew."""
    kept = {word: set(numbers) for word, numbers in couples(text) if not re.search(r"[_/-]", word)}
    words_with = Counter(number for numbers in kept.values() for number in numbers)
    anew: dict[str, int] = {}
    for word, numbers in sorted(kept.items()):
        shared = sorted(number for number in numbers if words_with[number] > 1)
        yield " ".join([word, *(str(anew.setdefault(number, len(anew))) for number in shared)])


def irregular_forms(text: str) -> Iterator[str]:
    """One line an irregular form: its base forms."""
    bases: dict[str, list[str]] = {}
    for base, forms in couples(text):
        for form in forms:
            bases.setdefault(form, []).append(base)
    return (" ".join([form, *bases[form]]) for form in sorted(bases))


def phrases_of_captions(folder: Path) -> set[str]:
    """Every run of words that the captions of the Entities train split have at least twice."""
    seen: Counter[str] = Counter()
    with zipfile.ZipFile(folder / "annotations.zip") as archive:
        names = {Path(name).stem: name for name in archive.namelist() if "Sentences/" in name and name.endswith(".txt")}
        for photo in (folder / "train.txt").read_text().split():
            text = re.sub(r"\[/EN#\S+ ([^\]]*)\]", r"\1", archive.read(names[photo]).decode("utf-8"))
            for sentence in (normalised(words(line)) for line in text.splitlines()):
                for length in range(1, LONGEST_PHRASE + 1):
                    seen.update(" ".join(sentence[i : i + length]) for i in range(len(sentence) - length + 1))
    return {phrase for phrase, times in seen.items() if times >= TIMES_SEEN}


def wanted_pairs(table: Path, phrases: set[str]) -> Iterator[str]:
    """The pairs of Meteor's table whose phrases are both wanted, in its format; the probability is not used."""
    with gzip.open(table, "rt", encoding="utf-8") as lines:
        for _ in lines:
            one, other = next(lines).strip(), next(lines).strip()
            if one in phrases and other in phrases:
                yield from ("1", one, other)


def main() -> None:
    if len(sys.argv) != 2 or "DEIXIS_DATA" not in os.environ:
        sys.exit(f"usage: DEIXIS_DATA=FOLDER python {sys.argv[0]} METEOR_FOLDER")
    meteor = Path(sys.argv[1])
    with zipfile.ZipFile(meteor / "meteor-1.5.jar") as jar:
        synsets, exceptions, function_words = (jar.read(name).decode("utf-8") for name in IN_THE_JAR)
        (OUT / "COPYING.WORDNET").write_bytes(jar.read("synonym/COPYING.WORDNET"))
    write("wordnet-senses.gz", senses(synsets))
    write("wordnet-forms.gz", irregular_forms(exceptions))
    (OUT / "meteor-function-words-en.txt").write_text(function_words, encoding="utf-8")
    phrases = phrases_of_captions(Path(os.environ["DEIXIS_DATA"]) / "flickr30k_entities")
    write("meteor-paraphrases-en.gz", wanted_pairs(meteor / "data" / "paraphrase-en.gz", phrases))


if __name__ == "__main__":
    main()
