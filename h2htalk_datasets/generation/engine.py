"""What an engine is: it knows its identity, measures prompts, and answers one batch at a time."""

__all__ = ["Answer", "Engine", "Prompt"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Prompt:
    """One record as it is asked.

    Attributes:
        id: the record's id.
        task: its config.
        group: prompts of one group share their first tokens (the relationship: SAP and persona).
        messages: chat messages, system first.
        max_new_tokens: room for the answer, in tokens.

    """

    id: str
    task: str
    group: str
    messages: tuple[dict[str, str], ...]
    max_new_tokens: int


@dataclass(frozen=True)
class Answer:
    """One generated answer; `finish_reason` is ``stop``, or ``length`` where the room ended first."""

    text: str
    finish_reason: str
    prompt_tokens: int
    new_tokens: int


class Engine(Protocol):
    """Something that answers prompts."""

    def identity(self) -> dict[str, Any]:
        """Model, revision and all else that changes its answers; stands in the run's manifest."""

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """See all prompts of the run once, and return their lengths in tokens (or a proxy of them)."""

    def answer(self, prompts: Sequence[Prompt], seed: int) -> list[Answer]:
        """Answer one batch; the same batch and seed give the same answers."""
