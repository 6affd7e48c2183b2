"""Caption scores in plain loops, for tests to compare with. Captions are lists of words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

Words = Sequence[str]


def grams(words: Words, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def bleu(candidates: list[Words], references: list[list[Words]]) -> list[float]:
    right, guessed = [0] * 4, [0] * 4
    own = closest = 0
    for candidate, others in zip(candidates, references, strict=True):
        own += len(candidate)
        closest += min((abs(len(other) - len(candidate)), len(other)) for other in others)[1]
        for n in range(1, 5):
            for gram, count in grams(candidate, n).items():
                right[n - 1] += min(count, max(grams(other, n)[gram] for other in others))
                guessed[n - 1] += count
    scores = []
    product = 1.0
    for n in range(4):
        product *= (right[n] + 1e-15) / (guessed[n] + 1e-9)
        ratio = (own + 1e-15) / (closest + 1e-9)
        scores.append(product ** (1 / (n + 1)) * (math.exp(1 - 1 / ratio) if ratio < 1 else 1))
    return scores


def cider(candidates: list[Words], references: list[list[Words]], damped: bool) -> list[float]:
    photos = len(candidates)

    def weight(gram: tuple[str, ...]) -> float:
        having = sum(any(gram in grams(other, len(gram)) for other in others) for others in references)
        return math.log(photos) - math.log(max(1, having))

    def vector(words: Words, n: int) -> dict[tuple[str, ...], float]:
        return {gram: count * weight(gram) for gram, count in grams(words, n).items()}

    def norm(weights: dict[tuple[str, ...], float]) -> float:
        return math.sqrt(sum(value**2 for value in weights.values()))

    scores = []
    for candidate, others in zip(candidates, references, strict=True):
        total = 0.0
        for other in others:
            for n in range(1, 5):
                a, b = vector(candidate, n), vector(other, n)
                common = sum((min(a[g], b[g]) if damped else a[g]) * b[g] for g in a if g in b)
                cosine = common / (norm(a) * norm(b)) if norm(a) * norm(b) > 0 else 0.0
                longer = max(0, len(candidate) - 1) - max(0, len(other) - 1)
                total += cosine * (math.exp(-(longer**2) / (2 * 6**2)) if damped else 1)
        scores.append(10 * total / 4 / len(others))
    return scores


def longest_common(a: Words, b: Words) -> int:
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return longest_common(a[:-1], b[:-1]) + 1
    return max(longest_common(a[:-1], b), longest_common(a, b[:-1]))


def rouge_l(candidate: Words, references: list[Words]) -> float:
    candidate = candidate or [""]
    others = [other or [""] for other in references]
    precision = max(longest_common(candidate, other) / len(candidate) for other in others)
    recall = max(longest_common(candidate, other) / len(other) for other in others)
    return (1 + 1.44) * precision * recall / (recall + 1.44 * precision) if precision else 0.0
