from __future__ import annotations

from pathlib import Path

import pytest

from deixis.models.captioner.grammar import (
    AGREEMENT,
    ARTICLE_AND_PLURAL,
    DOUBLED_WORD,
    NO_NOUN,
    NUMBER_AND_SINGULAR,
    REPETITION,
    UNFINISHED,
    WRONG_ARTICLE,
    fix_articles,
    problems,
)
from deixis.tokens import words

BAD = {
    "a white is standing in a hallway": NO_NOUN,
    "a black and white is sitting on a bench": NO_NOUN,
    "a large white is parked on the side of the road": NO_NOUN,
    "a man is standing in front of a large": NO_NOUN,
    "a woman in a blue is walking": NO_NOUN,
    "a boy in is playing": NO_NOUN,
    "the black and white is running": NO_NOUN,
    "a red and white in the air": NO_NOUN,
    "a elephant is standing in a field": WRONG_ARTICLE,
    "an man riding a horse": WRONG_ARTICLE,
    "a man in a shirt and a man in a shirt": REPETITION,
    "a man with a hat is wearing a hat": REPETITION,
    "a kitchen with a stove and a stove": REPETITION,
    "a train on the tracks on the tracks": REPETITION,
    "a bus driving down a street with a bus": REPETITION,
    "a pizza sitting on top of a pizza": REPETITION,
    "a cat sitting on top of a cat": REPETITION,
    "a bed with a white bed": REPETITION,
    "a bird on the window of a window": REPETITION,
    "a blue and blue bus on a city street": REPETITION,
    "a city with buildings and buildings": REPETITION,
    "a group of people standing in the the street": DOUBLED_WORD,
    "a person is are skiing": DOUBLED_WORD,
    "a red flags": ARTICLE_AND_PLURAL,
    "a zebras standing in a field": ARTICLE_AND_PLURAL,
    "a man is wearing a sunglasses": ARTICLE_AND_PLURAL,
    "a young children playing in the park": ARTICLE_AND_PLURAL,
    "two man are playing in the sand": NUMBER_AND_SINGULAR,
    "three young girl in dresses": NUMBER_AND_SINGULAR,
    "two dogs is running in the snow": AGREEMENT,
    "a dog are running in the grass": AGREEMENT,
    "people is walking in the street": AGREEMENT,
    "a man in a": UNFINISHED,
    "a table with a plate of food and": UNFINISHED,
    "a little girl is standing next": UNFINISHED,
}

GOOD = [
    "two dogs run through the snow",
    "a black and white dog is running in the grass",
    "a man in a red shirt and a man in a blue shirt",
    "a man in a hat and a woman in a hat",
    "a woman in white is standing next to a man in black",
    "a group of people are standing in the snow",
    "a few people are sitting on a bench",
    "a couple of girls is dancing",
    "a train on a train track",
    "a sports car on the road",
    "a man jumps from one bed to another",
    "a two story house with an open window",
    "several sheep are in a field",
    "a boy is looking at something he is standing on",
    "there are two dogs",
    "a black dog splashes in the water",
]


@pytest.mark.parametrize(("sentence", "name"), BAD.items())
def test_bad_sentences_are_found_and_the_problem_is_named(sentence: str, name: str) -> None:
    assert name in problems(sentence.split())


@pytest.mark.parametrize("sentence", GOOD)
def test_good_sentences_have_no_problem(sentence: str) -> None:
    assert problems(sentence.split()) == []


def test_few_captions_of_people_are_refused(real_data: Path) -> None:
    folder = real_data / "flickr8k"
    dev = set((folder / "Flickr_8k.devImages.txt").read_text().split())
    captions = [
        words(text)
        for name, _, text in (line.partition("\t") for line in (folder / "Flickr8k.token.txt").open(encoding="utf-8"))
        if name.partition("#")[0] in dev
    ][::5]
    refused = [caption for caption in captions if set(problems(caption)) - {WRONG_ARTICLE}]
    assert len(captions) == 1000
    assert len(refused) / len(captions) < 0.015


def test_articles_follow_the_sound_of_the_next_word() -> None:
    wrong = "a hour on an unicycle with a umbrella and an one-way sign beside an uniform a x-ray an european a"
    right = "an hour on a unicycle with an umbrella and a one-way sign beside a uniform an x-ray a european a"
    assert " ".join(fix_articles(wrong.split())) == right


def test_any_words_can_be_checked() -> None:
    assert problems([]) == []
    for sentence in ("a", "is", "and a", "of of of of", "two", "the the", "'s a 's"):
        problems(sentence.split())
