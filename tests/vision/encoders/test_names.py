"""Encoder names are parsed and formatted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.vision.encoders.base import EncoderName, Options, canonical_name, parse_name, parse_options, split_joined

ALL = Options(side=224, aspect="squeeze", blocks=(10,), pixels="imagenet")


@given(
    st.integers(32, 2048),
    st.sampled_from(["squeeze", "keep"]),
    st.lists(st.integers(1, 24), min_size=1, max_size=4, unique=True),
)
def test_a_canonical_name_round_trips(side: int, aspect: str, blocks: list[int]) -> None:
    options = Options(side=side, aspect=aspect, blocks=tuple(blocks), pixels="imagenet")
    name = canonical_name(EncoderName("focus-vit", "", ()), options, ALL)
    again = parse_name(name)
    assert parse_options(again, ALL) == options
    assert canonical_name(again, options, ALL) == name


def test_a_canonical_name_has_options_in_a_fixed_order_and_no_defaults() -> None:
    name = parse_name("focus-vit@blocks=8-9,side=224,aspect=keep")
    assert canonical_name(name, parse_options(name, ALL), ALL) == "focus-vit@aspect=keep,blocks=8-9"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("deixis", ["deixis"]),
        ("deixis+focus-vit", ["deixis", "focus-vit"]),
        (
            "deixis@side=280+focus-vit@blocks=8-9+timm:resnet18",
            ["deixis@side=280", "focus-vit@blocks=8-9", "timm:resnet18"],
        ),
        ("onnx:c++/a+b.onnx+deixis", ["onnx:c++/a+b.onnx", "deixis"]),
        ("onnx:a+deixis-2.onnx", ["onnx:a+deixis-2.onnx"]),
    ],
)
def test_a_plus_joins_known_encoders_only(name: str, parts: list[str]) -> None:
    assert split_joined(name, ["deixis", "focus-vit", "onnx", "timm"]) == parts


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("onnx:C:/nets/a.onnx", "C:/nets/a.onnx"),
        ("onnx:me@home/a.onnx", "me@home/a.onnx"),
        ("onnx:me@home/a.onnx@side=96", "me@home/a.onnx"),
        ("open_clip:ViT-B-32/laion2b_s34b_b79k", "ViT-B-32/laion2b_s34b_b79k"),
    ],
)
def test_arguments_may_contain_any_characters_of_paths(name: str, argument: str) -> None:
    assert parse_name(name).argument == argument


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a@side=9", "encoder a: side=9 "),
        ("a@side=wide", "encoder a: side=wide "),
        (f"a@side={'9' * 5000}", f"encoder a: side={'9' * 40}… "),
        ("a@aspect=3", "encoder a: aspect=3 "),
        ("a@blocks=8-8", "encoder a: blocks=8-8 "),
        ("a@blocks=8-08", "encoder a: blocks=8-08 "),
        ("a@blocks=8-x", "encoder a: blocks=8-x "),
        ("a@blocks=", "encoder a: blocks= "),
        ("a@depth=3", "encoder a: no option 'depth'"),
    ],
)
def test_an_error_names_the_option_and_its_value(name: str, line: str) -> None:
    with pytest.raises(DeixisError, match=f"^{re.escape(line)}"):
        parse_options(parse_name(name), ALL)


def test_an_option_that_an_encoder_lacks_is_refused() -> None:
    with pytest.raises(DeixisError, match="a: .*'blocks'.*side"):
        parse_options(parse_name("a@blocks=3"), Options(side=224))
    with pytest.raises(DeixisError, match="a: .*'side'"):
        parse_options(parse_name("a@side=300"), Options())


def test_an_option_may_not_occur_twice() -> None:
    with pytest.raises(DeixisError, match="a@side=64,side=96"):
        parse_name("a@side=64,side=96")
