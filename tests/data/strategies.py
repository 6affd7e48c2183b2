"""Hypothesis strategies for photos with all fields."""

from __future__ import annotations

from hypothesis import strategies as st

from deixis.data.records import ENTITY_TYPES, AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.storage.files import is_file_name

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc",), exclude_characters="/\\:"), min_size=1, max_size=40
).filter(is_file_name)
sides = st.none() | st.integers(1, 5000)
corners = st.integers(-50, 6000) | st.floats(-50, 6000)
splits = st.lists(st.sampled_from(["train", "val", "dev-1k", "été"]), max_size=3, unique=True).map(tuple)


@st.composite
def captions(draw: st.DrawFn, chain_ids: list[str]) -> Caption:
    text = draw(texts)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    types = st.lists(st.sampled_from(ENTITY_TYPES) | texts, max_size=3, unique=True).map(tuple)
    mentions = tuple(
        Mention(start, end, draw(st.sampled_from([None, *chain_ids])), draw(types))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    )
    return Caption.from_text(
        text, mentions, related=draw(st.booleans()), tree=draw(st.none() | texts), region_phrase=draw(st.booleans())
    )


@st.composite
def boxes(draw: st.DrawFn, chain_ids: list[str]) -> Box:
    (x1, x2), (y1, y2) = (sorted((draw(corners), draw(corners))) for _ in range(2))
    shown = draw(st.lists(st.sampled_from(chain_ids), unique=True)) if chain_ids else []
    return Box((x1, y1, x2, y2), tuple(shown), draw(st.none() | texts))


@st.composite
def photos(draw: st.DrawFn) -> Photo:
    chain_ids = draw(st.lists(texts, unique=True, max_size=4))
    annotated = st.builds(AnnotationSource, names, texts, sides, sides, st.none() | st.integers(0, 4))
    return Photo(
        draw(names),
        tuple(draw(st.lists(captions(chain_ids), max_size=3))),
        tuple(Chain(chain, *(draw(st.booleans()) for _ in range(3))) for chain in chain_ids),
        tuple(draw(st.lists(boxes(chain_ids), max_size=3))),
        draw(sides),
        draw(sides),
        draw(st.none() | names),
        draw(splits),
        draw(st.none() | annotated),
        draw(st.none() | st.just("0" * 64)),
    )


photo_lists = st.lists(photos(), max_size=5, unique_by=lambda photo: photo.id)
