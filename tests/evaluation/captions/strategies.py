"""Small captions, full of ties and repetitions."""

from __future__ import annotations

from hypothesis import strategies as st

from deixis.evaluation.captions.ngrams import CaptionSet

WORDS = ["a", "the", "dog", "dogs", "cat", "runs"]

sentences = st.lists(st.sampled_from(WORDS), max_size=7)


@st.composite
def caption_sets(draw: st.DrawFn, words: st.SearchStrategy[list[str]] = sentences, max_photos: int = 4) -> CaptionSet:
    photos = draw(st.integers(1, max_photos))
    candidates = draw(st.lists(words, min_size=photos, max_size=photos))
    references = draw(st.lists(st.lists(words, min_size=1, max_size=3), min_size=photos, max_size=photos))
    return CaptionSet(tuple(map(str, range(photos))), candidates, references)


METEOR_WORDS = ["a", "the", "man", "men", "person", "is", "running", "runs", "next", "to", "near", "dog"]

meteor_sentences = st.lists(st.sampled_from(METEOR_WORDS), max_size=6)
