"""Relations between entities, and subjects with their verbs, from constituency trees. English only.

After Fidler, Sharma and Urtasun (CVPR 2013), as Flickr30k Entities (§3.1) augments its phrases: from a prepositional or
verb phrase, go up to a clause or noun phrase; the noun phrase to the left is the first entity, and the noun phrases
inside the relational phrase are the second. "a dog in a field barking at a cat" gives (a dog, in, a field),
(a dog, barking at, a cat) and (a dog, barking).

Choices that the papers leave open: forms of *be* are not part of a relation (``is barking at`` is *barking at*,
``is above`` is *above*); a coordination on the left is one entity, on the right each part is one; an *of* phrase
belongs to its noun (*a group of people*); *front*, *top*, *back* and similar nouns before *of* belong to the relation
(*in front of*).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deixis.data.records import Mention
from deixis.language.trees import Tree
from deixis.tokens import Token, words

_CLAUSES = frozenset(["S", "SINV", "SQ", "FRAG", "NP", "X"])
_LEADING = frozenset(["PP", "ADVP", "ADJP", "PRT"])
_BE = frozenset(["is", "are", "was", "were", "be", "been", "being", "'s", "'re", "am"])
_NEVER_VERBS = frozenset(["TO", "MD", "RB", "CC", "DT", "IN", "RP", "CD", ",", ".", ":", "``", "''"])
_LOCATION_NOUNS = frozenset(["front", "top", "back", "side", "middle", "midst", "search", "spite", "need"])


@dataclass(frozen=True, slots=True)
class Entity:
    """Tokens of the sentence that name a thing or a relation; they need not be adjacent (*holds* … *in*)."""

    tokens: tuple[Token, ...]
    start: int
    end: int
    mentions: tuple[Mention, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(token.text for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Relation:
    """An entity, its relation, and the second entity; the latter is None for a subject with its verb."""

    first: Entity
    relation: Entity
    second: Entity | None = None

    @property
    def parts(self) -> tuple[Entity, ...]:
        """The first entity, the relation, and the second entity if there is one."""
        return (self.first, self.relation, self.second) if self.second else (self.first, self.relation)

    @property
    def text(self) -> str:
        """The augmented phrase: *a dog barking at a cat*."""
        return " ".join(part.text for part in self.parts)

    @property
    def words(self) -> tuple[str, ...]:
        """The augmented phrase in lower case without punctuation, as vocabularies and text features use it."""
        return tuple(word for part in self.parts for word in words(part.tokens))

    @property
    def mentions(self) -> tuple[Mention, ...]:
        """The mentions of both entities; the box of the phrase is the union of their boxes."""
        return self.first.mentions + (self.second.mentions if self.second else ())


def relations(tree: Tree, mentions: Sequence[Mention] | None = None) -> list[Relation]:
    """Find the relations of a tree, in the order of the sentence.

    With `mentions`, entities are the mentions inside the noun phrases, and relations without mentions are left out. For
    training data, pass the mentions that have a box.
    """
    parents = {id(child): node for node in tree.nodes() for child in node.children}
    by_words = None if mentions is None else _Mentions(mentions, tree)
    found = (_relation(*parts, by_words) for node in tree.phrases() for parts in _find(node, parents))
    return sorted(dict.fromkeys(relation for relation in found if relation is not None), key=_position)


def _position(relation: Relation) -> tuple[int, int, int]:
    second = relation.second
    return relation.relation.start, second.start if second else 0, relation.first.start


_Found = tuple[list[Tree], list[Tree], list[Tree] | None]
"""The leaves of the subject, of the relation and of the second entity."""


def _find(node: Tree, parents: dict[int, Tree]) -> Iterator[_Found]:
    """The relations of one relational phrase."""
    if node.label == "VP":
        yield from _find_in_verb_phrase(node, parents)
    elif node.label == "PP" and not _is_of(node) and not _in_verb_phrase(node, parents):
        subject = _subject(node, parents)
        if subject:
            for words, target in _targets(node):
                yield subject, words, target


def _find_in_verb_phrase(node: Tree, parents: dict[int, Tree]) -> Iterator[_Found]:
    verb = _verb(node)
    subject = _subject(node, parents)
    if verb is None or not subject:
        return
    is_be = (verb.word or "").lower() in _BE
    words = [] if is_be else [*_leading_verbs(node, parents), verb, *_particles(node, verb)]
    there = subject[0].label == "EX"
    if words and not there:
        yield subject, words, None
    for child in node.children:
        if child.label == "NP" and not is_be and not there:
            for target in _parts(child):
                yield subject, words, target
        elif child.label in ("PP", "ADVP", "ADJP"):
            before = subject if not there else _noun_before(child, node)
            for led, target in _targets(child):
                if before:
                    yield before, words + led, target


def _verb(node: Tree) -> Tree | None:
    """The main verb of a verb phrase; None if it is in an inner verb phrase."""
    if any(child.label == "VP" for child in node.children):
        return None
    words = [child for child in node.children if child.is_leaf and child.label not in _NEVER_VERBS]
    # The tag may be wrong although the phrase is right: "a dog (VP (NN wrestling))".
    return next((word for word in words if word.label.startswith("VB")), words[0] if words else None)


def _particles(node: Tree, verb: Tree) -> list[Tree]:
    return [
        word for child in node.children if child.label == "PRT" and child.start >= verb.end for word in child.leaves()
    ]


def _leading_verbs(node: Tree, parents: dict[int, Tree]) -> list[Tree]:
    """The verb that governs an infinitive: *trying to* before *catch*."""
    above = parents.get(id(node))
    marker = [child for child in above.children if child.label == "TO"] if above and above.label == "VP" else []
    clause = parents.get(id(above))
    outer = parents.get(id(clause))
    if not marker or clause is None or clause.label != "S" or outer is None or outer.label != "VP":
        return marker
    verb = _verb(outer)
    return [verb, *marker] if verb and (verb.word or "").lower() not in _BE else marker


def _in_verb_phrase(node: Tree, parents: dict[int, Tree]) -> bool:
    """Whether it is read together with the words before it, as part of a verb phrase or of another preposition."""
    parent = parents.get(id(node))
    while parent is not None and parent.label in _LEADING:
        if not _is_coordination(parent):
            return True
        parent = parents.get(id(parent))
    return parent is not None and parent.label == "VP" and (_verb(parent) is not None)


def _subject(node: Tree, parents: dict[int, Tree]) -> list[Tree]:
    """Go up until there is a noun phrase to the left."""
    parent = parents.get(id(node))
    while parent is not None:
        if parent.label in _CLAUSES:
            left = [child for child in parent.children if child.end <= node.start]
            named = [child for child in left if child.label == "NP"]
            if not named and parent.label == "SINV":
                named = [child for child in parent.children if child.start >= node.end and child.label == "NP"]
            together = [
                child for child in left if named and named[0].start <= child.start and child.end <= named[-1].end
            ]
            if parent.label == "NP" and any(child.label == "CC" for child in together):
                return [word for child in together for word in child.leaves()]
            if named:
                return _named(named[-1]) + [
                    word for child in _of_phrase_after(named[-1], left) for word in _of_words(child)
                ]
        node, parent = parent, parents.get(id(parent))
    return []


def _of_phrase_after(noun: Tree, among: Sequence[Tree]) -> list[Tree]:
    return [child for child in among if child.start == noun.end and _is_of(child)]


def _noun_before(child: Tree, parent: Tree) -> list[Tree]:
    named = [other for other in parent.children if other.end <= child.start and other.label == "NP"]
    return _named(named[-1]) if named else []


def _named(node: Tree) -> list[Tree]:
    """The words of a noun phrase without modifiers after it: *a dog* of *a dog in a field*."""
    while node.children and node.children[0].label == "NP" and not _is_coordination(node):
        first, *others = node.children
        if first.children and first.children[-1].label == "POS":
            break
        if others and _is_of(others[0]):
            return [*_named(first), *(word for word in _of_words(others[0]))]
        node = first
    return _without_punctuation(node)


def _of_words(of: Tree) -> list[Tree]:
    preposition, *rest = of.children
    return [
        preposition,
        *(word for child in rest for word in (_named(child) if child.label == "NP" else child.leaves())),
    ]


def _without_punctuation(node: Tree) -> list[Tree]:
    words = list(node.leaves())
    while words and not (words[-1].word or "")[-1:].isalnum() and words[-1].label in (".", ",", ":", "''", "``"):
        words.pop()
    return words


def _is_of(node: Tree) -> bool:
    return node.label == "PP" and len(node.children) > 1 and (node.children[0].word or "").lower() == "of"


def _is_coordination(node: Tree) -> bool:
    if any(child.label in ("CC", "CONJP") for child in node.children):
        return True
    return sum(child.label == "NP" for child in node.children) > 1


def _parts(node: Tree) -> list[list[Tree]]:
    """The entities of a noun phrase: one, or several if coordinated."""
    while not _is_coordination(node) and node.children and node.children[0].label == "NP" and len(node.children) > 1:
        if _is_of(node.children[1]):
            return [_named(node)]
        node = node.children[0]
    if _is_coordination(node) and any(child.label == "NP" for child in node.children):
        return [part for child in node.children if child.label == "NP" for part in _parts(child)]
    return [_named(node)]


def _targets(node: Tree) -> Iterator[tuple[list[Tree], list[Tree]]]:
    """The entities of a prepositional phrase, each with the words before it."""
    queue: list[tuple[Tree, list[Tree]]] = [(node, [])]
    while queue:
        at, before = queue.pop(0)
        if _is_coordination(at):
            queue = [(child, before) for child in at.children if child.label in _LEADING] + queue
            continue
        words = list(before)
        for child in at.children:
            if child.is_leaf:
                words.append(child)
            elif child.label in _LEADING:
                queue.append((child, list(words)))
                words += [word for word in child.leaves() if not any(n.label == "NP" for n in child.phrases())]
            elif child.label == "NP":
                of_phrase = _location_noun_phrase(child)
                if of_phrase is not None:
                    queue.append((of_phrase, words + list(child.children[0].leaves())))
                else:
                    yield from ((words, part) for part in _parts(child))
                break


def _location_noun_phrase(node: Tree) -> Tree | None:
    """The ``of`` phrase after a location noun, as in *front of the house*."""
    if len(node.children) < 2 or not _is_of(node.children[1]):
        return None
    nouns = [(word.word or "").lower() for word in node.children[0].leaves()]
    return node.children[1] if nouns[-1] in _LOCATION_NOUNS and len(nouns) == 1 else None


def _relation(
    subject: list[Tree], words: list[Tree], target: list[Tree] | None, mentions: _Mentions | None
) -> Relation | None:
    if not words or (target is not None and not target):
        return None
    if mentions is None:
        return Relation(_spanning(subject), _spanning(words), _spanning(target) if target else None)
    first, second = mentions.entity(subject), mentions.entity(target) if target else None
    if first is None or (target and second is None):
        return None
    relation = Relation(first, _spanning(words), second)
    return None if _parts_overlap(relation) else relation


class _Mentions:
    """Finds the mentions of some words of a sentence."""

    def __init__(self, mentions: Sequence[Mention], tree: Tree) -> None:
        self._mentions = sorted(mentions, key=lambda mention: mention.start)
        self._leaves = list(tree.leaves())

    def entity(self, words: list[Tree]) -> Entity | None:
        """From the first to the last mention inside these words; or the mention that contains these words."""
        begin, end = words[0].char_start, words[-1].char_end
        inside = [mention for mention in self._mentions if begin <= mention.start and mention.end <= end]
        inside = inside or [mention for mention in self._mentions if mention.start <= begin and end <= mention.end]
        if not inside:
            return None
        begin, end = inside[0].start, inside[-1].end
        return _spanning([leaf for leaf in self._leaves if begin <= leaf.char_start and leaf.char_end <= end], inside)


def _parts_overlap(relation: Relation) -> bool:
    """Whether parts share a token, as in a relation inside one mention (*the man in black*)."""
    taken = [token for part in relation.parts for token in part.tokens]
    return len(set(taken)) < len(taken)


def _spanning(words: list[Tree], mentions: Sequence[Mention] = ()) -> Entity:
    tokens = tuple(Token(leaf.word or "", leaf.char_start, leaf.char_end) for leaf in words)
    return Entity(tokens, words[0].start, words[-1].end, tuple(mentions))
