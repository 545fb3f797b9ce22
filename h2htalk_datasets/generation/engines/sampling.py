"""Sampling that is seeded per record: tokens do not depend on other rows, the rank or a random state."""

__all__ = ["Sampling", "record_seed"]

from hashlib import sha256

import torch
from transformers import TemperatureLogitsWarper, TopPLogitsWarper

from h2htalk_datasets.generation.engines.noise import gumbel_noise


def record_seed(run_seed: int, identity: str) -> int:
    """Return a seed from 0 to 2**63 - 1 for one record of a run."""
    return int.from_bytes(sha256(f"{run_seed}:{identity}".encode()).digest()[:8], "big") >> 1


class Sampling:
    """Temperature and nucleus, and nothing else: Transformers' own sampling would add a top-k of 50.

    Args:
        temperature: above 0.
        top_p: nucleus, 0..1.

    """

    def __init__(self, temperature: float, top_p: float) -> None:
        self._warpers = [TemperatureLogitsWarper(temperature), *([TopPLogitsWarper(top_p)] if top_p < 1 else [])]

    def scores(self, scores: torch.Tensor, seeds: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return scores whose largest is a sample of the softmax.

        Args:
            scores: shape (rows, vocabulary).
            seeds: one per row.
            counts: tokens of the answer so far, per row.

        """
        for warper in self._warpers:
            scores = warper(None, scores)
        return scores + gumbel_noise(seeds, counts, scores.shape[-1])

    def choose(self, scores: torch.Tensor, seeds: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return one token per row; arguments as for :meth:`scores`."""
        return self.scores(scores, seeds, counts).argmax(-1)
