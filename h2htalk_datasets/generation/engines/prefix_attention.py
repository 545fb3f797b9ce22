"""Attention over a prefix that all rows of a batch share: a decoding step reads it once, not once per row.

A decoding step's attention on a CPU is limited by memory bandwidth: 16 rows over a prefix of 1,000 tokens read the
same keys and values 16 times. Here one product serves all rows. The attention over each row's own tokens is as before,
and one softmax covers both.
"""

__all__ = ["SharedPrefix", "attach_prefix", "attend_to_prefix_once"]

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "sdpa_prefix_once"
_UNSUPPORTED = ("softcap", "position_bias", "s_aux", "sliding_window")  # options that only torch's attention handles


@dataclass(frozen=True)
class SharedPrefix:
    """The shared prefix of a batch in one layer, and where each row's own tokens are.

    Attributes:
        keys: shape (key heads, tokens, width).
        values: shape (key heads, tokens, width).
        own_mask: added to the scores of the cells after the prefix: 0 where a cell has a row's own token, minus
            infinity where it has a token of the prefix; shape (rows, 1, 1, cells).

    """

    keys: torch.Tensor
    values: torch.Tensor
    own_mask: torch.Tensor


def attach_prefix(keys: torch.Tensor, prefix: SharedPrefix | None) -> torch.Tensor:
    """Attach the shared prefix to the keys that a cache returns. A model that changes the keys loses it, harmlessly.

    Args:
        keys: of one layer, shape (rows, key heads, tokens, width); returned as they are.
        prefix: what the rows share in that layer, or None.

    """
    keys.shared_prefix = prefix  # type: ignore[attr-defined]
    return keys


def attend_to_prefix_once(model: Any) -> None:
    """Switch a model to this attention if it can use it: on a CPU, in float32, in place of torch's own (sdpa).

    Models with a sliding window keep theirs, because for some of them only the mask shows the window.
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
    """Compute attention with the interface of Transformers.

    Query has shape (rows, heads, tokens, width), the result (rows, tokens, heads, width).
    """
    prefix: SharedPrefix | None = getattr(key, "shared_prefix", None)
    if prefix is None or query.shape[2] > 1 or any(options.get(name) is not None for name in _UNSUPPORTED):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    (heads, tokens, width), rows = prefix.keys.shape, len(query)
    grouped = query.reshape(rows, heads, -1, width)
    own_keys, own_values = key[:, :, tokens:], value[:, :, tokens:]
    scores = torch.cat(
        [
            rows_first(heads_first(grouped) @ prefix.keys.mT, rows),
            grouped @ own_keys.mT + prefix.own_mask[..., : own_keys.shape[2]],
        ],
        dim=-1,
    )
    weights = torch.softmax(scores * (width**-0.5 if scaling is None else scaling), dim=-1)
    over_prefix = rows_first(heads_first(weights[..., :tokens]) @ prefix.values, rows)
    output = over_prefix + weights[..., tokens:] @ own_values
    return output.reshape(rows, 1, query.shape[1], -1), None


def heads_first(tensor: torch.Tensor) -> torch.Tensor:
    """From (rows, key heads, queries per key head, n) to (key heads, rows * queries, n)."""
    return tensor.transpose(0, 1).flatten(1, 2)


def rows_first(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """From (key heads, rows * queries, n) to (rows, key heads, queries per key head, n)."""
    return tensor.unflatten(1, (rows, -1)).transpose(0, 1)


# Registered for every model: a run's manifest records this name, and resuming the run requests it.
AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, sdpa_mask)
