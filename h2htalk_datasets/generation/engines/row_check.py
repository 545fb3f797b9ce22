"""Try whether a model can decode in rows over a shared prefix: on two real prompts it must give the same tokens."""

__all__ = ["decodes_in_rows"]

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from h2htalk_datasets.generation.engines.decoder import Decoder
from h2htalk_datasets.generation.engines.prefixes import common_prefix, extend
from h2htalk_datasets.generation.engines.row_cache import can_use_rows, row_attention

_NEW_TOKENS = 16
_PADDING = 8
_ENDS = 128  # tokens at the start and at the end of a prompt
_NOISE = 4  # times the rounding noise of plain generation that is still the same model
_FLOOR = 1e-4  # of the largest score: what rounding changes in single precision


def decodes_in_rows(model: Any, prompts: Sequence[list[int]]) -> bool:
    """Return whether rows give the scores and the tokens of plain generation, up to its own rounding.

    How much scores change by rounding in half precision is measured: the same prompt with and without padding. A prefix
    that is shifted by one token changes them more than ten times as much, although many tokens stay the same.

    Args:
        model: any causal language model.
        prompts: token ids of two real prompts. On a CPU their middle is left out, unless the model has a window:
            reading long prompts takes seconds there.

    """
    try:
        if not can_use_rows(model) or not _stores_by_position(model):
            return False
        if model.device.type == "cpu" and not getattr(model.config.get_text_config(), "sliding_window", None):
            prompts = [[*prompt[:_ENDS], *prompt[_ENDS:][-_ENDS:]] for prompt in prompts]
        return _same_tokens(model, prompts)
    except Exception:  # an architecture's code may raise anything where it is not made for this
        return False


def _stores_by_position(model: Any) -> bool:
    if getattr(model.config.get_text_config(), "num_kv_shared_layers", 0):
        return False
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)


@torch.inference_mode()
def _same_tokens(model: Any, prompts: Sequence[list[int]]) -> bool:
    shared = common_prefix(prompts)
    if shared < 1:
        return False
    with row_attention(model):
        first_scores, answers = _in_rows(model, prompts, shared)
    expected = [_plain_scores(model, prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]
    floor = _FLOOR * max(float(scores.abs().max()) for scores in expected)
    noise = torch.zeros(1)
    if model.dtype != torch.float32:
        noise = (_plain_scores(model, prompts[0], answers[0][:1], _PADDING)[0] - expected[0][0]).abs()
    differences = [(one - scores[0]).abs() for one, scores in zip(first_scores, expected, strict=True)]
    if torch.stack(differences).mean() > max(_NOISE * float(noise.mean()), floor):
        return False
    tie = max(_NOISE * float(noise.max()), floor)
    return all(_likely(scores, answer, tie) for scores, answer in zip(expected, answers, strict=True))


def _in_rows(model: Any, prompts: Sequence[list[int]], shared: int) -> tuple[torch.Tensor, list[list[int]]]:
    """Scores of the first new token of each prompt, and greedy answers."""
    prefix = extend(model, [], [prompts[0][:shared]])
    cells = max(map(len, prompts)) - shared + _NEW_TOKENS + 1
    decoder = Decoder(model, prefix, len(prompts), cells, _NEW_TOKENS, [-1])
    layers = extend(model, prefix, [prompt[:-1] for prompt in prompts])
    decoder.fill(range(len(prompts)), layers, prompts, [_NEW_TOKENS] * len(prompts), [0] * len(prompts))
    decoder.run(1)
    scores = decoder.scores.clone()
    while len(decoder.run()) < len(prompts):
        pass
    return scores, [decoder.answer(row) for row in range(len(prompts))]


def _plain_scores(model: Any, prompt: list[int], answer: Sequence[int], padding: int = 0) -> torch.Tensor:
    """Scores of each token of an answer, each after those before it; shape (tokens, vocabulary)."""
    ids = torch.tensor([prompt[:1] * padding + prompt + list(answer[:-1])], device=model.device)
    mask = torch.ones_like(ids)
    mask[:, :padding] = 0
    position = (mask.cumsum(-1) - 1).clamp(min=0)
    out = model(ids, attention_mask=mask, position_ids=position, logits_to_keep=len(answer))
    return out.logits[0, -len(answer) :].float()


def _likely(scores: torch.Tensor, answer: Sequence[int], tie: float) -> bool:
    """Whether each token of an answer is the most likely one, or about as likely."""
    chosen = scores.gather(1, torch.tensor(answer, device=scores.device)[:, None])[:, 0]
    return bool((scores.max(-1).values - chosen <= tie).all())
