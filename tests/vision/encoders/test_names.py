"""Encoder names, taken apart and spelled again."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.vision.encoders.names import EncoderName, Options, parse_name, read_options, spelled, split_joined

ALL = Options(side=224, aspect="squeeze", blocks=(10,), pixels="imagenet")


@given(
    st.integers(32, 2048),
    st.sampled_from(["squeeze", "keep"]),
    st.lists(st.integers(1, 24), min_size=1, max_size=4, unique=True),
)
def test_a_spelled_name_says_the_same_again(side: int, aspect: str, blocks: list[int]) -> None:
    options = Options(side=side, aspect=aspect, blocks=tuple(blocks), pixels="imagenet")
    name = spelled(EncoderName("focus-vit", "", ()), options, ALL)
    again = parse_name(name)
    assert read_options(again, ALL) == options
    assert spelled(again, options, ALL) == name


def test_options_have_one_order_and_defaults_are_not_spelled() -> None:
    name = parse_name("focus-vit@blocks=8-9,side=224,aspect=keep")
    assert spelled(name, read_options(name, ALL), ALL) == "focus-vit@aspect=keep,blocks=8-9"


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
def test_a_plus_joins_only_what_is_known(name: str, parts: list[str]) -> None:
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
def test_arguments_may_hold_what_paths_hold(name: str, argument: str) -> None:
    assert parse_name(name).argument == argument


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a@side=9", "encoder a: side=9 is not a number from 32 to 2048"),
        ("a@side=wide", "encoder a: side=wide is not a number from 32 to 2048"),
        (f"a@side={'9' * 5000}", f"encoder a: side={'9' * 40}… is not a number from 32 to 2048"),
        ("a@aspect=3", "encoder a: aspect=3 is neither squeeze nor keep"),
        ("a@blocks=8-8", "encoder a: blocks=8-8 is not a list of different blocks such as 8-9-10"),
        ("a@blocks=8-08", "encoder a: blocks=8-08 is not a list of different blocks such as 8-9-10"),
        ("a@blocks=8-x", "encoder a: blocks=8-x is not a list of different blocks such as 8-9-10"),
        ("a@blocks=", "encoder a: blocks= is not a list of different blocks such as 8-9-10"),
        ("a@depth=3", "encoder a: no option 'depth'; it has only side, aspect, blocks, pixels"),
    ],
)
def test_a_mistake_in_an_option_is_one_line(name: str, line: str) -> None:
    with pytest.raises(DeixisError, match=f"^{re.escape(line)}$"):
        read_options(parse_name(name), ALL)


def test_an_option_that_an_encoder_lacks_is_refused() -> None:
    with pytest.raises(DeixisError, match=r"^encoder a: no option 'blocks'; it has only side$"):
        read_options(parse_name("a@blocks=3"), Options(side=224))
    with pytest.raises(DeixisError, match=r"^encoder a: no option 'side'; it has none$"):
        read_options(parse_name("a@side=300"), Options())


def test_an_option_may_not_stand_there_twice() -> None:
    with pytest.raises(DeixisError, match=r"^encoder a@side=64,side=96: an option stands there twice$"):
        parse_name("a@side=64,side=96")
