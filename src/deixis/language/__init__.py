"""English text: tokens, tags, noun phrases, constituency trees, relations, vocabularies, vectors and text features.

The trained models are in ``models``; none of them was trained on a caption of Flickr8k's dev photos.

Examples
--------
>>> from deixis.language import find_mentions
>>> [phrase.text for phrase in find_mentions("A man in an orange hat pets his dog.")]
['A man', 'an orange hat', 'his dog']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.language.features import FisherVectors as FisherVectors
    from deixis.language.features import MeanVector as MeanVector
    from deixis.language.features import TextFeatures as TextFeatures
    from deixis.language.features import TfIdf as TfIdf
    from deixis.language.features import load_features as load_features
    from deixis.language.parser import parse as parse
    from deixis.language.relations import Relation as Relation
    from deixis.language.sentence import Phrase as Phrase
    from deixis.language.sentence import Sentence as Sentence
    from deixis.language.sentence import find_mentions as find_mentions
    from deixis.language.sentence import parse_sentences as parse_sentences
    from deixis.language.tagger import tag as tag
    from deixis.language.trees import Tree as Tree
    from deixis.language.trees import read_tree as read_tree
    from deixis.language.vectors import WordVectors as WordVectors
    from deixis.language.vectors import installed_vectors as installed_vectors
    from deixis.language.vectors import read_vectors as read_vectors
    from deixis.language.vocabulary import Vocabulary as Vocabulary

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "features": "FisherVectors MeanVector TextFeatures TfIdf load_features",
        "parser": "parse",
        "relations": "Relation",
        "sentence": "Phrase Sentence find_mentions parse_sentences",
        "tagger": "tag",
        "trees": "Tree read_tree",
        "vectors": "WordVectors installed_vectors read_vectors",
        "vocabulary": "Vocabulary",
    },
)
