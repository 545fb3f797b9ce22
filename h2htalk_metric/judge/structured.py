"""Ask for JSON by a schema, in the dialect that the server takes."""

__all__ = ["StructuredChat"]

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from h2htalk_datasets.generation.chat_client import ChatAPI, NoReply, Reply

Schema = dict[str, Any]

# OpenAI and vLLM take the first; llama_cpp.server answers 500 to it and takes the second. No lengths are given for
# texts: a maxLength of a thousand ends that server.
_DIALECTS: tuple[Callable[[Schema], Schema], ...] = (
    lambda schema: {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}},
    lambda schema: {"type": "json_object", "schema": schema},
)
_REFUSED = {400, 422, 500}


class StructuredChat:
    """A chat model that replies in JSON; which dialect its server takes is found with the first call and remembered.

    Args:
        model: its name there.
        base_url: of the server; None is OpenAI's own.
        timeout: seconds that one try may take.
        retries: tries after the first.

    """

    def __init__(self, model: str, base_url: str | None = None, *, timeout: float = 120.0, retries: int = 6) -> None:
        self._api, self._retries = ChatAPI(model, base_url, timeout=timeout, retries=retries), retries
        self._dialect: Callable[[Schema], Schema] | None = None
        self._finding = asyncio.Lock()
        self.model, self.url = self._api.model, self._api.url

    async def complete(self, messages: Sequence[dict[str, str]], schema: Schema, **body: Any) -> Reply:
        """Ask once.

        Raises:
            NoReply: the server gave no whole answer after all tries, or takes no dialect.
            H2HTalkError: the server refuses every request.

        """
        if self._dialect is None:
            async with self._finding:
                if self._dialect is None:
                    return await self._find(messages, schema, **body)
        return await self._api.complete(messages, response_format=self._dialect(schema), **body)

    async def _find(self, messages: Sequence[dict[str, str]], schema: Schema, **body: Any) -> Reply:
        spoiled = 0
        for dialect in _DIALECTS:
            # A server that refuses a dialect does so each time: two more tries tell that from a passing fault.
            for retries in (min(2, self._retries), self._retries):
                tried: dict[str, Any] = {"retries": retries, "expected": _REFUSED, "response_format": dialect(schema)}
                try:
                    reply = await self._api.complete(messages, **tried, **body)
                except NoReply as failure:
                    why = failure
                    spoiled += failure.spoiled
                    if failure.status in _REFUSED:
                        break
                else:
                    self._dialect = dialect
                    return replace(reply, spoiled=spoiled + reply.spoiled)
            if why.status not in _REFUSED:
                break
        why.spoiled = spoiled
        raise why
