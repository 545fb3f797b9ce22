"""Request JSON that follows a schema, in the dialect that the server accepts."""

__all__ = ["StructuredChat"]

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from h2htalk_datasets.generation.chat_client import ChatClient, Reply, RequestFailed

Schema = dict[str, Any]

# OpenAI and vLLM accept the first; llama_cpp.server answers 500 to it and accepts the second. The schemas limit no text
# length: a maxLength of a thousand crashes that server.
_DIALECTS: tuple[Callable[[Schema], Schema], ...] = (
    lambda schema: {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}},
    lambda schema: {"type": "json_object", "schema": schema},
)
_REFUSED = {400, 422, 500}
_DIALECT_RETRIES = 2  # a server that refuses a dialect does so each time; two more tries rule out a temporary fault


class StructuredChat:
    """A chat model that replies in JSON. The first call finds out which dialect its server accepts.

    If the server refuses a temperature, it is left out from then on, so the model has its default.

    Args:
        model: its name on the server.
        base_url: of the server; None is OpenAI's own.
        timeout: seconds per try.
        retries: tries after the first.

    """

    def __init__(self, model: str, base_url: str | None = None, *, timeout: float = 120.0, retries: int = 6) -> None:
        self._retries = retries
        self._client = ChatClient(model, base_url, timeout=timeout, retries=retries, droppable=("temperature",))
        self._known_default = False
        self._dialect: Callable[[Schema], Schema] | None = None
        self._dialect_lock = asyncio.Lock()
        self.model, self.url = self._client.model, self._client.url

    @property
    def default_temperature(self) -> bool:
        """Whether the model has its default temperature, because its server refuses another."""
        return self._known_default or self._client.is_left_out("temperature")

    def use_default_temperature(self) -> None:
        """Send no temperature, because an earlier call was refused."""
        self._known_default = True

    async def complete(self, messages: Sequence[dict[str, str]], schema: Schema, **body: Any) -> Reply:
        """Make one request.

        Args:
            messages: of the chat.
            schema: JSON schema of the reply.
            body: further fields of the request.

        Raises:
            RequestFailed: the server gave no complete answer after all tries, or accepts no dialect.
            H2HTalkError: the server refuses every request.

        """
        if self._known_default:
            body.pop("temperature", None)
        if self._dialect is None:
            async with self._dialect_lock:
                if self._dialect is None:
                    return await self._find_dialect(messages, schema, **body)
        return await self._client.complete(messages, response_format=self._dialect(schema), **body)

    async def _find_dialect(self, messages: Sequence[dict[str, str]], schema: Schema, **body: Any) -> Reply:
        discarded, retries = 0, min(_DIALECT_RETRIES, self._retries)
        for dialect in _DIALECTS:
            fields: dict[str, Any] = {"retries": retries, "expected": _REFUSED, "response_format": dialect(schema)}
            try:
                reply = await self._client.complete(messages, **fields, **body)
            except RequestFailed as error:
                failure, discarded = error, discarded + error.discarded_replies
                if error.status not in _REFUSED:
                    break
            else:
                self._dialect = dialect
                return replace(reply, discarded_replies=discarded + reply.discarded_replies)
        failure.discarded_replies = discarded
        raise failure
