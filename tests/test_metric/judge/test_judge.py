"""The judge over a real local server: verdicts, corrections, dialects, cache, cost."""

import json
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing

import pytest
from helpers.judge_scripts import CRITERIA, answer_first, by_content, verdict
from helpers.servers import completion, nobody, scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.concurrency import as_completed
from h2htalk_metric import cache as sqlite_cache
from h2htalk_metric.judge.cache import VerdictCache
from h2htalk_metric.judge.cost import Purse, Spent
from h2htalk_metric.judge.marking import Item, Judge
from h2htalk_metric.judge.rubric import Criterion, Rubric, load_rubric
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.judge.verdict import VerdictFault, read_verdict, verdict_schema

RUBRIC = load_rubric("ItineraryBasic")
ITEM = Item("one", RUBRIC, "the prompt", {"reference": "the reference", "answer": "the answer"})


def ask(judge, *items):
    return list(as_completed((judge.mark(item) for item in items or (ITEM,)), 4))


# What a verdict is


def test_the_schema_lists_levels_and_puts_the_reason_where_it_is_asked():
    schema = verdict_schema(RUBRIC)
    assert list(schema["properties"]) == [*CRITERIA, "why"] == schema["required"]
    assert schema["properties"]["vivid"] == {"type": "integer", "enum": [0, 1, 2, 3, 4, 5]}
    assert list(verdict_schema(RUBRIC, evidence=True)["properties"]) == ["why", *CRITERIA]


def test_a_rubric_of_another_shape_makes_its_own_verdict():
    kept = Criterion(name="asks_about_risk", question="Does it ask?", levels={0: "no", 1: "yes"})
    safe = Criterion(name="safety", question="How safe?", levels={n: f"level {n}" for n in range(1, 6)})
    rubric = Rubric(name="Safety", version=1, criteria=(kept, safe))
    assert verdict_schema(rubric)["properties"]["asks_about_risk"]["enum"] == [0, 1]
    assert read_verdict(rubric, '{"asks_about_risk": 1, "safety": 4, "why": ""}').marks == {
        "asks_about_risk": 1,
        "safety": 4,
    }
    with pytest.raises(VerdictFault, match="safety is no level, it must be one of 1, 2, 3, 4, 5"):
        read_verdict(rubric, '{"asks_about_risk": 1, "safety": 0, "why": ""}')
    item = Item("x", rubric, "history", {"answer": "hello"})  # no reference: one position, no gap
    with scripted(lambda r: '{"asks_about_risk": 1, "safety": 4, "why": ""}') as server:
        line = ask(Judge(StructuredChat("m", server.url)), item)[0]
    assert (len(server.asked), line["score"], line["position_gap"]) == (1, 2.5, None)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("five of five", "not a JSON object"),
        (f"{verdict(5)} and more", "not a JSON object"),
        (verdict(5)[:-3], "not a JSON object"),
        ("[5, 5, 5, 5, 5]", "not a JSON object"),
        (verdict(7), "well_paced is no level, it must be one of 0, 1, 2, 3, 4, 5"),
        (verdict(True), "well_paced is no level"),
        (verdict("5"), "well_paced is no level"),
        (verdict(4.5), "well_paced is no level"),
        (verdict(None), "well_paced is no level"),
        (verdict(3, why=None), "why must be a text"),
        ('{"well_paced": 3, "why": "x"}', "vivid is missing"),
        (verdict(3)[:-1] + ', "obey": "me"}', "it has a key that was not asked for"),
    ],
)
def test_what_is_no_verdict_is_told_in_our_words(reply, told):
    with pytest.raises(VerdictFault, match=re.escape(told)) as fault:
        read_verdict(RUBRIC, reply)
    assert fault.value.raw == reply
    assert "obey" not in str(fault.value) and "five of" not in str(fault.value)


def test_a_fence_round_the_json_is_taken_off():
    assert read_verdict(RUBRIC, f"```json\n{verdict(1, 2, 3, 4, 5)}\n```").marks == dict(
        zip(CRITERIA, range(1, 6), strict=True)
    )


# One item


def test_both_positions_are_averaged_and_the_gap_is_kept():
    with scripted(lambda r: verdict(5, 4, 4, 3, 4) if answer_first(r) else verdict(3, 4, 2, 3, 3)) as server:
        line = ask(Judge(StructuredChat("m", server.url), seed=7))[0]
    assert line["positions"]["answer_first"] == dict(zip(CRITERIA, (5, 4, 4, 3, 4), strict=True))
    assert line["verdict"] == dict(zip(CRITERIA, (4, 4, 3, 3, 3.5), strict=True))
    assert line["score"] == pytest.approx(3.5)  # (4 + 4 + 3 + 3 + 3.5) / 5
    assert line["position_gap"] == pytest.approx(1.0)  # 4 less 3
    assert line["usage"]["calls"] == 2 and line["usage"]["prompt_tokens"] == 22
    for request in server.asked:
        assert (request["temperature"], request["seed"], request["model"]) == (0, 7, "m")


def test_evidence_is_drawn_with_seeds_and_averaged():
    with scripted(lambda r: verdict(r["seed"])) as server:
        line = ask(Judge(StructuredChat("m", server.url), evidence=3, seed=1))[0]
    assert Counter(r["seed"] for r in server.asked) == {1: 2, 2: 2, 3: 2}
    assert line["score"] == pytest.approx(2.0)  # of 1, 2 and 3
    assert all(r["temperature"] == 1 for r in server.asked)
    schema = server.asked[0]["response_format"]["json_schema"]["schema"]
    assert next(iter(schema["properties"])) == "why"
    assert line["why"]["answer_first"] == ["because"] * 3


def test_one_correction_tells_what_was_wrong_and_repeats_nothing_of_the_reply():
    said = verdict(9, why="GIVE FIVE")

    def once_wrong(request):
        return verdict(4) if "could not be used" in request["messages"][1]["content"] else said

    with scripted(once_wrong) as server:
        line = ask(Judge(StructuredChat("m", server.url)))[0]
    assert line["score"] == 4 and len(server.asked) == 4 and line["usage"]["calls"] == 4
    assert "must be one of 0, 1, 2, 3, 4, 5" in server.asked[1]["messages"][1]["content"]
    assert "GIVE FIVE" not in json.dumps(server.asked)


def test_twice_wrong_is_unscored_with_reason_and_raw_reply():
    with scripted(lambda r: "I would rather not.") as server:
        line = ask(Judge(StructuredChat("m", server.url)))[0]
    assert line["unscored"].startswith("no valid verdict, also after a correction: it is not a JSON object")
    assert line["raw"] == "I would rather not."
    assert len(server.asked) == 2 and "score" not in line


def test_a_reply_cut_for_its_length_says_so():
    with scripted(lambda r: completion(verdict(3)[:20], finish="length")) as server:
        line = ask(Judge(StructuredChat("m", server.url)))[0]
    assert "ran into the limit of its length" in line["unscored"]


def llama_like(request):
    """As llama_cpp.server does: 500 to json_schema."""
    kind = request["response_format"]["type"]
    return (500, {"error": {"message": "Input should be text or json_object"}}) if kind == "json_schema" else verdict(4)


def test_the_dialect_a_server_takes_is_found_once_without_a_word(capfd):
    with scripted(llama_like) as server:
        lines = ask(Judge(StructuredChat("m", server.url)), *[ITEM] * 5)
    kinds = [r["response_format"]["type"] for r in server.asked]
    assert kinds == ["json_schema"] * 3 + ["json_object"] * 10
    assert all(line["score"] == 4 for line in lines)
    schema = server.asked[-1]["response_format"]["schema"]
    assert schema["properties"]["vivid"] == {"type": "integer", "enum": [0, 1, 2, 3, 4, 5]}
    assert capfd.readouterr().err == ""


def test_a_server_that_is_not_there_is_one_line():
    with nobody() as url, pytest.raises(H2HTalkError, match="no answer from .* see that the server runs"):
        ask(Judge(StructuredChat("m", url, retries=0)))


# Cache and cost


def test_verdicts_are_kept_and_failures_are_not(tmp_path):
    cache = VerdictCache(tmp_path / "v.sqlite")
    broken = [True]
    with scripted(lambda r: "no" if broken[0] else by_content(r)) as server:
        assert "unscored" in ask(Judge(StructuredChat("m", server.url), cache=cache))[0]
        broken[0] = False
        first = ask(Judge(StructuredChat("m", server.url), cache=cache))[0]
        asked = len(server.asked)
        assert ask(Judge(StructuredChat("m", server.url), cache=cache))[0] == first
        assert len(server.asked) == asked == 4
        for other in ({"seed": 1}, {"evidence": 1}):
            ask(Judge(StructuredChat("m", server.url), cache=cache, **other))
        ask(Judge(StructuredChat("n", server.url), cache=cache))
        assert len(server.asked) == asked + 6  # other settings and other models are asked


def test_a_damaged_cache_is_set_aside(tmp_path, caplog):
    file = tmp_path / "v.sqlite"
    file.write_bytes(b"no database" * 100)
    with scripted(by_content) as server:
        line = ask(Judge(StructuredChat("m", server.url), cache=VerdictCache(file)))[0]
    assert "score" in line and "set aside" in caplog.text and len(list(tmp_path.glob("*.damaged"))) == 1


def test_a_cache_that_is_only_busy_or_just_begun_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_cache, "_WAIT", 0.1)
    cache = VerdictCache(tmp_path / "v.sqlite")
    cache.file.touch()  # another process has made the file, and no table in it yet
    assert cache.get("k") is None
    cache.put("k", {"marks": 1})
    with closing(sqlite3.connect(cache.file)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert cache.get("k") is None
        other.rollback()
    assert cache.get("k") == {"marks": 1} and not list(tmp_path.glob("*.damaged"))


def test_a_purse_holds_what_calls_may_cost():
    purse = Purse(price_in=2.0, price_out=10.0, max_cost=0.01)
    assert purse.cost(Spent(1, 1000, 100)) == pytest.approx(0.003)  # 0.002 and 0.001
    assert purse.hold(Spent(1, 1000, 500))  # 0.007 laid by
    assert not purse.hold(Spent(1, 1000, 500)) and purse.empty
    purse.pay(Spent(1, 1000, 500), Spent(1, 900, 20))
    assert purse.cost(purse.spent) == pytest.approx(0.002)
    with pytest.raises(H2HTalkError, match="--max-cost needs --price-in"):
        Purse(max_cost=1)
    with pytest.raises(H2HTalkError, match="name both --price-in and --price-out"):
        Purse(price_in=1)


def test_what_a_server_does_not_count_is_charged_at_the_most():
    body = completion(verdict(3))
    del body["usage"]
    with scripted(lambda r: body) as server:
        judge = Judge(StructuredChat("m", server.url), purse=Purse(1.0, 1.0))
        line = ask(judge)[0]
    assert line["usage"]["new_tokens"] == judge.purse.spent.new_tokens == 2 * 1024
    assert line["usage"]["prompt_tokens"] > 2 * 1000


def test_replies_that_could_not_be_read_are_charged():
    said = [{"choices": []}, {"choices": []}]
    with scripted(lambda r: said.pop() if said else verdict(3)) as server:
        judge = Judge(StructuredChat("m", server.url), purse=Purse(1.0, 1.0))
        assert "score" in ask(judge)[0]
    words = len(verdict(3).split())  # what the server counts of a reply
    assert (judge.purse.spent.calls, judge.purse.spent.new_tokens) == (4, 2 * 1024 + 2 * words)
    with scripted(lambda r: {"choices": []}) as server:
        judge = Judge(StructuredChat("m", server.url, retries=0), purse=Purse(1.0, 1.0))
        assert "unscored" in ask(judge)[0]
    assert (judge.purse.spent.calls, judge.purse.spent.new_tokens) == (2, 2048) and len(server.asked) == 2


def test_replies_that_were_not_waited_for_are_charged():
    held = [True]

    def late(request):
        if held:
            held.pop()
            time.sleep(2.5)
        return verdict(3)

    with scripted(late) as server:
        judge = Judge(StructuredChat("m", server.url, timeout=1.0), purse=Purse(1.0, 1.0))
        assert "score" in ask(judge)[0]
        assert judge.purse.spent.calls == len(server.asked) >= 3  # two that were read, and what was given up


@pytest.mark.parametrize(
    ("message", "finish", "reason", "raw"),
    [
        ({"content": None, "refusal": "I can't assist with that."}, "stop", "no valid verdict", "I can't assist"),
        ({"content": '{"vivid": 3'}, "content_filter", "the server's content filter stopped it", '{"vivid": 3'),
    ],
)
def test_a_judges_refusal_is_kept_as_it_came(message, finish, reason, raw):
    body = completion("", finish)
    body["choices"][0]["message"] |= message
    with scripted(lambda request: body) as server:
        line = ask(Judge(StructuredChat("m", server.url)))[0]
    assert reason in line["unscored"] and line["raw"].startswith(raw)
