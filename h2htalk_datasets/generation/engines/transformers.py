"""The Transformers engine: batches over a shared prefix that is computed once and kept."""

__all__ = ["TransformersEngine"]

import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.engines.base import Answer, Asked, Prompt
from h2htalk_datasets.generation.engines.models import Loaded
from h2htalk_datasets.generation.engines.prefix_cache import PrefixCache, can_share, common_prefix
from h2htalk_datasets.generation.engines.reasoning import cut_reasoning, opened_by
from h2htalk_datasets.prompts import chat_text, for_template, prompt_date

_LOG = logging.getLogger(__name__)
_PREFIX_BYTES = 2 * 2**30  # memory that kept prefixes may take, or a tenth of the GPUs' where that is more and free
_CPU_BATCH, _MOST = 8, 64  # a CPU gains little from more; beyond the most, ranks end unevenly


class _RoomEnds(StoppingCriteria):
    """Ends each row at its own number of new tokens, since tasks mix in a batch."""

    def __init__(self, start: int, rooms: torch.Tensor) -> None:
        self._start, self._rooms = start, rooms

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return input_ids.shape[1] - self._start >= self._rooms


class _Draw(LogitsProcessor):
    """Makes the highest score a draw from the softmax of the scores, by a random generator of each row's own.

    The maximum of scores plus Gumbel noise is such a draw. So a row's draws depend on its seed alone, not on who
    shares its batch, and the process's own random state stays as it is.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self._generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        exponential = torch.empty_like(scores)
        for row, generator in zip(exponential, self._generators, strict=True):
            row.exponential_(generator=generator)
        return scores - exponential.log()


class TransformersEngine:
    """Answers batches with a Transformers model.

    Args:
        loaded: model and tokenizer.
        temperature: 0 for greedy decoding.
        top_p: nucleus of sampling, 0..1; used where temperature is above 0.
        fold_system: put the system text into the first user turn where the template has no system role.
        reuse_prefix: compute what prompts share once; off only to compare.
        prefix_bytes: memory that kept prefixes may take; None for 2 GiB, or a tenth of the GPUs' where free.

    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        fold_system: bool = False,
        reuse_prefix: bool = True,
        prefix_bytes: int | None = None,
    ) -> None:
        self._model, self._tokenizer, self._loaded = loaded.model, loaded.tokenizer, loaded
        self._fold = fold_system
        self._temperature, self._top_p = float(temperature), top_p
        self._stops = _stop_ids(self._model, self._tokenizer)
        self._pad = self._tokenizer.pad_token_id if self._tokenizer.pad_token_id is not None else self._stops[0]
        # A checkpoint's own sampling defaults and penalties must not leak into a benchmark's answers.
        self._model.generation_config = GenerationConfig(eos_token_id=self._stops, pad_token_id=self._pad)
        free, self._memory = _memory(self._model)
        self._reuse_prefix = reuse_prefix
        room = max(_PREFIX_BYTES, min(self._memory // 10, free // 4))  # in a training loop little is free
        self._prefix_bytes = room if prefix_bytes is None else prefix_bytes
        self._prefixes: PrefixCache | None = None
        self._special = _special_tokens(self._tokenizer)
        self._tokens: dict[str, list[int]] = {}
        self._opened: dict[str, str] = {}
        self._shared: dict[str, tuple[int, int]] = {}
        self._most_rows: int | None = None  # what memory was found to hold

    def identity(self) -> dict[str, Any]:
        """Name, revision, dtype, attention, adapter and device of the model, and the date its prompts tell it."""
        config, date = self._model.config, prompt_date(self._tokenizer)
        return {
            "engine": "transformers",
            "name": self._loaded.name,
            "revision": self._loaded.revision,
            "adapter": self._loaded.adapter,
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "attention": getattr(config, "_attn_implementation", None),
            "device": self._model.device.type,
            "fold_system": self._fold,
            **({"date": date} if date else {}),
        }

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokenize all prompts, and find how many first tokens each group, and all of them, share; lengths in tokens.

        Raises:
            H2HTalkError: the chat template has no system role (and folding was not asked), or there is none.

        """
        groups: dict[str, list[list[int]]] = defaultdict(list)
        for prompt in prompts:
            messages = for_template(prompt.messages, self._tokenizer, self._fold)
            text = chat_text(messages, self._tokenizer)
            self._tokens[prompt.id] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
            self._opened[prompt.id] = opened_by(text)
            groups[prompt.group].append(self._tokens[prompt.id])
        everyone = common_prefix([self._tokens[prompt.id] for prompt in prompts]) if len(prompts) > 1 else 0
        for group, rows in groups.items():
            self._shared[group] = (everyone, common_prefix(rows) if len(rows) > 1 else 0)
        if self._reuse_prefix and self._prefixes is None:
            self._prefixes = self._prefixes_if_shared(self._tokens[prompts[0].id])
        self._longest = max(len(self._tokens[prompt.id]) + prompt.max_new_tokens for prompt in prompts)
        return [len(self._tokens[prompt.id]) for prompt in prompts]

    def _prefixes_if_shared(self, tokens: Sequence[int]) -> PrefixCache | None:
        self._reuse_prefix = can_share(self._model, tokens)
        if self._reuse_prefix:
            return PrefixCache(self._model, self._prefix_bytes)
        _say_that_nothing_is_shared()
        return None

    def batch_that_fits(self) -> int:
        """The largest power of two whose keys and values take half of what the weights leave of the GPUs' memory.

        On a CPU, and where a cache has no keys and values, a number that feeds it. What other processes hold is not
        asked for, so that every fresh run on such GPUs begins with the same number.
        """
        row = self._longest * self._bytes_per_token() if self._memory else 0
        return _power_of_two((self._memory - self._model.get_memory_footprint()) / 2 / row) if row else _CPU_BATCH

    @torch.inference_mode()
    def _bytes_per_token(self) -> int:
        ids = torch.full((1, 8), self._stops[0], device=self._model.device)
        layers = getattr(getattr(self._model(ids, use_cache=True), "past_key_values", None), "layers", [])
        tensors = [value for layer in layers for value in vars(layer).values() if isinstance(value, torch.Tensor)]
        return sum(tensor.nbytes for tensor in tensors) // ids.shape[1]

    def stream(self, batches: Iterable[Asked]) -> Iterator[tuple[Asked, list[Answer]]]:
        """Answer batches one after the other."""
        for asked in batches:
            yield asked, self.answer(asked.prompts, asked.seed)

    def answer(self, prompts: Sequence[Prompt], seed: int) -> list[Answer]:
        """Answer prompts of one group; the same batch and seed give the same answers at every world size.

        A batch that memory doesn't hold is answered in halves, and so are all that come after it; each row keeps the
        seed of its place in the whole batch, and differs by no more than rounding does. Where a single prompt is too
        much, kept prefixes are given up.

        Raises:
            H2HTalkError: memory doesn't hold a single prompt.

        """
        rows, seeds = min(self._most_rows or len(prompts), len(prompts)), range(seed, seed + len(prompts))
        try:
            parts = [slice(start, start + rows) for start in range(0, len(prompts), rows)]
            return [answer for part in parts for answer in self._generate(prompts[part], seeds[part])]
        except Exception as error:
            if not _out_of_memory(error):
                raise
            if rows > 1:
                self._most_rows = rows // 2
                change = f"with {rows} prompts at once; going on with {self._most_rows}"
            elif self._prefixes and self._prefixes.give_back():
                change = "on one prompt; going on without kept prefixes"
            else:
                raise H2HTalkError(
                    f"out of memory on one prompt ({prompts[0].id}, {len(self._tokens[prompts[0].id])} tokens); "
                    "spread the model over more devices (--devices-per-replica) or load it in a smaller --dtype"
                ) from None
        clear_device_cache(garbage_collection=True)
        _LOG.warning("out of memory %s", change)
        return self.answer(prompts, seed)

    @torch.inference_mode()
    def _generate(self, prompts: Sequence[Prompt], seeds: Sequence[int]) -> list[Answer]:
        rows = [self._tokens[prompt.id] for prompt in prompts]
        ids, mask = self._padded(rows)
        start = ids.shape[1]
        rooms = torch.tensor([prompt.max_new_tokens for prompt in prompts], device=ids.device)
        output = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=self._prefix(prompts[0].group, rows, start + int(rooms.max())),
            max_new_tokens=int(rooms.max()),
            stopping_criteria=[_RoomEnds(start, rooms)],
            logits_processor=self._sampling(seeds),
            do_sample=False,
        )
        return [
            self._answer(prompt, new[start : start + prompt.max_new_tokens].tolist())
            for prompt, new in zip(prompts, output, strict=True)
        ]

    def _sampling(self, seeds: Sequence[int]) -> LogitsProcessorList | None:
        """Temperature, nucleus and nothing else (Transformers' own sampling would keep the 50 best tokens only)."""
        if self._temperature == 0:
            return None
        nucleus = [TopPLogitsWarper(self._top_p)] if self._top_p < 1 else []
        draw = _Draw(seeds, self._model.device)
        return LogitsProcessorList([TemperatureLogitsWarper(self._temperature), *nucleus, draw])

    def _padded(self, rows: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask, padded on the left."""
        width = max(len(row) for row in rows)
        ids = [[self._pad] * (width - len(row)) + row for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        device = self._model.device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)

    def _prefix(self, group: str, rows: Sequence[list[int]], room: int) -> Any:
        if self._prefixes is None:
            return None
        everyone, relationship = self._shared[group]
        own = common_prefix(rows) if len(rows) > 1 else 0
        return self._prefixes.under(rows, sorted({everyone, relationship}), room, own)

    def _answer(self, prompt: Prompt, new: list[int]) -> Answer:
        end = next((place for place, token in enumerate(new) if token in self._stops), None)
        kept = new[:end] if end is not None else new
        parts = cut_reasoning(self._opened[prompt.id] + self._tokenizer.decode(kept, skip_special_tokens=False))
        text, reasoning = (self._special.sub("", part or "").strip() for part in parts)
        reason = "length" if end is None else "stop"
        return Answer(text, reason, len(self._tokens[prompt.id]), len(kept), reasoning or None)


def _memory(model: Any) -> tuple[int, int]:
    """Bytes of all GPUs that the model lies on, free and in total; 0 on other devices."""
    if model.device.type != "cuda":
        return 0, 0
    devices = {torch.device(place) for place in getattr(model, "hf_device_map", {"": model.device}).values()}
    free, total = zip(*map(torch.cuda.mem_get_info, devices), strict=True)
    return sum(free), sum(total)


@cache
def _say_that_nothing_is_shared() -> None:
    """Once a process, and on rank 0 only."""
    if os.environ.get("RANK", "0") == "0":
        _LOG.warning("this architecture's cache can't be shared between prompts; generating without prefix reuse")


def _power_of_two(rows: float) -> int:
    """The largest power of two up to `rows`, between 1 and what ranks can share evenly."""
    return 2 ** max(0, int(min(rows, _MOST)).bit_length() - 1)


def _out_of_memory(error: Exception) -> bool:
    """What Accelerate takes for it, and what the driver and cuBLAS say where the allocator is not asked."""
    said = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    known = isinstance(error, torch.OutOfMemoryError) or should_reduce_batch_size(error)
    return known or (isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in said))


def _special_tokens(tokenizer: Any) -> re.Pattern[str]:
    """What a decoder that skips special tokens leaves out."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    tokens = sorted(added | set(tokenizer.all_special_tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, tokens)) or "(?!)")


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """End-of-turn tokens: the checkpoint's own list, and the tokenizer's end of sequence."""
    own = model.generation_config.eos_token_id
    ids = [own] if isinstance(own, int) else list(own or [])
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ids:
        ids.append(tokenizer.eos_token_id)
    return ids
