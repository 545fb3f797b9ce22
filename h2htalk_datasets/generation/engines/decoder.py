"""Decode a fixed number of rows, one token per row and step; a row starts again as soon as its answer ends.

All tensors keep their shapes and places, and a step needs nothing from the CPU, so on a GPU it is captured once as a
CUDA graph. A row is computed in the same way whoever is in the other rows: an answer depends on its prompt, not on its
batch.
"""

__all__ = ["Decoder"]

from collections.abc import Callable, Sequence
from typing import Any

import torch

from h2htalk_datasets.generation.engines.row_cache import Layers, RowCache

Choose = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Scores (rows, vocabulary), seeds (rows,) and numbers of earlier tokens (rows,) to the next token of each row."""

_STEPS_PER_CHECK = 16  # on a GPU; asking it whether rows have ended makes the CPU wait


class Decoder:
    """Rows that decode with one model.

    Args:
        model: a causal language model that uses :func:`~h2htalk_datasets.generation.engines.row_cache.row_attention`.
        prefix: of all prompts, at least one token.
        rows: number of rows.
        cells: tokens that a row can have after the prefix.
        max_new_tokens: most tokens of an answer.
        stops: tokens that end an answer.
        choose: chooses tokens; None for the most likely one.

    Attributes:
        cache: of the rows.
        graph: the captured step; None on a CPU.
        scores: of the last step, shape (used rows, vocabulary).

    """

    def __init__(
        self,
        model: Any,
        prefix: Layers,
        rows: int,
        cells: int,
        max_new_tokens: int,
        stops: Sequence[int],
        choose: Choose | None = None,
    ) -> None:
        self._model, self._choose = model, choose
        self.cache = RowCache(prefix, rows, cells)
        self._transformers_cache = self.cache.transformers_cache()
        device = prefix[0][0].device
        zeros = torch.zeros(rows, dtype=torch.long, device=device)
        self._token, self._left, self._count, self._seed = (zeros.clone() for _ in range(4))
        self._output = torch.zeros(rows, max_new_tokens + 1, dtype=torch.long, device=device)
        self._stops = torch.tensor(stops, device=device)
        self._row = torch.arange(rows, device=device)
        # A prepared mask, which Transformers hands on as it is; the attention of rows has masks of its own.
        self._mask = torch.zeros(rows, 1, 1, 1, device=device)
        self._lengths = [0] * rows  # cells in use, as far as the CPU knows
        self.graph: Any = None
        self.scores = torch.empty(0)
        if device.type == "cuda":
            self._capture()

    def fill(
        self,
        rows: Sequence[int],
        layers: Layers,
        prompts: Sequence[list[int]],
        limits: Sequence[int],
        seeds: Sequence[int],
    ) -> None:
        """Start prompts in free rows.

        Args:
            rows: their numbers.
            layers: keys and values of all tokens but the last of each prompt, padded at their ends.
            prompts: token ids; the step that follows reads the last one.
            limits: most new tokens of each.
            seeds: of sampling, each from 0 to 2**63 - 1.

        """
        shared = self.cache.prefix_len
        for place, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
            self.cache.fill(row, layers, shared, len(prompt) - 1, place)
            self._lengths[row] = len(prompt) - 1 - shared
        places = torch.tensor(rows, device=self._row.device)

        def put(target: torch.Tensor, values: Sequence[int]) -> None:
            target[places] = torch.tensor(values, device=places.device)

        put(self.cache.cell, [self._lengths[row] for row in rows])
        put(self._token, [prompt[-1] for prompt in prompts])
        put(self._left, limits)
        put(self._count, [0] * len(rows))
        put(self._seed, seeds)

    @torch.inference_mode()
    def compact(self, running: Sequence[int]) -> list[tuple[int, int]]:
        """Use no more rows than there are prompts, once no prompt is waiting; a captured step keeps its shape.

        Args:
            running: rows with a prompt.

        Returns:
            Which rows moved, as pairs of old and new number.

        """
        if self.graph is not None:
            return []
        used = len(running)
        free = [row for row in range(used) if row not in running]
        moves = list(zip([row for row in running if row >= used], free, strict=True))
        for source, target in moves:
            self.cache.move(source, target)
            for state in (self._token, self._left, self._count, self._seed, self._output):
                state[target] = state[source]
            self._lengths[target] = self._lengths[source]
        self._lengths[used:] = [0] * (len(self._lengths) - used)
        self._left[used:] = 0
        self.cache.used_rows = used
        return moves

    def run(self, steps: int | None = None) -> list[int]:
        """Decode some steps, on a CPU one if no number is given; return the rows whose answers have ended."""
        if self.graph is not None:
            for _ in range(steps or _STEPS_PER_CHECK):
                self.graph.replay()
        else:
            for _ in range(steps or 1):
                # No more cells than the longest row has, in a few widths, because memory is the limit on a CPU.
                self.cache.visible_cells = min(self.cache.cells, -(-(max(self._lengths) + 1) // 32) * 32)
                self.step()
                self._lengths = [length + 1 for length in self._lengths]
        left = self._left.tolist()
        self._lengths = [length if left[row] > 0 else 0 for row, length in enumerate(self._lengths)]
        return [row for row, remaining in enumerate(left) if remaining <= 0]

    def answer(self, row: int) -> list[int]:
        """Return the tokens of a row that has ended, with the stop token if there is one."""
        return self._output[row, : int(self._count[row])].tolist()

    def step(self) -> None:
        """Decode one token per row; rows that have ended stay where they are."""
        position, used = self.cache.begin_step(), self.cache.used_rows
        token, left, count = self._token[:used], self._left[:used], self._count[:used]
        logits = self._model(
            token[:, None],
            attention_mask=self._mask[:used],
            position_ids=position,
            past_key_values=self._transformers_cache,
            use_cache=True,
        ).logits[:, -1]
        self.scores = logits.float()
        choose = self._choose
        chosen = self.scores.argmax(-1) if choose is None else choose(self.scores, self._seed[:used], count)
        active = left > 0
        # The last column takes what rows that have ended would write.
        column = torch.where(active, count, self._output.shape[1] - 1)
        self._output[self._row[:used], column] = chosen
        count += active
        self.cache.cell[:used] += active
        self.cache.cell.clamp_(max=self.cache.cells - 1)
        left -= active.long()
        left.masked_fill_(torch.isin(chosen, self._stops), 0)
        token.copy_(torch.where(active, chosen, token))

    def _capture(self) -> None:
        """Capture a step as a CUDA graph, after one step that sets up the libraries."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()
