"""Plain generation in batches, for models that cannot decode in rows: ``model.generate`` with padding on the left."""

__all__ = ["generate_plainly"]

from collections.abc import Sequence
from typing import Any

import torch
from transformers import StoppingCriteria

from h2htalk_datasets.generation.engines.sampling import Sampling


@torch.inference_mode()
def generate_plainly(
    model: Any,
    prompts: Sequence[list[int]],
    limits: Sequence[int],
    pad: int,
    sampling: Sampling | None,
    seeds: Sequence[int],
) -> list[list[int]]:
    """Return the new tokens of each prompt, with its stop token and what follows it.

    Args:
        model: any causal language model of Transformers.
        prompts: token ids.
        limits: most new tokens of each.
        pad: token for padding.
        sampling: None for greedy decoding.
        seeds: of sampling, one per prompt.

    """
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts], device=model.device)
    seed_of_row = torch.tensor(seeds, device=model.device)

    def sampled(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        count = torch.full_like(seed_of_row, input_ids.shape[1] - width)
        return sampling.scores(scores, seed_of_row, count)  # type: ignore[union-attr]

    output = model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=max(limits),
        stopping_criteria=[_RowLimits(width, torch.tensor(limits, device=model.device))],
        logits_processor=[sampled] if sampling else None,
        do_sample=False,
    )
    return [row[width : width + limit].tolist() for row, limit in zip(output, limits, strict=True)]


class _RowLimits(StoppingCriteria):
    """Ends each row at its own limit of new tokens, because a batch has prompts of several tasks."""

    def __init__(self, start: int, limits: torch.Tensor) -> None:
        self._start, self._limits = start, limits

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return input_ids.shape[1] - self._start >= self._limits
