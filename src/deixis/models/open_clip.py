"""Models of OpenCLIP as pipelines, which encode photos and sentences. Requires the extra `deixis[open-clip]`.

A model has the name ``open-clip:ARCHITECTURE[:WEIGHTS]``. WEIGHTS is a file, or the name of weights that OpenCLIP
downloads; by default the first that it lists for the architecture.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from deixis.arrays import Floats
from deixis.errors import DeixisError, short_reason
from deixis.models.arguments import PhotoLike, check_list, check_vectors, open_image, type_name
from deixis.models.pipeline import Pipeline
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.runtime.devices import choose_device
from deixis.storage.artifacts import Artifact
from deixis.tokens import Text
from deixis.vision.encoders.base import require_package

if TYPE_CHECKING:
    from torch import Tensor, nn

PREFIX = "open-clip:"
_SELF_CONTAINED = ("hf-hub:", "local-dir:")
"""Starts of architectures that bring their own weights."""

_LISTED = 8
_AT_ONCE = 64


class OpenClip:
    """A network of OpenCLIP with the preprocessing of its photos and its tokenizer."""

    KIND = "open-clip"

    def __init__(
        self, network: nn.Module, transform: Callable[[Image.Image], Tensor], tokenizer: Callable[[list[str]], Tensor]
    ) -> None:
        self.network = network.requires_grad_(False).eval()
        self.transform = transform
        self.tokenizer = tokenizer

    def encode_image(self, pixels: Sequence[Tensor]) -> Floats:
        """Return the vectors of preprocessed photos, of length 1."""
        import torch

        return self._normalized("encode_image", torch.stack(list(pixels)))

    def encode_text(self, texts: list[str]) -> Floats:
        """Return the vectors of texts, of length 1."""
        return self._normalized("encode_text", self.tokenizer(texts))

    def _normalized(self, method: str, inputs: Tensor) -> Floats:
        import torch

        device = next((each.device for each in self.network.parameters()), torch.device("cpu"))
        with torch.inference_mode():
            vectors = getattr(self.network, method)(inputs.to(device)).float()
            return np.asarray(torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy(), dtype=np.float32)


class OpenClipPipeline(Pipeline):
    """A model of OpenCLIP. It encodes whole photos and sentences, and has neither regions nor a vocabulary."""

    model: OpenClip
    has_common_space = True

    def __init__(self, model: OpenClip, name: str, fingerprint: str) -> None:
        super().__init__(model, Provenance(EncoderInfo(name, fingerprint), summary="a model of OpenCLIP"))
        self.name = name
        self.dimension = self.model.encode_text(["a photo"]).shape[1]

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"encode_images", "encode_sentences", "similarity"})

    def encode_images(self, photos: Sequence[PhotoLike]) -> Floats:
        photos, vectors = check_list(photos, "photos"), [self._no_vectors()]
        for begin in range(0, len(photos), _AT_ONCE):
            some = photos[begin : begin + _AT_ONCE]
            vectors.append(self.encode_prepared([self.prepare_photo(open_image(photo)) for photo in some]))
        return np.concatenate(vectors)

    def encode_sentences(self, sentences: Sequence[Text]) -> Floats:
        texts = [_text(each, position) for position, each in enumerate(check_list(sentences, "sentences"))]
        parts = [self.model.encode_text(texts[begin : begin + _AT_ONCE]) for begin in range(0, len(texts), _AT_ONCE)]
        return np.concatenate([self._no_vectors(), *parts])

    def similarity(self, images: Floats, sentences: Floats) -> Floats:
        images = check_vectors(images, "images")
        return np.asarray(images @ check_vectors(sentences, "sentences", images.shape[1]).T)

    def prepare_photo(self, photo: Image.Image) -> Tensor:
        """Resize, crop and normalize a photo as the network expects it."""
        return self.model.transform(photo)

    def encode_prepared(self, photos: Sequence[Any]) -> Floats:
        """Encode photos that `prepare_photo` gave, one row each."""
        return self.model.encode_image(photos)

    def unknown_words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the words that the model cannot read: none, since its tokenizer splits words into parts."""
        return ()

    def to_artifact(self, *, half: bool = False) -> Artifact:
        raise DeixisError(f"{self.name}: a model of OpenCLIP is not saved by deixis; keep its file of weights")

    def _no_vectors(self) -> Floats:
        return np.empty((0, self.dimension), np.float32)


def _text(text: Text, position: int) -> str:
    if isinstance(text, str):
        return text
    if isinstance(found := getattr(text, "text", None), str):  # a sentence or a phrase
        return found
    words = getattr(text, "words", text)
    if isinstance(words, bytes) or not isinstance(words, Sequence):
        raise DeixisError(f"sentences[{position}]: give a text, not {type_name(text)}")
    return " ".join(words)


def load_open_clip(name: str, device: str | None = None) -> OpenClipPipeline:
    """Open a model by its name.

    Parameters
    ----------
    name
        Such as ``open-clip:ViT-B-32``, ``open-clip:ViT-B-32:laion2b_s34b_b79k`` or ``open-clip:ViT-B-32:weights.pt``.
    device
        By default the GPU if there is one.
    """
    architecture, weights = _split(name)
    package: Any = require_package("open_clip", name, "pip install 'deixis[open-clip]'")
    weights, quick_gelu = _find_weights(package, architecture, weights, name)
    with _explain_failure(name):
        network, _, transform = package.create_model_and_transforms(
            architecture, pretrained=weights or None, force_quick_gelu=quick_gelu, weights_only=True
        )
    full_name = f"{PREFIX}{architecture}:{weights}" if weights else f"{PREFIX}{architecture}"
    with _explain_failure(full_name):
        tokenizer = package.get_tokenizer(architecture)
    fingerprint = _fingerprint(network, architecture, quick_gelu, package.get_model_preprocess_cfg(network))
    network.to(choose_device(device))
    return OpenClipPipeline(OpenClip(network, transform, tokenizer), full_name, fingerprint)


@contextmanager
def _explain_failure(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of torch, of the network or of OpenCLIP itself, which has no class of its own
        raise DeixisError(f"{name}: OpenCLIP cannot open it ({short_reason(error)})") from error


def _find_weights(package: Any, architecture: str, weights: str, name: str) -> tuple[str, bool]:
    """Return the absolute path or the name of the weights, and whether the named ones need another activation."""
    if architecture.startswith(_SELF_CONTAINED):
        return "", False
    if weights and (file := Path(weights).expanduser()).is_file():
        return str(file.absolute()), False
    tags: list[str] = package.list_pretrained_tags_by_model(architecture)
    if not weights and tags:
        weights = tags[0]
    if weights not in tags:
        known = f"; OpenCLIP downloads {_list(tags)}" if tags else f"; OpenCLIP has no weights for {architecture}"
        problem = f"{weights}: no such file" if weights else f"{name}: give a file of weights"
        raise DeixisError(problem + known)
    return weights, bool(package.get_pretrained_cfg(architecture, weights).get("quick_gelu", False))


def _list(tags: Sequence[str]) -> str:
    return ", ".join(tags[:_LISTED]) + (f" and {len(tags) - _LISTED} more" if len(tags) > _LISTED else "")


def _split(name: str) -> tuple[str, str]:
    """Return the architecture and the weights of a name."""
    rest = name.removeprefix(PREFIX)
    if rest.startswith(_SELF_CONTAINED):
        return rest, ""
    architecture, _, weights = rest.partition(":")
    if not architecture:
        raise DeixisError(f"{name}: name an architecture, as in {PREFIX}ViT-B-32 or {PREFIX}ViT-B-32:weights.pt")
    return architecture, weights


def _fingerprint(network: nn.Module, architecture: str, quick_gelu: bool, preprocessing: Any) -> str:
    """Hash everything that affects the vectors. The path of the weights does not."""
    from deixis.vision.encoders.torch_network import hash_weights

    content = {
        "architecture": "" if architecture.startswith("local-dir:") else architecture,
        "quick_gelu": quick_gelu,
        "preprocessing": preprocessing,
        "weights": hash_weights(network.state_dict()),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]
