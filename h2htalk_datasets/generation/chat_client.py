"""Client for OpenAI-compatible servers (vLLM, TGI, llama.cpp, OpenAI, ...), for generation and the judge.

The openai package sends each attempt with its own retries off. They do not report their waits, do not limit the total
time of an attempt, do not wait longer than two minutes, and do not count replies that the server may charge for.
"""

__all__ = ["ChatClient", "Reply", "RequestFailed", "public_url"]

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from tqdm import tqdm

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.request_fields import RequestFields

if TYPE_CHECKING:
    import openai

KEY = "OPENAI_API_KEY"
"""The environment variable with the API key. Keys are read from nowhere else and never written."""
_OPENAI_URL = "https://api.openai.com/v1"
_CONNECT_SECONDS = 20.0  # for a connection, which needs less time than a reply
_FIRST_ATTEMPTS = 3  # of a call, after which a server that has never replied counts as unreachable
_LOST_CALLS = 3  # in a row without a connection, after which a server that has replied before counts as lost


@dataclass(frozen=True)
class Reply:
    """One answer of the server.

    Attributes:
        text: the model's answer; may be empty.
        finish_reason: ``stop``, ``length``, or the server's own word.
        prompt_tokens: as counted by the server; 0 if it does not count.
        new_tokens: likewise.
        reasoning: thoughts that the server separates from the answer, or None.
        discarded_replies: earlier attempts whose reply was unusable or too late; a server may charge for them.

    """

    text: str
    finish_reason: str
    prompt_tokens: int
    new_tokens: int
    reasoning: str | None = None
    discarded_replies: int = 0


@dataclass(eq=False)
class RequestFailed(Exception):
    """The server gave no usable reply.

    Attributes:
        reason: one line.
        raw: what the server sent instead of a chat completion.
        status: HTTP status of an error reply.
        code: the server's own code of the error.
        retryable: another attempt may succeed.
        retry_after: seconds that the server wants the client to wait; 0 if it does not say.
        discarded_replies: attempts whose reply was unusable or too late; a server may charge for them.
        unreachable: there was no connection, or it broke.

    """

    reason: str
    raw: str | None = None
    status: int | None = None
    code: str | None = None
    retryable: bool = False
    retry_after: float = 0.0
    discarded_replies: int = 0
    unreachable: bool = False

    def __str__(self) -> str:
        return self.reason


class ChatClient:
    """One model on one server.

    Args:
        model: its name there.
        base_url: for example ``http://localhost:8000/v1``; None is OpenAI's own server.
        timeout: seconds per attempt.
        retries: attempts after the first one.
        max_seconds: time from the start of a call after which no further attempt starts.
        droppable: fields that are left out if the server rejects them, whatever their value.

    Attributes:
        model: its name.
        url: the server's address without user, password and query.

    Raises:
        H2HTalkError: the environment has no API key and the server is OpenAI's own, or the key is malformed.

    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 6,
        max_seconds: float = 600.0,
        droppable: Collection[str] = (),
    ) -> None:
        import openai

        self.model, self.url = model, public_url(base_url)
        self._key = _key_from_environment(required=base_url is None)
        self._timeout, self._retries, self._max_seconds = timeout, retries, max_seconds
        self._reached = False  # whether the server has ever replied
        self._lost_calls = 0  # calls without a connection since its last reply
        self._fields = RequestFields(droppable)
        self._client = openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=base_url or _OPENAI_URL,  # explicit, because the package reads another from the environment
            timeout=openai.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
            max_retries=0,
        )

    def is_left_out(self, field: str) -> bool:
        """Whether the server has rejected a field, so that it is not sent any more."""
        return self._fields.is_left_out(field)

    async def complete(
        self,
        messages: Sequence[dict[str, str]],
        *,
        retries: int | None = None,
        expected: Collection[int] = (),
        **body: Any,
    ) -> Reply:
        """Request one chat completion.

        Args:
            messages: of the chat.
            retries: attempts after the first one; None for the client's own number.
            expected: statuses that the caller handles, so that no line is printed for them.
            body: further fields of the request.

        Raises:
            RequestFailed: no attempt gave a usable reply, or the server rejects this request.
            H2HTalkError: the server rejects every request (key, model name), has never replied, or is lost.

        """
        attempts = 1 + (self._retries if retries is None else retries)
        deadline, attempt, discarded = time.monotonic() + self._max_seconds, 0, 0
        while True:
            attempt += 1
            try:
                return replace(await self._attempt(messages, body), discarded_replies=discarded)
            except RequestFailed as failure:
                failure.discarded_replies = discarded = discarded + failure.discarded_replies
                seconds = (failure.retry_after or min(8.0, 0.25 * 2**attempt)) * random.uniform(1, 1.25)
                allowed = attempts if self._reached else min(attempts, _FIRST_ATTEMPTS)
                if not failure.retryable or attempt >= allowed or time.monotonic() + seconds > deadline:
                    self._check_reachable(failure)
                    raise
                if failure.status not in expected:
                    _report(f"{self.url}: {failure}; attempt {attempt + 1} of {attempts} in {seconds:.1f} s")
            await asyncio.sleep(seconds)

    async def _attempt(self, messages: Sequence[dict[str, str]], body: Mapping[str, Any]) -> Reply:
        import openai

        fields = self._fields.accepted(body)
        request = self._client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=list(messages),  # type: ignore[arg-type]
            **fields,
        )
        try:
            # The package's own timeout is per read, and a server can send one byte at a time for hours.
            text = (await asyncio.wait_for(request, self._timeout)).text
        except (asyncio.TimeoutError, openai.APITimeoutError) as error:
            sent = type(error.__cause__).__name__ != "ConnectTimeout"  # of whichever HTTP library openai uses
            reason = f"no complete reply within {self._timeout:g} s"
            raise RequestFailed(reason, retryable=True, discarded_replies=int(sent)) from None
        except openai.APIStatusError as error:
            self._reached, self._lost_calls = True, 0
            change = self._fields.adapt(fields, error.status_code, error.response.text)
            if change is None:
                raise self._failure(error) from None
            if change:
                _report(f"{self.url} {change}")
            return await self._attempt(messages, body)
        except openai.APIError as error:
            raise RequestFailed(self._reason(error.__cause__ or error), retryable=True, unreachable=True) from None
        self._reached, self._lost_calls = True, 0
        try:
            return _parse(text)
        except (ValueError, LookupError, TypeError, AttributeError):
            reason, raw = "the server's reply is not a chat completion", self._redacted(text)[:2000]
            raise RequestFailed(reason, raw, retryable=True, discarded_replies=1) from None

    def _check_reachable(self, failure: RequestFailed) -> None:
        """End the run if no server is there, because every further call would fail after half a minute."""
        self._lost_calls += failure.unreachable
        if not self._reached:
            raise H2HTalkError(
                f"no answer from {self.url} ({failure}); check that the server runs, or use a longer --timeout"
            ) from None
        if self._lost_calls >= _LOST_CALLS:
            raise H2HTalkError(
                f"lost {self.url} ({failure}); its answers are on disk, run the same command again to continue"
            ) from None

    def _failure(self, error: "openai.APIStatusError") -> RequestFailed:
        """Return the meaning of an error reply.

        Raises:
            H2HTalkError: every other request would be rejected too.

        """
        status, headers = error.status_code, error.response.headers
        if status in (401, 403):
            raise H2HTalkError(f"{self.url} rejects the API key; set {KEY} in the environment")
        if status == 404:
            raise H2HTalkError(f"{self.url} has no model {self.model!r}: {self._reason(error)}")
        seconds = _retry_after(headers.get("retry-after", ""))
        reason = self._reason(error) + (f", and asks to wait {seconds:.4g} s" if seconds else "")
        retryable = status in (408, 409, 429) or status >= 500
        if "x-should-retry" in headers:  # OpenAI's own header
            retryable = headers["x-should-retry"] == "true"
        return RequestFailed(reason, status=status, code=error.code, retryable=retryable, retry_after=seconds)

    def _reason(self, error: BaseException) -> str:
        """Return the error in one line of at most 300 printable characters."""
        body = getattr(error, "body", None)  # of an error reply; the package shows it only if it has a message
        text = f"{error} - {body}" if body and " - " not in str(error) else str(error)
        line = self._redacted(" ".join(text.split())) or type(error).__name__
        return "".join(character if character.isprintable() else "?" for character in line[:300])

    def _redacted(self, text: str) -> str:
        """Remove the API key, which a server may quote."""
        return text.replace(self._key, "***") if self._key else text


def public_url(url: str | None) -> str:
    """Return a server's address without user, password and query, which may be secrets.

    Args:
        url: of the server; None is OpenAI's own.

    Raises:
        H2HTalkError: it is not an http or https address.

    """
    if url is None:
        return _OPENAI_URL
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise H2HTalkError("--base-url must look like http://localhost:8000/v1")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _key_from_environment(required: bool) -> str | None:
    key = os.environ.get(KEY)
    if key is None:
        if required:
            raise H2HTalkError(f"no API key: set {KEY} in the environment, or use another server with --base-url")
        return None
    key = key.strip()  # a key from a file often ends with a line break
    if not (key.isascii() and key.isprintable()):  # the HTTP library would quote the key in its error
        raise H2HTalkError(f"{KEY} has characters that are not allowed in a key; set it again")
    return key


def _parse(text: str) -> Reply:
    """Read a reply's body. The package accepts bodies that are not chat completions, so it is not used here."""
    body = json.loads(text)
    choice = body["choices"][0]
    message = choice["message"]
    content = message.get("content") or message.get("refusal") or ""
    usage = body.get("usage") or {}
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    return Reply(
        text=_valid_unicode(content),
        finish_reason=str(choice.get("finish_reason") or "stop"),
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        new_tokens=int(usage.get("completion_tokens") or 0),
        reasoning=_valid_unicode(thoughts) if isinstance(thoughts, str) else None,
    )


def _valid_unicode(text: str) -> str:
    """Replace half a surrogate pair, which a truncated reply can end with and which cannot be stored."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _retry_after(value: str) -> float:
    """Return the seconds of a Retry-After header, which is a number or a date; 0 for anything else."""
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return 0.0


def _report(line: str) -> None:
    """Print a line to standard error, above a progress bar if there is one."""
    tqdm.write(line, file=sys.stderr)
