"""judgements.jsonl: what is written, what earlier versions wrote, partial lines, and what is not valid any more."""

import json
from dataclasses import replace

import pytest
from helpers.judge_scripts import make_run

from h2htalk_metric.judge.budget import Usage
from h2htalk_metric.judge.judge import server_of
from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.judgement import Judgement, append_judgement, item_key, unscored_reason, valid_judgements
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.sanitize import shown_as_before

PANEL = Panel(("m",))


@pytest.fixture
def run(tmp_path):
    make_run(tmp_path / "run", each=1)
    return tmp_path / "run"


def judgement(item, **fields):
    return Judgement(item.id, item.rubric.name, "m", item_key(item, "m", 0, 0), **fields)


def valid(run, panel=PANEL):
    """The judgements of the first item."""
    items = judge_items(run)
    return valid_judgements(run, items, panel)[items[0].id]


def test_a_judgement_comes_back_as_it_was_written(run):
    item = judge_items(run)[0]
    scores = {"vivid": 3.5}
    written = judgement(
        item,
        rubric_hash=item.rubric.hash,
        server="http://here/v1",
        scores=scores,
        position_scores={"answer_first": scores, "reference_first": scores},
        score=3.5,
        position_bias=0.0,
        explanations={"answer_first": ["because"], "reference_first": ["“so” ½"]},
        usage=Usage(2, 30, 4),
    )
    append_judgement(run, written)
    assert valid(run) == [written]
    line = json.loads((run / "judgements.jsonl").read_text())
    assert line["position_bias"] == 0.0 and "unscored" not in line


def test_lines_of_earlier_versions_are_read(run):
    item = judge_items(run)[0]
    old = {
        "id": item.id,
        "judge": "m",
        "key": item_key(item, "m", 0, 0),
        "rubric": item.rubric.name,
        "rubric_hash": item.rubric.hash,
        "positions": {"answer_first": {"vivid": 4}, "reference_first": {"vivid": 3}},
        "verdict": {"vivid": 3.5},
        "score": 3.5,
        "position_gap": 1.0,
        "why": {"answer_first": ["because"], "reference_first": ["so"]},
        "usage": {"calls": 2, "prompt_tokens": 30, "new_tokens": 4},
    }
    (run / "judgements.jsonl").write_text(json.dumps(old) + "\n")
    [one] = valid(run)
    assert (one.record_id, one.judge_model, one.scores, one.position_bias) == (item.id, "m", {"vivid": 3.5}, 1.0)
    assert one.position_scores["answer_first"] == {"vivid": 4} and one.explanations["reference_first"] == ["so"]
    assert one.usage == Usage(2, 30, 4) and one.server is None
    failure = {"id": item.id, "judge": "m", "key": old["key"], "unscored": "no reply", "raw": "..."}
    (run / "judgements.jsonl").write_text(json.dumps(failure) + "\n")
    [one] = valid(run)
    assert (one.unscored, one.raw_reply, one.score) == ("no reply", "...", None)


def test_judgements_of_the_earlier_prompt_are_valid_if_it_showed_the_same_texts(run):
    earlier = "359fb4c629b9"
    item = judge_items(run)[0]
    assert shown_as_before(item.context)
    append_judgement(run, replace(judgement(item), key=item_key(item, "m", 0, 0, None, earlier), score=2.0))
    assert [one.score for one in valid(run)] == [2.0]
    file = run / "predictions.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line | {"prediction": "½ an answer"}) + "\n" for line in lines))
    item = judge_items(run)[0]
    append_judgement(run, replace(judgement(item), key=item_key(item, "m", 0, 0, None, earlier), score=2.0))
    assert [one.score for one in valid(run)] == [None]


def test_a_panel_of_an_earlier_version_is_read(run):
    (run / "judge.json").write_text('{"judges": ["m"], "evidence": 2, "seed": 0, "alpha": 0.6, "tau": 3.5}')
    assert Panel.read(run) == Panel(("m",), num_explanations=2)
    Panel.read(run).write(run)
    assert "evidence" not in (run / "judge.json").read_text() and Panel.read(run).num_explanations == 2


def test_scores_are_preferred_to_a_failure(run):
    item = judge_items(run)[0]
    assert unscored_reason(valid(run)) == "m: not judged yet"
    append_judgement(run, judgement(item, unscored="busy"))
    assert unscored_reason(valid(run)) == "m: busy"
    append_judgement(run, judgement(item, scores={"vivid": 1.0}, score=1.0))
    append_judgement(run, judgement(item, unscored="busy again"))
    assert unscored_reason(valid(run)) is None and valid(run)[0].score == 1.0


def test_judgements_of_another_answer_or_setting_are_stale(run):
    item = judge_items(run)[0]
    append_judgement(run, judgement(item, scores={"vivid": 1.0}, score=1.0))
    stale = "m: judged with another answer, prompt, rubric or setting than now"
    assert unscored_reason(valid(run, Panel(("m",), seed=1))) == stale
    assert unscored_reason(valid(run, Panel(("other",)))) == "other: not judged yet"
    file = run / "predictions.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line | {"prediction": "Another."}) + "\n" for line in lines))
    assert unscored_reason(valid(run)) == stale


def test_partial_and_foreign_lines_do_no_harm(run):
    item = judge_items(run)[0]
    append_judgement(run, judgement(item, scores={"vivid": 1.0}, score=1.0))
    file = run / "judgements.jsonl"
    complete = file.read_bytes()
    file.write_bytes(complete + complete[:-30])  # killed while writing
    append_judgement(run, Judgement("x", "none", "m", "0"))
    file.write_bytes(file.read_bytes() + b'["a list"]\n{"id": "without a key"}\n')
    assert valid(run)[0].score == 1.0


def test_a_server_is_part_of_a_judges_identity():
    assert server_of(None) is server_of("https://api.openai.com/v1") is None
    assert server_of("http://me:word@host:8000/v1?key=1") == "http://host:8000/v1"
