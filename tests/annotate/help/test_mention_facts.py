"""What the coreference model looks at."""

from __future__ import annotations

import numpy as np

from deixis.annotate.help.mention_facts import ABOUT_EACH, ABOUT_TWO, about_each, about_two, facts_of, word_places
from deixis.annotate.material import material_of
from tests.annotate.fakes import photo

FACTS = facts_of(material_of(photo("Two black dogs watch a man and another man.", "The white dog runs.")))


def test_a_mention_knows_its_head_its_number_and_which_of_its_kind_it_is() -> None:
    dogs, first, second, dog = FACTS
    assert (dogs.head, dogs.lemma, dogs.plural, dogs.amount) == ("dogs", "dog", True, 2)
    assert (first.order, second.order, second.of_its_kind) == (0, 1, 2)
    assert (first.before, second.before) == (("dogs", "watch"), ("man", "and"))
    assert (dog.amount, dog.plural, dog.colours) == (0, False, {"white"})


def test_two_mentions_are_compared_alike_in_both_orders() -> None:
    for one in FACTS:
        for other in FACTS:
            assert about_two(one, other) == about_two(other, one)
    assert len(about_two(FACTS[0], FACTS[3])) == ABOUT_TWO


def test_colours_and_numbers_that_differ_are_seen() -> None:
    dogs, _, _, dog = FACTS
    compared = about_two(dogs, dog)
    assert compared[1]  # dog and dogs
    assert not compared[0]
    assert compared[5]  # black, white
    assert not compared[7]  # "the" says nothing about how many


def test_every_mention_has_a_row_of_numbers_and_the_places_of_its_words() -> None:
    assert about_each(FACTS).shape == (4, ABOUT_EACH)
    heads, inside, before, after = word_places(FACTS, {"dogs": 2, "black": 3}, unknown=1)
    assert heads.tolist() == [2, 1, 1, 1]
    assert inside[0].tolist() == [1, 3, 0, 0, 0, 0]
    assert before.shape == (4, 2)
    assert np.count_nonzero(after[2]) == 1  # the full stop
