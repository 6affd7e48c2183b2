"""Looking at the cells of a photo's feature map: at each word at others."""

from __future__ import annotations

from torch import Tensor, nn

from deixis.errors import DeixisError


class CellAttention(nn.Module):
    """Gives each state what the cells hold that it asks for, in several ways at once.

    A state becomes a question, a cell a key and a value, each cut into as many parts as there are heads. A head takes
    the mean of its part of the values, weighted by the softmax of question · key / √(numbers in a part).

    Parameters
    ----------
    state_size, cell_size
        Numbers in a state, and in a cell.
    size
        Numbers in a question, a key and a value, all heads together.
    heads
        A number that divides `size`.
    result_size
        Numbers in the result.

    Examples
    --------
    >>> import torch
    >>> attention = CellAttention(4, 6, size=8, heads=2, result_size=5)
    >>> attention(torch.ones(3, 7, 4), *attention.prepare(torch.ones(3, 9, 6))).shape
    torch.Size([3, 7, 5])
    """

    def __init__(self, state_size: int, cell_size: int, *, size: int, heads: int, result_size: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_query = nn.Linear(state_size, size, bias=False)
        self.to_key = nn.Linear(cell_size, size, bias=False)
        self.to_value = nn.Linear(cell_size, size, bias=False)
        self.from_values = nn.Linear(size, result_size, bias=False)

    def prepare(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of cells (n, k, cell_size), each (n, heads, k, size / heads)."""
        keys, values = (self._parts(layer(cells)) for layer in (self.to_key, self.to_value))
        return keys, values

    def forward(self, states: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """From states (n, t, state_size) and what `prepare` gave for their photos, (n, t, result_size)."""
        questions = self._parts(self.to_query(states))
        likeness = questions @ keys.mT / questions.shape[-1] ** 0.5
        found = likeness.softmax(-1) @ values
        return self.from_values(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _parts(self, rows: Tensor) -> Tensor:
        """(n, t, size) as (n, heads, t, size / heads)."""
        return rows.view(*rows.shape[:-1], self.heads, rows.shape[-1] // self.heads).transpose(1, 2)


def needed(cells: Tensor | None) -> Tensor:
    """The cells, which attention cannot do without."""
    if cells is None:
        raise DeixisError("attention=true: the cells of the feature maps are needed, vectors are not enough")
    return cells
