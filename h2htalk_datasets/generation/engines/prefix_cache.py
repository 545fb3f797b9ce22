"""Shared prefixes: what prompts begin with is computed once, kept, and laid under each row of a batch.

Prompts begin with the persona of attachment (SAP), then the companion's, then the task's instructions, so prefixes
nest: all of a run, all of a relationship, all of a batch. Each is computed from the one before it.

The batch looks to the model as it always does, padded on the left. A row shorter than the longest has fewer prefix
tokens under it and computes the last ones again, in cells that would hold padding otherwise; so masks by position,
sliding windows too, need no care.
"""

__all__ = ["PrefixCache", "can_share", "common_prefix"]

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from h2htalk_datasets.generation.engines.prefix_attention import SharedPrefix, share

_WORTH = 16  # tokens that a longer prefix must add to be computed on its own

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # keys and values a layer, each (1, heads, tokens, width)


class PrefixCache:
    """Keys and values of prefixes; the least recently used are dropped.

    Args:
        model: a causal language model that stood :func:`can_share`.
        limit: bytes that kept prefixes may take together; the last one always stays, unless it is 0.

    """

    def __init__(self, model: Any, limit: int) -> None:
        self._model, self._limit = model, limit
        self._kept: OrderedDict[tuple[int, ...], Layers] = OrderedDict()

    def under(self, rows: Sequence[list[int]], levels: Sequence[int], room: int, own: int = 0) -> Cache | None:
        """A cache that holds the rows' shared prefix, with room for all that follows; None where nothing is shared.

        Args:
            rows: token ids of each prompt.
            levels: lengths of nesting prefixes, ascending, that other rows share too; these are kept.
            room: tokens that the cache will hold in the end, padding included.
            own: length of the prefix that these rows share; used once, so it is not kept. Batches of one relationship
                come far apart, and keeping what each has for itself would drop what all of them need.

        """
        steps = _worthwhile(sorted({*levels, own}))
        if not steps:
            return None
        layers = self._prefix(rows[0], steps, keep=steps[-1] in levels)
        width, shared = max(map(len, rows)), steps[-1]
        starts = [width - len(row) for row in rows]
        cells = _own_cells(layers[0][0], starts, shared, room)
        return _Laid([_LaidLayer(keys, values, starts, cells, room) for keys, values in layers])

    def give_back(self) -> bool:
        """Drop what is kept, and keep nothing from now on; False where that was so before."""
        kept, self._limit = self._limit > 0, 0
        self._kept.clear()
        return kept

    def _prefix(self, tokens: list[int], steps: Sequence[int], keep: bool = True) -> Layers:
        key = tuple(tokens[: steps[-1]])
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        before = self._prefix(tokens, steps[:-1]) if len(steps) > 1 else []
        layers = self._computed(list(key), before)
        if keep and self._limit:
            self._kept[key] = layers
            self._drop()
        return layers

    def _computed(self, tokens: list[int], before: Layers) -> Layers:
        # Plain layers in any model: they keep every token, so that a row can be given any part of the prefix.
        cache: Any = DynamicCache(ddp_cache_data=before or None)
        done = cache.get_seq_length()
        ids = torch.tensor([tokens[done:]], device=self._model.device)
        self._model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _drop(self) -> None:
        while len(self._kept) > 1 and sum(map(_bytes, self._kept.values())) > self._limit:
            self._kept.popitem(last=False)


class _Laid(Cache):
    def __init__(self, layers: list[Any]) -> None:
        super().__init__(layers=layers)


class _LaidLayer(DynamicLayer):
    """A layer with its whole room from the start: new tokens are written in place, nothing is copied again."""

    def __init__(
        self, keys: torch.Tensor, values: torch.Tensor, starts: Sequence[int], own: torch.Tensor, room: int
    ) -> None:
        super().__init__()
        shared = keys.shape[2]
        self._all_keys, self._all_values = _lay(keys, starts, shared, room), _lay(values, starts, shared, room)
        self._prefix = SharedPrefix(keys[0], values[0], own) if len(starts) > 1 else None
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self._show(shared)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = self.get_seq_length()
        stop = start + key_states.shape[-2]
        self._all_keys[:, :, start:stop] = key_states
        self._all_values[:, :, start:stop] = value_states
        return self._show(stop)

    def _show(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        shown = share(self._all_keys[:, :, :length], self._prefix), self._all_values[:, :, :length]
        self.keys, self.values = shown
        return shown


def can_share(model: Any, tokens: Sequence[int]) -> bool:
    """Whether prefixes can be laid under this model's prompts.

    Its cache must be keys and values by position, so not Mamba's; and since architectures differ in more than their
    caches tell, a short prompt is tried: over a laid prefix it must have the same logits, up to rounding, as without.

    Args:
        model: any causal language model.
        tokens: ids that it knows, at least one.

    """
    try:
        return _by_position(model) and _same_logits(model, tokens)
    except Exception:  # whatever the code of an architecture raises where it is not made for this
        return False


def _by_position(model: Any) -> bool:
    if getattr(model.config.get_text_config(), "num_kv_shared_layers", 0):
        return False
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)


@torch.inference_mode()
def _same_logits(model: Any, tokens: Sequence[int]) -> bool:
    long = [tokens[place % len(tokens)] for place in range(_WORTH + 8)]
    rows = [long, long[:-3]]
    ids = torch.tensor([long, [tokens[0]] * 3 + long[:-3]], device=model.device)
    mask = torch.tensor([[1] * len(long), [0] * 3 + [1] * len(long[:-3])], device=model.device)
    plain = _logits(model, ids, mask, None)
    laid = _logits(model, ids, mask, PrefixCache(model, 0).under(rows, [_WORTH], len(long) + 2))
    finite = plain[plain.isfinite()]
    rounding = math.sqrt(torch.finfo(model.dtype).eps) * float(finite.max() - finite.min())  # half of the digits
    return torch.allclose(laid, plain, rtol=0, atol=rounding)


def _logits(model: Any, ids: torch.Tensor, mask: torch.Tensor, cache: Cache | None) -> torch.Tensor:
    """Of a prompt and of one step after it, whose token is the first row's last; shape (2, rows, vocabulary)."""
    options: dict[str, Any] = {"max_new_tokens": 2, "output_logits": True, "return_dict_in_generate": True}
    options["logits_processor"] = [lambda ids, scores: torch.zeros_like(scores).index_fill(1, ids[:1, -1], 1)]
    out = model.generate(ids, attention_mask=mask, past_key_values=cache, do_sample=False, **options)
    return torch.stack(out.logits)


def common_prefix(rows: Sequence[list[int]]) -> int:
    """How many first tokens all rows share; at least one token is left to each row."""
    low, high = min(rows), max(rows)
    shared = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return min(shared, min(len(row) for row in rows) - 1)


def _lay(prefix: torch.Tensor, starts: Sequence[int], shared: int, room: int) -> torch.Tensor:
    laid = prefix.new_empty(len(starts), prefix.shape[1], room, prefix.shape[3])
    for row, start in zip(laid, starts, strict=True):
        padding = min(start, shared)
        row[:, :padding] = 0  # hidden by the mask, but what is hidden must be a number
        row[:, padding:shared] = prefix[0, :, : shared - padding]
    return laid


def _own_cells(like: torch.Tensor, starts: Sequence[int], shared: int, room: int) -> torch.Tensor:
    """Of the cells after the first `shared`: 0 where a row has tokens of its own, minus infinity over its prefix."""
    own = like.new_full((len(starts), 1, 1, room - shared), -torch.inf)
    for row, start in zip(own, starts, strict=True):
        row[..., start:] = 0
    return own


def _worthwhile(levels: Sequence[int]) -> list[int]:
    steps: list[int] = []
    for level in levels:
        if level - (steps[-1] if steps else 0) >= _WORTH:
            steps.append(level)
    return steps


def _bytes(layers: Layers) -> int:
    return sum(keys.nbytes + values.nbytes for keys, values in layers)
