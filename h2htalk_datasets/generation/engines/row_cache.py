"""The key-value cache of a fixed number of rows over one prefix that all prompts share.

Every prompt starts with the same tokens (SAP). Their keys and values are stored once, and a decoding step reads them
once for all rows. What follows is in cells of each row. A cell's position is the same in all rows: the length of the
shared prefix plus the cell's place. So one comparison gives the mask, and a row can start again while others go on.
"""

__all__ = ["Layers", "RowCache", "can_use_rows", "row_attention"]

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, Cache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ROW_ATTENTION = "h2htalk_rows"
"""The name of this attention in Transformers."""

_OLD_NAME = "sdpa_prefix_once"  # in the manifests of earlier versions
_UNSUPPORTED = ("position_bias", "s_aux")  # options that only the attention of Transformers handles

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values per layer, each of shape (1, key heads, tokens, width)."""


class RowCache:
    """Keys and values of rows, and where each row is.

    Args:
        prefix: of all prompts, one token or more.
        rows: number of rows.
        cells: tokens that each row can have after the prefix.

    Attributes:
        cell: the cell that the next token of each row is written to; shape (rows,).
        visible_cells: cells that a step reads; a CPU need not read more than the longest row has.
        used_rows: rows that a step computes, the first ones; a CPU need not compute more than there are prompts.
        layers: as Transformers wants them.

    """

    def __init__(self, prefix: Layers, rows: int, cells: int) -> None:
        first = prefix[0][0]
        self.prefix_len, self.rows, self.cells = first.shape[2], rows, cells
        self.cell = torch.zeros(rows, dtype=torch.long, device=first.device)
        self.visible_cells, self.used_rows = cells, rows
        self._row = torch.arange(rows, device=first.device)
        self._position = torch.arange(self.prefix_len + cells, device=first.device)
        self._bias: dict[int | None, torch.Tensor] = {}
        self.layers = [_RowLayer(self, keys[0], values[0]) for keys, values in prefix]

    def transformers_cache(self) -> Cache:
        """The cache as an argument of a model."""
        return Cache(layers=self.layers)  # type: ignore[arg-type]

    def fill(self, row: int, layers: Layers, start: int, length: int, place: int = 0) -> None:
        """Put a prompt into a row.

        Args:
            row: its number.
            layers: keys and values of several prompts from their first token on.
            start: tokens of the shared prefix, which are left out.
            length: tokens of the prompt in these layers.
            place: of the prompt in the layers.

        """
        for own, (keys, values) in zip(self.layers, layers, strict=True):
            own.row_keys[row, :, : length - start] = keys[place, :, start:length]
            own.row_values[row, :, : length - start] = values[place, :, start:length]

    def move(self, source: int, target: int) -> None:
        """Move a row's prompt to another row."""
        for layer in self.layers:
            layer.row_keys[target] = layer.row_keys[source]
            layer.row_values[target] = layer.row_values[source]
        self.cell[target] = self.cell[source]

    def begin_step(self) -> torch.Tensor:
        """Forget the masks of the last step; returns the position of each used row's token, shape (rows, 1)."""
        self._bias = {}
        return (self.prefix_len + self.cell[: self.used_rows])[:, None]

    def bias(self, window: int | None) -> torch.Tensor:
        """What a step adds to attention scores: 0 for what a row's token sees, else minus infinity.

        Args:
            window: tokens that a token sees, itself included; None for all.

        Returns:
            Shape (used rows, 1, 1, prefix + visible cells); the layers of a step share it.

        """
        if window not in self._bias:
            position = (self.prefix_len + self.cell[: self.used_rows])[:, None]
            seen = self._position[None, : self.prefix_len + self.visible_cells]
            hidden = seen > position if window is None else (seen > position) | (seen <= position - window)
            bias = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
            self._bias[window] = bias.masked_fill_(hidden, -torch.inf)[:, None, None, :]
        return self._bias[window]


class _RowLayer(DynamicLayer):
    """One layer of a :class:`RowCache`, with the methods that Transformers calls."""

    def __init__(self, cache: RowCache, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.is_initialized = True
        self.cache = cache
        self.prefix_keys, self.prefix_values = keys.contiguous(), values.contiguous()
        heads, _, width = keys.shape
        # Hidden cells are multiplied by zero, so they must be numbers.
        self.row_keys = keys.new_zeros(cache.rows, heads, cache.cells, width)
        self.row_values = values.new_zeros(cache.rows, values.shape[0], cache.cells, values.shape[2])

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one token per used row; return the visible cells of these rows, which know their layer."""
        used, visible = self.cache.used_rows, self.cache.visible_cells
        row, cell = self.cache._row[:used], self.cache.cell[:used]
        self.row_keys[row, :, cell] = key_states[:, :, 0]
        self.row_values[row, :, cell] = value_states[:, :, 0]
        keys = self.row_keys[:used, :, :visible]
        keys.row_layer = self  # type: ignore[attr-defined]
        return keys, self.row_values[:used, :, :visible]

    def get_seq_length(self, *args: Any) -> int:
        return 0

    def get_query_offset(self, *args: Any) -> int:
        return 0

    def get_mask_sizes(self, *args: Any) -> tuple[int, int]:
        return 1, 0


def can_use_rows(model: Any) -> bool:
    """Whether a model's attention is torch's, Transformers' plain one, or this one, with all layers on one device."""
    one_device = len(getattr(model, "hf_device_map", {"": 0})) == 1
    return one_device and model.config._attn_implementation in ("sdpa", "eager", ROW_ATTENTION, _OLD_NAME)


@contextmanager
def row_attention(model: Any) -> Iterator[None]:
    """Let a model use this attention for a while; with other caches it is torch's own (sdpa)."""
    before = model.config._attn_implementation
    model.set_attn_implementation(ROW_ATTENTION)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one token per row over the prefix (read once for all rows) and the row's own cells.

    Query has shape (rows, heads, 1, width), the result (rows, 1, heads, width).
    """
    layer: _RowLayer | None = getattr(key, "row_layer", None)
    if layer is None and softcap is not None:
        return _softcapped(query, key, value, attention_mask, scaling, softcap)
    if layer is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    if any(options.get(name) is not None for name in _UNSUPPORTED):
        raise NotImplementedError("this attention has options that rows over a shared prefix do not support")
    rows, (heads, prefix_len, width) = len(query), layer.prefix_keys.shape
    grouped = query.reshape(rows, heads, -1, width) * (width**-0.5 if scaling is None else scaling)
    over_prefix = _rows_first(_heads_first(grouped) @ layer.prefix_keys.mT, rows)
    scores = torch.cat([over_prefix, grouped @ key.mT], dim=-1).float()
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    weights = torch.softmax(scores + layer.cache.bias(options.get("sliding_window")), dim=-1).to(query.dtype)
    from_prefix = _rows_first(_heads_first(weights[..., :prefix_len]) @ layer.prefix_values, rows)
    output = from_prefix + weights[..., prefix_len:] @ value
    return output.reshape(rows, 1, query.shape[1], -1), None


def _softcapped(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
    softcap: float,
) -> tuple[torch.Tensor, None]:
    """Attention with bounded scores, which torch's does not have; the mask is True for what a token sees."""
    rows, heads, tokens, width = query.shape
    grouped = query.reshape(rows, key.shape[1], -1, tokens, width) * (width**-0.5 if scaling is None else scaling)
    scores = softcap * torch.tanh((grouped @ key[:, :, None].mT).float() / softcap)
    if mask is None:
        mask = torch.ones(tokens, key.shape[2], dtype=torch.bool, device=key.device).tril(key.shape[2] - tokens)
    hidden = ~mask if mask.dtype == torch.bool else mask < 0
    hidden = hidden[:, :, None, :, : key.shape[2]] if hidden.dim() == 4 else hidden
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1).to(query.dtype)
    return (weights @ value[:, :, None]).reshape(rows, heads, tokens, -1).transpose(1, 2), None


def _heads_first(tensor: torch.Tensor) -> torch.Tensor:
    """From (rows, key heads, queries per key head, n) to (key heads, rows * queries, n)."""
    return tensor.transpose(0, 1).flatten(1, 2)


def _rows_first(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """From (key heads, rows * queries, n) to (rows, key heads, queries per key head, n)."""
    return tensor.unflatten(1, (rows, -1)).transpose(0, 1)


for _name in (ROW_ATTENTION, _OLD_NAME):
    AttentionInterface.register(_name, _attend)
    AttentionMaskInterface.register(_name, sdpa_mask)
