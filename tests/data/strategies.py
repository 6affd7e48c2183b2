"""Hypothesis strategies for photos with all fields."""

from __future__ import annotations

from hypothesis import strategies as st

from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
sides = st.integers(1, 5000)
corners = st.floats(-100, 5000, allow_nan=False)


@st.composite
def captions(draw: st.DrawFn, chain_ids: list[str]) -> Caption:
    text = draw(texts)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6))) if text else []
    mentions = tuple(
        Mention(
            start, end, draw(st.sampled_from([None, *chain_ids])), tuple(draw(st.lists(names, max_size=2, unique=True)))
        )
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    )
    return Caption.from_text(
        text,
        mentions,
        related=draw(st.booleans()),
        tree=draw(st.none() | texts),
        region_phrase=draw(st.booleans()),
    )


@st.composite
def photos(draw: st.DrawFn, photo_id: str = "1") -> Photo:
    chain_ids = draw(st.lists(names, unique=True, max_size=4))
    chains = tuple(Chain(i, draw(st.booleans()), draw(st.booleans()), draw(st.booleans())) for i in chain_ids)
    some_chains = st.lists(st.sampled_from(chain_ids), unique=True).map(tuple) if chain_ids else st.just(())
    boxes = st.builds(Box, st.tuples(corners, corners, corners, corners), some_chains, st.none() | texts)
    return Photo(
        photo_id,
        tuple(draw(st.lists(captions(chain_ids), max_size=3))),
        chains,
        tuple(draw(st.lists(boxes, max_size=3))),
        draw(st.none() | sides),
        draw(st.none() | sides),
        draw(st.none() | names),
        tuple(draw(st.lists(names, max_size=2, unique=True))),
        draw(
            st.none()
            | st.builds(AnnotationSource, names, names, st.none() | sides, st.none() | sides, st.none() | st.just(3))
        ),
        draw(st.none() | st.text("0123456789abcdef", min_size=64, max_size=64)),
    )


@st.composite
def photo_lists(draw: st.DrawFn, max_size: int = 5) -> list[Photo]:
    return [draw(photos(str(number))) for number in range(draw(st.integers(0, max_size)))]
