"""Models with answers that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deixis.annotate.help.proposals import BoxModel
from deixis.annotate.material import Material


class SureOfHeads:
    """Proposes links between mentions of the same head word, with the same certainty everywhere."""

    name, fingerprint = "coreference", "abc"

    def __init__(self, yes: float = 0.99, no: float = 0.01) -> None:
        self.yes, self.no = yes, no
        self.calls = 0

    def event_body(self, material: Material) -> dict[str, Any]:
        self.calls += 1
        mentions = material.mentions
        links = {
            f"{one.id} {other.id}": self.yes if one.head == other.head else self.no
            for index, one in enumerate(mentions)
            for other in mentions[index + 1 :]
            if one.caption != other.caption and set(one.types) & set(other.types)
        }
        about = {"model": self.name, "fingerprint": self.fingerprint, "yes_from": 0.9, "no_below": 0.1}
        return about | {"links": links}


def box_model(boxes: Mapping[str, list[list[float]]]) -> BoxModel:
    """Proposes these boxes in every photo, by the words of the mentions."""

    def find(material: Material) -> dict[str, list[list[float]]]:
        return {mention.id: boxes[mention.text] for mention in material.mentions if mention.text in boxes}

    return BoxModel(find, "def", 0.5)
