"""The pipeline of models that compare vectors of images and text: CCA, two-branch and similarity networks."""

from __future__ import annotations

from importlib import import_module

from deixis.models.grounding import EmbeddingPipeline
from deixis.storage.artifacts import Artifact, Storable

_CLASSES = {
    "cca": ("cca.model", "CCA"),
    "similarity": ("matching.model", "Similarity"),
    "stacked": ("cca.model", "Stacked"),
    "two-branch": ("matching.model", "TwoBranch"),
}


class MatchingPipeline(EmbeddingPipeline):
    """A matching model with its image encoder and its text features."""

    @classmethod
    def load_model(cls, artifact: Artifact) -> Storable:
        module, name = _CLASSES["stacked" if "auxiliary" in artifact.parts else artifact.kind]
        return getattr(import_module(f"deixis.models.{module}"), name).from_artifact(artifact)
