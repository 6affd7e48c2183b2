"""Self-critical training: the negative expected CIDEr-D of sampled captions, less penalties for wrong words.

Sampled captions that agree with people's captions become more probable. This follows Rennie et al., *Self-critical
Sequence Training for Image Captioning* (CVPR 2017). Each sampled caption is compared with the mean reward of the
photo's other samples, as in Luo, *A Better Variant of Self-Critical Sequence Training* (2020), instead of with the
greedy caption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from deixis.arrays import BoolArray, FloatArray, IntArray
from deixis.errors import DatasetError
from deixis.evaluation.captions.ngrams import CIDER_SCALE, EncodedSentences, Numbering, References, sum_by_group
from deixis.evaluation.captions.people_captions import WordMatcher
from deixis.language.tagger import tag
from deixis.language.vocabulary import Vocabulary
from deixis.language.words import content_word_indices
from deixis.models.captioner.network import CaptionerNetwork
from deixis.models.m_rnn.network import MRNNNetwork
from deixis.models.m_rnn.objective import LikelihoodObjective, photo_inputs
from deixis.models.training.objective import LossValue, ShuffledSampler
from deixis.runtime.modules import eval_mode

_END = "</s>"  # no word of a caption has this form

_FREE_REPETITION = 0.05
"""Words that are repeated in at least this share of the captions that have them, such as *a*, are not penalized."""

_OTHER_WORDS = 0.5
"""Penalty of a wrong verb, adjective or number; that of a wrong noun is 1."""

Reward = Callable[[IntArray, IntArray], FloatArray]
"""The reward (n,) of sentences (n, length), each for the photo of a row (n,)."""


class PhotoSampler(ShuffledSampler[Tensor]):
    """Batches of photos, shuffled each epoch."""

    def __init__(self, photos: IntArray, batch_size: int) -> None:
        super().__init__(len(photos), batch_size, min_rows=1)
        self._photos = photos

    def make_batch(self, rows: IntArray, epoch: int, generator: np.random.Generator) -> Tensor:
        return torch.from_numpy(self._photos[rows])


def draw_views(photos: Tensor, views: int) -> Tensor:
    """The row of a random view of each photo."""
    return photos if views == 1 else photos * views + torch.randint(views, photos.shape)


@dataclass(frozen=True)
class ViewLikelihood(LikelihoodObjective):
    """The likelihood of captions, given random views of their photos."""

    views: int = 1  # rows of each photo, in a row, of which one is drawn

    def rows_of(self, captions: Tensor) -> Tensor:
        return draw_views(self.photo_of_caption[captions], self.views)

    def sample_captions(self, photos: Tensor) -> Tensor:
        """The row of a random caption of each photo."""
        owners, order = self._by_photo  # sorted photos of all captions, and the row of each caption
        first = torch.searchsorted(owners, photos)
        count = torch.searchsorted(owners, photos, right=True) - first
        uniform = torch.rand(len(photos))
        return order[first + (uniform * count).long()]

    @cached_property
    def _by_photo(self) -> tuple[Tensor, Tensor]:
        owners, order = self.photo_of_caption.sort(stable=True)
        return owners, order


@dataclass(frozen=True)
class RewardObjective:
    """Policy gradient: the mean over samples of −(reward − mean reward of the others) · log P, over their mean length.

    Sentences are sampled without dropout; the gradient of their probability is taken with it. `likelihood` is an
    additional likelihood loss, on one random caption of each photo.
    """

    photos: tuple[Tensor, ...]  # vectors and cells of all photos, or of all their views; may be in half precision
    reward: Reward  # of sentences, by the rows of photos
    samples: int = 5  # sentences per photo, two or more
    max_length: int = 20
    likelihood: ViewLikelihood | None = None
    likelihood_weight: float = 0.0
    views: int = 1  # rows of each photo, in a row, of which one is drawn

    def __call__(self, network: CaptionerNetwork, batch: Tensor) -> LossValue:
        device = network.word_bias.device
        inputs = photo_inputs(self.photos, draw_views(batch, self.views), device)
        uniform = torch.rand(len(batch), self.samples, self.max_length, device=device)
        loss, reward, words = self._losses(network, batch.to(device), uniform.flatten(0, 1), *inputs).mean(0)
        found = LossValue(loss / words.detach(), {"reward": reward.detach(), "words": words.detach()})
        if self.likelihood is None:
            return found
        likelihood = self.likelihood(network, self.likelihood.sample_captions(batch))
        return LossValue(found.total + self.likelihood_weight * likelihood.total, {**found.terms, **likelihood.terms})

    def _losses(self, network: CaptionerNetwork, rows: Tensor, uniform: Tensor, *inputs: Tensor) -> Tensor:
        """For each photo (n, 3): the means of loss, reward and number of words with end tokens over its samples."""
        # In full precision: the tables of words are computed once for all sentences.
        with eval_mode(network), torch.no_grad(), torch.autocast(rows.device.type, enabled=False):
            words, counts = sample_sentences(network, inputs, self.samples, uniform)
        photos = rows.repeat_interleave(self.samples).cpu().numpy()
        reward = torch.from_numpy(self.reward(words.cpu().numpy(), photos)).to(rows.device, torch.float32)
        per_photo = reward.view(-1, self.samples)
        advantage = (per_photo - per_photo.mean(1, keepdim=True)) * self.samples / (self.samples - 1)
        context = network.visual_context(*inputs).repeat(self.samples)
        nll = network.negative_log_likelihood(context, words, counts)
        columns = torch.stack([advantage.flatten() * nll, reward, counts.float()], 1)
        return columns.view(len(rows), self.samples, 3).mean(1)


def sample_sentences(
    network: MRNNNetwork, inputs: Sequence[Tensor], samples: int, uniform: Tensor
) -> tuple[Tensor, Tensor]:
    """Sample sentences for each photo.

    The network is in eval mode; `inputs` are vectors and cells of the photos; `uniform` (n, length) has a random number
    from 0 to 1 for each sentence and word. Gives the words (n, length), the sentences of a photo in a row, padded with
    end tokens; and the number of words and end tokens of each sentence.
    """
    context = network.photo_terms(*inputs)
    device, photos = network.word_bias.device, len(uniform) // samples
    terms = network.word_terms(torch.arange(network.start + 1, device=device))
    state = tuple(part.view(photos, samples, -1) for part in network.initial_state(len(uniform)))
    last = torch.full((len(uniform),), network.start, device=device)
    ended = torch.zeros_like(last, dtype=torch.bool)
    words, counts = [], torch.zeros_like(last)
    for column in uniform.T:
        grouped = terms.index_select(0, last).view(photos, samples, -1)
        log_p, *after = network.step(grouped, *state, *context)
        log_p, state = log_p.flatten(0, 1), tuple(after)
        last = _choose_words(log_p.float().exp(), column).masked_fill(ended, network.end)
        counts = counts + ~ended
        ended = ended | (last == network.end)
        words.append(last)
        if bool(ended.all()):
            break
    # Cloned, because inference tensors cannot take part in a gradient.
    return torch.stack(words, 1).clone(), counts.clone()


def _choose_words(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """The word of each row (n, words) that a number from 0 to 1 (n,) falls on."""
    cumulative = probabilities.cumsum(1)
    found = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)[:, 0]
    return found.clamp(max=probabilities.shape[1] - 1)


class CiderReward:
    """CIDEr-D of sampled sentences, by the captions of their photos.

    The end token counts as a word; without it captions learn to stop after *a man in a*. `repetition_penalty` is
    subtracted for each repetition of a rarely repeated word: CIDEr-D tolerates *a man and a man* too much.
    """

    def __init__(
        self, references: Sequence[Sequence[Sequence[str]]], vocabulary: Vocabulary, *, repetition_penalty: float = 0.0
    ) -> None:
        texts = [[*words, _END] for words in chain.from_iterable(references)]
        if not texts:
            raise DatasetError("objective=cider: no photo has a caption to compare with")
        # Ids as in the network: its words, the unknown word, end and start token; then all other words.
        ids = Numbering()
        ids.encode([*vocabulary.words, "<unknown>", _END, "<start>"])
        self._end = ids[_END]
        photo_of = np.repeat(np.arange(len(references)), [len(each) for each in references])
        self._references = References(EncodedSentences.of(texts, ids.encode), photo_of, len(references))
        words = self._references.ngrams[0].counts
        occurring, repeated = (
            np.bincount(some, minlength=len(ids)) for some in (words.gram, words.gram[words.count > 1])
        )
        # By number of the word; words of no caption have higher numbers than words of captions.
        self._penalties = repetition_penalty * (repeated < _FREE_REPETITION * occurring)

    def __call__(self, words: IntArray, photos: IntArray) -> FloatArray:
        """CIDEr-D (0 to 10) of each sentence, minus its repetition penalties.

        Word ids (n, length) after the end token are ignored; `photos` are rows of the references.
        """
        end = words == self._end
        there = np.cumsum(end, axis=1) <= end
        compared = self._references.compare_by_photo(EncodedSentences(words[there], there.sum(1)), photos)
        sums = CIDER_SCALE * sum_by_group(compared.sentence, compared.cider(), len(words))
        cider_d = sums / self._references.per_photo[photos]
        counts = compared.counts[0]
        return np.asarray(
            cider_d - sum_by_group(counts.sentence, (counts.count - 1) * self._penalties[counts.gram], len(words))
        )


class WrongWordPenalty:
    """Counts the nouns of sampled sentences that no caption of the photo has, and half of such other content words.

    Words match as in `deixis.evaluation.captions.people_captions`: by stem or by WordNet sense. Whether a word is a
    noun or another content word is decided once: by what it is most often in the captions.
    """

    def __init__(self, references: Sequence[Sequence[Sequence[str]]], vocabulary: Vocabulary) -> None:
        self._cost = _costs([words for captions in references for words in captions], vocabulary)
        matcher = WordMatcher(vocabulary.words)
        self._size = len(self._cost)
        pairs = [
            photo * self._size + word
            for photo, captions in enumerate(references)
            for word in matcher.matches(map(" ".join, captions))
        ]
        self._said = np.sort(np.array(pairs, dtype=np.int64))

    def __call__(self, words: IntArray, photos: IntArray) -> FloatArray:
        """The penalty of each sentence (n, length), for the photo of a row of the references."""
        codes = photos[:, None] * self._size + words
        return np.asarray(np.where(self._is_said(codes), 0, self._cost[words]).sum(axis=1))

    def _is_said(self, codes: IntArray) -> BoolArray:
        if not len(self._said):
            return np.zeros(codes.shape, dtype=bool)
        nearest = np.minimum(np.searchsorted(self._said, codes), len(self._said) - 1)
        return np.asarray(self._said[nearest] == codes)


def _costs(captions: Sequence[Sequence[str]], vocabulary: Vocabulary) -> FloatArray:
    """Penalty of each word of the network if it is wrong; 0 for words without content and for tokens."""
    number = {word: index for index, word in enumerate(vocabulary.words)}
    counts = np.zeros((len(number) + 3, 3), dtype=np.int64)  # no content, noun, other
    for words in captions:
        tags = tag(words)
        content = set(content_word_indices(words, tags))
        for index, word in enumerate(words):
            if word in number:
                counts[number[word], 0 if index not in content else 1 if tags[index][:2] == "NN" else 2] += 1
    return np.asarray(np.array([0, 1, _OTHER_WORDS])[counts.argmax(axis=1)])
