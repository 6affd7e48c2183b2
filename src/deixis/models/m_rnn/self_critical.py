"""Self-critical training, which the m-RNN paper does not have: the negative expected CIDEr-D of sampled captions.

Sampled captions that agree with people's captions become more probable. This follows Rennie et al., *Self-critical
Sequence Training for Image Captioning* (CVPR 2017). Each sampled caption is compared with the mean reward of the
photo's other samples, as in Luo, *A Better Variant of Self-Critical Sequence Training* (2020), instead of with the
greedy caption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from deixis.arrays import BoolArray, FloatArray, IntArray, expand_runs
from deixis.errors import DatasetError
from deixis.evaluation.captions.metrics import SCALE, SIGMA
from deixis.evaluation.captions.ngrams import (
    MAX_NGRAM,
    Numbering,
    count_distinct,
    distinct,
    is_new,
    order_by,
    sum_by_group,
)
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.network import MRNNNetwork
from deixis.models.m_rnn.objective import LikelihoodObjective, draw_views, photo_inputs
from deixis.models.training.distributed import broadcast, sharded_forward
from deixis.models.training.objective import LossValue, ShuffledSampler
from deixis.runtime.modules import eval_mode

_END = "</s>"  # no word of a caption has this form

_FREE_REPETITION = 0.05
"""Words that are repeated in at least this share of the captions that have them, such as *a*, are not penalized."""

Reward = Callable[[IntArray, IntArray], FloatArray]
"""The reward (n,) of sentences (n, length), each for the photo of a row (n,)."""


class PhotoSampler(ShuffledSampler[Tensor]):
    """Batches of photos, shuffled each epoch."""

    def __init__(self, photos: IntArray, batch_size: int) -> None:
        super().__init__(len(photos), batch_size, min_rows=1)
        self._photos = photos

    def make_batch(self, rows: IntArray, epoch: int, generator: np.random.Generator) -> Tensor:
        return torch.from_numpy(self._photos[rows])


@dataclass(frozen=True)
class RewardObjective:
    """Policy gradient: the mean over samples of −(reward − mean reward of the others) · log P, over their mean length.

    Sentences are sampled without dropout; the gradient of their probability is taken with it. `likelihood` is an
    additional likelihood loss, on one random caption of each photo.
    """

    photos: Tensor  # vectors of all photos, or of all their views
    reward: Reward  # of sentences, by the rows of photos
    samples: int = 5  # sentences per photo, two or more
    max_length: int = 20
    cells: Tensor | None = None  # (n, k, cell_size), with attention; may be in half precision
    likelihood: LikelihoodObjective | None = None
    likelihood_weight: float = 0.0
    views: int = 1  # rows of each photo, in a row, of which one is drawn

    def __call__(self, network: MRNNNetwork, batch: Tensor) -> LossValue:
        device = network.word_bias.device
        inputs = photo_inputs(self.photos, self.cells, draw_views(batch, self.views), device)
        # The same in all processes, so that the samples of a photo do not depend on which process draws them.
        uniform = broadcast(torch.rand(len(batch), self.samples, self.max_length, device=device))

        def losses(rows: Tensor, uniform: Tensor, *inputs: Tensor) -> Tensor:
            return self._losses(network, rows, uniform.flatten(0, 1), *inputs)

        loss, reward, words = sharded_forward(losses, batch.to(device), uniform, *inputs).mean(0)
        found = LossValue(loss / words.detach(), {"reward": reward.detach(), "words": words.detach()})
        if self.likelihood is None:
            return found
        likelihood = self.likelihood(network, self.likelihood.sample_captions(batch))
        return LossValue(found.total + self.likelihood_weight * likelihood.total, {**found.terms, **likelihood.terms})

    def _losses(self, network: MRNNNetwork, rows: Tensor, uniform: Tensor, *inputs: Tensor) -> Tensor:
        """For each photo (n, 3): the means of loss, reward and number of words with end tokens over its samples."""
        if not len(rows):  # a process without photos takes part in the gradients all the same
            return 0 * network.word_bias.sum() + inputs[0].new_zeros(0, 3)
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

    The network is in eval mode; `inputs` are the vectors of the photos and, with attention, their cells; `uniform` (n,
    length) has a random number from 0 to 1 for each sentence and word. Gives the words (n, length), the sentences of a
    photo in a row, padded with end tokens; and the number of words and end tokens of each sentence.
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
        self._photos = len(references)
        self._per_photo = np.array([len(each) for each in references], dtype=np.int64)
        if not self._per_photo.any():
            raise DatasetError("objective=cider: no photo has a caption to compare with")
        # Ids as in the network: its words, the unknown word, end and start token; then all other words.
        ids = Numbering()
        ids.encode([*vocabulary.words, "<unknown>", _END, "<start>"])
        self._end = ids[_END]
        texts = [[*words, _END] for words in chain.from_iterable(references)]
        lengths = np.array([len(words) for words in texts])
        captions = np.full((len(texts), int(lengths.max())), -1)
        captions[np.arange(captions.shape[1]) < lengths[:, None]] = ids.encode(chain.from_iterable(texts))
        self._ids = len(ids)
        self._bigrams = np.maximum(0, lengths - 1)
        self._first = np.cumsum(self._per_photo) - self._per_photo
        photo_of = np.repeat(np.arange(self._photos), self._per_photo)
        self._references = [
            _ReferenceNgrams(*self._ngrams(captions, n), photo_of, len(texts), self._photos)
            for n in range(1, MAX_NGRAM + 1)
        ]
        self._penalties = repetition_penalty * self._rarely_repeated(captions)

    def __call__(self, words: IntArray, photos: IntArray) -> FloatArray:
        """CIDEr-D (0 to 10) of each sentence, minus its repetition penalties.

        Word ids (n, length) after the end token are ignored; `photos` are rows of the references.
        """
        ended = np.cumsum(words == self._end, axis=1) - (words == self._end)
        words = np.where(ended > 0, -1, words)
        count = self._per_photo[photos]
        pair_sentence = np.repeat(np.arange(len(words)), count)
        pair_reference = expand_runs(self._first[photos], count)
        first_pair = np.cumsum(count) - count
        total = np.zeros(len(pair_sentence))
        for n, references in enumerate(self._references, start=1):
            sentence, ngram, times = self._ngrams(words, n)
            weight = times * references.idf(ngram)
            norm = np.sqrt(sum_by_group(sentence, weight**2, len(words)))
            entry, reference = references.shared(ngram, photos[sentence])
            theirs, ours = references.weight[reference], weight[entry]
            pair = first_pair[sentence[entry]] + references.sentence[reference] - self._first[photos[sentence[entry]]]
            products = sum_by_group(pair, np.minimum(ours, theirs) * theirs, len(total))
            norms = norm[pair_sentence] * references.norm[pair_reference]
            total += np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
        bigrams = np.maximum(0, (words >= 0).sum(1) - 1)
        total *= np.exp(-((bigrams[pair_sentence] - self._bigrams[pair_reference]) ** 2) / (2 * SIGMA**2))
        cider_d = SCALE / MAX_NGRAM * sum_by_group(pair_sentence, total, len(words)) / count
        sentence, word, times = self._ngrams(words, 1)
        return np.asarray(cider_d - sum_by_group(sentence, (times - 1) * self._penalties[word], len(words)))

    def _rarely_repeated(self, captions: IntArray) -> BoolArray:
        """For each word id, whether captions rarely repeat it."""
        _, word, times = self._ngrams(captions, 1)
        occurring, repeated = (np.bincount(some, minlength=self._ids) for some in (word, word[times > 1]))
        return np.asarray(repeated < _FREE_REPETITION * occurring)

    def _ngrams(self, words: IntArray, n: int) -> tuple[IntArray, IntArray, IntArray]:
        """Distinct n-grams of each sentence: the sentence, the n-gram as one number, and its count; sorted."""
        positions = max(0, words.shape[1] - n + 1)
        code = np.zeros((len(words), positions), dtype=np.int64)
        for offset in range(n):
            code = code * self._ids + words[:, offset : offset + positions]
        there = words[:, n - 1 : n - 1 + positions] >= 0
        sentence, ngram = np.nonzero(there)[0], code[there]
        order = order_by(sentence, ngram)
        sentence, ngram = sentence[order], ngram[order]
        first = np.flatnonzero(is_new(sentence, ngram))
        return sentence[first], ngram[first], np.diff(first, append=len(ngram))


class _ReferenceNgrams:
    """The n-grams of one length in all references: their idf, and in which captions they occur."""

    def __init__(
        self, sentence: IntArray, ngram: IntArray, times: IntArray, photo_of: IntArray, texts: int, photos: int
    ) -> None:
        self.known = distinct(ngram)
        index = np.searchsorted(self.known, ngram)
        photo = photo_of[sentence]
        in_photo = distinct(photo * len(self.known) + index)
        frequency = np.bincount(in_photo % len(self.known), minlength=len(self.known))
        self._unseen_idf = float(np.log(photos))
        self._idf = self._unseen_idf - np.log(frequency)
        weight = times * self._idf[index]
        self.norm = np.sqrt(sum_by_group(sentence, weight**2, texts))
        # Sorted so that one search finds all entries of an n-gram and a photo.
        order = np.argsort(photo * len(self.known) + index, kind="stable")
        self.sentence, self.weight = sentence[order], weight[order]
        self._pairs, self._entries = count_distinct((photo * len(self.known) + index)[order])
        self._first = np.cumsum(self._entries) - self._entries

    def idf(self, ngram: IntArray) -> FloatArray:
        """Log of the number of photos over the number of photos that have the n-gram."""
        index, there = _search(self.known, ngram)
        return np.where(there, self._idf[index], self._unseen_idf)

    def shared(self, ngram: IntArray, photo: IntArray) -> tuple[IntArray, IntArray]:
        """For each n-gram that a caption of its photo has too: its index in `ngram`, and the caption's entry."""
        index, there = _search(self.known, ngram)
        position, paired = _search(self._pairs, photo * len(self.known) + index)
        rows = np.flatnonzero(there & paired)
        count = self._entries[position[rows]]
        return np.repeat(rows, count), expand_runs(self._first[position[rows]], count)


def _search(ordered: IntArray, values: IntArray) -> tuple[IntArray, BoolArray]:
    """The index of each value among sorted ones, and whether it is there."""
    index = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return index, ordered[index] == values
