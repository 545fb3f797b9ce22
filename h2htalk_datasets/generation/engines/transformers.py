"""The Transformers engine: rows that decode over one shared prefix and start again as answers end."""

__all__ = ["FILL_TOKENS", "TransformersEngine", "rows_that_fit", "warn_plain_generation"]

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import psutil
import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from transformers import GenerationConfig

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.engines.base import Answer, Prompt
from h2htalk_datasets.generation.engines.decoder import Decoder
from h2htalk_datasets.generation.engines.models import Loaded
from h2htalk_datasets.generation.engines.plain import generate_plainly
from h2htalk_datasets.generation.engines.prefixes import PrefixCache, extend, nested_prefixes
from h2htalk_datasets.generation.engines.row_cache import row_attention
from h2htalk_datasets.generation.engines.row_check import decodes_in_rows
from h2htalk_datasets.generation.engines.sampling import Sampling, record_seed
from h2htalk_datasets.generation.engines.tokens import PromptTokens, stop_ids

_LOG = logging.getLogger(__name__)
_PREFIX_BYTES = 2 * 2**30  # of cached prefixes, at least
_MAX_CPU_ROWS = 32  # more rows gain little: the matrix products already run at full speed
_MAX_ROWS = 256
_CELL_STEP = 64  # cells are a multiple of this


FILL_TOKENS = 4096
"""Tokens of prompts that are read at once when rows start, on a GPU."""

_CPU_FILL_TOKENS = 1024  # a CPU reads so many at its full speed; with fewer prompts at once there is less padding

# Tokens that a prefix must save to be computed once. Computing it is one more call of the model, which costs a GPU as
# much as thousands of tokens: there the instruction of a task is not worth it, a long history is.
_MIN_SAVED, _MIN_SAVED_ON_CPU = 8192, 64


class TransformersEngine:
    """Answers prompts with a Transformers model.

    Args:
        loaded: model and tokenizer.
        temperature: 0 for greedy decoding.
        top_p: nucleus of sampling, 0..1; used if the temperature is above 0.
        fold_system: put the system text into the first user turn if the template has no system role.
        template_arguments: further variables of the chat template.
        rows: prompts that are decoded at once; None for as many as fit into memory (at most 32 on a CPU).
        ranks: processes that divide the prompts; none of them has more rows than its share.
        share_prefix: False generates plainly, batch by batch, for comparisons.

    Attributes:
        prefixes: cached prefixes; None before :meth:`prepare`, and where the model generates plainly.
        prefix_bytes: memory for cached prefixes.
        rows: prompts that are decoded at once; halved after an out-of-memory error.

    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        fold_system: bool = False,
        template_arguments: Mapping[str, Any] = MappingProxyType({}),
        rows: int | None = None,
        ranks: int = 1,
        share_prefix: bool = True,
    ) -> None:
        self._model, self._loaded, self.rows, self._ranks = loaded.model, loaded, rows, ranks
        self._sampling = Sampling(float(temperature), top_p) if temperature else None
        self._stops = stop_ids(self._model.generation_config, loaded.tokenizer)
        self._pad = loaded.tokenizer.pad_token_id if loaded.tokenizer.pad_token_id is not None else self._stops[0]
        self._tokens = PromptTokens(
            loaded.tokenizer,
            self._stops,
            loaded.name,
            getattr(self._model.config.get_text_config(), "max_position_embeddings", None),
            fold_system=fold_system,
            template_arguments=template_arguments,
        )
        # The checkpoint's own sampling defaults and penalties must not change a benchmark's answers.
        self._model.generation_config = GenerationConfig(eos_token_id=self._stops, pad_token_id=self._pad)
        free, self._memory = _memory(self._model)
        # A tenth of the GPUs' memory; less where little of it is free, as in a training loop.
        self.prefix_bytes = max(_PREFIX_BYTES, min(self._memory // 10, free // 4))
        self.prefixes: PrefixCache | None = None
        self._share_prefix = share_prefix
        self._prefix_lengths: dict[str, list[int]] = {}
        self._shared_prefix = self._cells = self._max_new_tokens = self._share = 0

    def identity(self) -> dict[str, Any]:
        """Return name, revision, dtype, attention, adapter and device of the model, and the date in its prompts."""
        return {
            "engine": "transformers",
            "name": self._loaded.name,
            "revision": self._loaded.revision,
            "adapter": self._loaded.adapter,
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "attention": getattr(self._model.config, "_attn_implementation", None),
            "device": self._model.device.type,
            **self._tokens.identity(),
        }

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokenize all prompts, and find the prefixes that they share; return their lengths in tokens.

        Raises:
            H2HTalkError: the tokenizer has no chat template, or one without a system role (and no ``fold_system``); or
                a prompt and its answer are longer than the model's context.

        """
        rows = self._tokens.add(prompts)
        lengths = nested_prefixes(rows, _MIN_SAVED if self._memory else _MIN_SAVED_ON_CPU)
        self._prefix_lengths = {prompt.id: nested for prompt, nested in zip(prompts, lengths, strict=True)}
        self._shared_prefix = lengths[0][0]
        self._share = -(-len(prompts) // self._ranks)
        self._max_new_tokens = max(prompt.max_new_tokens for prompt in prompts)
        longest = max(len(self._tokens[prompt]) + prompt.max_new_tokens for prompt in prompts)
        self._cells = -(-(longest - self._shared_prefix + 1) // _CELL_STEP) * _CELL_STEP
        if self._share_prefix and self.prefixes is None:
            self._share_prefix = decodes_in_rows(self._model, [min(rows, key=len), max(rows, key=len)])
            if not self._share_prefix:
                warn_plain_generation()
        if self._share_prefix:
            self.prefixes = self.prefixes or PrefixCache(self._model, self.prefix_bytes)
        return [len(row) for row in rows]

    def _start(self, prompt: Prompt) -> list[int]:
        """The longest prefix of a prompt that is computed once; prompts with the same one are read together."""
        return self._tokens[prompt][: self._prefix_lengths[prompt.id][-1]]

    def num_rows(self) -> int:
        """Return how many prompts are decoded at once; call :meth:`prepare` before.

        Their cells take at most half of the memory that is left: on GPUs by the weights (other processes' memory is not
        subtracted), on a CPU by everything. It is a power of two.
        """
        if self.rows is None:
            row_bytes = self._cells * self._bytes_per_token()
            on_gpu = self._memory - self._model.get_memory_footprint()
            fitting = rows_that_fit(on_gpu if self._memory else _free_memory(), max(row_bytes, 1))
            self.rows = fitting if self._memory else min(fitting, _MAX_CPU_ROWS)
        return min(self.rows, self._share)

    @torch.inference_mode()
    def _bytes_per_token(self) -> int:
        ids = torch.full((1, 8), self._stops[0], device=self._model.device)
        layers = getattr(getattr(self._model(ids, use_cache=True), "past_key_values", None), "layers", [])
        tensors = [value for layer in layers for value in vars(layer).values() if isinstance(value, torch.Tensor)]
        return sum(tensor.nbytes for tensor in tensors) // ids.shape[1]

    def stream(self, prompts: Iterable[Prompt], seed: int) -> Iterator[tuple[Prompt, Answer]]:
        """Answer prompts as their rows end; a prompt is taken only when a row is free.

        An answer depends on its prompt, its id and the seed alone, not on the other prompts. After an out-of-memory
        error half as many rows go on, with the prompts that have no answer yet.

        Raises:
            H2HTalkError: one prompt alone does not fit into memory.

        """
        source = _Source(prompts)
        while source.peek() is not None:
            try:
                if self.prefixes is None:
                    yield from self._generate(source, seed)
                else:
                    yield from self._decode(source, seed, self.prefixes)
            except Exception as error:
                if not _out_of_memory(error):
                    raise
                self._use_less_memory(source)

    def answer(self, prompts: Sequence[Prompt], seed: int) -> list[Answer]:
        """Answer prompts, in their order."""
        answers = {prompt.id: answer for prompt, answer in self.stream(prompts, seed)}
        return [answers[prompt.id] for prompt in prompts]

    def _decode(self, source: "_Source", seed: int, prefixes: PrefixCache) -> Iterator[tuple[Prompt, Answer]]:
        with row_attention(self._model):
            decoder = self._decoder(prefixes, self._tokens[source.peek()])  # type: ignore[index]
            running: dict[int, Prompt] = {}
            source.running = running
            free = list(range(decoder.cache.rows))
            while True:
                while free and (prompts := source.take(len(free), self._fill_size, self._start)):
                    rows, free = free[: len(prompts)], free[len(prompts) :]
                    running.update(zip(rows, prompts, strict=True))
                    self._fill(decoder, rows, prompts, seed, prefixes)
                if not running:
                    return
                if free and source.peek() is None:
                    for old, new in decoder.compact(list(running)):
                        running[new] = running.pop(old)
                    free = []
                for row in self._run(decoder):
                    if row in running:
                        answer = self._tokens.answer(running[row], decoder.answer(row))
                        free.append(row)
                        yield running.pop(row), answer

    @torch.inference_mode()
    def _decoder(self, prefixes: PrefixCache, tokens: Sequence[int]) -> Decoder:
        choose = self._sampling.choose if self._sampling else None
        layers = prefixes.layers(tokens, [self._shared_prefix])
        return Decoder(self._model, layers, self.num_rows(), self._cells, self._max_new_tokens, self._stops, choose)

    @torch.inference_mode()
    def _fill(
        self, decoder: Decoder, rows: Sequence[int], prompts: Sequence[Prompt], seed: int, prefixes: PrefixCache
    ) -> None:
        tokens = [self._tokens[prompt] for prompt in prompts]
        prefix = prefixes.layers(tokens[0], self._prefix_lengths[prompts[0].id])
        decoder.fill(
            rows,
            extend(self._model, prefix, [row[:-1] for row in tokens]),
            tokens,
            [prompt.max_new_tokens for prompt in prompts],
            [record_seed(seed, prompt.id) for prompt in prompts],
        )

    def _fill_size(self, prompt: Prompt) -> int:
        """How many prompts like this one are read at once."""
        own = len(self._tokens[prompt]) - self._prefix_lengths[prompt.id][-1]
        return max(1, (FILL_TOKENS if self._memory else _CPU_FILL_TOKENS) // own)

    @torch.inference_mode()
    def _run(self, decoder: Decoder) -> list[int]:
        return decoder.run()

    def _generate(self, source: "_Source", seed: int) -> Iterator[tuple[Prompt, Answer]]:
        """Answer batch by batch with ``model.generate``, for models that cannot decode in rows."""
        while prompts := source.take(self.num_rows()):
            source.running = dict(enumerate(prompts))
            outputs = generate_plainly(
                self._model,
                [self._tokens[prompt] for prompt in prompts],
                [prompt.max_new_tokens for prompt in prompts],
                self._pad,
                self._sampling,
                [record_seed(seed, prompt.id) for prompt in prompts],
            )
            source.running = {}
            for prompt, new in zip(prompts, outputs, strict=True):
                yield prompt, self._tokens.answer(prompt, new)

    def _use_less_memory(self, source: "_Source") -> None:
        """After an out-of-memory error: half the rows, then no cached prefixes; the unanswered prompts go back."""
        rows = self.num_rows()
        if rows > 1:
            self.rows = rows // 2
            change = f"with {rows} prompts at once; continuing with {self.rows}"
        elif self.prefixes and self.prefixes.clear():
            change = "on one prompt; continuing without cached prefixes"
        else:
            prompt = next(iter(source.running.values()), None) or source.peek()
            raise H2HTalkError(
                f"out of memory on one prompt ({prompt.id}, {len(self._tokens[prompt])} tokens); "  # type: ignore[union-attr, index]
                "use more GPUs per process (--devices-per-replica) or a smaller --dtype"
            ) from None
        source.put_back()
        clear_device_cache(garbage_collection=True)
        _LOG.warning("out of memory %s", change)


class _Source:
    """Prompts that are taken when rows are free, and put back if they have to be answered again.

    Attributes:
        running: prompts without an answer yet.

    """

    def __init__(self, prompts: Iterable[Prompt]) -> None:
        self._prompts = iter(prompts)
        self._waiting: list[Prompt] = []
        self.running: dict[int, Prompt] = {}

    def peek(self) -> Prompt | None:
        """Return the next prompt without taking it; None at the end."""
        if not self._waiting and (following := next(self._prompts, None)) is not None:
            self._waiting.append(following)
        return self._waiting[0] if self._waiting else None

    def take(
        self,
        most: int,
        size: Callable[[Prompt], int] = lambda prompt: sys.maxsize,
        start: Callable[[Prompt], object] = lambda prompt: None,
    ) -> list[Prompt]:
        """Take prompts that start alike.

        Args:
            most: number of prompts.
            size: how many prompts like the first one may be taken.
            start: equal for prompts that may be taken together.

        """
        first = self.peek()
        if first is None:
            return []
        most = min(most, size(first))
        taken: list[Prompt] = []
        while len(taken) < most and (prompt := self.peek()) is not None and start(prompt) == start(first):
            taken.append(self._waiting.pop(0))
        return taken

    def put_back(self) -> None:
        """Put the running prompts in front of the others."""
        self._waiting = [*self.running.values(), *self._waiting]
        self.running = {}


def rows_that_fit(memory: int, row_bytes: int) -> int:
    """Return the number of rows of `row_bytes` that fit into half of `memory`, as a power of two from 1 to 256."""
    rows = int(min(memory / 2 / row_bytes, _MAX_ROWS))
    return 2 ** max(0, rows.bit_length() - 1)


@cache
def warn_plain_generation() -> None:
    """Warn once per process, on rank 0 only."""
    if os.environ.get("RANK", "0") == "0":
        _LOG.warning(
            "this model cannot decode in rows over a shared prefix; generating batch by batch, which is slower"
        )


def _memory(model: Any) -> tuple[int, int]:
    """Return free and total bytes of all GPUs that hold the model; 0 on other devices."""
    if model.device.type != "cuda":
        return 0, 0
    devices = {torch.device(place) for place in getattr(model, "hf_device_map", {"": model.device}).values()}
    free, total = zip(*map(torch.cuda.mem_get_info, devices), strict=True)
    return sum(free), sum(total)


def _free_memory() -> int:
    """Return this process's share of the memory that the machine has left; the local ranks divide it."""
    return psutil.virtual_memory().available // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _out_of_memory(error: Exception) -> bool:
    """Accelerate knows the allocator's errors; the driver and cuBLAS have their own."""
    messages = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    if isinstance(error, torch.OutOfMemoryError) or should_reduce_batch_size(error):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in messages)
