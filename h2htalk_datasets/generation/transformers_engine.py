"""The Transformers engine: batches of one relationship, whose shared prefix is computed once and kept."""

__all__ = ["TransformersEngine"]

import copy
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, GenerationConfig, StoppingCriteria
from transformers.cache_utils import DynamicLayer

from h2htalk_datasets.generation.engine import Answer, Prompt
from h2htalk_datasets.generation.models import Loaded
from h2htalk_datasets.prompts import for_template

_LOG = logging.getLogger(__name__)
_PREFIX_BYTES = 2 * 2**30  # memory that kept prefixes may take


class _RoomEnds(StoppingCriteria):
    """Ends each row at its own number of new tokens, since tasks mix in a batch."""

    def __init__(self, start: int, rooms: torch.Tensor) -> None:
        self._start, self._rooms = start, rooms

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return input_ids.shape[1] - self._start >= self._rooms


class TransformersEngine:
    """Answers batches with a Transformers model.

    Args:
        loaded: model and tokenizer.
        temperature: 0 for greedy decoding.
        top_p: nucleus of sampling, 0..1; used where temperature is above 0.
        fold_system: put the system text into the first user turn where the template has no system role.
        reuse_prefix: compute what a relationship's prompts share once; off only to compare.

    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        fold_system: bool = False,
        reuse_prefix: bool = True,
    ) -> None:
        self._model, self._tokenizer, self._loaded = loaded.model, loaded.tokenizer, loaded
        self._fold = fold_system
        self._sampling = {"temperature": temperature, "top_p": top_p}
        self._stops = _stop_ids(self._model, self._tokenizer)
        self._pad = self._tokenizer.pad_token_id if self._tokenizer.pad_token_id is not None else self._stops[0]
        # A checkpoint's own sampling defaults and penalties must not leak into a benchmark's answers.
        self._model.generation_config = GenerationConfig(eos_token_id=self._stops, pad_token_id=self._pad)
        self._reuse = reuse_prefix and self._cache_is_plain()
        self._prefixes: OrderedDict[str, DynamicCache] = OrderedDict()
        self._tokens: dict[str, list[int]] = {}
        self._shared: dict[str, int] = {}

    def identity(self) -> dict[str, Any]:
        """Name, revision, dtype, attention and chat template of the model."""
        config = self._model.config
        return {
            "engine": "transformers",
            "name": self._loaded.name,
            "revision": self._loaded.revision,
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "attention": getattr(config, "_attn_implementation", None),
            "device": self._model.device.type,
            "fold_system": self._fold,
        }

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokenize all prompts, and find how many first tokens each group shares; lengths in tokens.

        Raises:
            H2HTalkError: the chat template has no system role (and folding was not asked), or there is none.

        """
        groups: dict[str, list[str]] = defaultdict(list)
        for prompt in prompts:
            messages = for_template(prompt.messages, self._tokenizer, self._fold)
            text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            self._tokens[prompt.id] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
            groups[prompt.group].append(prompt.id)
        for group, ids in groups.items():
            self._shared[group] = _common_prefix([self._tokens[i] for i in ids]) if len(ids) > 1 else 0
        return [len(self._tokens[prompt.id]) for prompt in prompts]

    @torch.inference_mode()
    def answer(self, prompts: Sequence[Prompt], seed: int) -> list[Answer]:
        """Answer prompts of one group; the same batch and seed give the same answers at every world size."""
        rows = [self._tokens[prompt.id] for prompt in prompts]
        shared = self._shared[prompts[0].group] if self._reuse else 0
        ids, mask = self._padded(rows, shared)
        start = ids.shape[1]
        rooms = torch.tensor([prompt.max_new_tokens for prompt in prompts], device=ids.device)
        torch.manual_seed(seed)
        output = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=self._prefix(prompts[0].group, rows[0][:shared], len(rows)) if shared else None,
            max_new_tokens=int(rooms.max()),
            stopping_criteria=[_RoomEnds(start, rooms)],
            **self._decoding(),
        )
        return [
            self._answer(row, new[start : start + prompt.max_new_tokens].tolist())
            for prompt, row, new in zip(prompts, rows, output, strict=True)
        ]

    def _decoding(self) -> dict[str, Any]:
        if self._sampling["temperature"] == 0:
            return {"do_sample": False}
        return {"do_sample": True, **self._sampling}

    def _padded(self, rows: Sequence[list[int]], shared: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask; padding stands after the shared prefix, which so stays aligned in all rows."""
        width = max(len(row) for row in rows)
        ids = [row[:shared] + [self._pad] * (width - len(row)) + row[shared:] for row in rows]
        mask = [[1] * shared + [0] * (width - len(row)) + [1] * (len(row) - shared) for row in rows]
        device = self._model.device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)

    def _prefix(self, group: str, tokens: list[int], rows: int) -> DynamicCache:
        """Keys and values of a group's shared tokens, repeated for each row; the least recently used are dropped."""
        if group not in self._prefixes:
            cache = DynamicCache(config=self._model.config)
            self._model(torch.tensor([tokens], device=self._model.device), past_key_values=cache, logits_to_keep=1)
            self._prefixes[group] = cache
            while len(self._prefixes) > 1 and sum(map(_cache_bytes, self._prefixes.values())) > _PREFIX_BYTES:
                self._prefixes.popitem(last=False)
        self._prefixes.move_to_end(group)
        cache = copy.deepcopy(self._prefixes[group])
        cache.batch_repeat_interleave(rows)
        return cache

    def _cache_is_plain(self) -> bool:
        """Whether every layer keeps all tokens; sliding windows and recurrent states would count the padding."""
        layers = DynamicCache(config=self._model.config).layers
        plain = bool(layers) and all(type(layer) is DynamicLayer for layer in layers)
        if not plain:
            _LOG.warning("this architecture's cache can't be shared between prompts; generating without prefix reuse")
        return plain

    def _answer(self, prompt: list[int], new: list[int]) -> Answer:
        end = next((place for place, token in enumerate(new) if token in self._stops), None)
        kept = new[:end] if end is not None else new
        text = self._tokenizer.decode(kept, skip_special_tokens=True).strip()
        return Answer(text, "length" if end is None else "stop", len(prompt), len(kept))


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """End-of-turn tokens: the checkpoint's own list, and the tokenizer's end of sequence."""
    own = model.generation_config.eos_token_id
    ids = [own] if isinstance(own, int) else list(own or [])
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ids:
        ids.append(tokenizer.eos_token_id)
    return ids


def _common_prefix(rows: Sequence[list[int]]) -> int:
    """How many first tokens all rows share; at least one token is left to each row."""
    low, high = min(rows), max(rows)
    shared = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return min(shared, min(len(row) for row in rows) - 1)


def _cache_bytes(cache: Any) -> int:
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
