"""The engine for OpenAI-compatible servers: one record a request, many in flight."""

__all__ = ["OpenAIEngine"]

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from h2htalk_datasets.generation.chat_client import ChatAPI, NoReply, as_they_land
from h2htalk_datasets.generation.engines.base import Answer, Asked, Failure, Prompt
from h2htalk_datasets.generation.engines.reasoning import cut_reasoning
from h2htalk_datasets.prompts.chat_template import fold_system as folded

_SEEDS = 2**31  # some servers keep a seed in 32 bits
_FILTERED = ("content_filter", "content_policy_violation")  # error codes of servers that will never answer a prompt


class OpenAIEngine:
    """Answers prompts through a server.

    Args:
        api: model and server.
        temperature: 0 for greedy decoding, as far as the server keeps to it.
        top_p: nucleus of sampling, 0..1.
        in_flight: requests at once.
        fold_system: put the system text into the first user turn, for models without a system role.

    """

    def __init__(
        self,
        api: ChatAPI,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        in_flight: int = 16,
        fold_system: bool = False,
    ) -> None:
        self._api, self._in_flight, self._fold = api, in_flight, fold_system
        self._sampling: dict[str, Any] = {"temperature": temperature, "top_p": top_p}

    def identity(self) -> dict[str, Any]:
        """Model and server; what runs behind its name only the server knows."""
        known = {"engine": "openai", "name": self._api.model, "server": self._api.url, "revision": "unknown"}
        return known | ({"fold_system": True} if self._fold else {})

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """Lengths in characters: the tokenizer is the server's."""
        return [sum(len(message["content"]) for message in prompt.messages) for prompt in prompts]

    def batch_that_fits(self) -> int:
        """One: each request is for itself, and each answer is on disk as it comes."""
        return 1

    def stream(self, batches: Iterable[Asked]) -> Iterator[tuple[Asked, list[Answer | Failure]]]:
        """Answer batches as their replies come; a prompt that the server doesn't answer is a failure with its reason.

        Raises:
            H2HTalkError: the server refuses every request.

        """
        return as_they_land((self._batch(asked) for asked in batches), self._in_flight)

    async def _batch(self, asked: Asked) -> tuple[Asked, list[Answer | Failure]]:
        return asked, [await self._one(prompt, asked.seed) for prompt in asked.prompts]

    async def _one(self, prompt: Prompt, seed: int) -> Answer | Failure:
        messages = folded(prompt.messages) if self._fold else prompt.messages
        try:
            reply = await self._api.complete(
                messages, max_tokens=prompt.max_new_tokens, seed=seed % _SEEDS, **self._sampling
            )
        except NoReply as error:
            # A refusal is what the model's users get; asked again, it would be refused again.
            return Answer("", "content_filter", 0, 0) if error.code in _FILTERED else Failure(str(error))
        text, reasoning = cut_reasoning(reply.text)
        thoughts = "\n\n".join(part for part in (reply.reasoning, reasoning) if part) or None
        return Answer(text, reply.finish_reason, reply.prompt_tokens, reply.new_tokens, thoughts)
