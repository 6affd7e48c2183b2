"""The model on arrays: sentences, phrases, photos and regions in one embedding space.

Niu et al., *Hierarchical Multimodal LSTM for Dense Visual-Semantic Embedding* (ICCV 2017). A sentence is the root of
its tree and a phrase is a node of it. Both use the same embedding layer, and so do photos and regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import Floats, to_unit_length
from deixis.data.pairs import Integers
from deixis.evaluation.items import Item
from deixis.geometry import Boxes
from deixis.language.sentence import Phrase, Sentence, parse_sentences
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Embedder, WordNetworkModel, append_locations, append_whole_location, check_rows
from deixis.models.grounding import EmbeddingPipeline, PhotoProposals, PhraseScores
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import Forest, TreeBatch
from deixis.models.photo_features import PhotoFeatures
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact

if TYPE_CHECKING:
    from deixis.models.hm_lstm.network import HMLSTMNetwork


TREES_PER_BATCH = 512
NODES_PER_BATCH = 512
PHRASES_FOR_MEAN = 2000
_PHRASE_MEAN = "phrase_mean"


class HMLSTM(WordNetworkModel[HMLSTMSettings, "HMLSTMNetwork"], Embedder):
    """Embeds photos, regions, sentences and phrases as unit vectors. English only.

    A new model is untrained; `deixis.train("hm-lstm", …)` trains one. Word vectors are not trained, but with a
    `vocabulary` a difference from them is, for each of its words. A word without a vector gets zeros.

    Examples
    --------
    >>> vectors = WordVectors(np.eye(3, 4, dtype=np.float32), ["a", "dog", "runs"])
    >>> model = HMLSTM(8, vectors, HMLSTMSettings(hidden_size=16, embedding_dim=4))
    >>> sentence = Sentence("A dog runs.")
    >>> model.prepare_text(["A dog runs.", sentence, sentence.phrases[0]]).shape
    (3, 4)
    """

    KIND = "hm-lstm"
    SETTINGS = HMLSTMSettings
    SIZES = ("visual_size",)
    WORDS = "words"
    ARRAYS = (_PHRASE_MEAN,)
    frozen: WordVectors

    def __init__(
        self,
        visual_size: int,
        frozen: WordVectors,
        settings: HMLSTMSettings | None = None,
        vocabulary: Vocabulary | None = None,
        *,
        functions: Functions | None = None,
    ) -> None:
        self.visual_size = visual_size
        super().__init__(settings, vocabulary, frozen, functions)
        self.phrase_mean_: Floats = np.zeros(self.settings.embedding_dim, dtype=np.float32)

    def make_network(self) -> HMLSTMNetwork:
        from deixis.models.hm_lstm.network import HMLSTMNetwork

        size = None if self.vocabulary is None else len(self.vocabulary)
        network = HMLSTMNetwork(self.visual_size, self.frozen.dimension, self.settings, size)
        if network.words is not None:
            network.words.add_frozen(lambda: self.words.frozen_by_id(), self.settings.delta_dropout)
        return network

    @property
    def dimension(self) -> int:
        return self.settings.embedding_dim

    def prepare_visual(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.visual_size, "photo or region")
        return self.functions.in_blocks("embed_visual", rows, columns=self.dimension)

    def prepare_text(self, features: Iterable[str | Sentence | Phrase]) -> Floats:
        """Embed sentences as the roots of their trees, and phrases as nodes.

        Sentences without a tree are parsed. A phrase that is not a node is embedded as the smallest noun phrase around
        it.
        """
        phrases = [_as_phrase(text) for text in features]
        sentences = list({id(phrase.sentence): phrase.sentence for phrase in phrases}.values())
        parse_sentences(sentences)
        tree_of = {id(sentence): tree for tree, sentence in enumerate(sentences)}
        forest = Forest.from_trees(sentence.tree for sentence in sentences)
        trees = [tree_of[id(phrase.sentence)] for phrase in phrases]
        nodes = [
            0 if (phrase.start, phrase.end) == (0, len(phrase.sentence.tokens))
            else forest.find_covering_node(tree, phrase.start, phrase.end)
            for tree, phrase in zip(trees, phrases, strict=True)
        ]  # fmt: skip
        return self.embed_nodes(forest, trees, nodes)

    def embed_nodes(self, forest: Forest, trees: Sequence[int], nodes: Sequence[int]) -> Floats:
        """Embed nodes of a forest, each given by its tree and its index within the tree."""
        tree_of, node_of = np.asarray(trees, dtype=np.int64), np.asarray(nodes, dtype=np.int64)
        words = self.word_matrix(forest, tree_of)
        states = self._chain_states if self.settings.text_encoder == "chain" else self._tree_states
        vectors = np.zeros((len(tree_of), self.dimension), dtype=np.float32)
        order = np.argsort(tree_of, kind="stable")
        distinct, begins = np.unique(tree_of[order], return_index=True)
        for first in range(0, len(distinct), TREES_PER_BATCH):
            chosen = distinct[first : first + TREES_PER_BATCH]
            rows = order[begins[first] : [*begins, len(order)][first + len(chosen)]]
            batch = forest.batch(chosen)
            of_nodes = states(words, batch, batch.roots[np.searchsorted(chosen, tree_of[rows])] + node_of[rows])
            vectors[rows] = self.functions.in_blocks("embed_text", of_nodes, columns=self.dimension)
        return vectors

    def _tree_states(self, words: Floats, trees: TreeBatch[Integers], nodes: Integers) -> Floats:
        """States h of nodes (eq. 2–8), computed level by level: what `TreeLSTM.forward` does in training."""
        kinds = 2 if self.settings.text_encoder == "h-lstm" else 1
        used, word_of = np.unique(trees.leaf_words, return_inverse=True)
        h_words, passed_words = self.functions("leaves", words[used])
        h, passed = h_words[:0], passed_words[:0]
        states = [h]
        for level, leaves, owner in trees.by_level(kinds):
            of_leaves, count = word_of[leaves], level.inner
            sums, passed_sums = _sum_groups(owner, kinds * count, h, passed)
            h, passed = h_words[of_leaves], passed_words[of_leaves]
            if count:
                passed_sums = passed_sums.reshape(count, kinds, -1).sum(axis=1)
                inner = self.functions("inner", sums.reshape(count, -1), passed_sums, np.array([level.noun_phrases]))
                h, passed = np.concatenate([inner[0], h]), np.concatenate([inner[1], passed])
            states.append(h)
        return np.concatenate(states)[trees.position[nodes]]

    def _chain_states(self, words: Floats, trees: TreeBatch[Integers], nodes: Integers) -> Floats:
        """State after the last word of each node."""
        found = np.empty((len(nodes), self.settings.hidden_size), dtype=np.float32)
        for first in range(0, len(nodes), NODES_PER_BATCH):
            starts, ends = trees.spans[nodes[first : first + NODES_PER_BATCH]].T
            lengths = np.maximum(ends - starts, 1)
            indices = np.minimum(starts[:, None] + np.arange(lengths.max()), len(trees.words) - 1)
            (states,) = self.functions("read_words", words[trees.words[indices]], lengths)
            found[first : first + len(states)] = states
        return found

    def word_matrix(self, forest: Forest, trees: Integers | None = None) -> Floats:
        """Vectors x of the words of a forest, and a last row of zeros for leaves without a word.

        With `trees`, only the words of these trees have a vector.
        """
        used = forest.used_words(np.arange(len(forest)) if trees is None else trees)
        vectors = np.zeros((len(forest.words) + 1, self.frozen.dimension), dtype=np.float32)
        vectors[used] = self.words.vectors(forest.words[word] for word in used.tolist())
        return vectors

    def training_words(self, forest: Forest) -> NDArray[Any]:
        """Return words for `HMLSTMNetwork.embed_nodes` in training: `word_matrix`, or ids if there is a vocabulary."""
        if self.vocabulary is None:
            return self.word_matrix(forest)
        unknown = len(self.vocabulary)
        return np.array([*self.words.encode(forest.words, unknown), unknown + 1])

    def fit_phrase_mean(self, forest: Forest) -> None:
        """Set `phrase_mean_`, which ``centering=photo`` subtracts, from the noun phrases of a forest."""
        trees, nodes = forest.noun_phrases.owners, forest.noun_phrases.values
        if self.settings.centering == "photo" and len(nodes):
            sample = np.linspace(0, len(nodes) - 1, min(PHRASES_FOR_MEAN, len(nodes))).astype(np.int64)
            self.phrase_mean_ = self.embed_nodes(forest, trees[sample].tolist(), nodes[sample].tolist()).mean(axis=0)

    def scores_in_photo(self, visual: Floats, text: Floats) -> Floats:
        """Similarity s_ij of section 3.3 between all candidate regions of one photo and phrases: (regions, phrases).

        Both must be embedded already. The setting `centering` applies.
        """
        if self.settings.centering == "photo" and len(visual):
            visual, text = to_unit_length(visual - visual.mean(axis=0)), to_unit_length(text - self.phrase_mean_)
        return self.scores(visual, text)

    def save_arrays(self) -> dict[str, NDArray[Any]]:
        return {_PHRASE_MEAN: self.phrase_mean_}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        mean = arrays[_PHRASE_MEAN]
        if mean.shape != self.phrase_mean_.shape:
            raise ValueError(f"the phrase mean has shape {mean.shape}, not {self.phrase_mean_.shape}")
        self.phrase_mean_ = mean

    def to_artifact(self) -> Artifact:
        artifact = super().to_artifact()
        if self.vocabulary is not None:
            return artifact
        # Vectors that no difference is trained from may be any: the model holds them.
        settings = {name: artifact.settings[name] for name in (*self.SIZES, "settings")}
        return replace(artifact, settings=settings, parts={"vectors": self.frozen.to_artifact()})

    @classmethod
    def load_arguments(cls, artifact: Artifact) -> dict[str, Any]:
        arguments = super().load_arguments(artifact)
        if arguments["frozen"] is None:
            arguments["frozen"] = WordVectors.from_artifact(artifact.parts["vectors"])
        return arguments


def _as_phrase(text: str | Sentence | Phrase) -> Phrase:
    """A sentence becomes the phrase that spans all of it."""
    if isinstance(text, Phrase):
        return text
    return (Sentence(text) if isinstance(text, str) else text).whole


def _sum_groups(owner: Integers, count: int, *arrays: Floats) -> list[Floats]:
    """Sum the rows of arrays by owner, 0 to `count` − 1. Rows of different owners are added at once."""
    order = np.argsort(owner, kind="stable")
    sorted_owner = owner[order]
    rank = np.arange(len(owner)) - np.searchsorted(sorted_owner, sorted_owner)  # within the rows of an owner
    sums = [np.zeros((count, array.shape[1]), dtype=np.float32) for array in arrays]
    for each in range(int(rank.max(initial=-1)) + 1):
        chosen = rank == each
        for total, array in zip(sums, arrays, strict=True):
            total[sorted_owner[chosen]] += array[order[chosen]]
    return sums


class HMLSTMPipeline(EmbeddingPipeline):
    """An HM-LSTM with its image encoder and region proposals."""

    MODEL = HMLSTM
    model: HMLSTM
    grounds_nested_phrases = True  # every noun phrase of a tree is a node

    def score_phrases(self, regions: PhotoProposals, sentence: Sentence, phrases: Sequence[Phrase]) -> PhraseScores:
        photo, boxes, weight = regions.features, regions.proposals.boxes, self.provenance.location_weight
        whole = append_whole_location(photo.photo_vector(self.encoder.photo_vector)[None], weight)
        vectors = np.vstack([whole, append_locations(photo.regions(boxes), boxes, photo.size, weight)])
        scores = self.model.scores_in_photo(self.model.prepare_visual(vectors), self.model.prepare_text(phrases)).T
        candidates = _add_whole_photo(boxes, photo.size)
        return PhraseScores(scores, np.broadcast_to(candidates, (*scores.shape, 4)), are_cosines=True)

    def encode_items(self, features: PhotoFeatures, items: Sequence[Item]) -> tuple[Floats, Integers]:
        return self.model.prepare_text(_phrases_in_sentences(features, items)), np.arange(len(items))

    def score_items(self, features: PhotoFeatures, photo_id: str, phrases: Floats) -> tuple[Boxes, Floats]:
        vectors = np.vstack([features.vectors_of([photo_id]), features.proposal_vectors(photo_id)])
        boxes = _add_whole_photo(features.proposals(photo_id), features.store.sizes([photo_id])[0])
        return boxes, self.model.scores_in_photo(self.model.prepare_visual(vectors), phrases)


def _add_whole_photo(boxes: npt.ArrayLike, size: npt.ArrayLike) -> Boxes:
    return np.vstack([[0, 0, *np.asarray(size)], np.asarray(boxes).reshape(-1, 4)]).astype(np.float64)


def _phrases_in_sentences(features: PhotoFeatures, items: Sequence[Item]) -> list[Phrase]:
    records = {photo.id: photo for photo in features.photos}
    sentences: dict[tuple[str, int], Sentence] = {}
    for item in items:
        key = item.photo, item.caption
        if key not in sentences:
            sentences[key] = Sentence.from_caption(records[item.photo].captions[item.caption])
    return [sentences[item.photo, item.caption].phrase(*item.span) for item in items]
