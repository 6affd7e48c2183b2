"""Multi-head attention that becomes one operator of ONNX Runtime when a network is exported."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def attention(query: Tensor, key: Tensor, value: Tensor, heads: int, bias: Tensor | None = None) -> Tensor:
    """Attend over all positions.

    Parameters
    ----------
    query, key, value
        Vectors (b, n, width), those of all heads one after the other; keys and values may be more or fewer.
    heads
        Number of heads, which divides the width.
    bias
        (1, heads, n, m), added to the logits.

    Returns
    -------
    Tensor
        (b, n, width).
    """
    if torch.onnx.is_in_onnx_export():
        fused: Tensor = _FusedAttention.apply(query, key, value, heads, bias)  # type: ignore[no-untyped-call]
        return fused
    return _attention(query, key, value, heads, bias)


def _attention(query: Tensor, key: Tensor, value: Tensor, heads: int, bias: Tensor | None) -> Tensor:
    q, k, v = (each.reshape(*each.shape[:2], heads, -1).transpose(1, 2) for each in (query, key, value))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, heads: int, bias: Tensor | None) -> Tensor:
        return _attention(query, key, value, heads, bias)

    @staticmethod
    def symbolic(graph: Any, query: Any, key: Any, value: Any, heads: int, bias: Any) -> Any:
        # The operator's own bias and its mask of padding are not given.
        more = () if bias is None else (_nothing(graph), _nothing(graph), bias)
        found = graph.op("com.microsoft::MultiHeadAttention", query, key, value, *more, num_heads_i=heads)
        found.setType(query.type().with_sizes([None, None, None]))
        return found


def _nothing(graph: Any) -> Any:
    """An optional input that is not given."""
    nothing = graph.op("prim::Constant")
    nothing.setType(torch._C.OptionalType.ofTensor())
    return nothing
