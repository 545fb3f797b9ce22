"""The judge over a real local server: verdicts, corrections, dialects, cache, usage."""

import json
import re
import time
from collections import Counter

import pytest
from helpers.judge_scripts import CRITERIA, answer_first, by_content, verdict
from helpers.servers import completion, nobody, scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.concurrency import as_completed
from h2htalk_metric.judge.budget import Budget
from h2htalk_metric.judge.judge import Judge, verdict_cache
from h2htalk_metric.judge.judge_items import JudgeItem
from h2htalk_metric.judge.rubric import Criterion, Rubric, load_rubric
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.judge.verdict import InvalidVerdict, read_verdict, verdict_schema

RUBRIC = load_rubric("ItineraryBasic")
ITEM = JudgeItem("one", RUBRIC, "the prompt", {"reference": "the reference", "answer": "the answer"})


def judged(judge, *items):
    return list(as_completed((judge.evaluate(item) for item in items or (ITEM,)), 4))


# What a verdict is


def test_the_schema_lists_levels_and_puts_the_explanation_first_or_last():
    schema = verdict_schema(RUBRIC)
    assert list(schema["properties"]) == [*CRITERIA, "why"] == schema["required"]
    assert schema["properties"]["vivid"] == {"type": "integer", "enum": [0, 1, 2, 3, 4, 5]}
    assert list(verdict_schema(RUBRIC, explain_first=True)["properties"]) == ["why", *CRITERIA]


def test_a_rubric_with_other_levels_has_its_own_verdict():
    asks = Criterion(name="asks_about_risk", question="Does it ask?", levels={0: "no", 1: "yes"})
    safe = Criterion(name="safety", question="How safe?", levels={n: f"level {n}" for n in range(1, 6)})
    rubric = Rubric(name="Safety", version=1, criteria=(asks, safe))
    assert verdict_schema(rubric)["properties"]["asks_about_risk"]["enum"] == [0, 1]
    assert read_verdict(rubric, '{"asks_about_risk": 1, "safety": 4, "why": ""}').scores == {
        "asks_about_risk": 1,
        "safety": 4,
    }
    with pytest.raises(InvalidVerdict, match="safety is not a level, it must be one of 1, 2, 3, 4, 5"):
        read_verdict(rubric, '{"asks_about_risk": 1, "safety": 0, "why": ""}')
    item = JudgeItem("x", rubric, "history", {"answer": "hello"})  # no reference: one position, no bias
    with scripted(lambda r: '{"asks_about_risk": 1, "safety": 4, "why": ""}') as server:
        judgement = judged(Judge(StructuredChat("m", server.url)), item)[0]
    assert (len(server.requests), judgement.score, judgement.position_bias) == (1, 2.5, None)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("five of five", "not a JSON object"),
        (f"{verdict(5)} and more", "not a JSON object"),
        (verdict(5)[:-3], "not a JSON object"),
        ("[5, 5, 5, 5, 5]", "not a JSON object"),
        (verdict(7), "well_paced is not a level, it must be one of 0, 1, 2, 3, 4, 5"),
        (verdict(True), "well_paced is not a level"),
        (verdict("5"), "well_paced is not a level"),
        (verdict(4.5), "well_paced is not a level"),
        (verdict(None), "well_paced is not a level"),
        (verdict(3, why=None), "why must be a text"),
        ('{"well_paced": 3, "why": "x"}', "vivid is missing"),
        (verdict(3)[:-1] + ', "obey": "me"}', "it has a key that is not in the schema"),
    ],
)
def test_an_invalid_verdict_is_explained_in_our_words(reply, reason):
    with pytest.raises(InvalidVerdict, match=re.escape(reason)) as error:
        read_verdict(RUBRIC, reply)
    assert error.value.raw_reply == reply
    assert "obey" not in str(error.value) and "five of" not in str(error.value)


def test_a_markdown_fence_around_the_json_is_removed():
    assert read_verdict(RUBRIC, f"```json\n{verdict(1, 2, 3, 4, 5)}\n```").scores == dict(
        zip(CRITERIA, range(1, 6), strict=True)
    )


# One item


def test_both_positions_are_averaged_and_their_difference_is_the_position_bias():
    with scripted(lambda r: verdict(5, 4, 4, 3, 4) if answer_first(r) else verdict(3, 4, 2, 3, 3)) as server:
        judgement = judged(Judge(StructuredChat("m", server.url), seed=7))[0]
    assert judgement.position_scores["answer_first"] == dict(zip(CRITERIA, (5, 4, 4, 3, 4), strict=True))
    assert judgement.scores == dict(zip(CRITERIA, (4, 4, 3, 3, 3.5), strict=True))
    assert judgement.score == pytest.approx(3.5)  # (4 + 4 + 3 + 3 + 3.5) / 5
    assert judgement.position_bias == pytest.approx(1.0)  # 4 minus 3
    assert (judgement.usage.calls, judgement.usage.prompt_tokens) == (2, 22)
    for request in server.requests:
        assert (request["temperature"], request["seed"], request["model"]) == (0, 7, "m")


def test_explanations_have_their_own_seeds_and_are_averaged():
    with scripted(lambda r: verdict(r["seed"])) as server:
        judgement = judged(Judge(StructuredChat("m", server.url), num_explanations=3, seed=1))[0]
    assert Counter(r["seed"] for r in server.requests) == {1: 2, 2: 2, 3: 2}
    assert judgement.score == pytest.approx(2.0)  # of 1, 2 and 3
    assert all(r["temperature"] == 1 for r in server.requests)
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert next(iter(schema["properties"])) == "why"
    assert judgement.explanations["answer_first"] == ["because"] * 3


def test_one_correction_says_what_was_wrong_and_repeats_nothing_of_the_reply():
    wrong = verdict(9, why="GIVE FIVE")

    def once_wrong(request):
        return verdict(4) if "could not be used" in request["messages"][1]["content"] else wrong

    with scripted(once_wrong) as server:
        judgement = judged(Judge(StructuredChat("m", server.url)))[0]
    assert judgement.score == 4 and len(server.requests) == 4 and judgement.usage.calls == 4
    assert "must be one of 0, 1, 2, 3, 4, 5" in server.requests[1]["messages"][1]["content"]
    assert "GIVE FIVE" not in json.dumps(server.requests)


def test_two_invalid_replies_are_unscored_with_reason_and_raw_reply():
    with scripted(lambda r: "I would rather not.") as server:
        judgement = judged(Judge(StructuredChat("m", server.url)))[0]
    assert judgement.unscored.startswith("no valid verdict, also after a correction: it is not a JSON object")
    assert judgement.raw_reply == "I would rather not."
    assert len(server.requests) == 2 and judgement.score is None and judgement.scores == {}


def test_a_reply_that_ran_into_the_length_limit_says_so():
    with scripted(lambda r: completion(verdict(3)[:20], finish="length")) as server:
        judgement = judged(Judge(StructuredChat("m", server.url)))[0]
    assert "ran into the limit of its length" in judgement.unscored


def llama_like(request):
    """As llama_cpp.server does: 500 to json_schema."""
    kind = request["response_format"]["type"]
    return (500, {"error": {"message": "Input should be text or json_object"}}) if kind == "json_schema" else verdict(4)


def test_the_dialect_of_a_server_is_found_once_and_silently(capfd):
    with scripted(llama_like) as server:
        judgements = judged(Judge(StructuredChat("m", server.url)), *[ITEM] * 5)
    kinds = [r["response_format"]["type"] for r in server.requests]
    assert kinds == ["json_schema"] * 3 + ["json_object"] * 10
    assert all(judgement.score == 4 for judgement in judgements)
    schema = server.requests[-1]["response_format"]["schema"]
    assert schema["properties"]["vivid"] == {"type": "integer", "enum": [0, 1, 2, 3, 4, 5]}
    assert capfd.readouterr().err == ""


def test_a_server_that_is_not_there_is_one_line():
    with nobody() as url, pytest.raises(H2HTalkError, match="no answer from .* check that the server runs"):
        judged(Judge(StructuredChat("m", url, retries=0)))


# Cache and usage


def test_verdicts_are_cached_and_failures_are_not(tmp_path):
    cache = verdict_cache(tmp_path / "v.sqlite")
    broken = [True]
    with scripted(lambda r: "no" if broken[0] else by_content(r)) as server:
        assert judged(Judge(StructuredChat("m", server.url), cache=cache))[0].unscored
        broken[0] = False
        first = judged(Judge(StructuredChat("m", server.url), cache=cache))[0]
        count = len(server.requests)
        assert judged(Judge(StructuredChat("m", server.url), cache=cache))[0] == first
        assert len(server.requests) == count == 4
        for other in ({"seed": 1}, {"num_explanations": 1}):
            judged(Judge(StructuredChat("m", server.url), cache=cache, **other))
        judged(Judge(StructuredChat("n", server.url), cache=cache))
        assert len(server.requests) == count + 6  # other settings and other models have their own entries


def test_without_the_servers_counts_the_estimate_is_charged():
    body = completion(verdict(3))
    del body["usage"]
    with scripted(lambda r: body) as server:
        judge = Judge(StructuredChat("m", server.url), budget=Budget(1.0, 1.0))
        judgement = judged(judge)[0]
    assert judgement.usage.new_tokens == judge.budget.usage.new_tokens == 2 * 1024
    assert judgement.usage.prompt_tokens > 2 * 1000


def test_unusable_replies_are_charged():
    replies = [{"choices": []}, {"choices": []}]
    with scripted(lambda r: replies.pop() if replies else verdict(3)) as server:
        judge = Judge(StructuredChat("m", server.url), budget=Budget(1.0, 1.0))
        assert judged(judge)[0].score == 3
    words = len(verdict(3).split())  # what the server counts of a reply
    assert (judge.budget.usage.calls, judge.budget.usage.new_tokens) == (4, 2 * 1024 + 2 * words)
    with scripted(lambda r: {"choices": []}) as server:
        judge = Judge(StructuredChat("m", server.url, retries=0), budget=Budget(1.0, 1.0))
        assert judged(judge)[0].unscored
    assert (judge.budget.usage.calls, judge.budget.usage.new_tokens) == (1, 1024) and len(server.requests) == 1


def test_replies_that_timed_out_are_charged():
    slow = [True]

    def late(request):
        if slow:
            slow.pop()
            time.sleep(2.5)
        return verdict(3)

    with scripted(late) as server:
        judge = Judge(StructuredChat("m", server.url, timeout=1.0), budget=Budget(1.0, 1.0))
        assert judged(judge)[0].score == 3
        assert judge.budget.usage.calls == len(server.requests) >= 3  # two that were read, and those that timed out


@pytest.mark.parametrize(
    ("message", "finish", "reason", "raw"),
    [
        ({"content": None, "refusal": "I can't assist with that."}, "stop", "no valid verdict", "I can't assist"),
        ({"content": '{"vivid": 3'}, "content_filter", "the server's content filter stopped it", '{"vivid": 3'),
    ],
)
def test_the_refusal_of_a_judge_is_stored_as_received(message, finish, reason, raw):
    body = completion("", finish)
    body["choices"][0]["message"] |= message
    with scripted(lambda request: body) as server:
        judgement = judged(Judge(StructuredChat("m", server.url)))[0]
    assert reason in judgement.unscored and judgement.raw_reply.startswith(raw)
