"""Constituency trees from dependency parses, in the style of the Penn Treebank. English only.

`deixis.language.parser` is trained on such trees of captions, and ``benchmarks/parsing.py`` compares it with them. The
relations are those of spaCy's English pipelines (ClearNLP labels).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deixis.language.trees import Tree, leaf, phrase
from deixis.tokens import Token

_SUBJECTS = frozenset(["nsubj", "nsubjpass", "csubj", "csubjpass", "expl"])
_AUXILIARIES = frozenset(["aux", "auxpass"])
_INSIDE_NOUN_PHRASES = frozenset(
    ["det", "amod", "compound", "nummod", "poss", "predet", "quantmod", "nmod", "neg", "advmod", "case", "punct",
     "npadvmod", "preconj", "dep", "prep", "intj", "meta"]
)  # fmt: skip
_NOUN_ROLES = _SUBJECTS | {"dobj", "pobj", "attr", "conj", "appos", "dative", "npadvmod", "oprd", "ROOT", "dep", "poss"}
_NOUN_TAGS = ("NN", "PRP", "CD", "DT", "WP", "WDT", "EX", "PDT", "$", "FW", "ADD", "XX")
_VERB_TAGS = ("VB", "MD")
_BARE_VERBS = _AUXILIARIES | {"amod", "compound", "prep", "case"}


@dataclass(slots=True)
class _Part:
    """A dependent: its relation to the head, and the tree of its subtree."""

    relation: str
    node: Tree
    coordinates: bool = False


def tree_from_dependencies(
    tokens: Sequence[Token], tags: Sequence[str], heads: Sequence[int], relations: Sequence[str]
) -> Tree:
    """Convert a dependency parse to a constituency tree.

    Parameters
    ----------
    tokens, tags
        The sentence, and the Penn Treebank tag of each token.
    heads
        Index of the head of each token; a root is its own head. Crossing arcs are lifted until they do not cross.
    relations
        Relation of each token to its head, with spaCy's labels.

    Examples
    --------
    >>> from deixis.tokens import tokenize
    >>> tree_from_dependencies(tokenize("A dog runs"), ["DT", "NN", "VBZ"], [1, 2, 2], ["det", "nsubj", "ROOT"])
    <Tree (S (NP (DT A) (NN dog)) (VP (VBZ runs)))>
    """
    heads = _without_crossings(heads)
    leaves = [leaf(tag, token, i) for i, (tag, token) in enumerate(zip(tags, tokens, strict=True))]
    parts: list[_Part | None] = [None] * len(tokens)
    dependents: list[list[int]] = [[] for _ in tokens]
    for i, head in enumerate(heads):
        if head != i:
            dependents[head].append(i)
    for i in _leaves_first(heads):
        left = [part for d in dependents[i] if d < i and (part := parts[d])]
        right = [part for d in dependents[i] if d > i and (part := parts[d])]
        parts[i] = _built(leaves[i], relations[i], left, right)
    roots = [part.node for i, part in enumerate(parts) if part and heads[i] == i]
    return roots[0] if len(roots) == 1 else phrase("FRAG", roots)


def trees_by_spacy(pipeline: Any, sentences: Iterable[Sequence[Token]]) -> Iterator[Tree]:
    """Parse sentences with an English pipeline of spaCy and convert the parses; spaCy must be installed.

    Examples
    --------
    >>> import spacy  # doctest: +SKIP
    >>> next(trees_by_spacy(spacy.load("en_core_web_md"), [tokenize("A dog runs")]))  # doctest: +SKIP
    <Tree (S (NP (DT A) (NN dog)) (VP (VBZ runs)))>
    """
    from spacy.tokens import Doc  # type: ignore[import-not-found]

    def document(tokens: Sequence[Token]) -> tuple[Any, Sequence[Token]]:
        return Doc(pipeline.vocab, words=[token.text for token in tokens]), tokens

    for words, tokens in pipeline.pipe(map(document, sentences), as_tuples=True, batch_size=256):
        tags, relations = [word.tag_ for word in words], [word.dep_ for word in words]
        yield tree_from_dependencies(tokens, tags, [word.head.i for word in words], relations)


def _leaves_first(heads: Sequence[int]) -> list[int]:
    """The tokens in an order in which each comes after its dependents."""
    depths = []
    for i in range(len(heads)):
        depth, at = 0, i
        while heads[at] != at and depth <= len(heads):
            at, depth = heads[at], depth + 1
        depths.append(depth)
    return sorted(range(len(heads)), key=lambda i: -depths[i])


def _without_crossings(heads: Sequence[int]) -> list[int]:
    """Lift dependents to the head of their head until every head and its dependents are contiguous."""
    lifted = list(heads)
    changed = True
    while changed:
        changed = False
        for i, head in enumerate(lifted):
            low, high = min(i, head), max(i, head)
            if any(not _is_below(lifted, between, head) for between in range(low + 1, high)):
                lifted[i] = lifted[head] if lifted[head] != head else i
                changed = True
    return lifted


def _is_below(heads: Sequence[int], token: int, head: int) -> bool:
    for _ in heads:
        if token == head:
            return True
        if heads[token] == token:
            return False
        token = heads[token]
    return False


def _built(head: Tree, relation: str, left: list[_Part], right: list[_Part]) -> _Part:
    """The phrase of a head and its dependents."""
    tag = head.label
    if tag.startswith(_VERB_TAGS):
        if relation in _BARE_VERBS and not left and not right:
            return _Part(relation, head)
        if relation in ("amod", "compound"):
            return _simple("ADJP", head, relation, left, right)
        return _verb_phrase(head, relation, left, right)
    if tag in ("IN", "TO", "RP") and relation not in ("mark", "aux", "advmod", "npadvmod", "quantmod", "cc", "det"):
        return _simple("PRT" if relation == "prt" else "PP", head, relation, left, right)
    if tag.startswith(_NOUN_TAGS) or (relation in _NOUN_ROLES and tag.startswith("JJ")):
        return _noun_phrase(head, relation, left, right)
    if any(part.relation in _SUBJECTS for part in left):
        return _verb_phrase(head, relation, left, right)
    if tag == "WRB":
        return _simple("WHADVP", head, relation, left, right)
    if tag.startswith(("RB", "IN", "RP")):
        kept_bare = relation in ("mark", "neg", "cc", "quantmod", "preconj", "det") and not left and not right
        return _Part(relation, head) if kept_bare else _simple("ADVP", head, relation, left, right)
    if tag.startswith("JJ") and (left or right or relation not in ("amod", "compound", "nmod", "nummod", "quantmod")):
        return _simple("ADJP", head, relation, left, right)
    if left or right:
        return _simple("X", head, relation, left, right)
    return _Part(relation, head)


def _simple(label: str, head: Tree, relation: str, left: list[_Part], right: list[_Part]) -> _Part:
    """Everything side by side under one node; what is coordinated, under one more."""
    own, joined, after = _split_at_conjunction(right)
    core = phrase(label, [*_nodes(left), head, *_nodes(own)])
    return _coordinated(label, relation, core, joined, after)


def _noun_phrase(head: Tree, relation: str, left: list[_Part], right: list[_Part]) -> _Part:
    bare = relation in ("det", "nummod", "quantmod", "compound", "nmod", "predet", "amod", "aux", "punct", "poss")
    if bare and not left and not right:
        return _Part(relation, head)
    if relation in ("nummod", "quantmod"):
        return _simple("QP", head, relation, left, right)
    if relation == "compound" and not right:
        # The Treebank writes "ice cream truck" flat; `_unpacked` flattens it.
        return _Part(relation, phrase("NX", [*_flat(left), head]))
    inside: list[_Part] = []
    before: list[_Part] = []
    for part in left:
        (inside if part.relation in _INSIDE_NOUN_PHRASES or inside else before).append(part)
    own, joined, after = _split_at_conjunction(right)
    genitive = []
    while own and own[0].relation == "case":
        genitive.append(own.pop(0).node)
    label = "WHNP" if head.label.startswith(("WP", "WDT")) else "NP"
    core = phrase(label, [*_flat(inside), head, *genitive])
    modifiers = [part for part in own if part.relation != "punct"]
    if modifiers:
        core = phrase(label, [core, *_nodes(own)])
        own = []
    if joined and _is_word(joined) and not modifiers:
        core = phrase(label, [*core.children, *_nodes(own), *_words_of(joined)])
        joined, own = [], []
    elif own:
        core = phrase(label, [core, *_nodes(own)]) if joined else phrase(label, [*core.children, *_nodes(own)])
    made = _coordinated(label, relation, core, joined, after)
    if before:
        subject = [part for part in before if part.relation in _SUBJECTS]
        made.node = phrase("S" if subject else "NP", [*_nodes(before), made.node])
    return made


def _verb_phrase(head: Tree, relation: str, left: list[_Part], right: list[_Part]) -> _Part:
    first_inside = next((i for i, part in enumerate(left) if part.relation in _AUXILIARIES), len(left))
    outside, inside = left[:first_inside], left[first_inside:]
    own, joined, after = _split_at_conjunction(right)
    closing: list[_Part] = []
    while after == [] and not joined and own and own[-1].relation == "punct":
        closing.insert(0, own.pop())
    late = next((i for i, part in enumerate(own) if part.relation in _SUBJECTS), len(own))
    own, after_subject = own[:late], own[late:]
    core = phrase("VP", [head, *_nodes(own)])
    shared = bool(joined) and all(part.node.label == "VP" for part in joined if part.relation == "conj")
    if shared:
        core = _coordinated("VP", relation, core, joined, []).node
        joined = []
    for part in reversed(inside):
        core = _under_auxiliary(part, core)
    if after_subject:
        clause = phrase("SINV", _nodes([*outside, _Part("", core), *after_subject, *closing]))
        return _coordinated("S", relation, clause, joined, after)
    return _clause(relation, outside, core, joined, after, closing)


def _under_auxiliary(part: _Part, core: Tree) -> Tree:
    """Join a part before a verb phrase with it: ``(VP is (VP running))``."""
    if part.relation in _AUXILIARIES:
        return phrase("VP", [part.node, core])
    return phrase("VP", [part.node, *core.children])


def _clause(
    relation: str, outside: list[_Part], core: Tree, joined: list[_Part], after: list[_Part], closing: list[_Part]
) -> _Part:
    """A verb phrase with its subject, its introduction and its end."""
    opening = 0
    while opening < len(outside) and (outside[opening].relation == "mark" or outside[opening].node.label[:2] == "WH"):
        opening += 1
    introduced, before = outside[:opening], outside[opening:]
    has_subject = any(part.relation in _SUBJECTS for part in before)
    is_clause = has_subject or bool(introduced) or relation in ("ROOT", "xcomp", "advcl", "pcomp", "ccomp", "csubj")
    infinitive = core.children[0].label == "TO" and relation in ("acl", "relcl")
    if not (is_clause or infinitive or relation == "relcl"):
        made = phrase("VP", [*_nodes(before), *core.children]) if before else core
        made = _coordinated("VP", relation, made, joined, after).node
        return _Part(relation, phrase("VP", [made, *_nodes(closing)]) if closing else made, bool(joined))
    clause = phrase("S", [*_nodes(before), core, *_nodes(closing)])
    part = _coordinated("S", relation, clause, joined, after)
    if introduced or (relation == "relcl" and not infinitive):
        part = _Part(relation, phrase("SBAR", [*_nodes(introduced), part.node]))
    return part


def _split_at_conjunction(right: list[_Part]) -> tuple[list[_Part], list[_Part], list[_Part]]:
    """Split the dependents after a head into its own, the coordinated ones (with commas), and the rest."""
    at = [i for i, part in enumerate(right) if part.relation in ("cc", "conj")]
    if not any(part.relation == "conj" for part in right):
        return right, [], []
    first, last = at[0], max(i for i in at if right[i].relation == "conj")
    while first and right[first - 1].relation == "punct":
        first -= 1
    return right[:first], right[first : last + 1], right[last + 1 :]


def _coordinated(label: str, relation: str, core: Tree, joined: list[_Part], after: list[_Part]) -> _Part:
    if joined:
        nodes = [core]
        for part in joined:
            nodes.extend(part.node.children if part.coordinates and part.relation == "conj" else [part.node])
        core = phrase(label, nodes)
    if after:
        closing = all(part.relation == "punct" for part in after)
        core = phrase(label, [*core.children, *_nodes(after)] if closing else [core, *_nodes(after)])
    return _Part(relation, core, coordinates=bool(joined))


def _is_word(joined: list[_Part]) -> bool:
    """Whether the coordinated parts are single words: "a man and woman"."""
    return all(part.node.is_leaf or [n.is_leaf for n in part.node.children] == [True] for part in joined)


def _words_of(parts: list[_Part]) -> list[Tree]:
    return [node for part in parts for node in (part.node.leaves())]


def _nodes(parts: Sequence[_Part]) -> list[Tree]:
    """The nodes of parts; a bare auxiliary or adverb is a leaf, a noun always a phrase."""
    return [node for part in parts for node in _unpacked(part)]


def _flat(parts: Sequence[_Part]) -> list[Tree]:
    """The nodes of parts inside a noun phrase, where single words are leaves."""
    flat: list[Tree] = []
    for part in parts:
        single = len(part.node.children) == 1 and part.node.children[0].is_leaf
        flat.extend(part.node.children if single and part.relation != "poss" else _unpacked(part))
    return flat


def _unpacked(part: _Part) -> Sequence[Tree]:
    return part.node.children if part.node.label == "NX" else (part.node,)
