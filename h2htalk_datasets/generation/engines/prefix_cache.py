"""Shared prefixes: the tokens that prompts start with are computed once, cached, and copied under each row of a batch.

Prompts start with SAP, then the companion's persona, then the task's instructions, so prefixes nest: of all prompts,
of a relationship, of a batch. Each is computed from the shorter one before it.

For the model the batch looks as usual, padded on the left. A row shorter than the longest has fewer prefix tokens in
its cache and computes the last ones again, in cells that would be padding otherwise. So masks by position, also those
of sliding windows, work unchanged.
"""

__all__ = ["PrefilledCache", "PrefixCache", "can_share", "common_prefix"]

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from h2htalk_datasets.generation.engines.prefix_attention import SharedPrefix, attach_prefix

_MIN_STEP = 16  # tokens that a longer prefix must add to be worth its own entry

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # keys and values per layer, each (1, heads, tokens, width)


class PrefixCache:
    """Keys and values of prefixes; the least recently used ones are dropped.

    Args:
        model: a causal language model that passes :func:`can_share`.
        max_bytes: of all cached prefixes together; the latest always stays, unless it is 0.

    """

    def __init__(self, model: Any, max_bytes: int) -> None:
        self._model, self._max_bytes = model, max_bytes
        self._prefixes: OrderedDict[tuple[int, ...], Layers] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of cached prefixes."""
        return len(self._prefixes)

    def build_cache(
        self, rows: Sequence[list[int]], levels: Sequence[int], capacity: int, batch_prefix_len: int = 0
    ) -> "PrefilledCache | None":
        """Return a cache that has the rows' shared prefix and space for everything that follows; None without one.

        Args:
            rows: token ids of each prompt.
            levels: lengths of nesting prefixes, ascending, that other batches have too; these are cached.
            capacity: tokens per row that the cache will have in the end, padding included.
            batch_prefix_len: length of the prefix of these rows. It is used once and not cached: batches of one
                relationship are far apart, and caching every batch's own prefix would drop those that all need.

        """
        steps = _worthwhile(sorted({*levels, batch_prefix_len}))
        if not steps:
            return None
        layers = self._prefix(rows[0], steps, keep=steps[-1] in levels)
        width, shared = max(map(len, rows)), steps[-1]
        paddings = [width - len(row) for row in rows]
        own_mask = _own_mask(layers[0][0], paddings, shared, capacity)
        return PrefilledCache([_PrefilledLayer(keys, values, paddings, own_mask, capacity) for keys, values in layers])

    def clear(self) -> bool:
        """Drop all prefixes and cache none from now on; return False if that was already so."""
        changed, self._max_bytes = self._max_bytes > 0, 0
        self._prefixes.clear()
        return changed

    def _prefix(self, tokens: list[int], steps: Sequence[int], keep: bool = True) -> Layers:
        key = tuple(tokens[: steps[-1]])
        if key in self._prefixes:
            self._prefixes.move_to_end(key)
            return self._prefixes[key]
        shorter = self._prefix(tokens, steps[:-1]) if len(steps) > 1 else []
        layers = self._compute(list(key), shorter)
        if keep and self._max_bytes:
            self._prefixes[key] = layers
            self._evict()
        return layers

    def _compute(self, tokens: list[int], shorter: Layers) -> Layers:
        # Plain layers in any model: they keep every token, so that a row can get any part of the prefix.
        cache: Any = DynamicCache(ddp_cache_data=shorter or None)
        ids = torch.tensor([tokens[cache.get_seq_length() :]], device=self._model.device)
        self._model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _evict(self) -> None:
        while len(self._prefixes) > 1 and sum(map(_bytes, self._prefixes.values())) > self._max_bytes:
            self._prefixes.popitem(last=False)


class PrefilledCache(Cache):
    """A cache of Transformers whose rows start with a shared prefix."""

    def __init__(self, layers: list[Any]) -> None:
        super().__init__(layers=layers)


class _PrefilledLayer(DynamicLayer):
    """A layer that has its full capacity from the start: new tokens are written in place, nothing is copied again."""

    def __init__(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        paddings: Sequence[int],
        own_mask: torch.Tensor,
        capacity: int,
    ) -> None:
        super().__init__()
        shared = keys.shape[2]
        self._all_keys = _copy_to_rows(keys, paddings, capacity)
        self._all_values = _copy_to_rows(values, paddings, capacity)
        self._prefix = SharedPrefix(keys[0], values[0], own_mask) if len(paddings) > 1 else None
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self._expose(shared)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = self.get_seq_length()
        stop = start + key_states.shape[-2]
        self._all_keys[:, :, start:stop] = key_states
        self._all_values[:, :, start:stop] = value_states
        return self._expose(stop)

    def _expose(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys = attach_prefix(self._all_keys[:, :, :length], self._prefix)
        self.values = self._all_values[:, :, :length]
        return self.keys, self.values


def can_share(model: Any, tokens: Sequence[int], cache_of: Callable[[Any, int], PrefixCache] = PrefixCache) -> bool:
    """Return whether shared prefixes work with this model.

    Its cache must store keys and values by position, which Mamba's does not. Architectures differ in more than their
    caches, so a short prompt is tried: with a shared prefix it must have the same logits as without, up to rounding.

    Args:
        model: any causal language model.
        tokens: valid token ids, at least one.
        cache_of: makes the prefix cache from model and maximum bytes.

    """
    try:
        return _caches_by_position(model) and _same_logits(model, tokens, cache_of(model, 0))
    except Exception:  # an architecture's code may raise anything where it is not made for this
        return False


def _caches_by_position(model: Any) -> bool:
    if getattr(model.config.get_text_config(), "num_kv_shared_layers", 0):
        return False
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)


@torch.inference_mode()
def _same_logits(model: Any, tokens: Sequence[int], prefixes: PrefixCache) -> bool:
    long = [tokens[place % len(tokens)] for place in range(_MIN_STEP + 8)]
    rows = [long, long[:-3]]
    ids = torch.tensor([long, [tokens[0]] * 3 + long[:-3]], device=model.device)
    mask = torch.tensor([[1] * len(long), [0] * 3 + [1] * len(long[:-3])], device=model.device)
    plain = _logits(model, ids, mask, None)
    shared = _logits(model, ids, mask, prefixes.build_cache(rows, [_MIN_STEP], len(long) + 2))
    finite = plain[plain.isfinite()]
    rounding = math.sqrt(torch.finfo(model.dtype).eps) * float(finite.max() - finite.min())  # half of the digits
    return torch.allclose(shared, plain, rtol=0, atol=rounding)


def _logits(model: Any, ids: torch.Tensor, mask: torch.Tensor, cache: Cache | None) -> torch.Tensor:
    """Return logits of a prompt and of one step after it (the first row's last token); shape (2, rows, vocabulary)."""
    options: dict[str, Any] = {"max_new_tokens": 2, "output_logits": True, "return_dict_in_generate": True}
    options["logits_processor"] = [lambda ids, scores: torch.zeros_like(scores).index_fill(1, ids[:1, -1], 1)]
    out = model.generate(ids, attention_mask=mask, past_key_values=cache, do_sample=False, **options)
    return torch.stack(out.logits)


def common_prefix(rows: Sequence[list[int]]) -> int:
    """Return how many first tokens all rows share; at least one token of each row is left out."""
    low, high = min(rows), max(rows)
    shared = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return min(shared, min(len(row) for row in rows) - 1)


def _copy_to_rows(prefix: torch.Tensor, paddings: Sequence[int], capacity: int) -> torch.Tensor:
    shared = prefix.shape[2]
    cells = prefix.new_empty(len(paddings), prefix.shape[1], capacity, prefix.shape[3])
    for row, padding in zip(cells, paddings, strict=True):
        start = min(padding, shared)
        row[:, :start] = 0  # the mask hides these cells, but hidden cells must be numbers too
        row[:, start:shared] = prefix[0, :, : shared - start]
    return cells


def _own_mask(like: torch.Tensor, paddings: Sequence[int], shared: int, capacity: int) -> torch.Tensor:
    """For the cells after the first `shared`: 0 where a row has its own tokens, minus infinity over its prefix."""
    own = like.new_full((len(paddings), 1, 1, capacity - shared), -torch.inf)
    for row, padding in zip(own, paddings, strict=True):
        row[..., padding:] = 0
    return own


def _worthwhile(levels: Sequence[int]) -> list[int]:
    steps: list[int] = []
    for level in levels:
        if level - (steps[-1] if steps else 0) >= _MIN_STEP:
            steps.append(level)
    return steps


def _bytes(layers: Layers) -> int:
    return sum(keys.nbytes + values.nbytes for keys, values in layers)
