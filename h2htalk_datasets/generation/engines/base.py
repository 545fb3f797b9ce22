"""The protocol of engines, and what goes in and comes out: prompts, answers."""

__all__ = ["Answer", "Engine", "Failure", "Prompt"]

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Prompt:
    """A prompt request for one record.

    Attributes:
        id: of the record.
        task: name of its config.
        group: prompts of one group start with the same tokens (a relationship: SAP and persona).
        messages: chat messages, system first.
        max_new_tokens: limit of generated tokens, thoughts included.

    """

    id: str
    task: str
    group: str
    messages: tuple[dict[str, str], ...]
    max_new_tokens: int


@dataclass(frozen=True)
class Answer:
    """One generated answer.

    Attributes:
        text: what the user reads.
        finish_reason: ``stop``, ``length`` if the limit of new tokens was reached, or the server's own word.
        prompt_tokens: length of the prompt.
        new_tokens: number of generated tokens, thoughts included.
        reasoning: thoughts that were cut from the text, or None.

    """

    text: str
    finish_reason: str
    prompt_tokens: int
    new_tokens: int
    reasoning: str | None = None


@dataclass(frozen=True)
class Failure:
    """A prompt without an answer; the next attempt at the run sends it again.

    Attributes:
        reason: one line.

    """

    reason: str


class Engine(Protocol):
    """A model that answers prompts."""

    def identity(self) -> dict[str, Any]:
        """Return model, revision and everything else that changes its answers; recorded in the run's manifest."""

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """Read all prompts of the run once; return their lengths in tokens (or a measure that orders them alike)."""

    def stream(self, prompts: Iterable[Prompt], seed: int) -> Iterator[tuple[Prompt, Answer | Failure]]:
        """Answer prompts in any order. A prompt is taken only when the engine can start it.

        An answer depends on its prompt, its id and the seed, whatever else is running.

        Args:
            prompts: those of one group follow each other.
            seed: of the run.

        """
