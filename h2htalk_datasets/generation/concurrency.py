"""Run coroutines from synchronous code, a limited number at once."""

__all__ = ["as_completed"]

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import lru_cache
from typing import Any, TypeVar

Result = TypeVar("Result")


def as_completed(coroutines: Iterable[Coroutine[Any, Any, Result]], limit: int) -> Iterator[Result]:
    """Run coroutines and yield their results as they complete.

    Args:
        coroutines: one is taken only when it can start, so that several processes can share one queue of work.
        limit: how many run at once.

    Raises:
        Exception: whatever a coroutine raises, after the results that were complete by then; the others are cancelled.

    """
    running: set[Future[Result | Exception]] = set()

    def completed() -> Iterator[Result]:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        running.difference_update(done)
        for outcome in sorted((future.result() for future in done), key=lambda outcome: isinstance(outcome, Exception)):
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome

    try:
        for coroutine in coroutines:
            running.add(asyncio.run_coroutine_threadsafe(_outcome(coroutine), _loop()))
            if len(running) >= limit:
                yield from completed()
        while running:
            yield from completed()
    finally:
        for future in running:
            future.cancel()


async def _outcome(coroutine: Coroutine[Any, Any, Result]) -> Result | Exception:
    """Return the exception instead of raising it, because asyncio complains of exceptions that nobody retrieves."""
    try:
        return await coroutine
    except Exception as error:
        return error


@lru_cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return one loop in its own thread: notebooks run a loop already, and a client's connections belong to a loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="h2htalk-requests", daemon=True).start()
    return loop
