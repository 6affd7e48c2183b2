"""Build the data files of METEOR: `python benchmarks/caption_resources.py METEOR_FOLDER`.

METEOR_FOLDER holds Meteor's `meteor-1.5.jar` and `data/paraphrase-en.gz`, as the package pycocoevalcap has them in its
folder `meteor`. The captions that decide which paraphrases are kept are those of the Entities train split under
$DEIXIS_DATA. The files go into `src/deixis/language/data`; its `README.md` describes them.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from deixis.evaluation.captions.meteor import normalize_word, starts_with_letter
from deixis.language.words import DATA_DIR
from deixis.tokens import words

IN_THE_JAR = ("synonym/english.synsets", "synonym/english.exceptions", "function/english.words")
LONGEST_PHRASE = 7
MIN_COUNT = 2


def normalize_words(given: list[str]) -> list[str]:
    """Normalize the words of a sentence as Meteor does with ``-norm``."""
    followed = [*map(starts_with_letter, given[1:]), False][: len(given)]
    return [part for word, before in zip(given, followed, strict=True) for part in normalize_word(word, before)]


def write(name: str, lines: Iterable[str]) -> None:
    """Write gzipped text reproducibly."""
    text = "".join(f"{line}\n" for line in lines)
    (DATA_DIR / name).write_bytes(gzip.compress(text.encode("utf-8"), 9, mtime=0))
    print(f"{name}: {text.count(chr(10)):,} lines, {(DATA_DIR / name).stat().st_size:,} bytes")


def couples(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield pairs of lines: a word and its entries."""
    lines = text.splitlines()
    return ((word, rest.split()) for word, rest in zip(lines[::2], lines[1::2], strict=True))


def senses(text: str) -> Iterator[str]:
    """Yield a line per word: the senses that it shares with other single words, renumbered."""
    kept = {word: set(numbers) for word, numbers in couples(text) if not re.search(r"[_/-]", word)}
    words_with = Counter(number for numbers in kept.values() for number in numbers)
    renumbered: dict[str, int] = {}
    for word, numbers in sorted(kept.items()):
        shared = sorted(number for number in numbers if words_with[number] > 1)
        yield " ".join([word, *(str(renumbered.setdefault(number, len(renumbered))) for number in shared)])


def irregular_forms(text: str) -> Iterator[str]:
    """Yield a line per irregular form: its base forms."""
    bases: dict[str, list[str]] = {}
    for base, forms in couples(text):
        for form in forms:
            bases.setdefault(form, []).append(base)
    return (" ".join([form, *bases[form]]) for form in sorted(bases))


def phrases_of_captions(folder: Path) -> set[str]:
    """Return the word sequences that occur at least twice in captions of the Entities train split."""
    counts: Counter[str] = Counter()
    with zipfile.ZipFile(folder / "annotations.zip") as archive:
        names = {Path(name).stem: name for name in archive.namelist() if "Sentences/" in name and name.endswith(".txt")}
        for photo in (folder / "train.txt").read_text().split():
            text = re.sub(r"\[/EN#\S+ ([^\]]*)\]", r"\1", archive.read(names[photo]).decode("utf-8"))
            for sentence in (normalize_words(words(line)) for line in text.splitlines()):
                for length in range(1, LONGEST_PHRASE + 1):
                    counts.update(" ".join(sentence[i : i + length]) for i in range(len(sentence) - length + 1))
    return {phrase for phrase, times in counts.items() if times >= MIN_COUNT}


def matching_pairs(table: Path, phrases: set[str]) -> Iterator[str]:
    """Yield the pairs of Meteor's table whose phrases both occur, in its format; the probability is not used."""
    with gzip.open(table, "rt", encoding="utf-8") as lines:
        for _ in lines:
            one, other = next(lines).strip(), next(lines).strip()
            if one in phrases and other in phrases:
                yield from ("1", one, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("meteor", type=Path, help="folder with meteor-1.5.jar and data/paraphrase-en.gz")
    meteor = parser.parse_args().meteor
    if "DEIXIS_DATA" not in os.environ:
        parser.error("set DEIXIS_DATA to the folder of the data sets")
    with zipfile.ZipFile(meteor / "meteor-1.5.jar") as jar:
        synsets, exceptions, function_words = (jar.read(name).decode("utf-8") for name in IN_THE_JAR)
        (DATA_DIR / "COPYING.WORDNET").write_bytes(jar.read("synonym/COPYING.WORDNET"))
    write("wordnet-senses.gz", senses(synsets))
    write("wordnet-forms.gz", irregular_forms(exceptions))
    (DATA_DIR / "meteor-function-words-en.txt").write_text(function_words, encoding="utf-8")
    phrases = phrases_of_captions(Path(os.environ["DEIXIS_DATA"]) / "flickr30k_entities")
    write("meteor-paraphrases-en.gz", matching_pairs(meteor / "data" / "paraphrase-en.gz", phrases))


if __name__ == "__main__":
    main()
