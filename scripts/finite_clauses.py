"""Finite clauses made from the participles of captions: "a dog chasing a cat" teaches "a dog chases a cat".

Captions are mostly fragments in the present tense, so a parser that is trained on them reads rare finite verbs as
nouns. Participles tell which words are verbs, and what follows them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from deixis.language.trees import Tree, leaf, phrase
from deixis.tokens import Token

_IRREGULAR = """
bend:bent bite:bit blow:blew break:broke bring:brought build:built burn:burned buy:bought catch:caught cling:clung
come:came creep:crept cut:cut dig:dug dive:dived do:did draw:drew drink:drank drive:drove eat:ate fall:fell feed:fed
feel:felt fight:fought find:found fly:flew get:got give:gave go:went grind:ground grow:grew hang:hung have:had hide:hid
hit:hit hold:held keep:kept kneel:knelt lay:laid lead:led leave:left let:let lie:lay lose:lost make:made meet:met
pay:paid put:put read:read ride:rode ring:rang rise:rose run:ran say:said see:saw seek:sought sell:sold send:sent
set:set shake:shook shoot:shot sing:sang sink:sank sit:sat sleep:slept slide:slid speak:spoke spend:spent spin:spun
spread:spread spring:sprang stand:stood stick:stuck strike:struck sweep:swept swim:swam swing:swung take:took
teach:taught tear:tore tell:told think:thought throw:threw wake:woke wear:wore weave:wove win:won wind:wound
write:wrote
"""
_PAST = {lemma: form for lemma, _, form in (pair.partition(":") for pair in _IRREGULAR.split())}
_VOWELS = "aeiou"
_PLURALS = {"man": "men", "woman": "women", "child": "children", "person": "people"}


def lemma_of_participle(word: str, known: frozenset[str]) -> str | None:
    """Return the base form of a word in *-ing*, if one of the possible ones is known; else None."""
    stem = word.removesuffix("ing")
    if stem == word or not stem:
        return None
    candidates = [stem, stem[:-1] if stem[-1:] == stem[-2:-1] else stem, stem + "e"]
    if stem.endswith("y"):
        candidates.insert(0, stem[:-1] + "ie")  # lying
    return next((each for each in candidates if each in known), None)


def third_person(lemma: str) -> str:
    if lemma == "have":
        return "has"
    if lemma.endswith("y") and lemma[-2:-1] not in _VOWELS:
        return lemma[:-1] + "ies"
    return lemma + ("es" if lemma.endswith(("s", "x", "z", "ch", "sh", "o")) else "s")


def past(lemma: str) -> str:
    if lemma in _PAST:
        return _PAST[lemma]
    if lemma.endswith("e"):
        return lemma + "d"
    if lemma.endswith("y") and lemma[-2:-1] not in _VOWELS:
        return lemma[:-1] + "ied"
    doubles = len(lemma) <= 4 and lemma[-1] not in "wxy" and lemma[-2:-1] in _VOWELS and lemma[-3:-2] not in _VOWELS
    return lemma + (lemma[-1] if doubles else "") + "ed"


def plural(noun: str) -> str:
    for ending, other in _PLURALS.items():
        if noun.endswith(ending):
            return noun.removesuffix(ending) + other
    return third_person(noun)


class FiniteClauses:
    """Makes finite clauses from trees of captions, with the verbs and their frames that these trees have."""

    def __init__(self, trees: Sequence[Tree], known_verbs: frozenset[str]) -> None:
        self._known = known_verbs
        participles = (node.word for tree in trees for node in tree.leaves() if node.label == "VBN")
        self._passives = Counter(word.lower() for word in participles if word)
        self._finite = {third_person(lemma): lemma for lemma in known_verbs} | {lemma: lemma for lemma in known_verbs}
        self._verbs: dict[tuple[str, ...], Counter[str]] = {}
        for verb, after in (found for tree in trees for found in self._participle_phrases(tree)):
            self._verbs.setdefault(_frame(after), Counter())[verb] += 1

    def _participle_phrases(self, tree: Tree) -> Iterable[tuple[str, tuple[Tree, ...]]]:
        for node in tree.phrases():
            if node.label == "VP" and node.children[0].label == "VBG":
                lemma = lemma_of_participle((node.children[0].word or "").lower(), self._known)
                if lemma:
                    yield lemma, node.children[1:]

    def clause(self, tree: Tree, rng: random.Random) -> Tree | None:
        """Return a sentence made from a noun phrase with a participle, or from a sentence in the present tense."""
        *parts, end = tree.children if tree.children[-1].label == "." else (*tree.children, None)
        if tree.label == "S":
            return self._in_the_past(tree)
        if tree.label != "NP" or len(parts) < 2 or parts[-1].label != "VP" or parts[0].label != "NP":
            return None
        *subject, action = parts
        found = next(iter(self._participle_phrases(action)), None)
        if found is None or action.children[0].label != "VBG" or any(part.label == "CC" for part in subject):
            return None
        lemma, after = found
        others = self._verbs[_frame(after)]
        if rng.random() < 0.5:  # another verb that is followed by the same phrases
            lemma = rng.choice(list(others))
        noun = subject[0] if len(subject) == 1 else phrase("NP", subject)
        first = noun.children[0] if noun.children[0].label == "NP" else noun
        nouns = [node for node in first.children if node.is_leaf]
        number = nouns[-1].label if nouns else ""
        replaced: dict[int, tuple[str, str]] = {}
        is_simple = len(first.children) == len(nouns) > 1 and nouns[0].label == "DT" and number == "NN"
        if is_simple and rng.random() < 0.3:
            number = "NNS"
            replaced[nouns[0].start] = "", ""
            replaced[nouns[-1].start] = "NNS", plural(nouns[-1].word or "")
        form = past(lemma)
        if rng.random() < 0.5 and (form in _PAST.values() or self._passives[form] < 3):
            verb = "VBD", form
        elif number == "NN":
            verb = "VBZ", third_person(lemma)
        elif number == "NNS":
            verb = "VBP", lemma
        else:
            verb = "VBD", form
        replaced[action.start] = verb
        return _with_words(phrase("S", [noun, action, *([end] if end else [])]), replaced)

    def _in_the_past(self, tree: Tree) -> Tree | None:
        """The sentence with its finite verb in the past tense, or None without a verb that is known."""
        action = next((child for child in tree.children if child.label == "VP"), None)
        verb = action.children[0] if action else None
        if verb is None or verb.word is None or verb.label not in ("VBZ", "VBP"):
            return None
        word = verb.word.lower()
        lemma = self._finite.get(word)
        form = {"is": "was", "are": "were"}.get(word) or (past(lemma) if lemma else None)
        return _with_words(tree, {verb.start: ("VBD", form)}) if form else None


def _frame(after: Sequence[Tree]) -> tuple[str, ...]:
    """The labels of the phrases after a verb, and the first words of prepositional phrases."""
    return tuple(
        f"PP {(next(node.leaves()).word or '').lower()}" if node.label == "PP" else node.label for node in after
    )


def _with_words(tree: Tree, replaced: dict[int, tuple[str, str]]) -> Tree:
    """Replace leaves by tag and word; those with an empty word are left out, and the next begins with a capital."""
    words: list[Tree] = []
    capital = False

    def copy(node: Tree) -> Tree | None:
        nonlocal capital
        if node.word is not None:
            tag, word = replaced.get(node.start, (node.label, node.word))
            if not word:
                capital = node.word[:1].isupper()
                return None
            word, capital = (word.capitalize() if capital else word), False
            begin = words[-1].char_end + 1 if words else 0
            words.append(leaf(tag, Token(word, begin, begin + len(word)), len(words)))
            return words[-1]
        children = [made for child in node.children if (made := copy(child))]
        return phrase(node.label, children)

    made = copy(tree)
    assert made is not None  # noqa: S101 - a verb remains
    return made
