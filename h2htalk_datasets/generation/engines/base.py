"""What an engine is: it knows its identity, measures prompts, and answers batches."""

__all__ = ["Answer", "Asked", "Engine", "Failure", "Prompt"]

from collections.abc import Iterable, Iterator, Sequence
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
class Asked:
    """A batch as an engine gets it: its prompts, and the seed of its sampling."""

    prompts: tuple[Prompt, ...]
    seed: int


@dataclass(frozen=True)
class Answer:
    """One generated answer.

    Attributes:
        text: what the user would read.
        finish_reason: ``stop``, or ``length`` where the room ended first, or a server's own word.
        prompt_tokens: length of the prompt.
        new_tokens: length of all that was generated, thoughts included.
        reasoning: thoughts that were cut from the text, or None.

    """

    text: str
    finish_reason: str
    prompt_tokens: int
    new_tokens: int
    reasoning: str | None = None


@dataclass(frozen=True)
class Failure:
    """A prompt that got no answer; the next attempt at the run asks it again."""

    reason: str


class Engine(Protocol):
    """Something that answers prompts."""

    def identity(self) -> dict[str, Any]:
        """Model, revision and all else that changes its answers; stands in the run's manifest."""

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """See all prompts of the run once, and return their lengths in tokens (or a proxy of them)."""

    def batch_that_fits(self) -> int:
        """How many prompts at once memory holds, after :meth:`prepare`."""

    def stream(self, batches: Iterable[Asked]) -> Iterator[tuple[Asked, Sequence[Answer | Failure]]]:
        """Answer batches, each as a whole, in any order; a batch is taken only when there is room for it.

        The same batch gives the same answers, whoever else is at work.
        """
