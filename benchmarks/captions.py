"""Compare the caption scores with pycocoevalcap: `python benchmarks/captions.py [--whole-table] [--rounds N]`.

One caption of each Flickr8k photo under $DEIXIS_DATA is scored against the other four. Needs java and pycocoevalcap.
Times run from plain text to scores. Start-up is not counted on either side: a tiny set is scored first; the Java
tokenizer starts for each call, so its start-up time is subtracted from each call; Java's METEOR stays open with its
tables loaded, and so do our modules and tables. CPU seconds are printed too, because wall time is unreliable on a busy
machine; Java's include its compiler, so later rounds are faster. The first round is what scoring one system costs.

`--whole-table` also computes METEOR with the full paraphrase table of pycocoevalcap's Meteor, and without any.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pycocoevalcap.meteor.meteor
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from deixis.evaluation.captions import CaptionScores, caption_scores

T = TypeVar("T")
Captions = dict[str, list[str]]


def timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    done = work()
    return done, time.perf_counter() - began


def flickr8k(folder: Path) -> Captions:
    found: Captions = {}
    for line in (folder / "flickr8k" / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines():
        name, caption = line.split("\t", 1)
        found.setdefault(name.split("#")[0], []).append(caption)
    return found


def tokenized_by_java(texts: Captions) -> dict[str, list[str]]:
    wrapped = {photo: [{"caption": text} for text in each] for photo, each in texts.items()}
    tokens: dict[str, list[str]] = PTBTokenizer().tokenize(wrapped)
    return tokens


class Theirs:
    """pycocoevalcap with its Java programs started."""

    def __init__(self) -> None:
        tiny = {"1": ["a dog"]}
        tokenized_by_java(tiny)
        self._start_s = min(timed(lambda: tokenized_by_java(tiny))[1] for _ in range(3))
        self._meteor = Meteor()
        self._meteor.compute_score(tiny, tiny)

    def cpu_s(self) -> float:
        """CPU seconds so far of Python, the Java tokenizers and Java's METEOR (Linux only)."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        meteor = Path(f"/proc/{self._meteor.meteor_p.pid}/stat").read_text().split()
        ticks = int(meteor[13]) + int(meteor[14])
        return time.process_time() + children.ru_utime + children.ru_stime + ticks / os.sysconf("SC_CLK_TCK")

    def scores(self, candidates: Captions, references: Captions) -> tuple[dict[str, float], dict[str, float]]:
        """Return the scores, and seconds by step."""
        seconds: dict[str, float] = {}
        words, seconds["tokenize"] = timed(lambda: (tokenized_by_java(references), tokenized_by_java(candidates)))
        seconds["tokenize"] -= 2 * self._start_s
        found = {}
        steps: dict[str, Any] = {"bleu": Bleu(4), "cider_d": Cider(), "rouge_l": Rouge(), "meteor": self._meteor}
        for name, scorer in steps.items():
            options = {"verbose": 0} if name == "bleu" else {}
            (score, _), seconds[name] = timed(lambda s=scorer, o=options: s.compute_score(*words, **o))
            if name == "bleu":
                found |= {f"bleu{k + 1}": 100 * each for k, each in enumerate(score)}
            else:
                found[name] = 100 * score
        return found, seconds


def print_scores(ours: CaptionScores, theirs: dict[str, float]) -> None:
    print(f"{'':9}{'deixis':>12}{'pycocoevalcap':>16}{'difference':>13}")
    for name, value in theirs.items():
        own = getattr(ours, name)
        print(f"{name:9}{own:12.6f}{value:16.6f}{own - value:+13.1e}")
    print(f"cider (without clipping and length penalty): {ours.cider:.4f}")


def print_meteors(candidates: dict[str, str], references: Captions, theirs: float) -> None:
    table = Path(pycocoevalcap.meteor.meteor.__file__).parent / "data" / "paraphrase-en.gz"
    for name, path in (("the whole paraphrase table", table), ("no paraphrases", None)):
        own, seconds = timed(lambda p=path: caption_scores(candidates, references, paraphrases=p).meteor)
        print(f"meteor with {name}: {own:.4f}, {own - theirs:+.4f} ({seconds:.1f} s)")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--whole-table", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if "DEIXIS_DATA" not in os.environ:
        sys.exit("set DEIXIS_DATA to the folder that holds flickr8k")
    captions = flickr8k(Path(os.environ["DEIXIS_DATA"]))
    candidates = {photo: five[0] for photo, five in captions.items()}
    references = {photo: five[1:] for photo, five in captions.items()}
    listed = {photo: [text] for photo, text in candidates.items()}

    theirs = Theirs()
    caption_scores({"1": "a dog"}, {"1": ["a dog"]})
    for number in range(options.rounds):
        began = theirs.cpu_s()
        ours, our_s = timed(lambda: caption_scores(candidates, references))
        between = theirs.cpu_s()
        found, seconds = theirs.scores(listed, references)
        our_cpu_s, their_cpu_s, their_s = between - began, theirs.cpu_s() - between, sum(seconds.values())
        steps = ", ".join(f"{name} {each:.2f}" for name, each in seconds.items())
        print(f"round {number + 1}: deixis {our_s:.2f} s, pycocoevalcap {their_s:.2f} s ({steps}): ", end="")
        print(f"{their_s / our_s:.1f} times as fast")
        print(f"  processors: deixis {our_cpu_s:.2f} s, pycocoevalcap {their_cpu_s:.2f} s: ", end="")
        print(f"{their_cpu_s / our_cpu_s:.1f} times as fast")
    _, interval_s = timed(lambda: ours.interval)
    print(
        f"{len(captions):,} candidates, {sum(map(len, references.values())):,} references; intervals {interval_s:.2f} s"
    )
    print_scores(ours, found)
    if options.whole_table:
        print_meteors(candidates, references, found["meteor"])


if __name__ == "__main__":
    main()
