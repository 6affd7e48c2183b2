"""The coreference model and its features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coreference_training import find_chains

from deixis.annotate.help.coreference import (
    MENTION_FEATURES,
    PAIR_FEATURES,
    Coreference,
    mention_features,
    mention_vectors,
    pair_features,
    possible_pairs,
    word_ids,
)
from deixis.annotate.material import prepare_photo
from deixis.errors import DeixisError
from tests.annotate.fakes import gold, photo
from tests.unchecked import without_checksums


def test_synonyms_are_linked_and_different_things_are_not() -> None:
    material = prepare_photo(
        photo("A young girl throws a red ball to her dog.", "A child plays with a puppy and a toy.")
    )
    chains = [
        {material.mentions[index].text for index in chain} for chain in find_chains(Coreference.shipped(), material)
    ]
    assert {"A young girl", "A child"} in chains
    assert {"her dog", "a puppy"} in chains
    assert not any({"a red ball", "her dog"} <= chain for chain in chains)


def test_only_possible_pairs_have_a_probability() -> None:
    assert Coreference.shipped().probabilities(prepare_photo(photo("A dog."))) == {}
    material = prepare_photo(gold())
    pairs = possible_pairs(mention_features(material))
    assert set(Coreference.shipped().probabilities(material)) == set(pairs)
    for a, b in pairs:
        one, other = material.mentions[a], material.mentions[b]
        assert one.caption != other.caption
        assert set(one.types) & set(other.types)


def test_a_saved_model_loads_unchanged(tmp_path: Path) -> None:
    model = Coreference.shipped()
    model.save(tmp_path / "copy", half=True)
    again = Coreference.load(tmp_path / "copy")
    assert again.fingerprint == model.fingerprint
    assert (again.words, again.join_from) == (model.words, model.join_from)
    material = prepare_photo(gold())
    assert again.probabilities(material) == model.probabilities(material)


def test_a_damaged_model_is_an_error(tmp_path: Path) -> None:
    Coreference.shipped().save(tmp_path / "copy")
    without_checksums(tmp_path)
    file = tmp_path / "copy" / "config.json"
    file.write_text(file.read_text().replace(" the ", " "))
    with pytest.raises(DeixisError, match="copy"):
        Coreference.load(tmp_path / "copy")


FEATURES = mention_features(prepare_photo(photo("Two black dogs watch a man and another man.", "The white dog runs.")))


def test_features_contain_head_number_and_rank() -> None:
    dogs, first, second, dog = FEATURES
    assert (dogs.head, dogs.lemma, dogs.plural, dogs.amount) == ("dogs", "dog", True, 2)
    assert (first.order, second.order, second.same_type) == (0, 1, 2)
    assert (first.before, second.before) == (("dogs", "watch"), ("man", "and"))
    assert (dog.amount, dog.plural, dog.colours) == (0, False, {"white"})


def test_pair_features_are_symmetric() -> None:
    for one in FEATURES:
        for other in FEATURES:
            assert pair_features(one, other) == pair_features(other, one)
    assert len(pair_features(FEATURES[0], FEATURES[3])) == PAIR_FEATURES


def test_pair_features_detect_different_colours_and_numbers() -> None:
    dogs, _, _, dog = FEATURES
    compared = pair_features(dogs, dog)
    assert compared[1]  # dog and dogs
    assert not compared[0]
    assert compared[5]  # black, white
    assert not compared[7]  # "the" says nothing about how many


def test_every_mention_has_a_feature_row_and_word_ids() -> None:
    assert mention_vectors(FEATURES).shape == (4, MENTION_FEATURES)
    heads, inside, before, after = word_ids(FEATURES, {"dogs": 2, "black": 3}, unknown=1)
    assert heads.tolist() == [2, 1, 1, 1]
    assert inside[0].tolist() == [1, 3, 0, 0, 0, 0]
    assert before.shape == (4, 2)
    assert np.count_nonzero(after[2]) == 1  # the full stop
