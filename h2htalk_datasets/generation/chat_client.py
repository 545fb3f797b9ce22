"""Talk to any OpenAI-compatible server (vLLM, TGI, llama.cpp, OpenAI, ...): many requests in flight, none lost.

Generation and the judge share it. The openai client makes each try; whether to try again is decided here, in one loop
for all that may pass (a busy server, a lost connection, a reply that is no whole reply), so that every call has an
end, every wait is said, and a server that is not there ends the run.
"""

__all__ = ["ChatAPI", "NoReply", "Reply", "as_they_land", "public_url"]

import asyncio
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from h2htalk_datasets.errors import H2HTalkError

if TYPE_CHECKING:
    import openai

KEY = "OPENAI_API_KEY"
"""The environment variable that holds the key; keys are taken from nowhere else and written nowhere."""
_OPENAI = "https://api.openai.com/v1"
_PATIENCE = 600.0  # seconds from a call's beginning after which no further try begins
_CONNECTING = 20.0  # seconds that a connection may take; where nobody listens there is no need to wait for a timeout
_SILENT_TRIES = 3  # of one call, after which a server that has never answered anything counts as not there
_LOST_CALLS = 3  # one after the other without a connection, after which one that has answered counts as gone
# Fields that some models refuse. The first they take under another name; a seed can only be left out; the others can be
# at the value that is every server's default, and for another value there is an option.
_OTHER_NAME = {"max_tokens": "max_completion_tokens"}
_DEFAULTS = {"temperature": (1, "--temperature 1, or a judge --evidence 1"), "top_p": (1, "--top-p 1")}
_YIELDING = (*_OTHER_NAME, "seed", *_DEFAULTS)
_REFUSED = "unsupported|not support|not permitted|unknown|unrecognized"

Result = TypeVar("Result")


@dataclass(frozen=True)
class Reply:
    """One answer of the server.

    Attributes:
        text: what the model said; empty where it said nothing.
        finish_reason: ``stop``, ``length``, or the server's own word.
        prompt_tokens: as the server counts, 0 where it doesn't.
        new_tokens: likewise.
        reasoning: thoughts that the server keeps apart from the answer, or None.
        spoiled: replies before this one that could not be read or were not waited for; a server may charge for them.

    """

    text: str
    finish_reason: str
    prompt_tokens: int
    new_tokens: int
    reasoning: str | None = None
    spoiled: int = 0


class NoReply(Exception):
    """The server gave no usable answer; the message is the reason.

    Attributes:
        raw: what it sent, if anything.
        status: of its HTTP reply, where it was an error's.
        code: the server's own word for the error, if it has one.
        passing: whether the next try may fare better.
        wait: seconds that the server asks to wait before it; 0 where it doesn't say.
        spoiled: replies that could not be read or were not waited for, of all tries; a server may charge for them.
        unreached: whether there was no connection, or it broke.

    """

    def __init__(
        self,
        reason: str,
        raw: str | None = None,
        status: int | None = None,
        *,
        code: str | None = None,
        passing: bool = False,
        wait: float = 0.0,
        spoiled: int = 0,
        unreached: bool = False,
    ) -> None:
        super().__init__(reason)
        self.raw, self.status, self.code, self.passing, self.wait = raw, status, code, passing, wait
        self.spoiled, self.unreached = spoiled, unreached


class ChatAPI:
    """One model behind one server.

    Args:
        model: its name there.
        base_url: as ``http://localhost:8000/v1``; None is OpenAI's own.
        timeout: seconds that one try may take.
        retries: tries after the first.

    Raises:
        H2HTalkError: no key is in the environment and the server is OpenAI's own.

    """

    def __init__(self, model: str, base_url: str | None = None, *, timeout: float = 120.0, retries: int = 6) -> None:
        import openai

        key = os.environ.get(KEY)
        if key is None and base_url is None:
            raise H2HTalkError(f"no API key: set {KEY} in the environment, or name another server with --base-url")
        key = key and key.strip()  # a line's end comes along easily, from a file or a secret
        if key and not (key.isascii() and key.isprintable()):
            raise H2HTalkError(f"{KEY} holds characters that no key has; set it anew")  # else the client would quote it
        self.model, self.url = model, public_url(base_url)
        self._key, self._timeout, self._retries = key, timeout, retries
        self._heard = False  # whether the server has ever answered anything
        self._lost = 0  # calls without a connection since its last answer
        self._instead: dict[str, str | None] = {}  # fields that it refuses, by what they are called now; None: left out
        self._client = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=base_url or _OPENAI,  # named, since the client would look for another in the environment
            timeout=openai.Timeout(timeout, connect=min(timeout, _CONNECTING)),
            max_retries=0,
        )

    async def complete(
        self,
        messages: Sequence[dict[str, str]],
        *,
        retries: int | None = None,
        expected: Collection[int] = (),
        **body: Any,
    ) -> Reply:
        """Ask once; it ends after ten minutes and one timeout at the latest.

        Args:
            messages: of the chat.
            retries: tries after the first; the client's if not given.
            expected: statuses of a reply that are no news to the caller, so nothing is said of the tries after them.
            body: further fields of the request.

        Raises:
            NoReply: after all tries the server gave no whole answer, or it refuses this request.
            H2HTalkError: the server refuses every request (key, model name), has never answered anything, or is gone.

        """
        last, begun, number, spoiled = 1 + (self._retries if retries is None else retries), time.monotonic(), 0, 0
        while True:
            number += 1
            try:
                return replace(await self._try(messages, body), spoiled=spoiled)
            except NoReply as failure:
                failure.spoiled = spoiled = spoiled + failure.spoiled
                wait = (failure.wait or min(8.0, 0.25 * 2**number)) * random.uniform(1, 1.25)
                patient = time.monotonic() - begun + wait < _PATIENCE
                there = self._heard or number < _SILENT_TRIES
                if not (failure.passing and patient and there and number < last):
                    if self._heard:
                        self._refuse_lost(failure)
                        raise
                    raise H2HTalkError(
                        f"no answer from {self.url} ({failure}); see that the server runs, or raise --timeout"
                    ) from None
                if failure.status not in expected:
                    said = f"{self.url}: {failure}; try {number + 1} of {last} in {wait:.1f} s"
                    print(said, file=sys.stderr, flush=True)
            await asyncio.sleep(wait)

    def _refuse_lost(self, failure: NoReply) -> None:
        """End all when call after call finds no server: each further one would be tried in vain for half a minute."""
        self._lost += failure.unreached
        if self._lost >= _LOST_CALLS:
            raise H2HTalkError(
                f"lost {self.url} ({failure}); what it answered is kept, the same command goes on"
            ) from None

    async def _try(self, messages: Sequence[dict[str, str]], body: Mapping[str, Any]) -> Reply:
        import openai

        fields = {name: value for key, value in body.items() if (name := self._instead.get(key, key))}
        asked = self._client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=list(messages),  # type: ignore[arg-type]
            **fields,
        )
        try:
            # The client's own timeout is for each read, and a server may send a byte now and then for ever.
            answer = await asyncio.wait_for(asked, self._timeout)
        except (asyncio.TimeoutError, openai.APITimeoutError) as error:
            unsent = type(error.__cause__).__name__ == "ConnectTimeout"  # of whichever client openai is built on
            reason = f"no whole reply within {self._timeout:g} s"
            raise NoReply(reason, passing=True, spoiled=0 if unsent else 1) from None
        except openai.APIStatusError as error:
            self._heard, self._lost = True, 0
            refused = _refused_field(error, fields)
            if refused is None:
                raise self._refusal(error) from None
            self._do_without(refused, fields[refused], error)
            return await self._try(messages, body)
        except openai.APIError as error:
            raise NoReply(self._reason(error.__cause__ or error), passing=True, unreached=True) from None
        self._heard, self._lost = True, 0
        try:
            return _reply(answer.text)
        except NoReply as fault:
            raise NoReply(str(fault), self._redacted(fault.raw or "")[:2000], passing=True, spoiled=1) from None

    def _do_without(self, field: str, value: Any, error: Exception) -> None:
        """From now on call a refused field otherwise, or leave it out where that changes no answer.

        Raises:
            H2HTalkError: it would.

        """
        default, option = _DEFAULTS.get(field, (value, ""))
        if value != default:
            raise H2HTalkError(
                f"{self.url} refuses {field} {value:g} for {self.model!r}; give {option} ({self._reason(error)})"
            )
        if field not in self._instead:  # several requests may hear of it at once
            name = self._instead[field] = _OTHER_NAME.get(field)
            done = f"sent as {name}" if name else "left out"
            print(f"{self.url} refuses the field {field}; from now on it is {done}", file=sys.stderr, flush=True)

    def _refusal(self, error: "openai.APIStatusError") -> NoReply:
        """What a reply with an error's status means.

        Raises:
            H2HTalkError: that no other request will fare better.

        """
        if error.status_code in (401, 403):
            raise H2HTalkError(f"{self.url} refuses the key; set {KEY} in the environment")
        if error.status_code == 404:
            raise H2HTalkError(f"{self.url} knows no model {self.model!r}: {self._reason(error)}")
        status, headers = error.status_code, error.response.headers
        wait = _retry_after(headers)
        reason = self._reason(error) + (f", and asks to wait {wait:.4g} s" if wait else "")
        known = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))  # OpenAI's own word on it
        passing = status in (408, 409, 429) or status >= 500 if known is None else known
        return NoReply(reason, status=status, code=error.code, passing=passing, wait=wait)

    def _reason(self, error: BaseException) -> str:
        """What went wrong in one line."""
        body = getattr(error, "body", None)  # of an HTTP reply; the client shows it where it finds a message in it
        said = f"{error} - {body}" if body and " - " not in str(error) else str(error)
        reason = self._redacted(" ".join(said.split())) or type(error).__name__
        return "".join(character if character.isprintable() else "?" for character in reason[:300])

    def _redacted(self, text: str) -> str:
        """A server may quote the key it was sent, we don't."""
        return text.replace(self._key, "***") if self._key else text


def as_they_land(jobs: Iterable[Coroutine[Any, Any, Result]], in_flight: int) -> Iterator[Result]:
    """Run jobs, at most `in_flight` at once, and yield results as they come.

    A job is taken from `jobs` only when there is room, so that several processes may share one queue. An exception
    in a job ends all, after the results that have landed beside it.
    """
    flying: set[Future[Result | Exception]] = set()

    def landed() -> Iterator[Result]:
        done, _ = wait(flying, return_when=FIRST_COMPLETED)
        flying.difference_update(done)
        for outcome in sorted((job.result() for job in done), key=lambda outcome: isinstance(outcome, Exception)):
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome

    try:
        for job in jobs:
            flying.add(asyncio.run_coroutine_threadsafe(_outcome(job), _loop()))
            if len(flying) >= in_flight:
                yield from landed()
        while flying:
            yield from landed()
    finally:
        for unfinished in flying:
            unfinished.cancel()


async def _outcome(job: Coroutine[Any, Any, Result]) -> Result | Exception:
    """What a job ends with: of several that fail together one is told, and asyncio would complain of the others."""
    try:
        return await job
    except Exception as error:
        return error


@lru_cache
def _loop() -> asyncio.AbstractEventLoop:
    """One loop in a thread of its own, for a notebook has one running, and a client's connections stay in theirs."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="chat-api", daemon=True).start()
    return loop


def public_url(url: str | None) -> str:
    """A server's address without user, password and query, which may be secrets."""
    if url is None:
        return _OPENAI
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise H2HTalkError("--base-url must look like http://localhost:8000/v1")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _reply(text: str) -> Reply:
    """Read a response body; servers and proxies send things that the client would let pass."""
    try:
        body = json.loads(text)
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content") or message.get("refusal") or ""
        if not isinstance(content, str):
            raise TypeError
        usage = body.get("usage") or {}
        prompt_tokens, new_tokens = (int(usage.get(f"{part}_tokens") or 0) for part in ("prompt", "completion"))
        reason = str(choice.get("finish_reason") or "stop")
        thoughts = message.get("reasoning_content") or message.get("reasoning")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise NoReply("the server's reply is no chat completion", text, passing=True, spoiled=1) from None
    kept = _whole(thoughts) if isinstance(thoughts, str) else None
    return Reply(_whole(content), reason, prompt_tokens, new_tokens, kept)


def _whole(text: str) -> str:
    """Half a character, as a reply that was cut may end in, is none and can't be stored."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refused_field(error: "openai.APIStatusError", fields: Iterable[str]) -> str | None:
    """Which field of a request the server doesn't take, whatever its value or with this one; None for other errors."""
    if error.status_code not in (400, 422):
        return None
    known, said = (name for name in _YIELDING if name in fields), error.response.text
    near = rf"({_REFUSED}).{{,80}}\b%s\b|\b%s\b.{{,80}}({_REFUSED})"  # elsewhere a prompt may be quoted
    return next((name for name in known if re.search(near % (name, name), said, re.I | re.S)), None)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a reply asks to wait, given as a number or a date; 0 where it asks for nothing."""
    said = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(said))
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    return 0.0
