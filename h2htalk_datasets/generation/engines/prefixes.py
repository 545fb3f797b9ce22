"""Shared prefixes: the tokens that prompts start with are computed once and kept.

Prompts start with SAP, then the companion's persona, then the task's instruction or a history that grows from question
to question. So prefixes nest, and each is computed from the shorter one before it.
"""

__all__ = ["PrefixCache", "common_prefix", "extend", "nested_prefixes"]

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from transformers import DynamicCache

from h2htalk_datasets.generation.engines.row_cache import Layers


class PrefixCache:
    """Keys and values of prefixes; the least recently used ones are dropped.

    Args:
        model: a causal language model that stores keys and values by position.
        max_bytes: of all prefixes together; the latest always stays, unless it is 0.

    """

    def __init__(self, model: Any, max_bytes: int) -> None:
        self._model, self._max_bytes = model, max_bytes
        self._prefixes: OrderedDict[tuple[int, ...], Layers] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of prefixes."""
        return len(self._prefixes)

    def clear(self) -> bool:
        """Drop all prefixes and keep none from now on; return False if that was already so."""
        changed, self._max_bytes = self._max_bytes > 0, 0
        self._prefixes.clear()
        return changed

    def layers(self, tokens: Sequence[int], lengths: Sequence[int]) -> Layers:
        """Return keys and values of the longest of several nesting prefixes of a prompt.

        Args:
            tokens: of the prompt.
            lengths: of the prefixes, ascending, the last one above 0; all are kept.

        """
        key = tuple(tokens[: lengths[-1]])
        if key in self._prefixes:
            self._prefixes.move_to_end(key)
            return self._prefixes[key]
        shorter = [length for length in lengths[:-1] if length]
        layers = extend(self._model, self.layers(tokens, shorter) if shorter else [], [list(key)])
        if self._max_bytes:
            self._prefixes[key] = layers
            while len(self._prefixes) > 1 and sum(map(_bytes, self._prefixes.values())) > self._max_bytes:
                self._prefixes.popitem(last=False)
        return layers


def extend(model: Any, prefix: Layers, rows: Sequence[list[int]]) -> Layers:
    """Return keys and values of prompts that start with a prefix; shorter prompts are padded at their ends.

    Args:
        model: a causal language model.
        prefix: of all rows, with a batch dimension of one; may be empty.
        rows: token ids of the whole prompts.

    Returns:
        Per layer keys and values, each of shape (rows, key heads, tokens of the longest row, width).

    """
    done = prefix[0][0].shape[2] if prefix else 0
    width = max(map(len, rows))
    if width == done:
        return [(keys.expand(len(rows), -1, -1, -1), values.expand(len(rows), -1, -1, -1)) for keys, values in prefix]
    # A token sees what is before it only, so padding at the end needs no mask.
    ids = [row[done:] + row[-1:] * (width - len(row)) for row in rows]
    expanded = [(keys.expand(len(rows), -1, -1, -1), values.expand(len(rows), -1, -1, -1)) for keys, values in prefix]
    # Plain layers in any model: they keep every token, also beyond a sliding window.
    cache: Any = DynamicCache(ddp_cache_data=expanded or None)
    model(torch.tensor(ids, device=model.device), past_key_values=cache, use_cache=True, logits_to_keep=1)
    return [(layer.keys, layer.values) for layer in cache.layers]


def common_prefix(rows: Sequence[list[int]]) -> int:
    """Return how many first tokens all rows share; at least one token of each row is left out."""
    low, high = min(rows), max(rows)
    shared = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return min(shared, min(len(row) for row in rows) - 1)


def nested_prefixes(rows: Sequence[list[int]], min_saved: int) -> list[list[int]]:
    """Find the prefixes that are worth computing once.

    Args:
        rows: token ids of prompts.
        min_saved: tokens that a prefix must save: its length beyond the shorter prefix before it, times the number of
            branches after it minus one.

    Returns:
        For each row the lengths of its prefixes, ascending: first that of all rows (0 if they share nothing), then
        those that it shares with some of them. At least one token of each row is left out.

    """
    order = sorted(range(len(rows)), key=rows.__getitem__)
    # Rows that share a prefix are neighbours now; what two of them share is the least that neighbours between them do.
    shared = [common_prefix([rows[a], rows[b]]) for a, b in pairwise(order)]
    of_all = common_prefix(rows)
    lengths = [[of_all] for _ in rows]
    waiting = [(0, len(order))]
    while waiting:
        first, end = waiting.pop()
        if end - first < 2:
            continue
        depth = min(shared[first : end - 1])
        branches = [first, *(place + 1 for place in range(first, end - 1) if shared[place] == depth), end]
        if (depth - lengths[order[first]][-1]) * (len(branches) - 2) >= min_saved:
            for place in order[first:end]:
                lengths[place].append(depth)
        waiting += pairwise(branches)
    return lengths


def _bytes(layers: Layers) -> int:
    return sum(keys.nbytes + values.nbytes for keys, values in layers)
