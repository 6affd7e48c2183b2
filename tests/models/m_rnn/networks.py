"""Small networks of the m-RNN and the captioner, with random weights, and a plain loop over their equations."""

from __future__ import annotations

from dataclasses import replace
from math import erf
from typing import Any

import numpy as np
import torch

from deixis.models.captioner.network import CaptionerNetwork
from deixis.models.captioner.spec import CaptionerSettings
from deixis.models.m_rnn.model import WordSteps
from deixis.models.m_rnn.network import MRNNNetwork, VisualContext
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.runtime import Functions
from tests.models.presets import paper_presets

PHOTO, WORDS, CELL = 6, 9, 5
PAPERS = {
    name: replace(settings, first_embedding_dim=3, second_embedding_dim=4, multimodal_dim=7)
    for name, settings in paper_presets("m-rnn", MRNNSettings).items()
}
PLAIN = CaptionerSettings(
    embedding_dim=4, hidden_size=5, multimodal_dim=7, attention_dim=3, attention_heads=1, second_attention=False,
    cell_layers=0, dropout=0.0, label_smoothing=0.0,
)  # fmt: skip
CAPTIONERS = {
    "one attention": PLAIN,
    "heads": replace(PLAIN, attention_dim=6, attention_heads=3),
    "second attention": replace(PLAIN, second_attention=True),
    "layers": replace(PLAIN, second_attention=True, cell_layers=2, cell_dim=4, dropout=0.5),
}


def take(context: VisualContext, rows: slice) -> VisualContext:
    """The context of some photos."""
    return replace(context, **{name: part[rows] for name, part in vars(context).items() if part is not None})


def make_network(settings: Any, seed: int = 0, std: float = 0.5) -> MRNNNetwork:
    """A network in double precision with random weights."""
    torch.manual_seed(seed)
    network = (
        CaptionerNetwork(PHOTO, WORDS, settings, CELL)
        if isinstance(settings, CaptionerSettings)
        else MRNNNetwork(PHOTO, WORDS, settings)
    )
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=std)
        for name, buffer in network.named_buffers():
            buffer.normal_() if name.endswith("mean") else buffer.uniform_(0.5, 2)
    return network.double().eval()


def photo_tensors(network: MRNNNetwork, count: int = 1, seed: int = 1) -> list[torch.Tensor]:
    """What a network takes of photos."""
    rng = np.random.default_rng(seed)
    photos = [rng.normal(size=(count, PHOTO)), rng.normal(size=(count, 4, CELL))]
    return [torch.from_numpy(part) for part in photos[: 2 if network.attends else 1]]


def word_steps(network: MRNNNetwork) -> WordSteps:
    recurrent = network.recurrent
    return WordSteps(
        Functions(network),
        network.unknown,
        [recurrent.hidden_size] * recurrent.state_parts,
        ignores_image=network.settings.language_ignores_image,
        attends=network.attends,
    )


def probabilities(network: MRNNNetwork, photos: list[torch.Tensor], words: list[int]) -> list[np.ndarray]:
    """P(next word) after the start token and after each word, given the first photo, by the equations."""
    weight = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    s, photo = network.settings, photos[0][0].numpy()
    cells = photos[1][0].numpy() if network.attends else np.zeros((0, 0))
    if s.standardize_images:
        photo = (photo - weight["photo_mean"]) / weight["photo_scale"]
    if network.attends:
        cells = (cells - weight["cell_mean"]) / weight["cell_scale"]
    layers = {name.split(".")[2] for name in weight if name.startswith("cells.layers.")}
    if layers:
        cells = cells @ weight["cells.project.weight"].T + weight["cells.project.bias"]
        for layer in sorted(layers):
            prefix = f"cells.layers.{layer}."
            cells = transformed({name.removeprefix(prefix): part for name, part in weight.items()}, cells)
        cells = normalized(cells, weight["cells.norm.weight"], weight["cells.norm.bias"])
    r = c = np.zeros(network.recurrent.hidden_size)
    found = []
    for word in [network.start, *words]:
        first = weight["first.weight"][word]
        second = first if s.single_embedding else weight["second.weight"] @ first + weight["second.bias"]
        if s.image_input in ("recurrent", "both"):
            second = second + weight["photo_to_word.weight"] @ photo
        if s.image_input == "both-shared":
            second = second + (weight["from_photo.weight"] @ photo)[: s.second_embedding_dim]
        if network.attends:
            r, c = lstm(weight, second, r, c)
        else:
            r = np.maximum(0, weight["recurrent.weight"] @ r + second)
        m = weight["from_state.weight"] @ r + weight["from_state.bias"]
        if s.multimodal_word_input != "none":
            m = m + weight["from_word.weight"] @ (first if s.multimodal_word_input == "first" else second)
        if s.image_input in ("multimodal", "both", "both-shared"):
            m = m + weight["from_photo.weight"] @ photo
        if network.attends:
            m = m + attended(weight, "attention", r, cells, network.attention.heads)
        m = 1.7159 * np.tanh(2 / 3 * m)
        if "second_attention.to_query.weight" in weight:
            m = m + attended(weight, "second_attention", m, cells, network.attention.heads)
            m = 1.7159 * np.tanh(2 / 3 * m)
        if s.tie_word_weights:
            mapped = weight["to_embedding.weight"] @ m
            if s.tied_projection == "relu":
                mapped = np.maximum(0, mapped + weight["to_embedding.bias"])
            logits = weight["first.weight"][: WORDS + 2] @ mapped
        else:
            logits = weight["to_words.weight"] @ m
        found.append(softmax(logits + weight["word_bias"]))
    return found


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def attended(weight: dict[str, np.ndarray], name: str, asking: np.ndarray, cells: np.ndarray, heads: int) -> np.ndarray:
    query = weight[f"{name}.to_query.weight"] @ asking
    keys = [weight["cells.to_key.weight"] @ cell for cell in cells]
    values = [weight["cells.to_value.weight"] @ cell for cell in cells]
    found, size = [], len(query) // heads
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        shares = softmax(np.array([key[part] @ query[part] for key in keys]) / np.sqrt(size))
        found.append(sum(share * value[part] for share, value in zip(shares, values, strict=True)))
    return weight[f"{name}.from_values.weight"] @ np.concatenate(found)


def transformed(weight: dict[str, np.ndarray], cells: np.ndarray) -> np.ndarray:
    """Cells after a transformer layer with one head."""
    size = cells.shape[1]
    rows = normalized(cells, weight["norm1.weight"], weight["norm1.bias"])
    projected = [weight["self_attn.in_proj_weight"] @ row + weight["self_attn.in_proj_bias"] for row in rows]
    queries, keys, values = (np.stack(part) for part in zip(*(np.split(row, 3) for row in projected), strict=True))
    for index, query in enumerate(queries):
        seen = softmax(np.array([query @ key for key in keys]) / np.sqrt(size)) @ values
        cells[index] = cells[index] + weight["self_attn.out_proj.weight"] @ seen + weight["self_attn.out_proj.bias"]
    found = []
    for cell in cells:
        inner = weight["linear1.weight"] @ normalized(cell, weight["norm2.weight"], weight["norm2.bias"])
        inner = inner + weight["linear1.bias"]
        inner = np.array([x * (1 + erf(x / np.sqrt(2))) / 2 for x in inner])
        found.append(cell + weight["linear2.weight"] @ inner + weight["linear2.bias"])
    return np.stack(found)


def normalized(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def lstm(weight: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gates = weight["recurrent.layer.weight_ih_l0"] @ x + weight["recurrent.layer.bias_ih_l0"]
    gates = gates + weight["recurrent.layer.weight_hh_l0"] @ h + weight["recurrent.layer.bias_hh_l0"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c
