"""Speed of the H-LSTM computed level by level, compared with a plain loop over nodes, forward and backward.

python benchmarks/trees.py [--trees 64] [--hidden 512] [--rounds 5] [--captions FILE]

The trees are those of the captions below, or of a text file with one caption per line. Prints CPU milliseconds (the
median of the rounds), the growth with the number of nodes, and the cost of one unusual tree in a batch. The levels of a
chain are computed one after another, so it costs more than its nodes; the plain loop is shown for comparison.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from deixis.language.parser import Parser
from deixis.language.trees import Tree, read_tree
from deixis.models.hm_lstm.network import TreeLSTM, to_tensors
from deixis.models.hm_lstm.trees import Forest

CAPTIONS = (
    "A brown dog is running through the snow with a stick in its mouth.",
    "Two young men in red shirts play guitar on a small stage.",
    "A girl wearing a red and multicolored bikini is laying on her back in shallow water.",
    "The man is riding a bicycle down a dirt path near a lake.",
    "Several people sit at a table outside a restaurant.",
    "A child in a blue hat throws a ball to a black dog on the beach.",
    "A man and a woman dance.",
    "A group of hikers with large backpacks climb a rocky hill under a cloudy sky.",
)
UNUSUAL = {
    "one word": read_tree("(NN snow)"),
    "a chain of 200": read_tree("(NP (DT a) " * 199 + "(NP (NN dog) (NN dog))" + ")" * 199),
    "a node of 300 words": read_tree("(NP " + "(NN dog) " * 300 + ")"),
}


def plain_states(cell: TreeLSTM, vectors: Tensor, numbers: dict[str, int], tree: Tree) -> list[Tensor]:
    """Compute Eq. 2–8 node by node."""
    hidden = cell.forget_bias.numel()
    h: dict[int, Tensor] = {}
    c: dict[int, Tensor] = {}
    nodes = list(tree.nodes())
    nothing = vectors.new_zeros(hidden)
    for node in reversed(nodes):
        if node.word is not None:
            i, o, u = cell.word(vectors[numbers[node.word]]).chunk(3)
            state = i.sigmoid() * u.tanh()
        else:
            of_kind: tuple[list[int], list[int]] = ([], [])
            for child in node.children:
                of_kind[0 if child.label == "NP" and child.children else 1].append(id(child))
            sums = torch.cat([sum((h[k] for k in kind), nothing) for kind in of_kind])
            i, o, u = (cell.from_children(sums) + cell.word.bias).chunk(3)
            state = i.sigmoid() * u.tanh()
            for weight, kind in zip(cell.forget_of_kind, of_kind, strict=True):
                for k in kind:
                    state = state + (weight @ h[k] + cell.forget_bias).sigmoid() * c[k]
        c[id(node)], h[id(node)] = state, o.sigmoid() * state.tanh()
    return [h[id(node)] for node in nodes]


def milliseconds(states: Callable[[], Tensor], cell: TreeLSTM, rounds: int) -> tuple[float, float]:
    """Time forward and backward, after a warm-up round."""
    forward, backward = [], []
    for _ in range(rounds + 1):
        cell.zero_grad()
        begin = time.process_time()
        made = states()
        middle = time.process_time()
        made.square().sum().backward()  # type: ignore[no-untyped-call]
        forward.append(middle - begin)
        backward.append(time.process_time() - middle)
    return 1000 * statistics.median(forward[1:]), 1000 * statistics.median(backward[1:])


def trees_of(captions: Sequence[str], count: int) -> list[Tree]:
    parsed = Parser.shipped().parse_all(captions)
    return [parsed[number % len(parsed)] for number in range(count)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--trees", type=int, default=64)
    options.add_argument("--hidden", type=int, default=512)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--captions", type=Path)
    chosen = options.parse_args()
    captions = chosen.captions.read_text(encoding="utf-8").splitlines() if chosen.captions else CAPTIONS
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cell = TreeLSTM(300, chosen.hidden)
    some = trees_of(captions, 8 * chosen.trees)
    forest = Forest.from_trees([*some, *UNUSUAL.values()])
    vectors = torch.randn(len(forest.words) + 1, 300)
    numbers = {word: number for number, word in enumerate(forest.words)}

    def by_level(rows: Sequence[int]) -> tuple[float, float]:
        return milliseconds(lambda: cell(vectors, to_tensors(forest.batch(rows))), cell, chosen.rounds)

    def by_node(trees: Sequence[Tree]) -> tuple[float, float]:
        def states() -> Tensor:
            return torch.stack([h for tree in trees for h in plain_states(cell, vectors, numbers, tree)])

        return milliseconds(states, cell, chosen.rounds)

    base = range(chosen.trees)
    ours, loop = by_level(base), by_node(some[: chosen.trees])
    nodes = int(forest.starts[chosen.trees])
    print(f"{chosen.trees} trees, {nodes} nodes, hidden {chosen.hidden}; ms forward, backward")
    print(f"  level by level  {ours[0]:8.1f} {ours[1]:8.1f}")
    print(f"  node by node    {loop[0]:8.1f} {loop[1]:8.1f}")
    print(f"  times as fast   {loop[0] / ours[0]:8.1f} {loop[1] / ours[1]:8.1f}   both {sum(loop) / sum(ours):.1f}")
    print("trees, nodes, µs per node (forward and backward)")
    for count in (chosen.trees // 2, chosen.trees, 2 * chosen.trees, 4 * chosen.trees, 8 * chosen.trees):
        taken = sum(by_level(range(count)))
        print(f"  {count:5d} {int(forest.starts[count]):7d} {1000 * taken / forest.starts[count]:8.1f}")
    print("one unusual tree in the batch: extra ms; ms for as many other nodes; the tree alone, node by node")
    for number, (name, unusual) in enumerate(UNUSUAL.items()):
        row = len(some) + number
        more = sum(by_level([*base, row])) - sum(ours)
        share = (forest.starts[row + 1] - forest.starts[row]) * sum(ours) / nodes
        print(f"  {name:20s} {more:8.1f} {share:8.1f} {sum(by_node([unusual])):8.1f}")


if __name__ == "__main__":
    main()
