"""Compare the coreference model with simple rules.

    python benchmarks/coreference.py DATA [--split val] [--model DIR] [--json FILE]

DATA is a data set directory with mentions and chains; mentions and their types are the gold ones. No rule puts two
mentions of one caption, or two mentions without a common type, into one chain. Intervals are over photos.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import scripts_path  # noqa: F401
from coreference_training import find_chains, gold_chains, gold_material, group_mentions

from deixis.annotate.help.coreference import Coreference, Pair, mention_features, possible_pairs
from deixis.annotate.material import Material
from deixis.annotate.settings import Settings
from deixis.data.dataset import Dataset
from deixis.evaluation.agreement import chain_agreement

Chains = list[list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    model = Coreference.load(options.model) if options.model else Coreference.shipped()
    photos = {photo.id: gold_material(photo) for photo in Dataset(options.data).split(options.split)}
    key = {name: gold_chains(chains) for name, (_, chains) in photos.items() if chains}
    systems: dict[str, Callable[[Material], Chains]] = {
        "every mention alone": lambda material: [[index] for index in range(len(material.mentions))],
        "same type": lambda material: by_rule(material, lambda one, other: True),
        "same head word": lambda material: by_rule(material, lambda one, other: one.head == other.head),
        "same head, singular": lambda material: by_rule(material, lambda one, other: one.lemma == other.lemma),
        "coreference": partial(find_chains, model),
    }
    found = {}
    for name, chains_of in systems.items():
        ours = {photo: chains_of(photos[photo][0]) for photo in key}
        score = chain_agreement(key, ours)
        b3, interval = score.b3, score.interval["b3_f1"]
        print(
            f"{name:20} B³ {b3.f1:.1f} [{interval.low:.1f}, {interval.high:.1f}] "
            f"(P {b3.precision:.1f}, R {b3.recall:.1f}), "
            f"MUC {score.muc.f1:.1f}, CEAF_e {score.ceaf_e.f1:.1f}, CoNLL {score.conll:.1f}, "
            f"pairs F1 {pair_f1(key, ours):.1f}",
            flush=True,
        )
        found[name] = score.as_json()
    found["probabilities"] = certainty(model, photos)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


def by_rule(material: Material, same: Callable[..., bool]) -> Chains:
    facts = mention_features(material)
    likely: dict[Pair, float] = {(a, b): 0.99 if same(facts[a], facts[b]) else 0.01 for a, b in possible_pairs(facts)}
    return group_mentions(len(facts), likely, 0.5)


def pair_f1(key: dict[str, Chains], ours: dict[str, Chains]) -> float:
    right = expected = predicted = 0
    for photo in key:
        gold, made = (
            {pair for chain in side[photo] for pair in combinations(sorted(chain), 2)} for side in (key, ours)
        )
        right, expected, predicted = right + len(gold & made), expected + len(gold), predicted + len(made)
    return 200 * right / max(expected + predicted, 1)


def certainty(model: Coreference, photos: dict[str, tuple[Material, Sequence[str]]]) -> dict[str, float]:
    """Share of pairs that the model would answer on its own, and its error rate on them."""
    rows = [
        (probability, chains[a] == chains[b])
        for material, chains in photos.values()
        for (a, b), probability in model.probabilities(material).items()
    ]
    likely, same = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    yes, no = likely >= Settings.links_yes_from, likely < Settings.links_no_below
    found = {
        "pairs": len(rows),
        "right at 0.5": float(((likely >= 0.5) == same).mean()),
        "says yes": float(yes.mean()),
        "wrong yes": float(1 - same[yes].mean()),
        "says no": float(no.mean()),
        "wrong no": float(same[no].mean()),
    }
    print(", ".join(f"{name} {value:,.3f}" if value < 2 else f"{name} {value:,}" for name, value in found.items()))
    return found


if __name__ == "__main__":
    main()
