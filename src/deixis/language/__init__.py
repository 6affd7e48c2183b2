"""English text: tokens, tags, noun phrases, constituency trees, relations, vocabularies, vectors and text features.

The trained models are in ``models``; none of them was trained on a caption of Flickr8k's dev photos.

Examples
--------
>>> from deixis.language import find_mentions
>>> [phrase.text for phrase in find_mentions("A man in an orange hat pets his dog.")]
['A man', 'an orange hat', 'his dog']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deixis.language.features import FisherVectors, MeanVector, TextFeatures, TfIdf, load_features
    from deixis.language.parser import parse
    from deixis.language.relations import Relation
    from deixis.language.sentence import Phrase, Sentence, find_mentions, parse_sentences
    from deixis.language.tagger import tag
    from deixis.language.trees import Tree, read_tree
    from deixis.language.vectors import WordVectors, installed_vectors, read_vectors
    from deixis.language.vocabulary import Vocabulary

_MODULES = {
    "FisherVectors": "features",
    "MeanVector": "features",
    "Phrase": "sentence",
    "Relation": "relations",
    "Sentence": "sentence",
    "TextFeatures": "features",
    "TfIdf": "features",
    "Tree": "trees",
    "Vocabulary": "vocabulary",
    "WordVectors": "vectors",
    "find_mentions": "sentence",
    "installed_vectors": "vectors",
    "load_features": "features",
    "parse": "parser",
    "parse_sentences": "sentence",
    "read_tree": "trees",
    "read_vectors": "vectors",
    "tag": "tagger",
}

__all__ = [
    "FisherVectors",
    "MeanVector",
    "Phrase",
    "Relation",
    "Sentence",
    "TextFeatures",
    "TfIdf",
    "Tree",
    "Vocabulary",
    "WordVectors",
    "find_mentions",
    "installed_vectors",
    "load_features",
    "parse",
    "parse_sentences",
    "read_tree",
    "read_vectors",
    "tag",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use: models and scipy take time to load."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
