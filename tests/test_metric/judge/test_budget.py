"""A cost limit: what a call reserves, what it takes, and when no further call may start."""

import asyncio

import pytest
from helpers.judge_scripts import by_content
from helpers.servers import completion, scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.concurrency import as_completed
from h2htalk_metric.judge.budget import Budget, Usage
from h2htalk_metric.judge.judge import Judge
from h2htalk_metric.judge.judge_items import JudgeItem
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.judge.structured import StructuredChat

MOST = Usage(1, 1000, 500)  # 0.007 at prices of 2 and 10


def test_prices_are_per_million_tokens():
    assert Budget(price_in=2.0, price_out=10.0).cost(Usage(1, 1000, 100)) == pytest.approx(0.003)  # 0.002 and 0.001


def test_a_call_waits_for_calls_in_flight_and_is_refused_only_if_it_does_not_fit_alone():
    async def scenario():
        budget = Budget(price_in=2.0, price_out=10.0, max_cost=0.01)
        assert await budget.reserve(MOST)
        waiting = asyncio.ensure_future(budget.reserve(MOST))
        await asyncio.sleep(0)
        assert not waiting.done() and not budget.exhausted
        budget.settle(MOST, Usage(1, 900, 20))  # took 0.002
        assert await waiting
        budget.settle(MOST, MOST)  # took 0.007
        assert not await budget.reserve(MOST) and budget.exhausted
        return budget.cost(budget.usage)

    assert asyncio.run(scenario()) == pytest.approx(0.009)


def test_a_failed_call_gives_its_reservation_back():
    async def scenario():
        budget = Budget(price_in=2.0, price_out=10.0, max_cost=0.01)
        for _ in range(3):
            assert await budget.reserve(MOST)
            budget.settle(MOST, Usage())
        return budget.exhausted

    assert not asyncio.run(scenario())


def test_eight_calls_in_flight_use_the_whole_budget():
    """Each call reserves 0.0102 for 1,024 tokens and takes 0.0005, so only four calls fit at once into 0.05."""

    def charged(request):
        return completion(by_content(request)) | {"usage": {"prompt_tokens": 0, "completion_tokens": 50}}

    rubric = load_rubric("ItineraryBasic")
    items = [JudgeItem(str(i), rubric, None, {"reference": "r", "answer": f"answer {i}"}) for i in range(60)]
    with scripted(charged) as server:
        judge = Judge(StructuredChat("m", server.url), budget=Budget(0.0, 10.0, max_cost=0.05))
        judgements = list(as_completed((judge.evaluate(item) for item in items), 8))
    assert judge.budget.exhausted
    # The last call must fit with its reservation: more than 0.05 - 0.0103 was spent, and not more than 0.05.
    assert 0.0397 < judge.budget.cost(judge.budget.usage) <= 0.05
    assert sum(judgement is not None for judgement in judgements) >= 36


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ({"max_cost": 1}, "--max-cost needs --price-in"),
        ({"price_in": 1}, "give both --price-in and --price-out"),
    ],
)
def test_incomplete_prices_are_refused(prices, message):
    with pytest.raises(H2HTalkError, match=message):
        Budget(**prices)
