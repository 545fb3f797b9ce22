"""The Transformers engine: batches over a shared prefix that is computed once and cached."""

__all__ = ["SeededSampling", "TransformersEngine", "rows_that_fit", "warn_no_prefix_reuse"]

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
from h2htalk_datasets.generation.engines.base import Answer, Batch, Prompt
from h2htalk_datasets.generation.engines.models import Loaded
from h2htalk_datasets.generation.engines.prefix_cache import PrefilledCache, PrefixCache, can_share, common_prefix
from h2htalk_datasets.generation.engines.reasoning import cut_reasoning, opened_by
from h2htalk_datasets.prompts import chat_text, for_template, prompt_date

_LOG = logging.getLogger(__name__)
_PREFIX_BYTES = 2 * 2**30  # of cached prefixes, at least
_CPU_ROWS = 8  # a CPU gains little from more rows
_MAX_ROWS = 64  # with more, ranks end at very different times


class TransformersEngine:
    """Answers batches with a Transformers model.

    Args:
        loaded: model and tokenizer.
        temperature: 0 for greedy decoding.
        top_p: nucleus of sampling, 0..1; used if the temperature is above 0.
        fold_system: put the system text into the first user turn if the template has no system role.
        reuse_prefix: compute what prompts share only once; False is for comparisons.

    Attributes:
        prefixes: cached prefixes; None before :meth:`prepare`, and where the model cannot share them.
        prefix_bytes: memory for cached prefixes.
        max_rows: prompts that are computed at once, lowered after an out-of-memory error; None for no limit.

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
        self._temperature, self._top_p = float(temperature), top_p
        self._stops = _stop_ids(self._model, self._tokenizer)
        self._pad = self._tokenizer.pad_token_id if self._tokenizer.pad_token_id is not None else self._stops[0]
        # The checkpoint's own sampling defaults and penalties must not change a benchmark's answers.
        self._model.generation_config = GenerationConfig(eos_token_id=self._stops, pad_token_id=self._pad)
        free, self._memory = _memory(self._model)
        self._reuse_prefix = reuse_prefix
        # A tenth of the GPUs' memory; less where little of it is free, as in a training loop.
        self.prefix_bytes = max(_PREFIX_BYTES, min(self._memory // 10, free // 4))
        self.prefixes: PrefixCache | None = None
        self.max_rows: int | None = None
        self._special = _special_tokens(self._tokenizer)
        self._tokens: dict[str, list[int]] = {}
        self._opened: dict[str, str] = {}
        self._prefix_lens: dict[str, tuple[int, int]] = {}

    def identity(self) -> dict[str, Any]:
        """Return name, revision, dtype, attention, adapter and device of the model, and the date in its prompts."""
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
        """Tokenize all prompts, and find the prefixes that each group and all prompts share; return lengths in tokens.

        Raises:
            H2HTalkError: the tokenizer has no chat template, or one without a system role (and no ``fold_system``).

        """
        groups: dict[str, list[list[int]]] = defaultdict(list)
        for prompt in prompts:
            messages = for_template(prompt.messages, self._tokenizer, self._fold)
            text = chat_text(messages, self._tokenizer)
            self._tokens[prompt.id] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
            self._opened[prompt.id] = opened_by(text)
            groups[prompt.group].append(self._tokens[prompt.id])
        global_prefix_len = common_prefix([self._tokens[prompt.id] for prompt in prompts]) if len(prompts) > 1 else 0
        for group, rows in groups.items():
            self._prefix_lens[group] = (global_prefix_len, common_prefix(rows) if len(rows) > 1 else 0)
        if self._reuse_prefix and self.prefixes is None:
            self.prefixes = self._prefixes_if_shared(self._tokens[prompts[0].id])
        self._longest = max(len(self._tokens[prompt.id]) + prompt.max_new_tokens for prompt in prompts)
        return [len(self._tokens[prompt.id]) for prompt in prompts]

    def _prefixes_if_shared(self, tokens: Sequence[int]) -> PrefixCache | None:
        self._reuse_prefix = can_share(self._model, tokens)
        if self._reuse_prefix:
            return PrefixCache(self._model, self.prefix_bytes)
        warn_no_prefix_reuse()
        return None

    def max_batch_size(self) -> int:
        """Return how many prompts fit into half of the memory that the weights leave; a power of two.

        Memory that other processes use is not subtracted, so every new run on such GPUs starts with the same number.
        On a CPU, and for models without a key-value cache, it is a fixed number.
        """
        row_bytes = self._longest * self._bytes_per_token() if self._memory else 0
        return rows_that_fit(self._memory - self._model.get_memory_footprint(), row_bytes) if row_bytes else _CPU_ROWS

    @torch.inference_mode()
    def _bytes_per_token(self) -> int:
        ids = torch.full((1, 8), self._stops[0], device=self._model.device)
        layers = getattr(getattr(self._model(ids, use_cache=True), "past_key_values", None), "layers", [])
        tensors = [value for layer in layers for value in vars(layer).values() if isinstance(value, torch.Tensor)]
        return sum(tensor.nbytes for tensor in tensors) // ids.shape[1]

    def stream(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, list[Answer]]]:
        """Answer batches one after the other."""
        for batch in batches:
            yield batch, self.answer(batch.prompts, batch.seed)

    def answer(self, prompts: Sequence[Prompt], seed: int) -> list[Answer]:
        """Answer prompts of one group; the same batch and seed give the same answers at every world size.

        A batch that does not fit into memory is computed in halves, and so are all later ones. Each row keeps the seed
        of its place in the full batch, so answers differ by rounding only. If one prompt alone does not fit, the cached
        prefixes are dropped.

        Raises:
            H2HTalkError: one prompt alone does not fit into memory.

        """
        rows, seeds = min(self.max_rows or len(prompts), len(prompts)), range(seed, seed + len(prompts))
        try:
            parts = [slice(start, start + rows) for start in range(0, len(prompts), rows)]
            return [answer for part in parts for answer in self._generate(prompts[part], seeds[part])]
        except Exception as error:
            if not _out_of_memory(error):
                raise
            if rows > 1:
                self.max_rows = rows // 2
                change = f"with {rows} prompts at once; continuing with {self.max_rows}"
            elif self.prefixes and self.prefixes.clear():
                change = "on one prompt; continuing without cached prefixes"
            else:
                raise H2HTalkError(
                    f"out of memory on one prompt ({prompts[0].id}, {len(self._tokens[prompts[0].id])} tokens); "
                    "use more GPUs per process (--devices-per-replica) or a smaller --dtype"
                ) from None
        clear_device_cache(garbage_collection=True)
        _LOG.warning("out of memory %s", change)
        return self.answer(prompts, seed)

    @torch.inference_mode()
    def _generate(self, prompts: Sequence[Prompt], seeds: Sequence[int]) -> list[Answer]:
        rows = [self._tokens[prompt.id] for prompt in prompts]
        ids, mask = self._padded(rows)
        start = ids.shape[1]
        limits = torch.tensor([prompt.max_new_tokens for prompt in prompts], device=ids.device)
        max_new_tokens = int(limits.max())
        output = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=self._build_cache(prompts[0].group, rows, start + max_new_tokens),
            max_new_tokens=max_new_tokens,
            stopping_criteria=[_RowLimits(start, limits)],
            logits_processor=self._sampling(seeds),
            do_sample=False,
        )
        return [
            self._answer(prompt, new[start : start + prompt.max_new_tokens].tolist())
            for prompt, new in zip(prompts, output, strict=True)
        ]

    def _sampling(self, seeds: Sequence[int]) -> LogitsProcessorList | None:
        """Return temperature and nucleus, and nothing else (Transformers' own sampling would add a top-k of 50)."""
        if self._temperature == 0:
            return None
        nucleus = [TopPLogitsWarper(self._top_p)] if self._top_p < 1 else []
        sampling = SeededSampling(seeds, self._model.device)
        return LogitsProcessorList([TemperatureLogitsWarper(self._temperature), *nucleus, sampling])

    def _padded(self, rows: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and mask, padded on the left."""
        width = max(len(row) for row in rows)
        ids = [[self._pad] * (width - len(row)) + row for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        device = self._model.device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)

    def _build_cache(self, group: str, rows: Sequence[list[int]], capacity: int) -> PrefilledCache | None:
        if self.prefixes is None:
            return None
        batch_prefix_len = common_prefix(rows) if len(rows) > 1 else 0
        return self.prefixes.build_cache(rows, sorted(set(self._prefix_lens[group])), capacity, batch_prefix_len)

    def _answer(self, prompt: Prompt, new: list[int]) -> Answer:
        end = next((place for place, token in enumerate(new) if token in self._stops), None)
        tokens = new[:end]
        parts = cut_reasoning(self._opened[prompt.id] + self._tokenizer.decode(tokens, skip_special_tokens=False))
        text, reasoning = (self._special.sub("", part or "").strip() for part in parts)
        reason = "length" if end is None else "stop"
        return Answer(text, reason, len(self._tokens[prompt.id]), len(tokens), reasoning or None)


class _RowLimits(StoppingCriteria):
    """Ends each row at its own limit of new tokens, because a batch has prompts of several tasks."""

    def __init__(self, start: int, limits: torch.Tensor) -> None:
        self._start, self._limits = start, limits

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return input_ids.shape[1] - self._start >= self._limits


class SeededSampling(LogitsProcessor):
    """Adds Gumbel noise to the scores, so that greedy decoding samples from their softmax.

    Each row has a random generator of its own. So a row's tokens depend on its seed, not on the other rows of its
    batch, and the random state of the process does not change.

    Args:
        seeds: one per row.
        device: of the scores.

    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self._generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores with noise; shape (rows, vocabulary)."""
        exponential = torch.empty_like(scores)
        for row, generator in zip(exponential, self._generators, strict=True):
            row.exponential_(generator=generator)
        return scores - exponential.log()


def rows_that_fit(memory: int, row_bytes: int) -> int:
    """Return the number of rows of `row_bytes` that fit into half of `memory`, as a power of two from 1 to 64."""
    rows = int(min(memory / 2 / row_bytes, _MAX_ROWS))
    return 2 ** max(0, rows.bit_length() - 1)


@cache
def warn_no_prefix_reuse() -> None:
    """Warn once per process, on rank 0 only."""
    if os.environ.get("RANK", "0") == "0":
        _LOG.warning("this model's cache cannot be shared between prompts; generating without prefix reuse")


def _memory(model: Any) -> tuple[int, int]:
    """Return free and total bytes of all GPUs that hold the model; 0 on other devices."""
    if model.device.type != "cuda":
        return 0, 0
    devices = {torch.device(place) for place in getattr(model, "hf_device_map", {"": model.device}).values()}
    free, total = zip(*map(torch.cuda.mem_get_info, devices), strict=True)
    return sum(free), sum(total)


def _out_of_memory(error: Exception) -> bool:
    """Accelerate knows the allocator's errors; the driver and cuBLAS have their own."""
    messages = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    if isinstance(error, torch.OutOfMemoryError) or should_reduce_batch_size(error):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in messages)


def _special_tokens(tokenizer: Any) -> re.Pattern[str]:
    """Return a pattern of everything that a decoder with ``skip_special_tokens`` leaves out."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    tokens = sorted(added | set(tokenizer.all_special_tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, tokens)) or "(?!)")


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return the end-of-turn tokens: those of the checkpoint, and the tokenizer's end of sequence."""
    stops = model.generation_config.eos_token_id
    ids = [stops] if isinstance(stops, int) else list(stops or [])
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ids:
        ids.append(tokenizer.eos_token_id)
    return ids
