"""Coroutines run from synchronous code: how many at once, and what an exception ends."""

import asyncio
import gc
import logging
import threading

import pytest

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.concurrency import as_completed


def test_a_limited_number_runs_at_once_and_coroutines_are_taken_late():
    lock, running, most, taken = threading.Lock(), [0], [0], []

    async def job(number):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        await asyncio.sleep(0.1)
        with lock:
            running[0] -= 1
        return number

    def jobs():
        for number in range(20):
            taken.append(number)
            yield job(number)

    results = as_completed(jobs(), 4)
    first = next(results)
    assert len(taken) <= 4
    assert sorted([first, *results]) == list(range(20))
    assert most[0] == 4


def test_an_exception_ends_all_and_cancels_the_rest():
    cancelled = threading.Event()

    async def slow():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def fails():
        raise H2HTalkError("no")

    with pytest.raises(H2HTalkError, match="no"):
        list(as_completed([slow(), fails()], 2))
    assert cancelled.wait(10)


def test_completed_results_are_not_lost_to_an_exception():
    first_read, all_complete, ended = threading.Event(), threading.Event(), []

    async def job(number):
        while number and not first_read.is_set():
            await asyncio.sleep(0.01)
        while number == 1 and len(ended) < 5:
            await asyncio.sleep(0.01)
        ended.append(number)
        if number == 1:
            asyncio.get_running_loop().call_later(0.1, all_complete.set)  # once this coroutine has ended too
            raise H2HTalkError("no")
        return number

    results = as_completed((job(number) for number in range(6)), 8)
    numbers = [next(results)]
    first_read.set()
    assert all_complete.wait(10)
    with pytest.raises(H2HTalkError, match="no"):
        numbers.extend(results)
    assert sorted(numbers) == [0, 2, 3, 4, 5]


def test_of_coroutines_that_fail_together_one_is_raised(caplog):
    async def fails(number):
        raise H2HTalkError(f"no {number}")

    for _ in range(200):
        with pytest.raises(H2HTalkError, match=r"no \d"):
            list(as_completed((fails(number) for number in range(8)), 8))
    gc.collect()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
