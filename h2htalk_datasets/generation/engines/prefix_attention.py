"""Attention over a prefix that all rows of a batch share: a decoding step reads it once, not once a row.

A step's attention on a CPU is bound by memory: 16 rows over a prefix of 1,000 tokens read the same keys and values 16
times. Here one product serves all rows; what each row has of its own is attended to as before, and one softmax spans
both.
"""

__all__ = ["SharedPrefix", "attend_to_prefix_once", "share"]

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "sdpa_prefix_once"
_BEYOND = ("softcap", "position_bias", "s_aux", "sliding_window")  # what only the general way knows


@dataclass(frozen=True)
class SharedPrefix:
    """What a batch's rows have in common in one layer, and where each row's own tokens lie.

    Attributes:
        keys: shape (key heads, tokens, width).
        values: shape (key heads, tokens, width).
        own: added to the scores of the cells after the first `tokens` ones: 0 where they hold a row's own tokens, minus
            infinity where they hold tokens of the prefix; shape (rows, 1, 1, cells).

    """

    keys: torch.Tensor
    values: torch.Tensor
    own: torch.Tensor


def share(keys: torch.Tensor, prefix: SharedPrefix | None) -> torch.Tensor:
    """Send a prefix along with the keys that a cache shows; a model that changes them loses it, and nothing else.

    Args:
        keys: of one layer, shape (rows, key heads, tokens, width); returned as they are.
        prefix: what the rows share in that layer, or None.

    """
    keys.shared_prefix = prefix  # type: ignore[attr-defined]
    return keys


def attend_to_prefix_once(model: Any) -> None:
    """Switch a model to this attention where it serves: on a CPU, in float32, in place of torch's own (sdpa).

    Not where tokens see a window only, for some models say so nowhere but in the mask.
    """
    config = model.config.get_text_config()
    if any(getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")):
        return
    if (model.device.type, model.dtype, model.config._attn_implementation) == ("cpu", torch.float32, "sdpa"):
        model.set_attn_implementation(_NAME)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """As Transformers calls it; query (rows, heads, tokens, width), the result (rows, tokens, heads, width)."""
    prefix: SharedPrefix | None = getattr(key, "shared_prefix", None)
    if prefix is None or query.shape[2] > 1 or any(options.get(name) is not None for name in _BEYOND):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    (heads, tokens, width), rows = prefix.keys.shape, len(query)
    grouped = query.reshape(rows, heads, -1, width)
    own_keys, own_values = key[:, :, tokens:], value[:, :, tokens:]
    scores = torch.cat(
        [
            _by_row(_by_head(grouped) @ prefix.keys.mT, rows),
            grouped @ own_keys.mT + prefix.own[..., : own_keys.shape[2]],
        ],
        dim=-1,
    )
    weights = torch.softmax(scores * (width**-0.5 if scaling is None else scaling), dim=-1)
    seen = _by_row(_by_head(weights[..., :tokens]) @ prefix.values, rows) + weights[..., tokens:] @ own_values
    return seen.reshape(rows, 1, query.shape[1], -1), None


def _by_head(of_rows: torch.Tensor) -> torch.Tensor:
    """From (rows, key heads, queries a key head, n) to (key heads, rows * queries, n)."""
    return of_rows.transpose(0, 1).flatten(1, 2)


def _by_row(of_heads: torch.Tensor, rows: int) -> torch.Tensor:
    return of_heads.unflatten(1, (rows, -1)).transpose(0, 1)


# Known by its name to every model: a run's manifest names it, and what goes on from that run asks for it.
AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, sdpa_mask)
