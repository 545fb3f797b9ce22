"""The engine for OpenAI-compatible servers: one record per request, many requests at once."""

__all__ = ["OpenAIEngine"]

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from h2htalk_datasets.generation.chat_client import ChatClient, RequestFailed
from h2htalk_datasets.generation.concurrency import as_completed
from h2htalk_datasets.generation.engines.base import Answer, Failure, Prompt
from h2htalk_datasets.generation.engines.reasoning import cut_reasoning
from h2htalk_datasets.generation.engines.sampling import record_seed
from h2htalk_datasets.prompts.chat_template import fold_system as folded

_SEEDS = 2**31  # some servers store a seed in 32 bits
_FILTER_CODES = ("content_filter", "content_policy_violation")  # error codes of servers that never answer a prompt


class OpenAIEngine:
    """Answers prompts through a server.

    Args:
        client: model and server.
        temperature: 0 for greedy decoding, as far as the server respects it.
        top_p: nucleus of sampling, 0..1.
        max_connections: concurrent requests.
        fold_system: put the system text into the first user turn, for models without a system role.
        template_arguments: further variables of the chat template, as vLLM and SGLang take them.

    """

    def __init__(
        self,
        client: ChatClient,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_connections: int = 16,
        fold_system: bool = False,
        template_arguments: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._client, self._max_connections, self._fold = client, max_connections, fold_system
        self._options: dict[str, Any] = {"temperature": temperature, "top_p": top_p}
        if template_arguments:
            self._options["extra_body"] = {"chat_template_kwargs": dict(template_arguments)}

    def identity(self) -> dict[str, Any]:
        """Return model and server; which weights the server has under that name is unknown."""
        identity = {"engine": "openai", "name": self._client.model, "server": self._client.url, "revision": "unknown"}
        return identity | ({"fold_system": True} if self._fold else {})

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """Return lengths in characters, because only the server has the tokenizer."""
        return [sum(len(message["content"]) for message in prompt.messages) for prompt in prompts]

    def stream(self, prompts: Iterable[Prompt], seed: int) -> Iterator[tuple[Prompt, Answer | Failure]]:
        """Answer prompts as their replies arrive; a prompt without a usable reply is a failure with its reason.

        Raises:
            H2HTalkError: the server rejects every request, or it is gone.

        """

        async def pair(prompt: Prompt) -> tuple[Prompt, Answer | Failure]:
            return prompt, await self._answer(prompt, record_seed(seed, prompt.id))

        return as_completed((pair(prompt) for prompt in prompts), self._max_connections)

    async def _answer(self, prompt: Prompt, seed: int) -> Answer | Failure:
        messages = folded(prompt.messages) if self._fold else prompt.messages
        try:
            reply = await self._client.complete(
                messages, max_tokens=prompt.max_new_tokens, seed=seed % _SEEDS, **self._options
            )
        except RequestFailed as failure:
            # Users of the model get the same refusal, and another attempt would be refused again.
            return Answer("", "content_filter", 0, 0) if failure.code in _FILTER_CODES else Failure(str(failure))
        text, reasoning = cut_reasoning(reply.text)
        thoughts = "\n\n".join(part for part in (reply.reasoning, reasoning) if part) or None
        return Answer(text, reply.finish_reason, reply.prompt_tokens, reply.new_tokens, thoughts)
